"""Contents, map, cluster, and the shortest form of a spec."""

import json
import os
import shutil

import numpy as np
import pytest
import yaml

from sweep_service.api.conductor_thread import ConductorThread
from sweep_service.api.settings import Settings
from sweep_service.errors import NotFound
from sweep_service.planning.spec import SweepSpec
from sweep_service.presets import PRESETS, read_preset
from sweep_service.status import Status
from tests.api.served import assert_problem, serving, until
from tests.specs import SMALL_SPEC, TINY_SPEC, distinct_spec

TRIANGLE = {
    "triangle": {"delta_t": 0.01, "resolution": 3}, "axes": {"regime": ["classical", "auto"]},
    "fixed": {"k": 2}, "init": {"kind": "informed"}, "time": {"max": 0.5, "samples": 3},
}  # fmt: skip


# ---- contents


def test_contents_list_valid_query_options(service, sweep_id, stored):
    content = service.get(f"/v1/sweeps/{sweep_id}/contents").json()
    assert content["design"] == "product"
    assert {axis["name"]: axis["values"] for axis in content["axes"]} == {
        "d": [5, 8],
        "p": [4],
        "gamma": [0.1, 0.5],
    }
    assert content["points"] is None
    assert content["sources"] == ["sgd", "ode"]
    assert content["regimes"] == ["classical_noise"]
    assert (content["seeds"], content["repeats"], content["times"]) == (2, 2, [0.0, 2.0])
    assert content["provenance"]["key"] == stored.attrs["key"]
    assert "spec" not in content["provenance"]  # it has its own route
    for observable in content["observables"]:
        assert (
            service.get(
                f"/v1/sweeps/{sweep_id}/curves", params={"observable": observable["name"]}
            ).status_code
            == 200
        )
    for value in content["values"]:
        query = {"x": "gamma", "y": "d", "value": value["name"]}
        assert service.get(f"/v1/sweeps/{sweep_id}/phase-diagram", params=query).status_code == 200, value[
            "name"
        ]
    for view in (*content["views"], content["suggestion"]["view"]):
        options = (
            content["suggestion"]["words"]
            if view == content["suggestion"]["view"]
            else {"d": 5, "gamma": 0.1}
        )
        answer = service.get(f"/v1/sweeps/{sweep_id}/figures/{view}", params=options)
        assert answer.status_code == 200 or "must" in answer.json()["detail"], (view, answer.text)


def test_contents_of_points_design(service):
    sweep_id = service.complete(TRIANGLE)
    content = service.get(f"/v1/sweeps/{sweep_id}/contents").json()
    assert content["design"] == "triangle"
    assert {"triangle", "phase-diagram", "curves"} <= set(content["views"])
    names = [axis["name"] for axis in content["axes"]]
    assert names[:3] == ["d", "p", "gamma"]
    steps = [gamma / (d * p) for d, p, gamma in (row[:3] for row in content["points"])]
    np.testing.assert_allclose(steps, 0.01)
    needs = {value["name"]: value["needs_regime"] for value in content["values"]}
    assert (needs["sgd_risk"], needs["ode_risk"], needs["discrepancy"]) == (False, True, True)


def test_contents_of_unknown_sweep(service):
    assert_problem(service.get("/v1/sweeps/20200101-000000-00000000/contents"), 404)


# ---- the map


def test_map_counts_stored_statuses(service, sweep_id, stored):
    content = service.get(f"/v1/sweeps/{sweep_id}/map").json()
    assert content == {
        "points": 4, "dims": ["d", "p", "gamma"], "shape": [2, 1, 2], "runs": 6, "counts": {"done": [6] * 4},
        "diverged": {},
        "under_way": [],
    }  # fmt: skip


def test_map_of_running_sweep(held):
    spec = {**SMALL_SPEC, "axes": {**SMALL_SPEC["axes"], "gamma": [0.11, 0.22, 0.33]}}
    sweep_id = held.submit(spec)
    held.executor.let(computes=0)
    held.wait_for_state(sweep_id, "running")
    until(lambda: held.executor.tasks())
    first = held.get(f"/v1/sweeps/{sweep_id}/map")
    assert first.json()["counts"] == {"pending": [6] * 6}
    assert first.json()["under_way"]  # submitted, not yet computed
    again = held.get(f"/v1/sweeps/{sweep_id}/map", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    held.executor.let()
    held.wait_until_ended(sweep_id)
    last = held.get(f"/v1/sweeps/{sweep_id}/map", headers={"If-None-Match": first.headers["etag"]})
    assert last.json()["counts"] == {"done": [6] * 6}
    assert last.json()["under_way"] == []


def test_map_counts_every_status(service):
    """The square activation diverges at a large step; mean field with d < k is skipped."""
    spec = {
        "axes": {"d": [1, 5], "p": 2, "gamma": [0.01, 40.0], "regime": "mean_field"},
        "fixed": {"k": 1, "activation": "square"}, "time": {"max": 30.0, "samples": 3},
        "observables": ["risk"],
    }  # fmt: skip
    sweep_id = service.complete(spec)
    content = service.get(f"/v1/sweeps/{sweep_id}/map").json()
    counts = {label: sum(numbers) for label, numbers in content["counts"].items()}
    assert counts == service.sweep(sweep_id)["counts"]
    assert counts["diverged"] > 0
    diverged = [sum(numbers) for numbers in zip(*content["diverged"].values(), strict=True)]
    assert diverged == content["counts"]["diverged"]
    assert set(counts) <= {status.label for status in Status}
    assert all(sum(numbers) == content["runs"] for numbers in zip(*content["counts"].values(), strict=True))


# ---- the list by name


def test_sweeps_are_filtered_by_name(gate):
    gate.executor.let(computes=0)
    ids = {
        name: gate.submit(distinct_spec(number, name=name))
        for number, name in enumerate(("Blue 100%", "blue_1", "red"))
    }
    listed = lambda **query: {sweep["id"] for sweep in gate.get("/v1/sweeps", params=query).json()["sweeps"]}  # noqa: E731
    assert listed(name="blue") == {ids["Blue 100%"], ids["blue_1"]}
    assert listed(name="0%") == {ids["Blue 100%"]}  # wildcards of SQL are plain characters
    assert listed(name="e_") == {ids["blue_1"]}
    assert listed(name=ids["red"][-8:]) == {ids["red"]}
    assert listed(name="green") == set()
    assert listed(name="blue", state="completed") == set()
    for sweep_id in ids.values():
        gate.delete(f"/v1/sweeps/{sweep_id}")
    gate.executor.let()


# ---- the cluster


def test_cluster_without_dask(held):
    sweep_id = held.submit(distinct_spec(77, name="waits"))
    held.executor.let(computes=0)
    held.wait_for_state(sweep_id, "running")
    until(lambda: held.executor.tasks())
    content = held.get("/v1/cluster").json()
    assert (content["address"], content["threads"], content["workers"], content["refused"]) == ("", 1, [], [])
    entry = next(queue for queue in content["queue"] if queue["id"] == sweep_id)
    assert (entry["name"], entry["state"], entry["bundles_under_way"]) == (
        "waits",
        "running",
        entry["bundles_left"],
    )
    assert entry["core_seconds_left"] > 0


@pytest.mark.timeout(180)
def test_cluster_lists_dask_workers(tmp_path):
    with serving(tmp_path, executor=None, workers=1) as service:
        content = until(lambda: (result := service.get("/v1/cluster").json())["threads"] and result)
        (worker,) = content["workers"]
        assert (worker["threads"], worker["host"], content["threads"]) == (1, "127.0.0.1", 1)
        assert 0 < worker["memory_bytes"] < worker["memory_limit_bytes"]
        assert worker["memory_limit_bytes"] <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        assert content["dashboard"] == "/dask/status"
        assert service.get(content["dashboard"]).status_code == 200


# ---- a spec in its shortest form


@pytest.mark.parametrize("name", PRESETS)
def test_shortest_form_is_equivalent_spec(service, name):
    full = json.loads(read_preset(name).model_dump_json())
    content = service.post("/v1/spec", json=full).json()["spec"]
    assert SweepSpec.parse(content) == read_preset(name)
    assert len(json.dumps(content)) <= len(json.dumps(full))
    text = yaml.safe_dump(content)
    kind = {"Content-Type": "application/yaml"}
    assert service.post("/v1/spec", content=text, headers=kind).json()["spec"] == content


@pytest.mark.parametrize(
    ("seeds", "short"),
    [(3, 3), ([0, 1], 2), ([4, 1], [4, 1]), ({"init": 2, "repeat": 3}, {"init": 2, "repeat": 3}),
     ({"init": [7], "repeat": [0, 1]}, {"init": [7], "repeat": 2})],
)  # fmt: skip
def test_shortest_form_of_seeds(seeds, short):
    assert SweepSpec.parse({**TINY_SPEC, "seeds": seeds}).as_written()["seeds"] == short


def test_invalid_spec_has_no_shortest_form(service):
    assert_problem(service.post("/v1/spec", json={"tme": {"max": 1}}), 422, "did you mean 'time'?")
    assert_problem(service.post("/v1/spec", content="{", headers={"Content-Type": "application/yaml"}), 422)
    assert_problem(service.post("/v1/spec", content="{}"), 415)


def test_axis_values_of_product_are_in_order_of_points(service):
    """They are in the order of the spec, which is that of the map."""
    axes = {"d": [8, 5], "p": 4, "gamma": [0.9, 0.1, 0.3], "activation": ["relu", "erf"]}
    sweep_id = service.complete({**SMALL_SPEC, "axes": axes, "time": {"max": 0.5, "samples": 2}})
    content = {
        axis["name"]: axis["values"] for axis in service.get(f"/v1/sweeps/{sweep_id}/contents").json()["axes"]
    }
    assert content == {**axes, "p": [4]}
    figure = service.get(f"/v1/sweeps/{sweep_id}/curves", params={"gamma": 0.1, "format": "svg"})
    assert figure.status_code == 200  # its caption names the activations
    assert "erf or relu" in figure.text


# ---- a dataset that was removed manually


@pytest.mark.parametrize("part", ["contents", "curves", "phase-diagram?x=gamma&y=d", "data?format=csv"])
def test_missing_dataset_is_not_found(service, part):
    sweep_id = service.complete(distinct_spec(91, name="gone", simulate=False))
    shutil.rmtree(service.folder.dataset_path(sweep_id), ignore_errors=True)
    assert_problem(service.get(f"/v1/sweeps/{sweep_id}/{part}"), 404, "has no dataset")


@pytest.mark.parametrize("broken", [False, True])
def test_dataset_removed_while_read_is_not_found(service, broken):
    """Removed chunks read like runs that were never computed, so these values must not be returned."""
    sweep_id = service.complete(distinct_spec(92, name="going", simulate=False))
    conductor_thread = ConductorThread(Settings(data=service.folder.root))
    with pytest.raises(NotFound, match="has no dataset"), conductor_thread.open_dataset(sweep_id) as dataset:
        shutil.rmtree(service.folder.dataset_path(sweep_id))
        assert dataset["ode_risk"].isnull().all()
        if broken:
            raise ValueError("computed from missing values")
