"""A job and its result: the runs of one point that one call computes, and what comes out of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from sweep_service.numerics.types import AnyArray
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.runs import Kind, Run, RunNumbers, RunTable, run_name
from sweep_service.planning.schema import Schema
from sweep_service.status import Status


@dataclass(frozen=True)
class Job:
    """Runs of one point that are computed in one call, as positions in the lists of a grid.

    The regime is 0 for SGD and the repeats are (0,) for a theory, as the ledger stores them.
    """

    kind: Kind
    point: int
    regime: int
    seeds: tuple[int, ...]
    repeats: tuple[int, ...]

    @classmethod
    def of(cls, run: Run) -> Job:
        """One run alone."""
        return cls(run.kind, run.point, max(0, run.regime), (run.seed,), (max(0, run.repeat),))

    @property
    def runs(self) -> int:
        return len(self.seeds) * len(self.repeats)

    @property
    def table(self) -> RunTable:
        """Its runs, seed by seed and repeat by repeat."""
        seeds, repeats = np.meshgrid(self.seeds, self.repeats, indexing="ij")
        point, regime = np.array(self.point), np.array(self.regime)
        return RunTable.of(self.kind, point=point, regime=regime, seed=seeds, repeat=repeats)

    def numbers(self, runs: RunNumbers) -> AnyArray:
        return runs.numbers(self.kind, self.table)

    def names(self, runs: RunNumbers) -> list[str]:
        """The names of its runs, such as sgd-12."""
        return [run_name(self.kind, int(number)) for number in self.numbers(runs)]

    def singly(self) -> Iterator[Job]:
        """A job for each of its runs: results do not depend on which runs are computed together."""
        for seed in self.seeds:
            for repeat in self.repeats:
                yield replace(self, seeds=(seed,), repeats=(repeat,))


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


def empty_values(schema: Schema, kind: Kind, runs: int) -> dict[str, AnyArray]:
    """Arrays for the values of some runs, filled as the dataset is where nothing is stored."""
    return {
        name: np.full((runs, *variable.run_shape), variable.fill, variable.dtype)
        for name, variable in schema.variables[kind].items()
    }


def failed_result(plan: SweepPlan, job: Job, error: str) -> Result:
    """What is stored of a job whose task died."""
    numbers = job.numbers(plan.runs)
    values = empty_values(plan.schema, job.kind, len(numbers))
    values["status"][:] = Status.FAILED
    return Result(values, tuple(Failure(job.kind, int(number), error, "") for number in numbers))
