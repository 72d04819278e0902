"""Sweeps as objects, names for them, and the asynchronous client, with a real service."""

import asyncio
import inspect
import json
import pickle

import pytest

import sweep_service as ss
from sweep_service.client.names import match_sweep
from sweep_service.client.sweep import AsyncSweep, Sweep
from sweep_service.errors import InvalidInput, NotFound
from tests.api.served import Gated, serving
from tests.specs import SMALL_SPEC

NAMES = {
    "20261101-120000-aaaaaaaa": "first",
    "20261102-120000-bbbbbbbb": "second",
    "20261102-130000-cccccccc": "twice",
    "20261103-120000-dddddddd": "twice",
    "20261104-120000-eeeeeeee": "20261101",
}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("service"), executor=lambda _, stopped: Gated(stopped)) as running:
        yield running


@pytest.fixture(scope="module")
def sweep_id(service):
    return service.complete(SMALL_SPEC)


@pytest.fixture
def client(service):
    with ss.Client(service.url) as client:
        yield client


@pytest.fixture
def held(service, client):
    """A sweep that has been submitted and is not computed yet."""
    service.executor.let(takes=False)
    axes = {**SMALL_SPEC["axes"], "gamma": [0.2, 0.3]}  # of which no run is stored
    held = client.submit({**SMALL_SPEC, "name": "held", "axes": axes, "seeds": 1, "simulate": False})
    yield held
    service.executor.let()
    held.remove()


# ---- names


@pytest.mark.parametrize(
    ("text", "index"),
    [("20261101-12", 0), ("first", 0), ("20261102-12", 1), ("20261103", 3), ("20261104-120000-eeeeeeee", 4)],
)
def test_beginning_of_an_id_or_a_name_finds_one_sweep(text, index):
    assert match_sweep(NAMES, text) == list(NAMES)[index]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no sweep begins with ''"), ("fir", "no sweep begins with 'fir'"),
        ("20261102", "2 sweeps begin with '20261102'.*bbbbbbbb, .*cccccccc"),
        ("twice", "2 sweeps begin with 'twice'"), ("20261101", "2 sweeps begin with"), ("2", "5 sweeps"),
    ],
)  # fmt: skip
def test_ambiguous_or_unknown_text_finds_none(text, message):
    with pytest.raises(NotFound, match=message):
        match_sweep(NAMES, text)


def test_verbs_take_an_id_its_beginning_the_name_or_the_sweep(client, sweep_id):
    client.page_size = 1
    sweep = client.sweep(sweep_id)
    expected = client.open(sweep_id).sgd_risk
    for name in (sweep_id[:-2], "small", sweep, dict(sweep)):
        assert client.sweep(name) == sweep
        assert client.open(name).sgd_risk.equals(expected)
    with pytest.raises(NotFound, match="no sweep begins with 'smal'"):
        client.open("smal")


# ---- sweeps


def test_sweep_is_the_mapping_of_its_fields(client, sweep_id, service):
    sweep = client.sweep(sweep_id)
    assert isinstance(sweep, Sweep)
    assert (sweep.id, sweep["state"], sweep["counts"]) == (sweep_id, "completed", {"done": 24})
    assert {**sweep}["links"]["self"].startswith(service.url)
    assert json.loads(json.dumps(sweep)) == sweep == pickle.loads(pickle.dumps(sweep))
    assert repr(sweep) == f"<Sweep {sweep_id} 'small' completed>"
    assert [type(listed) for listed in client.sweeps()] == [Sweep]


def test_verbs_renew_the_sweep(held, service):
    assert held["state"] == "queued"
    assert held.pause() is held
    assert held["state"] == "paused"
    assert held.resume()["state"] == held["state"] == "queued"
    assert held.cancel()["counts"] == {"cancelled": 4}
    assert held.annotate(name="again", note="a second try")["name"] == "again"
    service.executor.let()
    assert held.retry().wait(progress=False, timeout=60)["state"] == "completed"
    assert held["progress"] == 1.0
    assert [event.data["state"] for event in held.events()][-1] == "completed"
    assert [sweep["state"] for sweep in held.follow()] == ["completed"]
    assert list(held.failures()) == []


def test_stale_sweep_is_shown_as_it_is_now(held, client):
    client.pause(held.id)
    assert held["state"] == "queued"
    assert held.show()["state"] == "paused"


def test_results_of_a_sweep(client, sweep_id, tmp_path):
    sweep = client.sweep(sweep_id)
    assert sweep.open().sgd_risk.equals(client.open(sweep_id).sgd_risk)
    assert sweep.curves(d=5) == client.curves(sweep_id, d=5)
    assert sweep.spec() == client.spec(sweep_id)
    assert sweep.export(tmp_path / "risk.csv", variables="sgd_risk").stat().st_size > 0
    assert sweep.plot().axes[0].get_ylabel()
    curves = sweep.plot("curves", d=5, scale="linear")
    assert curves.axes[0].get_yscale() == "linear"
    with pytest.raises(InvalidInput, match="view"):
        sweep.plot("curve")
    with pytest.raises(InvalidInput, match="need a view"):
        sweep.plot(d=5)


def test_extension_is_another_sweep(client, sweep_id, service):
    sweep = client.sweep(sweep_id)
    assert sweep.estimate_extension({"axes": {"gamma": [0.9]}})["reused"] == 20  # and 4 copies of them
    more = sweep.extend({"axes": {"gamma": [0.9]}}, name="more")
    assert (more["extends"], more["name"], sweep["name"]) == (sweep_id, "more", "small")
    assert more.wait(progress=False)["counts"] == {"done": 36}
    more.remove()
    with pytest.raises(NotFound):
        more.show()


# ---- documentation


def test_verbs_are_documented_with_their_parameters():
    for kind in (ss.Client, ss.AsyncClient, Sweep, AsyncSweep):
        verbs = [verb for name, verb in vars(kind).items() if callable(verb) and name[0] != "_"]
        assert len(verbs) > 15
        for verb in verbs:
            names = [name for name in inspect.signature(verb).parameters if name != "self"]
            assert verb.__doc__, verb
            text = inspect.cleandoc(verb.__doc__).replace("**", "").replace(", ", "\n")
            assert [name for name in names if f"\n{name}\n" not in text] == [], (kind, verb)
    assert str(inspect.signature(ss.Client.cancel)) == "(self, /, id: 'SweepName')"
    assert str(inspect.signature(Sweep.cancel)) == "(self, /)"
    assert "Parameters" not in Sweep.cancel.__doc__
    assert "its id" not in Sweep.wait.__doc__


def test_asynchronous_client_has_the_verbs_of_the_other():
    for blocking, awaited in ((ss.Client, ss.AsyncClient), (Sweep, AsyncSweep)):
        verbs = {name for name in vars(blocking) if name[0] != "_"} - {"close"}
        assert verbs == {name for name in vars(awaited) if name[0] != "_"} - {"aclose"}


# ---- the asynchronous client


def test_asynchronous_client_follows_a_sweep_to_its_end(service, tmp_path):
    async def compute():
        async with ss.AsyncClient(service.url) as client:
            assert (await client.estimate(SMALL_SPEC))["refused"] is None
            sweep = await client.submit({**SMALL_SPEC, "name": "awaited", "seeds": 1})
            states = [state["state"] async for state in client.follow(sweep)]
            assert states[-1] == "completed"
            ended = await sweep.wait(progress=False)
            assert ended is sweep
            assert sweep["counts"] == {"done": 8}
            assert [listed["id"] async for listed in client.sweeps(name="awaited")] == [sweep.id]
            dataset, curves, figure, path = await asyncio.gather(
                client.open("awaited"), sweep.curves(d=5), sweep.plot(), sweep.export(tmp_path / "all.nc")
            )
            assert path.stat().st_size > 0
            assert figure.axes
            assert len(curves["curves"]) > 0
            with pytest.raises(NotFound, match="no sweep begins with 'nothing'"):
                await client.cancel("nothing")
            events = [event.kind async for event in sweep.events()]
            assert "state" in events
            await sweep.remove()
            return dataset.sizes["gamma"]

    assert asyncio.run(compute()) == 2


def test_cancelled_waiting_leaves_the_sweep_alone(service, held):
    async def wait_briefly():
        async with ss.AsyncClient(service.url) as client, asyncio.timeout(0.3):
            await client.wait(held, progress=False)

    with pytest.raises(TimeoutError):
        asyncio.run(wait_briefly())
    assert held.show()["state"] == "queued"
