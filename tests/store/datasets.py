"""Plans and values for the tests of datasets."""

import warnings

import numpy as np
import xarray as xr

from sweep_service.planning.grids import Grid
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.spec import SweepSpec
from sweep_service.status import Status
from sweep_service.store.local import LocalObjects

BASE = {"fixed": {"k": 2}, "time": {"max": 1.0, "samples": 4}, "observables": ["risk"]}


CORE = {"d": [10, 20, 30], "p": 2, "gamma": {"log": [0.1, 0.4, 3]}}


TWO = ["classical", "high_dimensional"]


def make_plan(spec):
    return SweepPlan(Grid.of(SweepSpec.parse({**BASE, **spec})))


def random_values(plan, kind, count, rng):
    """Return random values by name, shape (run, ...)."""
    values = {}
    for name, variable in plan.schema.variables[kind].items():
        shape = (count, *variable.shape[len(variable.leading) :])
        most = len(Status) if name == "status" else 7
        values[name] = (
            rng.normal(size=shape)
            if variable.dtype == "float64"
            else rng.integers(1, most, shape).astype(variable.dtype)
        )
    return values


def labels(plan, kind, number):
    """Return the labels of a run along the dimensions of the dataset."""
    grid = plan.grid
    run = plan.runs.find(f"{kind}-{number}")
    where = grid.row(run.point) if grid.is_product else {"point": run.point}
    where |= {"seed": grid.seeds[run.seed]}
    if kind == "sgd":
        return where | {"repeat": grid.repeats[run.repeat]}
    return where | {"regime": grid.regimes[run.regime]}


def at(path):
    """Return the arguments that name a dataset to `SweepDataset`."""
    return LocalObjects(path.parent), path.name


def open_strictly(path):
    """Open a dataset with every warning as an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return xr.open_zarr(path)


def empty(plan, kind, count):
    return {
        name: np.full((count, *variable.shape[len(variable.leading) :]), variable.fill, variable.dtype)
        for name, variable in plan.schema.variables[kind].items()
    }
