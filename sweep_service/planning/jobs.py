"""A job and its result: the runs of one point that one call computes, and their values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from sweep_service.numerics.types import AnyArray
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.runs import Kind, Run, RunNumbers, RunTable, run_name
from sweep_service.planning.schema import Schema
from sweep_service.status import Status


@dataclass(frozen=True, slots=True)  # a large sweep has a million of them
class Job:
    """Runs of one point that are computed in one call, as positions in the lists of a grid.

    As stored in the ledger, the regime is 0 for SGD and the repeats are (0,) for an ODE.
    """

    kind: Kind
    point: int
    regime: int
    seeds: tuple[int, ...]
    repeats: tuple[int, ...]

    @classmethod
    def of(cls, run: Run) -> Job:
        """Return a job with a single run."""
        return cls(run.kind, run.point, max(0, run.regime), (run.seed,), (max(0, run.repeat),))

    @property
    def runs(self) -> int:
        return len(self.seeds) * len(self.repeats)

    def to_json(self) -> str:
        """Return the text by which the ledger stores it."""
        seeds, repeats = (",".join(map(str, positions)) for positions in (self.seeds, self.repeats))
        return f'["{self.kind}",{self.point},{self.regime},[{seeds}],[{repeats}]]'

    def numbers(self, runs: RunNumbers) -> AnyArray:
        return number_jobs(runs, self.kind, [self])

    def names(self, runs: RunNumbers) -> list[str]:
        """Return the names of the runs, such as sgd-12."""
        return [run_name(self.kind, int(number)) for number in self.numbers(runs)]

    def split_runs(self) -> Iterator[Job]:
        """Yield a job for each run. Results do not depend on which runs are computed together."""
        for seed in self.seeds:
            for repeat in self.repeats:
                yield replace(self, seeds=(seed,), repeats=(repeat,))


@dataclass(frozen=True)
class Failure:
    """A run that could not be computed, with its error and trace."""

    kind: Kind
    number: int
    error: str
    trace: str


@dataclass(frozen=True)
class Result:
    """Values by variable, shape (run, ...), in the order of `Job.numbers`."""

    values: dict[str, AnyArray]
    failures: tuple[Failure, ...] = ()
    states: Mapping[int, AnyArray] = field(default_factory=dict)  # kept states by run number
    earlier_seconds: float = 0.0  # of `values["seconds"]`, spent in the runs that were continued


def number_jobs(runs: RunNumbers, kind: Kind, jobs: Iterable[Job]) -> AnyArray:
    """Return the numbers of the runs of jobs of one kind: job by job, seed by seed and repeat by repeat."""
    rows = [
        (job.point, job.regime, seed, repeat) for job in jobs for seed in job.seeds for repeat in job.repeats
    ]
    point, regime, seed, repeat = np.array(rows, np.int64).reshape(-1, 4).T
    return runs.numbers(kind, RunTable.of(kind, point=point, regime=regime, seed=seed, repeat=repeat))


def empty_values(schema: Schema, kind: Kind, runs: int) -> dict[str, AnyArray]:
    """Return arrays for the values of `runs` runs, with the fill values of the dataset."""
    return {
        name: np.full((runs, *variable.run_shape), variable.fill, variable.dtype)
        for name, variable in schema.variables[kind].items()
    }


def failed_result(plan: SweepPlan, job: Job, error: str) -> Result:
    """Return the result of a job that could not be computed: all of its runs failed."""
    numbers = job.numbers(plan.runs)
    values = empty_values(plan.schema, job.kind, len(numbers))
    values["status"][:] = Status.FAILED
    return Result(values, tuple(Failure(job.kind, int(number), error, "") for number in numbers))
