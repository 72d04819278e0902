"""What is in a sweep, how far its points are, who computes, and a spec in its shortest form."""

import json
import os
import shutil

import numpy as np
import pytest
import yaml

from sweep_service.api.conductor_thread import Engine
from sweep_service.api.settings import Settings
from sweep_service.errors import NotFound
from sweep_service.planning.spec import SweepSpec
from sweep_service.presets import PRESETS, preset
from sweep_service.status import Status
from tests.api.served import SMALL, TINY, another, assert_problem, serving, until

TRIANGLE = {
    "triangle": {"delta_t": 0.01, "resolution": 3}, "axes": {"regime": ["classical", "auto"]},
    "fixed": {"k": 2}, "init": {"kind": "informed"}, "time": {"max": 0.5, "samples": 3},
}  # fmt: skip


# ---- contents


def test_contents_name_what_a_query_may_say(service, sweep, stored):
    found = service.get(f"/v1/sweeps/{sweep}/contents").json()
    assert found["design"] == "product"
    assert {one["name"]: one["values"] for one in found["axes"]} == {
        "d": [5, 8],
        "p": [4],
        "gamma": [0.1, 0.5],
    }
    assert found["points"] is None
    assert found["sources"] == ["sgd", "ode"]
    assert found["regimes"] == ["classical_noise"]
    assert (found["seeds"], found["repeats"], found["times"]) == (2, 2, [0.0, 2.0])
    assert found["provenance"]["key"] == stored.attrs["key"]
    assert "spec" not in found["provenance"]  # it has a route of its own
    for one in found["observables"]:
        assert (
            service.get(f"/v1/sweeps/{sweep}/curves", params={"observable": one["name"]}).status_code == 200
        )
    for one in found["values"]:
        asked = {"x": "gamma", "y": "d", "value": one["name"]}
        assert service.get(f"/v1/sweeps/{sweep}/phase-diagram", params=asked).status_code == 200, one["name"]
    for view in (*found["views"], found["suggestion"]["view"]):
        words = (
            found["suggestion"]["words"] if view == found["suggestion"]["view"] else {"d": 5, "gamma": 0.1}
        )
        answer = service.get(f"/v1/sweeps/{sweep}/figures/{view}", params=words)
        assert answer.status_code == 200 or "must" in answer.json()["detail"], (view, answer.text)


def test_contents_of_points(service):
    sweep = service.done(TRIANGLE)
    found = service.get(f"/v1/sweeps/{sweep}/contents").json()
    assert found["design"] == "triangle"
    assert {"triangle", "phase-diagram", "curves"} <= set(found["views"])
    names = [one["name"] for one in found["axes"]]
    assert names[:3] == ["d", "p", "gamma"]
    steps = [gamma / (d * p) for d, p, gamma in (row[:3] for row in found["points"])]
    np.testing.assert_allclose(steps, 0.01)
    needs = {one["name"]: one["needs_regime"] for one in found["values"]}
    assert (needs["sgd_risk"], needs["ode_risk"], needs["discrepancy"]) == (False, True, True)


def test_contents_of_nothing(service):
    assert_problem(service.get("/v1/sweeps/20200101-000000-00000000/contents"), 404)


# ---- the map


def test_a_map_counts_what_is_stored(service, sweep, stored):
    found = service.get(f"/v1/sweeps/{sweep}/map").json()
    assert found == {
        "points": 4, "dims": ["d", "p", "gamma"], "shape": [2, 1, 2], "runs": 6, "counts": {"done": [6] * 4},
        "under_way": [],
    }  # fmt: skip


def test_a_map_while_it_fills(held):
    spec = {**SMALL, "axes": {**SMALL["axes"], "gamma": [0.11, 0.22, 0.33]}}
    sweep = held.submit(spec)
    held.executor.let(computes=0)
    held.reach(sweep, "running")
    until(lambda: held.executor.tasks())
    first = held.get(f"/v1/sweeps/{sweep}/map")
    assert first.json()["counts"] == {"pending": [6] * 6}
    assert first.json()["under_way"]  # some of it waits where it will be computed
    again = held.get(f"/v1/sweeps/{sweep}/map", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    held.executor.let()
    held.ended(sweep)
    last = held.get(f"/v1/sweeps/{sweep}/map", headers={"If-None-Match": first.headers["etag"]})
    assert last.json()["counts"] == {"done": [6] * 6}
    assert last.json()["under_way"] == []


def test_every_status_has_its_place(service):
    """Square at a step that is too large diverges; mean field with d < k is skipped."""
    spec = {
        "axes": {"d": [1, 5], "p": 2, "gamma": [0.01, 40.0], "regime": "mean_field"},
        "fixed": {"k": 1, "activation": "square"}, "time": {"max": 30.0, "samples": 3},
        "observables": ["risk"],
    }  # fmt: skip
    sweep = service.done(spec)
    found = service.get(f"/v1/sweeps/{sweep}/map").json()
    counts = {label: sum(some) for label, some in found["counts"].items()}
    assert counts == service.sweep(sweep)["counts"]
    assert counts["diverged"] > 0
    assert set(counts) <= {status.label for status in Status}
    assert all(sum(some) == found["runs"] for some in zip(*found["counts"].values(), strict=True))


# ---- the list by name


def test_sweeps_by_name(gate):
    gate.executor.let(computes=0)
    ids = {
        name: gate.submit(another(number, name=name))
        for number, name in enumerate(("Blue 100%", "blue_1", "red"))
    }
    listed = lambda **query: {one["id"] for one in gate.get("/v1/sweeps", params=query).json()["sweeps"]}  # noqa: E731
    assert listed(name="blue") == {ids["Blue 100%"], ids["blue_1"]}
    assert listed(name="0%") == {ids["Blue 100%"]}  # a sign of SQL is a letter here
    assert listed(name="e_") == {ids["blue_1"]}
    assert listed(name=ids["red"][-8:]) == {ids["red"]}
    assert listed(name="green") == set()
    assert listed(name="blue", state="completed") == set()
    for sweep in ids.values():
        gate.delete(f"/v1/sweeps/{sweep}")
    gate.executor.let()


# ---- the cluster


def test_who_computes(held):
    sweep = held.submit(another(77, name="waits"))
    held.executor.let(computes=0)
    held.reach(sweep, "running")
    until(lambda: held.executor.tasks())
    found = held.get("/v1/cluster").json()
    assert (found["address"], found["threads"], found["workers"], found["refused"]) == ("", 1, [], [])
    mine = next(one for one in found["queue"] if one["id"] == sweep)
    assert (mine["name"], mine["state"], mine["bundles_under_way"]) == (
        "waits",
        "running",
        mine["bundles_left"],
    )
    assert mine["core_seconds_left"] > 0


@pytest.mark.timeout(180)
def test_workers_of_dask(tmp_path):
    with serving(tmp_path, executor=None, workers=1) as service:
        found = until(lambda: (about := service.get("/v1/cluster").json())["threads"] and about)
        (worker,) = found["workers"]
        assert (worker["threads"], worker["host"], found["threads"]) == (1, "127.0.0.1", 1)
        assert 0 < worker["memory_bytes"] < worker["memory_limit_bytes"]
        assert worker["memory_limit_bytes"] <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        assert found["dashboard"] == "/dask/status"
        assert service.get(found["dashboard"]).status_code == 200


# ---- a spec in its shortest form


@pytest.mark.parametrize("name", PRESETS)
def test_the_shortest_form_is_the_same_spec(service, name):
    full = json.loads(preset(name).model_dump_json())
    found = service.post("/v1/spec", json=full).json()["spec"]
    assert SweepSpec.parse(found) == preset(name)
    assert len(json.dumps(found)) <= len(json.dumps(full))
    text = yaml.safe_dump(found)
    kind = {"Content-Type": "application/yaml"}
    assert service.post("/v1/spec", content=text, headers=kind).json()["spec"] == found


@pytest.mark.parametrize(
    ("seeds", "short"),
    [(3, 3), ([0, 1], 2), ([4, 1], [4, 1]), ({"init": 2, "repeat": 3}, {"init": 2, "repeat": 3}),
     ({"init": [7], "repeat": [0, 1]}, {"init": [7], "repeat": 2})],
)  # fmt: skip
def test_seeds_as_they_are_written(seeds, short):
    assert SweepSpec.parse({**TINY, "seeds": seeds}).written()["seeds"] == short


def test_a_spec_that_cannot_be_read(service):
    assert_problem(service.post("/v1/spec", json={"tme": {"max": 1}}), 422, "did you mean 'time'?")
    assert_problem(service.post("/v1/spec", content="{", headers={"Content-Type": "application/yaml"}), 422)
    assert_problem(service.post("/v1/spec", content="{}"), 415)


def test_axes_of_a_product_are_in_the_order_of_its_points(service):
    """As they were given, and so as the map counts them."""
    axes = {"d": [8, 5], "p": 4, "gamma": [0.9, 0.1, 0.3], "activation": ["relu", "erf"]}
    sweep = service.done({**SMALL, "axes": axes, "time": {"max": 0.5, "samples": 2}})
    found = {one["name"]: one["values"] for one in service.get(f"/v1/sweeps/{sweep}/contents").json()["axes"]}
    assert found == {**axes, "p": [4]}
    figure = service.get(f"/v1/sweeps/{sweep}/curves", params={"gamma": 0.1, "format": "svg"})
    assert figure.status_code == 200  # its caption names the activations
    assert "erf or relu" in figure.text


# ---- a dataset that somebody has removed by hand


@pytest.mark.parametrize("part", ["contents", "curves", "phase-diagram?x=gamma&y=d", "data?format=csv"])
def test_a_dataset_that_has_gone(service, part):
    sweep = service.done(another(91, name="gone", simulate=False))
    shutil.rmtree(service.folder.dataset_path(sweep), ignore_errors=True)
    assert_problem(service.get(f"/v1/sweeps/{sweep}/{part}"), 404, "is not there")


@pytest.mark.parametrize("broken", [False, True])
def test_a_dataset_that_goes_while_it_is_read(service, broken):
    """What is read then looks like a run that never was: it must not be told to anybody."""
    sweep = service.done(another(92, name="going", simulate=False))
    engine = Engine(Settings(data=service.folder.root))
    with pytest.raises(NotFound, match="is not there"), engine.dataset(sweep) as dataset:
        shutil.rmtree(service.folder.dataset_path(sweep))
        assert dataset["ode_risk"].isnull().all()
        if broken:
            raise ValueError("made of what is not there")
