"""Shared by the tests of the conductor: a small sweep, conductors, and checks of what is stored."""

from collections import Counter
from contextlib import contextmanager

import numpy as np
import pytest
import xarray as xr

import sweep_service as ss
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.errors import RegimeUndefined, Stopped
from sweep_service.execution import compute as computing
from sweep_service.execution.conductor import Conductor
from sweep_service.execution.executors import SerialExecutor
from sweep_service.planning.spec import SweepSpec
from sweep_service.status import DivergedQuantity, Status
from sweep_service.store.folder import INDEX_SUFFIX, DataFolder
from tests.stored import ONE_RUN_PER_BUNDLE

SMALL = {
    "axes": {"d": [5, 8], "p": 4, "gamma": [0.1, 0.5], "regime": ["classical", "high_dimensional"]},
    "fixed": {"k": 2, "noise": 1e-3},
    "init": {"kind": "informed", "shared": True},
    "seeds": {"init": 2, "repeat": 2},
    "time": {"max": 2.0, "samples": 4},
}
FEW = {
    "axes": {**SMALL["axes"], "gamma": 0.1},
    "seeds": {"init": 2, "repeat": 1},
}  # for tests with one run per bundle


def make_spec(**change):
    return SweepSpec.parse({**SMALL, **change})


def spec_with_axes(**change):
    return make_spec(axes={**SMALL["axes"], **change})


@contextmanager
def open_conductor(root, stopped=None, limits=None, settings=None):
    executor = SerialExecutor(stopped)
    with Conductor(DataFolder(root), executor, limits, settings=settings) as conductor:
        yield conductor


def count_runs(jobs):
    return Counter(
        (key, job.kind, job.point, job.regime, seed, repeat)
        for key, job in jobs
        for seed in job.seeds
        for repeat in job.repeats
    )


def run_sweep(conductor, spec, extends=None):
    sweep, _ = conductor.submit(spec, extends)
    return conductor.run(sweep.id)


def load_dataset(conductor, sweep):
    with xr.open_zarr(conductor.folder.dataset_path(sweep.id), chunks=None) as dataset:
        return dataset.load()


def make_runs_fail(monkeypatch, function, seed):
    """Make SGD or ODE runs (`run_chains` or `integrate_run`) fail for one seed, inside sweeps only."""
    original = getattr(computing, function)

    def broken(point, **options):
        if seed in options.get("seeds", [options.get("seed")]):
            raise RuntimeError(f"seed {seed} is out of order")
        return original(point, **options)

    monkeypatch.setattr(computing, function, broken)


def find_leftovers(root):
    """Return files that must not exist when no bundle is submitted."""
    suffixes = (".partial", ".npz", ".checkpoint")
    files = (path for path in root.rglob("*") if path.name.endswith(suffixes))
    # Indexes of runs are written in a thread of their own, at any moment while a conductor is open.
    return sorted(str(path.relative_to(root)) for path in files if INDEX_SUFFIX not in path.name)


def select_run(dataset, grid, index, labels):
    """Select by labels what a dataset holds for one point."""
    if not grid.is_product:
        return dataset.isel(point=index).sel(labels)
    return dataset.sel(
        {name: value for name, value in grid.row(index).items() if name in dataset.dims} | labels
    )


def assert_equal_values(stored, direct, kind, names):
    """Check all values of a run bit for bit; values beyond its students and teachers must be NaN."""
    for name in names:
        values = stored[f"{kind}_{name}"].values
        if name not in direct or "particle" in direct[name].dims:  # particles of the p = ∞ law are not stored
            assert np.all(np.isnan(values)), name
            continue
        expected = direct[name].values
        corner = tuple(slice(0, size) for size in expected.shape)
        assert expected.ndim == values.ndim
        np.testing.assert_array_equal(values[corner], expected, err_msg=name)
        is_padding = np.ones(values.shape, bool)
        is_padding[corner] = False
        assert np.all(np.isnan(values[is_padding])), name


def assert_equals_direct_calls(conductor, sweep):
    """Check every run of a sweep against `simulate` or `integrate`; return the dataset."""
    dataset, plan = load_dataset(conductor, sweep), conductor.folder.plan(sweep.id)
    grid, checked = plan.grid, 0
    bookkeeping = {"status", "diverged_quantity", "steps", "seconds", "regime"}
    for index, point in enumerate(grid.points):
        options = {"times": grid.times, "observables": grid.observables, "overlaps": grid.overlaps}
        for kind in plan.schema.variables:
            names = set(plan.schema.variables[kind]) - bookkeeping
            inner = grid.repeats if kind == "sgd" else grid.regimes
            for seed in grid.seeds:
                for label in inner:
                    labels = {"seed": seed, "repeat" if kind == "sgd" else "regime": label}
                    stored = select_run(dataset, grid, index, labels)
                    checked += 1
                    try:
                        if kind == "sgd":
                            direct = ss.simulate(point, seed=seed, repeat=label, **options)
                        else:
                            regime_options = grid.options.content()
                            direct = ss.integrate(
                                point, seed=seed, regime=label, regime_options=regime_options, **options
                            )
                    except RegimeUndefined:
                        assert stored.ode_status == Status.SKIPPED
                        assert all(np.all(np.isnan(stored[f"ode_{name}"])) for name in names)
                        continue
                    assert stored[f"{kind}_status"] == Status[direct.attrs["status"].upper()]
                    quantity = DivergedQuantity[direct.attrs["diverged_quantity"].upper()]
                    assert stored[f"{kind}_diverged_quantity"] == quantity
                    if kind == "sgd":
                        assert stored.sgd_steps == direct.attrs["steps"]
                    if label == "auto":
                        assert list(REGIMES)[int(stored.ode_regime)] == direct.attrs["regime"]
                    assert_equal_values(stored, direct, kind, names)
    assert checked == sweep.runs
    return dataset


class StopAfter:
    """Asks to stop after a number of jobs."""

    def __init__(self, computed_jobs, after):
        self.computed_jobs, self.after = computed_jobs, after

    def __call__(self):
        return len(self.computed_jobs) > self.after


def interrupt_sweep(root, computed_jobs, after=2):
    """Stop a sweep with one run per bundle early, and return it."""
    stopped = StopAfter(computed_jobs, after)
    with open_conductor(root, stopped, settings=ONE_RUN_PER_BUNDLE) as conductor:
        sweep, _ = conductor.submit(make_spec(**FEW))
        with pytest.raises(Stopped):
            conductor.run(sweep.id)
        assert 0 < conductor.counts(sweep.id)[Status.PENDING] < sweep.runs
        return sweep


def list_failure_records(conductor, sweep):
    return list(conductor.folder.objects.list(f"{sweep.id}.failures/"))


def delete_ledger(root):
    for path in root.glob("ledger.sqlite*"):
        path.unlink()


def raise_interrupt(*arguments, **options):
    """Stands for a crash between two writes."""
    raise KeyboardInterrupt
