"""Runs that raise or are undefined, as computed and as merged."""

import json
import shlex

import numpy as np

from sweep_service.execution import compute as compute_module
from sweep_service.execution.compute import compute
from sweep_service.planning.grids import Grid
from sweep_service.planning.jobs import Job
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.spec import SweepSpec
from sweep_service.status import Status
from sweep_service.store.parts import Part
from tests.execution.merging import BASE, merge, open_sweep, prepare_sweep, put_parts


def failing(sweep):
    """Make all runs of the first bundle fail, and return it."""
    bundle = sweep.bundles[0]
    sweep.parts[bundle.key] = Part.failed(sweep.plan, bundle.jobs, "KilledWorker: three times")
    return bundle


def test_failures_are_stored_with_a_command(tmp_path):
    sweep = prepare_sweep(tmp_path / "with space & more")
    bundle = failing(sweep)
    put_parts(sweep)
    merge(sweep)
    numbers = np.concatenate([job.numbers(sweep.plan.runs) for job in bundle.jobs])
    names = [f"s.failures/sgd-{number}.json" for number in numbers]
    assert list(sweep.folder.objects.list("s.failures/")) == sorted(names)
    for number, name in zip(numbers.tolist(), names, strict=True):
        record = json.loads(sweep.folder.objects.get(name))
        assert record["kind"] == "sgd"
        assert record["number"] == number
        assert record["error"] == "KilledWorker: three times"
        assert shlex.split(record["command"]) == [
            "sweep", "rerun", "s", f"sgd-{number}", "--data", str(sweep.folder.root),
        ]  # fmt: skip
    dataset = sweep.folder.dataset("s")
    assert np.all(dataset.status("sgd")[numbers] == Status.FAILED)
    assert np.all(np.isnan(dataset.read("sgd", numbers, sweep.plan.schema.variables["sgd"])["risk"]))
    assert sweep.ledger.totals("s")["counts"] == {Status.DONE: 48 - len(numbers), Status.FAILED: len(numbers)}
    sweep.ledger.close()


def test_run_that_raises_fails_alone_with_its_trace(tmp_path, monkeypatch):
    sweep = prepare_sweep(tmp_path, {**BASE, "simulate": False})
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
    record = json.loads(sweep.folder.objects.get(name))
    assert record["error"] == "ZeroDivisionError: at seed 1"
    assert "breaks" in record["trace"]
    status = open_sweep(sweep).ode_status.isel(d=0).sel(regime="classical")
    assert np.all(status.sel(seed=0) == Status.DONE)
    assert np.all(status.sel(seed=1) == Status.FAILED)  # at both gammas, which share the run
    sweep.ledger.close()


def test_seed_that_raises_fails_alone_in_its_job(monkeypatch):
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
    result = compute(plan, job)
    guilty = np.array([False, False, True, True, False, False])
    assert [(failure.kind, failure.number) for failure in result.failures] == [("sgd", 6 + 2), ("sgd", 6 + 3)]
    assert {failure.error for failure in result.failures} == {"ZeroDivisionError: at seed 3"}
    assert np.all((result.values["status"] == Status.FAILED) == guilty)
    assert np.all(np.isnan(result.values["risk"][guilty]))
    for name in set(calm.values) - {"seconds"}:
        np.testing.assert_array_equal(result.values[name][~guilty], calm.values[name][~guilty], err_msg=name)


def test_undefined_regime_is_merged_as_skipped(tmp_path):
    axes = {"d": 9, "p": 2, "gamma": 0.1, "regime": ["mean_field_projected", "classical"]}
    sweep = prepare_sweep(tmp_path, {**BASE, "axes": axes, "fixed": {"k": 2}, "simulate": False, "seeds": 1})
    for bundle in sweep.bundles:
        results = [compute(sweep.plan, job) for job in bundle.jobs]
        sweep.parts[bundle.key] = Part.of(sweep.plan, bundle.jobs, results)
    put_parts(sweep)
    merge(sweep)
    ds = open_sweep(sweep)
    assert ds.ode_status.sel(regime="mean_field_projected").item() == Status.SKIPPED
    assert ds.ode_risk.sel(regime="mean_field_projected").isnull().all()
    assert list(sweep.folder.objects.list("s.failures/")) == []
    assert sweep.ledger.totals("s")["counts"][Status.SKIPPED] == 1
    sweep.ledger.close()
