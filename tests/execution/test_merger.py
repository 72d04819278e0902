"""Parts into the dataset: every copy of a run, the same after any crash, and in little memory."""

import hashlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import hypothesis.strategies as st
import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings

import sweep_service
from benchmarks import store as scale
from sweep_service.errors import Damaged
from sweep_service.execution import compute as compute_module
from sweep_service.execution import merger as module
from sweep_service.execution.compute import compute
from sweep_service.execution.merger import Merger
from sweep_service.faults import POINTS
from sweep_service.planning.bundles import Bundle
from sweep_service.planning.grids import Grid
from sweep_service.planning.jobs import Failure, Job
from sweep_service.planning.keys import KEY, Copies
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.spec import SweepSpec
from sweep_service.status import Status
from sweep_service.store import dataset as dataset_module
from sweep_service.store.folder import DataFolder
from sweep_service.store.ledger import State, Sweep, utc_now
from sweep_service.store.parts import Part

ROOT = Path(sweep_service.__file__).parents[1]
MERGING = [point for point in POINTS if point.startswith("merge:")]
BASE = {
    "axes": {"d": [5, 6, 7], "p": 2, "gamma": [0.1, 0.2], "regime": ["classical", "classical_noise"]},
    "fixed": {"k": 1},
    "seeds": {"init": 2, "repeat": 2},
    "time": {"max": 0.1, "samples": 2},
    "observables": ["risk"],
}


class Killed(BaseException):
    """The process died."""


def prepared(root, spec=BASE, size=5):
    """A submitted sweep `s`, its runs in bundles of `size` jobs, and the part of each bundle."""
    asked, folder = SweepSpec.parse(spec), DataFolder(root)
    plan = SweepPlan(Grid.of(asked))
    folder.objects.prepare()
    folder.objects.put("s.json", asked.model_dump_json().encode())
    folder.put_keys("s", plan.keys)
    folder.create_dataset("s", plan, {})
    jobs = []
    for kind in plan.schema.variables:
        jobs += [Job.of(plan.runs.find(f"{kind}-{number}")) for number in Copies(plan.keys[kind]).unique()]
    some = [Bundle(tuple(jobs[at : at + size]), 1.0) for at in range(0, len(jobs), size)]
    ledger, now = folder.ledger(), utc_now()
    ledger.add(Sweep("s", "", "", State.RUNNING, now, now, None, "", 36, 0), some)
    rng = np.random.default_rng(0)
    parts = {bundle.key: synthetic(plan, bundle, rng) for bundle in some}
    return SimpleNamespace(folder=folder, plan=plan, ledger=ledger, bundles=some, parts=parts)


def synthetic(plan, bundle, rng):
    found = [
        scale.synthetic(plan, kind, np.concatenate(numbers), rng)
        for kind in ("sgd", "ode")
        if (numbers := [job.numbers(plan.runs) for job in bundle.jobs if job.kind == kind])
    ]
    numbers = {kind: array for part in found for kind, array in part.numbers.items()}
    return Part(numbers, {kind: array for part in found for kind, array in part.values.items()}, ())


def put(sweep, keys=None):
    for key in sweep.parts if keys is None else keys:
        sweep.folder.objects.put(f"s.parts/{key}.npz", sweep.parts[key].pack())


def merge(sweep):
    Merger(sweep.folder, sweep.ledger).merge("s")


def waiting(sweep):
    return list(sweep.folder.objects.list("s.parts/"))


def digest(sweep):
    """Of every byte of the dataset, times and orders of writing apart."""
    root = sweep.folder.dataset_path("s")
    files = sorted(path for path in root.rglob("*") if path.is_file())
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files
    }


def opened(sweep):
    return xr.open_zarr(sweep.folder.dataset_path("s"), chunks=None)


@pytest.fixture
def sweep(tmp_path):
    sweep = prepared(tmp_path)
    yield sweep
    sweep.ledger.close()


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """What is there after all parts were merged at once."""
    sweep = prepared(tmp_path_factory.mktemp("reference"))
    put(sweep)
    merge(sweep)
    yield SimpleNamespace(digest=digest(sweep), totals=sweep.ledger.totals("s"))
    sweep.ledger.close()


def test_all_runs_are_merged_and_the_parts_go(sweep):
    put(sweep)
    merge(sweep)
    ds = opened(sweep)
    assert np.all(ds.sgd_status == Status.DONE)
    assert np.all(ds.ode_status == Status.DONE)
    assert not ds.sgd_risk.isnull().any()
    assert waiting(sweep) == []
    totals = sweep.ledger.totals("s")
    assert totals["bundles_left"] == 0
    assert totals["counts"] == {Status.DONE: 24 + 24}
    seconds = [values["seconds"].sum() for part in sweep.parts.values() for values in part.values.values()]
    assert totals["seconds"] == pytest.approx(sum(seconds))


def test_values_are_those_of_the_parts(sweep):
    put(sweep)
    merge(sweep)
    dataset = sweep.folder.dataset("s")
    for part in sweep.parts.values():
        for kind, numbers in part.numbers.items():
            found = dataset.read(kind, numbers, sweep.plan.schema.variables[kind])
            for name, array in part.values[kind].items():
                np.testing.assert_array_equal(found[name], array, err_msg=name)


def test_parts_come_in_one_by_one(sweep):
    for turn, key in enumerate(sweep.parts, 1):
        put(sweep, [key])
        merge(sweep)
        assert sweep.ledger.totals("s")["bundles_left"] == len(sweep.parts) - turn
        ds = opened(sweep)
        done = int((ds.sgd_status == 1).sum() + (ds.ode_status == 1).sum())
        assert sum(sweep.ledger.totals("s")["counts"].values()) == done
    merge(sweep)  # nothing waits
    assert done == 48


def test_the_theory_without_noise_is_stored_at_every_rate(sweep):
    put(sweep)
    merge(sweep)
    classical = opened(sweep).ode_risk.sel(regime="classical")
    assert np.all(classical == classical.isel(gamma=0))
    assert not np.any(classical.isel(time=-1, d=0, gamma=0, seed=0) == classical.isel(time=-1, d=1, seed=0))
    noisy = opened(sweep).ode_risk.sel(regime="classical_noise")
    assert not np.any(noisy.isel(gamma=1) == noisy.isel(gamma=0))
    unique = Copies(sweep.plan.keys["ode"]).unique()
    assert len(unique) == 3 * 2 + 3 * 2 * 2  # (d, seed) of one regime, (d, gamma, seed) of the other


def test_a_shared_start_is_stored_at_every_dimension(tmp_path):
    sweep = prepared(tmp_path, {**BASE, "init": {"kind": "informed", "shared": True}})
    put(sweep)
    merge(sweep)
    ds = opened(sweep)
    classical, noisy = ds.ode_risk.sel(regime="classical"), ds.ode_risk.sel(regime="classical_noise")
    assert np.all(classical == classical.isel(gamma=0, d=0))
    assert np.all(noisy == noisy.isel(d=0))
    assert not np.any(noisy.isel(gamma=1) == noisy.isel(gamma=0))
    assert np.all(ds.ode_status == Status.DONE)
    assert len(np.unique(ds.sgd_risk)) == ds.sgd_risk.size  # every run of SGD is its own
    assert sweep.ledger.totals("s")["counts"] == {Status.DONE: 48}
    sweep.ledger.close()


def test_copies_are_what_each_of_them_would_compute(tmp_path):
    """Equal keys must mean equal numbers: all runs computed alone, against the merged ones."""
    sweep = prepared(tmp_path, {**BASE, "init": {"kind": "informed", "shared": True}, "simulate": False})
    for bundle in sweep.bundles:
        results = [compute(sweep.plan, job) for job in bundle.jobs]
        sweep.parts[bundle.key] = Part.of(sweep.plan, bundle.jobs, results)
    put(sweep)
    merge(sweep)
    dataset = sweep.folder.dataset("s")
    for number in range(0, sweep.plan.runs.count("ode"), 3):
        alone = compute(sweep.plan, Job.of(sweep.plan.runs.find(f"ode-{number}")))
        stored = dataset.read("ode", np.array([number]), sweep.plan.schema.variables["ode"])
        np.testing.assert_array_equal(stored["risk"], alone.values["risk"])
    sweep.ledger.close()


@given(
    labels=st.lists(st.integers(0, 6), min_size=1, max_size=40),
    picks=st.lists(st.integers(0, 39), max_size=10, unique=True),
)
@settings(deadline=None)
def test_expansion_finds_every_copy(labels, picks):
    keys = np.array([bytes([label]) * 16 for label in labels], dtype=KEY)
    numbers = np.array([pick for pick in picks if pick < len(labels)], dtype=np.int64)
    copies = Copies(keys)
    rows, targets = copies.expand(numbers)
    expected = [
        (row, at)
        for row, number in enumerate(numbers)
        for at in range(len(labels))
        if labels[at] == labels[number]
    ]
    assert list(zip(rows.tolist(), targets.tolist(), strict=True)) == expected
    assert copies.unique().tolist() == sorted({labels.index(label) for label in labels})


def test_merging_twice_gives_the_same(sweep):
    put(sweep)
    merge(sweep)
    before, totals = digest(sweep), sweep.ledger.totals("s")
    put(sweep)
    merge(sweep)
    assert digest(sweep) == before
    assert sweep.ledger.totals("s") == totals
    assert waiting(sweep) == []


@pytest.mark.parametrize("size", [1, 7])
def test_how_many_runs_are_merged_at_once_does_not_matter(sweep, reference, monkeypatch, size):
    monkeypatch.setattr(module, "MERGE_BYTES", size)
    put(sweep)
    merge(sweep)
    assert digest(sweep) == reference.digest
    found, expected = sweep.ledger.totals("s"), dict(reference.totals)
    assert found.pop("seconds") == pytest.approx(expected.pop("seconds"))  # summed in another order
    assert found == expected


@pytest.mark.parametrize("point", MERGING)
def test_death_at_any_point_and_a_second_merge_give_the_same(sweep, reference, monkeypatch, point):
    seen = Counter()

    def fault(name):
        seen[name] += 1
        if name == point and seen[name] == 2:
            raise Killed

    monkeypatch.setattr(module, "MERGE_BYTES", 1)
    put(sweep)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(module, "fault", fault)
        patch.setattr(dataset_module, "fault", fault)
        merge(sweep)
    ds = opened(sweep)
    assert np.any(ds.sgd_status != Status.DONE)
    for kind in ("sgd", "ode"):  # what has a status has its values
        assert not ds[f"{kind}_risk"].where(ds[f"{kind}_status"] == Status.DONE, 0.0).isnull().any()
    merge(sweep)
    assert digest(sweep) == reference.digest
    assert waiting(sweep) == []
    totals = sweep.ledger.totals("s")
    assert totals["bundles_left"] == 0
    assert totals["counts"] == {Status.DONE: 48}


def test_death_while_parts_are_removed_counts_no_run_twice(sweep, monkeypatch):
    put(sweep)
    delete, left = sweep.folder.objects.delete, [2]

    def dies(name):
        if not left[0]:
            raise Killed
        left[0] -= 1
        delete(name)

    merger = Merger(sweep.folder, sweep.ledger)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(sweep.folder.objects, "delete", dies)
        merger.merge("s")
    assert len(waiting(sweep)) == len(sweep.parts) - 2
    merge(sweep)
    totals = sweep.ledger.totals("s")
    assert totals["counts"] == {Status.DONE: 48}
    seconds = [values["seconds"].sum() for part in sweep.parts.values() for values in part.values.values()]
    assert totals["seconds"] == pytest.approx(sum(seconds))


MERGE = """
import sys
from sweep_service.store.folder import DataFolder
from sweep_service.execution.merger import Merger
folder = DataFolder(sys.argv[1])
Merger(folder, folder.ledger()).merge("s")
"""


def test_a_merger_that_is_killed_before_the_status_has_only_values(sweep):
    put(sweep)
    environment = {**os.environ, "SWEEP_FAULT": "merge:values"}
    ended = subprocess.run([sys.executable, "-c", MERGE, sweep.folder.root], env=environment, cwd=ROOT)
    assert ended.returncode == -signal.SIGKILL
    ds = opened(sweep)
    assert np.all(ds.sgd_status == Status.PENDING)
    assert np.all(ds.ode_status == Status.PENDING)
    assert not (ds.sgd_risk if ds.ode_risk.isnull().all() else ds.ode_risk).isnull().any()
    assert len(waiting(sweep)) == len(sweep.parts)
    merge(sweep)
    assert np.all(opened(sweep).sgd_status == Status.DONE)


@pytest.mark.parametrize(
    ("asked", "printed"),
    [("merge:values", ""), ("merge:values#3", "1 2 "), ("merge:values#5", "1 2 3 4 "), ("other", "1 2 3 4 ")],
)
def test_a_fault_point_kills_where_it_is_asked_to(asked, printed):
    code = "\n".join(
        [
            "from sweep_service.faults import fault",
            "for turn in range(1, 5):",
            "    fault('merge:status')",
            "    fault('merge:values')",
            "    print(turn, end=' ', flush=True)",
        ]
    )
    environment = {**os.environ, "SWEEP_FAULT": asked}
    found = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=ROOT, capture_output=True, text=True
    )
    assert found.stdout == printed
    assert found.returncode == (0 if printed.startswith("1 2 3 4") else -signal.SIGKILL)


def test_every_fault_point_is_somewhere():
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "sweep_service").rglob("*.py"))
    assert sorted(re.findall(r'\bfault\("([^"]+)"\)', sources)) == sorted(POINTS)


def failing(sweep):
    """The first bundle, with all of its runs failed."""
    bundle = sweep.bundles[0]
    sweep.parts[bundle.key] = Part.failed(sweep.plan, bundle.jobs, "KilledWorker: three times")
    return bundle


def test_failures_become_capsules_with_a_command(tmp_path):
    sweep = prepared(tmp_path / "with space & more")
    bundle = failing(sweep)
    put(sweep)
    merge(sweep)
    numbers = np.concatenate([job.numbers(sweep.plan.runs) for job in bundle.jobs])
    names = [f"s.failures/sgd-{number}.json" for number in numbers]
    assert list(sweep.folder.objects.list("s.failures/")) == sorted(names)
    for number, name in zip(numbers.tolist(), names, strict=True):
        capsule = json.loads(sweep.folder.objects.get(name))
        assert capsule["kind"] == "sgd"
        assert capsule["number"] == number
        assert capsule["error"] == "KilledWorker: three times"
        assert shlex.split(capsule["command"]) == [
            "sweep", "rerun", "s", f"sgd-{number}", "--data", str(sweep.folder.root),
        ]  # fmt: skip
    dataset = sweep.folder.dataset("s")
    assert np.all(dataset.status("sgd")[numbers] == Status.FAILED)
    assert np.all(np.isnan(dataset.read("sgd", numbers, sweep.plan.schema.variables["sgd"])["risk"]))
    assert sweep.ledger.totals("s")["counts"] == {Status.DONE: 48 - len(numbers), Status.FAILED: len(numbers)}
    sweep.ledger.close()


def test_a_run_that_raises_is_failed_with_its_trace_and_its_neighbours_are_done(tmp_path, monkeypatch):
    sweep = prepared(tmp_path, {**BASE, "simulate": False})
    integrate = compute_module.integrate_run

    def breaks(point, *, seed, **other):
        if seed == 1:
            raise ZeroDivisionError("at seed 1")
        return integrate(point, seed=seed, **other)

    monkeypatch.setattr(compute_module, "integrate_run", breaks)
    job = Job("ode", 0, 0, (0, 1), (0,))
    part = Part.of(sweep.plan, [job], [compute(sweep.plan, job)])
    sweep.folder.objects.put("s.parts/0a.npz", part.pack())
    merge(sweep)
    (name,) = sweep.folder.objects.list("s.failures/")
    capsule = json.loads(sweep.folder.objects.get(name))
    assert capsule["error"] == "ZeroDivisionError: at seed 1"
    assert "breaks" in capsule["trace"]
    status = opened(sweep).ode_status.isel(d=0).sel(regime="classical")
    assert np.all(status.sel(seed=0) == Status.DONE)
    assert np.all(status.sel(seed=1) == Status.FAILED)  # at both rates: the run is shared
    sweep.ledger.close()


def test_a_seed_that_raises_spoils_no_other_of_its_job(monkeypatch):
    spec = {**BASE, "seeds": {"init": [5, 3, 9], "repeat": 2}, "axes": {"d": [5, 6], "p": 2, "gamma": 0.1}}
    plan, job = SweepPlan(Grid.of(SweepSpec.parse(spec))), Job("sgd", 1, 0, (0, 1, 2), (0, 1))
    calm = compute(plan, job)
    assert calm.failures == ()
    simulate = compute_module.run_chains

    def breaks(point, *, seeds, **other):
        if 3 in seeds:
            raise ZeroDivisionError("at seed 3")
        return simulate(point, seeds=seeds, **other)

    monkeypatch.setattr(compute_module, "run_chains", breaks)
    found = compute(plan, job)
    guilty = np.array([False, False, True, True, False, False])
    assert [(one.kind, one.number) for one in found.failures] == [("sgd", 6 + 2), ("sgd", 6 + 3)]
    assert {one.error for one in found.failures} == {"ZeroDivisionError: at seed 3"}
    assert np.all((found.values["status"] == Status.FAILED) == guilty)
    assert np.all(np.isnan(found.values["risk"][guilty]))
    for name in set(calm.values) - {"seconds"}:
        np.testing.assert_array_equal(found.values[name][~guilty], calm.values[name][~guilty], err_msg=name)


def test_a_regime_that_does_not_exist_is_skipped(tmp_path):
    axes = {"d": 9, "p": 2, "gamma": 0.1, "regime": ["mean_field_projected", "classical"]}
    sweep = prepared(tmp_path, {**BASE, "axes": axes, "fixed": {"k": 2}, "simulate": False, "seeds": 1})
    for bundle in sweep.bundles:
        results = [compute(sweep.plan, job) for job in bundle.jobs]
        sweep.parts[bundle.key] = Part.of(sweep.plan, bundle.jobs, results)
    put(sweep)
    merge(sweep)
    ds = opened(sweep)
    assert ds.ode_status.sel(regime="mean_field_projected").item() == Status.SKIPPED
    assert ds.ode_risk.sel(regime="mean_field_projected").isnull().all()
    assert list(sweep.folder.objects.list("s.failures/")) == []
    assert sweep.ledger.totals("s")["counts"][Status.SKIPPED] == 1
    sweep.ledger.close()


def test_checkpoints_beside_the_parts_stay(sweep):
    sweep.folder.objects.put("s.parts/0a.0.checkpoint", b"half way")
    put(sweep)
    merge(sweep)
    assert waiting(sweep) == ["s.parts/0a.0.checkpoint"]


def test_what_runs_took_is_learned(sweep):
    put(sweep)
    merger = Merger(sweep.folder, sweep.ledger)
    merger.merge("s")
    took = {"sgd": 0.0, "ode": 0.0}
    for part in sweep.parts.values():
        for kind, values in part.values.items():
            took[kind] += values["seconds"].sum()
    for kind, seconds in took.items():
        assert sum(m for work, (m, _) in merger.reported.items() if work.startswith(kind)) == pytest.approx(
            seconds
        )
    assert all(predicted > 0.0 for _, predicted in merger.reported.values())
    works = set(merger.reported)
    merger.keep_learned()
    assert merger.reported == {}
    assert set(sweep.folder.calibration().factors) == works


def test_a_part_comes_back_as_it_was_packed(sweep):
    for part in sweep.parts.values():
        failures = (Failure("sgd", 3, "é: 1/0", "line\nline"),)
        back = Part.unpack(Part(part.numbers, part.values, failures).pack(), sweep.plan)
        assert back.failures == failures
        assert set(back.numbers) == set(part.numbers)
        for kind, numbers in part.numbers.items():
            np.testing.assert_array_equal(back.numbers[kind], numbers)
            assert set(back.values[kind]) == set(part.values[kind])
            for name, array in part.values[kind].items():
                assert back.values[kind][name].dtype == array.dtype
                np.testing.assert_array_equal(back.values[kind][name], array)


def test_a_part_is_never_unpickled(sweep):
    harmful = {"sgd": {"risk": np.array([{"a": 1}], dtype=object)}}
    with pytest.raises(Damaged, match="allow_pickle"):
        Part.unpack(Part({"sgd": np.array([0])}, harmful, ()).pack(), sweep.plan)


def _other_numbers(content, plan):
    part = Part.unpack(content, plan)
    kind = next(iter(part.numbers))
    return Part({kind: part.numbers[kind] + plan.runs.count(kind)}, {kind: part.values[kind]}, ()).pack()


def _without_a_variable(content, plan):
    part = Part.unpack(content, plan)
    for values in part.values.values():
        values.pop("risk")
    return part.pack()


DAMAGE = {
    "garbage": lambda content, plan: b"garbage",
    "empty": lambda content, plan: b"",
    "cut": lambda content, plan: content[: len(content) // 2],
    "numbers": _other_numbers,
    "variable": _without_a_variable,
}


@pytest.mark.parametrize("harm", DAMAGE)
def test_a_damaged_part_is_removed_and_its_bundle_stays_pending(sweep, reference, harm):
    put(sweep)
    name = waiting(sweep)[1]
    content = sweep.folder.objects.get(name)
    sweep.folder.objects.put(name, DAMAGE[harm](content, sweep.plan))
    merge(sweep)
    assert waiting(sweep) == []
    assert sweep.ledger.totals("s")["bundles_left"] == 1
    sweep.folder.objects.put(name, content)  # as if it were computed again
    merge(sweep)
    assert digest(sweep) == reference.digest


SCALE = """
import json, sys, time
from pathlib import Path
from benchmarks import store
content = json.loads(sys.argv[2])
folder, ledger, plan = store.waiting(Path(sys.argv[1]), content)
began = time.process_time()
store.Merger(folder, ledger).merge(store.NAME)
seconds = time.process_time() - began
print(json.dumps(dict(points=len(plan.grid), seconds=seconds, memory=store.memory(),
    counts={s.label: n for s, n in ledger.totals(store.NAME)["counts"].items()})))
"""


def merged(root, content):
    """In a process of its own: points, seconds of the processor, megabytes, counts."""
    command = [sys.executable, "-c", SCALE, str(root), json.dumps(content)]
    found = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)


@pytest.mark.slow
def test_a_hundred_thousand_points_are_merged_and_read_fast_in_little_memory(tmp_path):
    found = merged(tmp_path, scale.spec(1000, 100))
    assert found["points"] == 100_000
    assert found["counts"] == {"done": 200_000}
    assert found["memory"] < scale.MEMORY_LIMIT
    path = DataFolder(tmp_path).dataset_path(scale.NAME)
    opening = scale.interleaved(lambda: xr.open_zarr(path, chunks=None))[0]
    assert opening.seconds < scale.OPEN_LIMIT
    dataset = xr.open_dataset(path, engine="zarr", cache=False)
    assert scale.interleaved(lambda: scale.one_curve(dataset).values)[0].seconds < scale.CURVE_LIMIT
    assert int((dataset.sgd_status == Status.DONE).sum()) == 100_000
    assert found["seconds"] < scale.MERGE_LIMIT * found["points"]


@pytest.mark.slow
def test_wide_runs_are_merged_in_little_memory(tmp_path):
    """5000 runs of 78 kB each."""
    content = scale.spec(50, 100, observables=["risk", "overlaps"], time={"max": 1.0, "samples": 120})
    content["axes"] = {**content["axes"], "p": 8}
    del content["axes"]["regime"]
    found = merged(tmp_path, content)
    assert found["counts"] == {"done": 5000}
    assert found["memory"] < scale.MEMORY_LIMIT


@pytest.mark.slow
def test_a_run_with_many_copies_is_merged_in_little_memory(tmp_path):
    """800 MB of numbers, all of one run."""
    axes = {"d": {"lin": [20, 1019, 1000]}, "p": 8, "gamma": {"lin": [0.1, 1, 10]}, "regime": ["classical"]}
    spec = {
        **BASE, "axes": axes, "fixed": {"k": 2}, "init": {"kind": "informed", "shared": True}, "seeds": 1,
        "simulate": False, "time": {"max": 1.0, "samples": 120}, "observables": ["risk", "overlaps"],
    }  # fmt: skip
    sweep = prepared(tmp_path, spec)
    assert len(sweep.bundles) == 1
    put(sweep)
    sweep.ledger.close()
    code = MERGE + "from benchmarks.store import memory\nprint(memory())"
    found = subprocess.run(
        [sys.executable, "-c", code, tmp_path], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert float(found.stdout) < 600.0  # 200 of them are the imports
