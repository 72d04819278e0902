"""Runs into numbers: what a worker does with a job, whatever brought it there."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from sweep_service.arrays import AnyArray
from sweep_service.dynamics.integrate import integrate
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.errors import InvalidInput, RegimeUndefined, Stopped
from sweep_service.fields import whole
from sweep_service.runs import Kind
from sweep_service.simulators.checkpoint import Checkpoint
from sweep_service.simulators.simulate import simulate
from sweep_service.status import Status
from sweep_service.store.layout import Layout

# Not the fault of a run: asked to stop, or no room on the disk.
PASSED_ON = (Stopped, OSError)


@dataclass(frozen=True)
class Job:
    """Runs of one point that are computed in one call: their numbers, in the order of seeds and repeats."""

    kind: Kind
    point: int
    regime: int  # its place, 0 for SGD
    seeds: tuple[int, ...]  # places
    repeats: tuple[int, ...]  # places; (0,) for an ODE

    @property
    def runs(self) -> int:
        return len(self.seeds) * len(self.repeats)

    def numbers(self, layout: Layout) -> AnyArray:
        """The numbers of its runs."""
        shape = layout.runs.shape(self.kind)
        second = self.seeds if self.kind == "sgd" else (self.regime,)
        third = self.repeats if self.kind == "sgd" else self.seeds
        places = np.meshgrid([self.point], second, third, indexing="ij")
        return np.ravel_multi_index(tuple(places), shape).reshape(-1)

    def name(self, layout: Layout) -> str:
        """Of its first run, as people are told of it."""
        return f"{self.kind}-{self.numbers(layout)[0]}"


@dataclass(frozen=True)
class Failure:
    """A run that could not be computed, with what is needed to see why."""

    kind: Kind
    number: int
    error: str
    trace: str


@dataclass(frozen=True)
class Result:
    """Values by variable, (run, ...), in the order of the job's numbers."""

    values: dict[str, AnyArray]
    failures: tuple[Failure, ...] = ()


def compute(
    layout: Layout,
    job: Job,
    stopped: Callable[[], bool] | None = None,
    checkpoint: Checkpoint | None = None,
) -> Result:
    """Compute a job. What fails is a status with its trace; only `Stopped` ends it early."""
    return _sgd(layout, job, stopped, checkpoint) if job.kind == "sgd" else _ode(layout, job, stopped)


def _sgd(
    layout: Layout, job: Job, stopped: Callable[[], bool] | None, checkpoint: Checkpoint | None
) -> Result:
    grid = layout.grid
    runs = len(job.seeds) * len(job.repeats)
    values = _empty(layout, "sgd", runs)
    call = partial(
        simulate,
        grid.point(job.point),
        times=grid.times,
        seed=[grid.seeds[place] for place in job.seeds],
        repeat=[grid.repeats[place] for place in job.repeats],
        observables=grid.observables,
        overlaps=grid.overlaps,
        stopped=stopped,
        checkpoint=checkpoint,
    )
    try:
        try:
            found = call()
        except InvalidInput as error:
            if error.field != "checkpoint" or checkpoint is None:
                raise
            checkpoint.clear()  # damaged, or of another version: begin again
            found = call()
    except PASSED_ON:
        raise
    except Exception as error:
        if checkpoint is not None:
            checkpoint.clear()
        if runs > 1:  # let the others not suffer for one
            return _one_by_one(layout, job, stopped)
        values["status"][:] = Status.FAILED
        return Result(values, _failures(layout, job, error, [0]))
    flat = found.stack(run=("seed", "repeat")).transpose("run", ...)
    _take(values, flat)
    values["status"][:] = [Status[label.upper()] for label in found.attrs["status"]]
    values["steps"][:] = found.attrs["steps"]
    values["seconds"][:] = found.attrs["seconds"]
    return Result(values)


def _one_by_one(layout: Layout, job: Job, stopped: Callable[[], bool] | None) -> Result:
    found = [
        _sgd(layout, replace(job, seeds=(seed,), repeats=(repeat,)), stopped, None)
        for seed in job.seeds
        for repeat in job.repeats
    ]
    values = {name: np.concatenate([one.values[name] for one in found]) for name in found[0].values}
    return Result(values, tuple(failure for one in found for failure in one.failures))


def _ode(layout: Layout, job: Job, stopped: Callable[[], bool] | None) -> Result:
    grid, regime = layout.grid, layout.grid.regimes[job.regime]
    values = _empty(layout, "ode", len(job.seeds))
    failures: list[Failure] = []
    for row, place in enumerate(job.seeds):
        try:
            found = integrate(
                grid.point(job.point),
                times=grid.times,
                regime=regime,
                seed=grid.seeds[place],
                regime_options=grid.options.content(),
                observables=grid.observables,
                overlaps=grid.overlaps,
                stopped=stopped,
            )
        except PASSED_ON:
            raise
        except RegimeUndefined:
            values["status"][row] = Status.SKIPPED
            continue
        except Exception as error:
            values["status"][row] = Status.FAILED
            failures += _failures(layout, job, error, [row])
            continue
        one = {name: array[row : row + 1] for name, array in values.items()}
        _take(one, found.expand_dims("run"))
        values["status"][row] = Status[found.attrs["status"].upper()]
        values["seconds"][row] = found.attrs["seconds"]
        if "regime" in values:
            values["regime"][row] = list(REGIMES).index(found.attrs["regime"])
    return Result(values, tuple(failures))


def alone(layout: Layout, kind: str, number: str) -> Result:
    """One run by its name, without its neighbours."""
    if kind not in layout.variables:
        raise InvalidInput("run", f"{kind}-{number}", f"must begin with {' or '.join(layout.variables)}")
    known: Kind = "sgd" if kind == "sgd" else "ode"
    place = whole(
        int(number) if number.isascii() and number.isdigit() else number,
        "run",
        0,
        layout.runs.count(known) - 1,
    )
    first, second, third = (int(at) for at in np.unravel_index(place, layout.runs.shape(known)))
    job = (
        Job("sgd", first, 0, (second,), (third,))
        if known == "sgd"
        else Job("ode", first, second, (third,), (0,))
    )
    return compute(layout, job)


def failed_result(layout: Layout, job: Job, error: str) -> Result:
    """What is stored of a job whose task died."""
    numbers = job.numbers(layout)
    values = _empty(layout, job.kind, len(numbers))
    values["status"][:] = Status.FAILED
    return Result(values, tuple(Failure(job.kind, int(number), error, "") for number in numbers))


def _empty(layout: Layout, kind: Kind, runs: int) -> dict[str, AnyArray]:
    return {
        name: np.full((runs, *variable.run_shape), variable.fill, variable.dtype)
        for name, variable in layout.variables[kind].items()
    }


def _take(values: dict[str, AnyArray], found: xr.Dataset) -> None:
    """Copy what was found into the corner of what is stored: students and teachers are padded."""
    for name in set(values) & set(found.data_vars):
        array = found[name].values
        if "particle" not in found[name].dims:  # points of the p = ∞ law are no neurons
            values[name][tuple(slice(0, size) for size in array.shape)] = array


def _failures(layout: Layout, job: Job, error: Exception, rows: Any) -> tuple[Failure, ...]:
    numbers, trace = job.numbers(layout), "".join(traceback.format_exception(error))
    return tuple(
        Failure(job.kind, int(numbers[row]), f"{type(error).__name__}: {error}", trace) for row in rows
    )
