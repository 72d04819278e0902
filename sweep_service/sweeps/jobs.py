"""A job and its result: the runs of one point that one call computes, and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sweep_service.numerics.types import AnyArray
from sweep_service.status import Status
from sweep_service.sweeps.layout import Layout
from sweep_service.sweeps.runs import Kind


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


def empty_values(layout: Layout, kind: Kind, runs: int) -> dict[str, AnyArray]:
    """Arrays for the values of so many runs, filled as the dataset is where nothing is stored."""
    return {
        name: np.full((runs, *variable.run_shape), variable.fill, variable.dtype)
        for name, variable in layout.variables[kind].items()
    }


def failed_result(layout: Layout, job: Job, error: str) -> Result:
    """What is stored of a job whose task died."""
    numbers = job.numbers(layout)
    values = empty_values(layout, job.kind, len(numbers))
    values["status"][:] = Status.FAILED
    return Result(values, tuple(Failure(job.kind, int(number), error, "") for number in numbers))
