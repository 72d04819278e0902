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


def find_differences(known, computed):
    """Names of cases that are not what was recorded."""
    return [name for name in known if not _is_same(known[name], computed.get(name, {}))]


def _is_same(known, computed):
    if SAME_CPU or "digest" not in known:
        return known == computed
    risks = [[float("nan") if risk is None else risk for risk in case["risk"]] for case in (known, computed)]
    return risks[1] == pytest.approx(risks[0], rel=RTOL, nan_ok=True)


def test_simulations():
    assert find_differences(RECORDED["simulations"], cases.simulated()) == []


def test_integrations():
    assert find_differences(RECORDED["integrations"], cases.integrated()) == []


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
    known, computed = RECORDED["session"], sweeps.session(tmp_path / "data")
    assert statuses(computed["answers"]) == statuses(known["answers"])
    lost = {
        name: {*answer["fields"], answer["type"]}
        - {*computed["answers"][name]["fields"], computed["answers"][name]["type"]}
        for name, answer in known["answers"].items()
    }
    assert {name: fields for name, fields in lost.items() if fields} == {}
    for kind in ("routes", "metrics"):
        assert set(known[kind]) - set(computed[kind]) == set()


def statuses(answers):
    return {name: answer["status"] for name, answer in answers.items()}


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
