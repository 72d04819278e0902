"""Damaged data over HTTP: a problem document that names the damage, never a number or a stack trace."""

import shutil

import pytest
import xarray as xr

import sweep_service as ss
from sweep_service.doctor.verify import verify
from sweep_service.errors import SweepError
from tests.api.served import assert_problem, serving, until
from tests.chaos.flips import DAMAGES, find_chunk, flip_bit
from tests.specs import SMALL_SPEC, TINY_SPEC

ROUTES = (
    "data?format=csv",
    "data?format=json",
    "curves",
    "curves?format=png",
    "phase-diagram?x=gamma&y=d&value=sgd_risk",
    "contents",
)
FOUND_IN_CHUNKS = ("flipped bit", "truncated chunk", "missing chunk")


@pytest.fixture(scope="module")
def damaged_service(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("damaged")) as running:
        sweep_id = running.complete(SMALL_SPEC)
        intact = running.folder.dataset_path(sweep_id).with_suffix(".intact")
        shutil.copytree(running.folder.dataset_path(sweep_id), intact)
        yield running, sweep_id, intact


@pytest.fixture
def damage(damaged_service):
    running, sweep_id, intact = damaged_service
    path = running.folder.dataset_path(sweep_id)

    def apply(name):
        DAMAGES[name][0](path)
        with running.conductor_thread.status_cache._lock:  # a rendered figure would hide it
            running.app.state.figure_renderer._cache.clear()
        return DAMAGES[name][1]

    yield apply
    shutil.rmtree(path)
    shutil.copytree(intact, path)


@pytest.mark.parametrize("name", DAMAGES)
def test_every_route_names_the_damage(damaged_service, damage, name):
    running, sweep_id, _ = damaged_service
    text = damage(name)
    for route in ROUTES:
        if route == "contents" and name in (*FOUND_IN_CHUNKS, "missing statuses"):  # it reads no values
            continue
        assert_problem(running.get(f"/v1/sweeps/{sweep_id}/{route}"), 500, sweep_id, text)
    with pytest.raises(SweepError, match=text), ss.open(f"{running.url}/v1/sweeps/{sweep_id}") as dataset:
        dataset.sgd_status.values, dataset.sgd_risk.values


def test_zarr_route_serves_chunks_as_they_are(damaged_service, damage):
    """The reader checks them; another reader than ours knows the codec as well."""
    running, sweep_id, _ = damaged_service
    damage("flipped bit")
    with xr.open_zarr(f"{running.url}/v1/sweeps/{sweep_id}/zarr", chunks=None) as dataset:
        read = dataset.sgd_risk.load
        with pytest.raises(ValueError, match="checksum"):
            read()


def test_damaged_runs_are_not_reused(damaged_service, damage):
    running, sweep_id, _ = damaged_service
    expected = running.load_dataset(sweep_id).sgd_risk
    damage("flipped bit")
    more = running.complete({**SMALL_SPEC, "seeds": {"init": 3, "repeat": 2}})
    assert running.sweep(more)["reused"] == 8  # the theory
    assert running.load_dataset(more).sgd_risk.sel(seed=expected.seed).equals(expected)


def test_service_repairs_on_request(tmp_path):
    with serving(tmp_path) as running:
        sweep_id = running.complete(TINY_SPEC)
        before = running.load_dataset(sweep_id).drop_vars(["sgd_seconds", "ode_seconds"])
        path = running.folder.dataset_path(sweep_id)
        flip_bit(find_chunk(path, "sgd_risk"), 99)
        find_chunk(path, "ode_risk").unlink()
        _, (found,) = verify(running.folder, [sweep_id])
        assert len(found.problems) == 2
        found.request.save(running.folder, sweep_id)
        running.conductor_thread.call(lambda conductor: conductor._tidy())
        until(lambda: running.sweep(sweep_id)["state"] == "completed")
        assert running.load_dataset(sweep_id).drop_vars(["sgd_seconds", "ode_seconds"]).identical(before)
        assert [check.verdict for check in verify(running.folder, [sweep_id])[0]] == ["ok"]
        assert running.sweep(sweep_id)["counts"] == {"done": 4}


@pytest.mark.parametrize("change", ["removed", "replaced"])
def test_lost_ledger_is_a_reason_to_wait(tmp_path, change):
    with serving(tmp_path) as running:
        sweep_id = running.complete(TINY_SPEC)
        ledger = tmp_path / "ledger.sqlite"
        kept = ledger.rename(tmp_path / "kept.sqlite")
        if change == "replaced":
            ledger.write_bytes(b"")
        words = "disappeared" if change == "removed" else "replaced"
        for method, path in (("GET", "/v1/sweeps"), ("POST", f"/v1/sweeps/{sweep_id}/retry")):
            assert_problem(running.request(method, path), 503, words, "sweep doctor --rebuild")
        until(lambda: words in running.conductor_thread.wait_reason)
        kept.replace(ledger)  # put back
        until(lambda: not running.conductor_thread.wait_reason)
        assert running.sweep(sweep_id)["state"] == "completed"
