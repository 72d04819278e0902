"""Computes jobs, independently of where tasks run."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from sweep_service.dynamics.integrate import integrate_run
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.errors import InvalidInput, RegimeUndefined, Stopped
from sweep_service.execution.continuation import EarlierRuns
from sweep_service.numerics.types import AnyArray
from sweep_service.planning.jobs import Failure, Job, Result, empty_values
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.runs import Run
from sweep_service.simulators.checkpoint import Checkpoint
from sweep_service.simulators.run import Continuation
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
    earlier: EarlierRuns | None = None,
) -> Result:
    """Compute a job. A failed run gets a status and a trace; only `Stopped` and `OSError` are raised.

    `values` are empty values of the runs in which the result is stored, by default new ones. Runs of SGD
    continue those in `earlier`.
    """
    if values is None:
        values = empty_values(plan.schema, job.kind, job.runs)
    if job.kind == "sgd":
        return _compute_sgd(SgdJob(plan, job, stopped, checkpoint, earlier or {}), values)
    return _compute_ode(plan, job, stopped, values)


@dataclass(frozen=True)
class SgdJob:
    """A job of SGD, and what its runs continue."""

    plan: SweepPlan
    job: Job
    stopped: Callable[[], bool] | None
    checkpoint: Checkpoint | None
    earlier: EarlierRuns

    @cached_property
    def numbers(self) -> list[int]:
        return self.job.numbers(self.plan.runs).tolist()

    @property
    def can_run_together(self) -> bool:
        """Whether all runs begin at the same sample."""
        return len({self.samples_of(number) for number in self.numbers}) == 1

    def samples_of(self, number: int) -> int:
        return self.earlier[number].samples if number in self.earlier else 0

    @property
    def continuation(self) -> Continuation | None:
        """Where the runs, which begin at the same sample, continue."""
        if self.numbers[0] not in self.earlier:
            return None
        runs = [self.earlier[number] for number in self.numbers]
        return Continuation(runs[0].samples, [run.state for run in runs])


def _compute_sgd(work: SgdJob, values: dict[str, AnyArray]) -> Result:
    plan, job, checkpoint, grid = work.plan, work.job, work.checkpoint, work.plan.grid
    if not work.can_run_together:
        return _compute_one_by_one(work, values)
    continuation = work.continuation
    run = partial(
        run_chains,
        grid.point(job.point),
        times=grid.times,
        seeds=[grid.seeds[position] for position in job.seeds],
        repeats=[grid.repeats[position] for position in job.repeats],
        observables=grid.observables,
        overlaps=grid.overlaps,
        stopped=work.stopped,
        checkpoint=checkpoint,
        continuation=continuation,
        keep_states=plan.keeps_state,
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
            return _compute_one_by_one(work, values)
        if continuation is not None:  # the fault may be in the state
            return _compute_sgd(replace(work, earlier={}, checkpoint=None), values)
        values["status"][:] = Status.FAILED
        return Result(values, (_make_failure(plan, job, error, row=0),))
    seconds = 0.0
    if continuation is not None:
        seconds = _fill_earlier(values, [work.earlier[number].values for number in work.numbers])
    _fill(values, simulation.values, 0 if continuation is None else continuation.samples)
    outcomes = simulation.outcomes
    values["status"][:], values["steps"][:] = outcomes.status, outcomes.steps
    values["diverged_quantity"][:] = outcomes.diverged_quantity
    values["seconds"][:] = outcomes.seconds + (values["seconds"] if continuation is not None else 0.0)
    states = {work.numbers[chain]: state for chain, state in simulation.last_states.items()}
    return Result(values, states=states, earlier_seconds=seconds)


def _compute_one_by_one(work: SgdJob, values: dict[str, AnyArray]) -> Result:
    failures: list[Failure] = []
    states: dict[int, AnyArray] = {}
    seconds = 0.0
    for row, single in enumerate(work.job.split_runs()):
        of_run = {name: array[row : row + 1] for name, array in values.items()}
        result = _compute_sgd(SgdJob(work.plan, single, work.stopped, None, work.earlier), of_run)
        failures += result.failures
        states |= result.states
        seconds += result.earlier_seconds
    return Result(values, tuple(failures), states, seconds)


def _fill_earlier(values: Mapping[str, AnyArray], earlier: Sequence[Mapping[str, AnyArray]]) -> float:
    """Copy the values of the runs that are continued, and return the seconds that those took."""
    for row, stored in enumerate(earlier):
        for name, array in values.items():
            array[row] = stored[name]
    return float(np.nansum(values["seconds"]))


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


def _fill(stored: Mapping[str, AnyArray], computed: Mapping[str, AnyArray], first: int = 0) -> None:
    """Copy computed arrays to the start of the stored ones, which are padded in student and teacher.

    If `first` is given, the second dimension is time, and only samples from there on are copied.
    """
    for name in set(stored) & set(computed):
        inside = [slice(0, size) for size in computed[name].shape]
        if first:
            inside[1] = slice(first, computed[name].shape[1])
        stored[name][tuple(inside)] = computed[name][:, first:] if first else computed[name]


def _make_failure(plan: SweepPlan, job: Job, error: Exception, row: int) -> Failure:
    number, trace = int(job.numbers(plan.runs)[row]), "".join(traceback.format_exception(error))
    return Failure(job.kind, number, f"{type(error).__name__}: {error}", trace)
