"""Computes jobs, independently of where tasks run."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from functools import partial

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

# Errors that are not the fault of a run: the process is stopping, or the disk is full.
NOT_CAUSED_BY_RUN = (Stopped, OSError)


def compute(
    plan: SweepPlan,
    job: Job,
    stopped: Callable[[], bool] | None = None,
    checkpoint: Checkpoint | None = None,
    values: dict[str, AnyArray] | None = None,
) -> Result:
    """Compute a job. A failed run gets a status and a trace; only `Stopped` and `OSError` are raised.

    `values` are empty values of the runs in which the result is stored, by default new ones.
    """
    if values is None:
        values = empty_values(plan.schema, job.kind, job.runs)
    if job.kind == "sgd":
        return _compute_sgd(plan, job, stopped, checkpoint, values)
    return _compute_ode(plan, job, stopped, values)


def _compute_sgd(
    plan: SweepPlan,
    job: Job,
    stopped: Callable[[], bool] | None,
    checkpoint: Checkpoint | None,
    values: dict[str, AnyArray],
) -> Result:
    grid = plan.grid
    run = partial(
        run_chains,
        grid.point(job.point),
        times=grid.times,
        seeds=[grid.seeds[position] for position in job.seeds],
        repeats=[grid.repeats[position] for position in job.repeats],
        observables=grid.observables,
        overlaps=grid.overlaps,
        stopped=stopped,
        checkpoint=checkpoint,
    )
    try:
        try:
            simulation = run()
        except InvalidInput as error:
            if error.field != "checkpoint" or checkpoint is None:
                raise
            checkpoint.clear()  # damaged, or of another version
            simulation = run()
    except NOT_CAUSED_BY_RUN:
        raise
    except Exception as error:
        if checkpoint is not None:
            checkpoint.clear()
        if job.runs > 1:  # so that one failure does not fail the other runs
            return _compute_one_by_one(plan, job, stopped, values)
        values["status"][:] = Status.FAILED
        return Result(values, (_make_failure(plan, job, error, row=0),))
    _fill(values, simulation.values)
    outcomes = simulation.outcomes
    values["status"][:], values["steps"][:] = outcomes.status, outcomes.steps
    values["seconds"][:], values["diverged_quantity"][:] = outcomes.seconds, outcomes.diverged_quantity
    return Result(values)


def _compute_one_by_one(
    plan: SweepPlan, job: Job, stopped: Callable[[], bool] | None, values: dict[str, AnyArray]
) -> Result:
    failures: list[Failure] = []
    for row, single in enumerate(job.split_runs()):
        of_run = {name: array[row : row + 1] for name, array in values.items()}
        failures += _compute_sgd(plan, single, stopped, None, of_run).failures
    return Result(values, tuple(failures))


def _compute_ode(
    plan: SweepPlan, job: Job, stopped: Callable[[], bool] | None, values: dict[str, AnyArray]
) -> Result:
    grid, regime = plan.grid, plan.grid.regimes[job.regime]
    failures: list[Failure] = []
    for row, position in enumerate(job.seeds):
        try:
            solution = integrate_run(
                grid.point(job.point),
                times=grid.times,
                regime=regime,
                seed=grid.seeds[position],
                options=grid.options,
                observables=grid.observables,
                overlaps=grid.overlaps,
                stopped=stopped,
            )
        except NOT_CAUSED_BY_RUN:
            raise
        except RegimeUndefined:
            values["status"][row] = Status.SKIPPED
            continue
        except Exception as error:
            values["status"][row] = Status.FAILED
            failures.append(_make_failure(plan, job, error, row))
            continue
        # Particles of the p = ∞ law are not neurons and are not stored.
        _fill(
            {name: array[row] for name, array in values.items()},
            {name: array for name, (dims, array) in solution.variables.items() if "particle" not in dims},
        )
        values["status"][row], values["seconds"][row] = solution.path.status, solution.seconds
        values["diverged_quantity"][row] = solution.diverged_quantity
        if "regime" in values:
            values["regime"][row] = list(REGIMES).index(solution.choice.regime)
    return Result(values, tuple(failures))


def compute_run(plan: SweepPlan, run: Run) -> Result:
    """Compute a single run."""
    return compute(plan, Job.of(run))


def _fill(stored: Mapping[str, AnyArray], computed: Mapping[str, AnyArray]) -> None:
    """Copy computed arrays to the start of the stored ones, which are padded in student and teacher."""
    for name in set(stored) & set(computed):
        stored[name][tuple(slice(0, size) for size in computed[name].shape)] = computed[name]


def _make_failure(plan: SweepPlan, job: Job, error: Exception, row: int) -> Failure:
    number, trace = int(job.numbers(plan.runs)[row]), "".join(traceback.format_exception(error))
    return Failure(job.kind, number, f"{type(error).__name__}: {error}", trace)
