"""Runs into numbers: what a worker does with a job, whatever brought it there."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from sweep_service.dynamics.integrate import integrate_run
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.errors import InvalidInput, RegimeUndefined, Stopped
from sweep_service.numerics.types import AnyArray
from sweep_service.planning.jobs import Failure, Job, Result, empty_values
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.runs import Run
from sweep_service.simulators.checkpoint import Checkpoint
from sweep_service.simulators.simulate import run_chains
from sweep_service.status import Status

# Not the fault of a run: asked to stop, or no room on the disk.
PASSED_ON = (Stopped, OSError)


def compute(
    plan: SweepPlan,
    job: Job,
    stopped: Callable[[], bool] | None = None,
    checkpoint: Checkpoint | None = None,
) -> Result:
    """Compute a job. What fails is a status with its trace; only `Stopped` ends it early."""
    return _sgd(plan, job, stopped, checkpoint) if job.kind == "sgd" else _ode(plan, job, stopped)


def _sgd(
    plan: SweepPlan, job: Job, stopped: Callable[[], bool] | None, checkpoint: Checkpoint | None
) -> Result:
    grid = plan.grid
    values = empty_values(plan.schema, "sgd", job.runs)
    call = partial(
        run_chains,
        grid.point(job.point),
        times=grid.times,
        seeds=[grid.seeds[place] for place in job.seeds],
        repeats=[grid.repeats[place] for place in job.repeats],
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
        if job.runs > 1:  # let the others not suffer for one
            return _one_by_one(plan, job, stopped)
        values["status"][:] = Status.FAILED
        return Result(values, _failures(plan, job, error, [0]))
    _fill(values, found.values)
    values["status"][:], values["steps"][:] = found.ends.status, found.ends.steps
    values["seconds"][:] = found.ends.seconds
    return Result(values)


def _one_by_one(plan: SweepPlan, job: Job, stopped: Callable[[], bool] | None) -> Result:
    found = [_sgd(plan, single, stopped, None) for single in job.singly()]
    values = {name: np.concatenate([one.values[name] for one in found]) for name in found[0].values}
    return Result(values, tuple(failure for one in found for failure in one.failures))


def _ode(plan: SweepPlan, job: Job, stopped: Callable[[], bool] | None) -> Result:
    grid, regime = plan.grid, plan.grid.regimes[job.regime]
    values = empty_values(plan.schema, "ode", len(job.seeds))
    failures: list[Failure] = []
    for row, place in enumerate(job.seeds):
        try:
            found = integrate_run(
                grid.point(job.point),
                times=grid.times,
                regime=regime,
                seed=grid.seeds[place],
                options=grid.options,
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
            failures += _failures(plan, job, error, [row])
            continue
        # Particles of the p = ∞ law are no neurons, and have no place in the dataset.
        _fill(
            {name: array[row] for name, array in values.items()},
            {name: array for name, (dims, array) in found.variables.items() if "particle" not in dims},
        )
        values["status"][row], values["seconds"][row] = found.path.status, found.seconds
        if "regime" in values:
            values["regime"][row] = list(REGIMES).index(found.choice.regime)
    return Result(values, tuple(failures))


def alone(plan: SweepPlan, run: Run) -> Result:
    """One run, without those that it was bundled with."""
    return compute(plan, Job.of(run))


def _fill(room: Mapping[str, AnyArray], found: Mapping[str, AnyArray]) -> None:
    """Copy what was found into the corner of what is stored: students and teachers are padded."""
    for name in set(room) & set(found):
        room[name][tuple(slice(0, size) for size in found[name].shape)] = found[name]


def _failures(plan: SweepPlan, job: Job, error: Exception, rows: Any) -> tuple[Failure, ...]:
    numbers, trace = job.numbers(plan.runs), "".join(traceback.format_exception(error))
    return tuple(
        Failure(job.kind, int(numbers[row]), f"{type(error).__name__}: {error}", trace) for row in rows
    )
