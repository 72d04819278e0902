"""Numbers, keys, stored arrays and the REST interface are what they were when they were recorded.

Nothing here is prose: `detail`, `reason`, `warnings` and `long_name` may be reworded. Bits are promised on
one type of processor; on another one the risks must agree to the accuracy of the arithmetic.
"""

import json
from pathlib import Path

import pytest
from llvmlite import binding

import sweep_service as ss
from tests.golden import cases, sweeps

RECORDED = json.loads(Path(__file__).with_name("recorded.json").read_text("utf-8"))
SAME_CPU = RECORDED["cpu"] == binding.get_host_cpu_name()
# Between processors sums differ in their order: 1e-16 each step, amplified along a trajectory of length 1.
RTOL = 1e-9


def differing(known, found):
    """Names of cases that are not what was recorded."""
    return [name for name in known if not _same(known[name], found.get(name, {}))]


def _same(known, found):
    if SAME_CPU or "digest" not in known:
        return known == found
    risks = [[float("nan") if risk is None else risk for risk in one["risk"]] for one in (known, found)]
    return risks[1] == pytest.approx(risks[0], rel=RTOL, nan_ok=True)


def test_simulations():
    assert differing(RECORDED["simulations"], cases.simulated()) == []


def test_integrations():
    assert differing(RECORDED["integrations"], cases.integrated()) == []


def assert_stored(known, path, same_cpu=SAME_CPU):
    """Attributes and variables may be added, none may go."""
    stored = sweeps.stored(path)
    assert set(known["attributes"]) - set(stored["attributes"]) == set()
    for part in ("dims", "digests"):
        stored[part] = {name: value for name, value in stored[part].items() if name in known[part]}
    known, stored = ({**content, "attributes": None} for content in (known, stored))
    if not same_cpu:
        known, stored = ({**content, "digests": sorted(content["digests"])} for content in (known, stored))
    assert stored == known


@pytest.mark.parametrize("name", sweeps.SPECS)
def test_stored_arrays_and_keys(name, tmp_path):
    assert_stored(RECORDED["sweeps"][name], sweeps.run(tmp_path / "data", sweeps.SPECS[name])["path"])


def test_session(tmp_path):
    """Fields may be added, none may go."""
    known, found = RECORDED["session"], sweeps.session(tmp_path / "data")
    assert {name: one["status"] for name, one in found["answers"].items()} == {
        name: one["status"] for name, one in known["answers"].items()
    }
    lost = {
        name: (set(one["fields"]) | {one["type"]})
        - {*found["answers"][name]["fields"], found["answers"][name]["type"]}
        for name, one in known["answers"].items()
    }
    assert {name: gone for name, gone in lost.items() if gone} == {}
    for kind in ("routes", "metrics"):
        assert set(known[kind]) - set(found[kind]) == set()


def test_commands(tmp_path):
    assert set(RECORDED["commands"]) - set(sweeps.commands(tmp_path)) == set()


@pytest.fixture
def folder(tmp_path):
    return sweeps.unpacked(tmp_path)


def test_old_folder_opens(folder):
    kept, complete = RECORDED["folder"], RECORDED["folder"]["ids"]["complete"]
    path = folder / "sweeps" / f"{complete}.zarr"
    assert_stored(kept["complete"], path, kept["cpu"] == binding.get_host_cpu_name())
    assert sweeps.sweep(folder, "show", complete)["state"] == "completed"
    with ss.open(path) as dataset:
        assert dataset.sweep.phase_diagram("gamma", "p", "sgd_risk", d=6, noise=0.01).sizes["gamma"] == 2


@pytest.mark.parametrize("name", ["killed", "interrupted"])
def test_old_folder_resumes(folder, name):
    sweep_id, later = RECORDED["folder"]["ids"][name], sweeps.LATER_VARIABLES
    assert sweeps.sweep(folder, "show", sweep_id)["counts"]["pending"] > 0
    assert list((folder / "sweeps" / f"{sweep_id}.parts").iterdir())
    ended = sweeps.sweep(folder, "resume", sweep_id)
    assert ended["state"] == "completed"
    known = {
        **RECORDED[name],
        **{
            part: {
                variable: value for variable, value in RECORDED[name][part].items() if variable not in later
            }
            for part in ("digests", "dims")
        },
    }
    assert_stored(known, ended["path"])


def test_runs_of_older_versions_are_not_reused(folder):
    """The folder is of first versions, and every simulator and regime has changed its numbers since."""
    spec = sweeps.SPECS["product"]
    same = sweeps.run(folder, {**spec, "name": "the same"})
    assert same["id"] != RECORDED["folder"]["ids"]["complete"]
    assert same["reused"] == 0
    more = sweeps.run(folder, {**spec, "axes": {**spec["axes"], "gamma": [0.1, 0.5, 0.9]}})
    assert more["reused"] == same["runs"]
    assert more["counts"]["done"] + more["counts"].get("skipped", 0) == more["runs"]
