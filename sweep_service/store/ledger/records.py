"""Rows of the ledger as objects, and the states of a sweep and of a bundle."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import IntEnum, StrEnum
from typing import NamedTuple

from sweep_service.model.parameters import Scalar


class State(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"  # diverged runs included
    INCOMPLETE = "incomplete"  # ended with failed runs
    CANCELLED = "cancelled"
    FAILED = "failed"  # the files of the sweep cannot be read

    @property
    def has_ended(self) -> bool:
        return self in (State.COMPLETED, State.INCOMPLETE, State.CANCELLED, State.FAILED)


class Progress(IntEnum):
    """Progress of a bundle."""

    PENDING, MERGED, DROPPED = range(3)


@dataclass(frozen=True)
class SweepRecord:
    """A sweep as the ledger stores it."""

    id: str
    key: str
    name: str
    state: State
    created: str
    updated: str
    extends: str | None
    reason: str
    runs: int
    reused: int
    priority: int = 0
    versions: dict[str, int | str] = field(default_factory=dict)  # of its engines; empty if unknown
    package: str = ""  # version of the package that last worked on the sweep; empty if unknown
    owner: str | None = None  # name of the token that submitted it
    stored_bytes: int | None = None  # size of its files when they were last measured
    note: str | None = None  # a text about it
    fixed: dict[str, Scalar] = field(default_factory=dict)  # parameters with one value; empty if unknown
    tags: tuple[str, ...] = ()  # sorted


@dataclass(frozen=True)
class Request:
    """A request that may be repeated: its Idempotency-Key and a digest of its content."""

    key: str
    digest: str


@dataclass(frozen=True)
class Event:
    """A change of a sweep: its state, its progress or its notes. Of the last two, only the latest is kept."""

    id: int
    kind: str  # state, progress or notes
    time: str
    state: State
    reason: str


class Queue(NamedTuple):
    """The first and the last bundles that are not merged, as (class of work, predicted cost), in order."""

    first: list[tuple[str, float]]
    last: list[tuple[str, float]]  # without the first


EMPTY_QUEUE = Queue([], [])


class EndedBundle(NamedTuple):
    """When a bundle ended, in seconds since 1970, its processor seconds, and how long a worker was busy."""

    ended: float
    seconds: float
    elapsed: float


@dataclass
class WorkTotals:
    """Bundles, predicted cost, processor seconds, and seconds that workers were busy with them."""

    bundles: int = 0  # merged
    cost_done: float = 0.0
    seconds: float = 0.0
    elapsed: float = 0.0
    squares: float = 0.0  # Σ seconds²/cost, which gives the scatter of seconds/cost
    bundles_left: int = 0
    cost_left: float = 0.0
    cost_dropped: float = 0.0


def utc_now(offset: timedelta = timedelta()) -> str:
    """Return the current time in UTC, shifted by `offset`, in ISO format with milliseconds."""
    return (datetime.now(UTC) + offset).isoformat(timespec="milliseconds")
