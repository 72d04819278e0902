"""The ledger: which sweeps there are and how far each of their bundles is. SQLite, a row per bundle.

It can be lost: everything in it follows from the stored specs, the status arrays and the parts; but for
the history of states, and the keys of requests.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from sweep_service.errors import Conflict, Damaged, NotFound, TooNew
from sweep_service.planning.bundles import Bundle
from sweep_service.status import Status

SCHEMA_VERSION = 2
STORED = "stored"  # the row, among bundles, of runs that were there before them
log = logging.getLogger(__name__)
REMEMBERED = timedelta(days=7)  # for which the key of a request is kept


class State(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"  # diverged runs included
    INCOMPLETE = "incomplete"  # ended with failed runs
    CANCELLED = "cancelled"
    FAILED = "failed"  # the sweep itself could not go on

    @property
    def ended(self) -> bool:
        return self in (State.COMPLETED, State.INCOMPLETE, State.CANCELLED, State.FAILED)


class Progress(IntEnum):
    """How far a bundle is."""

    PENDING, MERGED, DROPPED = range(3)


ENDS = tuple(status for status in Status if status is not Status.PENDING)  # a column of bundles for each

_tables = sa.MetaData()
_about = sa.Table("about", _tables, sa.Column("name", sa.Text, primary_key=True), sa.Column("value", sa.Text))
_sweeps = sa.Table(
    "sweeps",
    _tables,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, nullable=False, index=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("created", sa.Text, nullable=False),
    sa.Column("updated", sa.Text, nullable=False),
    sa.Column("extends", sa.Text),
    sa.Column("reason", sa.Text, nullable=False, default=""),
    sa.Column("runs", sa.Integer, nullable=False),
    sa.Column("reused", sa.Integer, nullable=False, default=0),
    sa.Column("priority", sa.Integer, nullable=False, default=0),
)
_bundles = sa.Table(
    "bundles",
    _tables,
    sa.Column("sweep", sa.Text, sa.ForeignKey("sweeps.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("place", sa.Integer, nullable=False),  # in the order in which they go
    sa.Column("jobs", sa.Text, nullable=False),
    sa.Column("cost", sa.Float, nullable=False),
    sa.Column("work", sa.Text, nullable=False, default=""),
    sa.Column("progress", sa.Integer, nullable=False, default=0),
    sa.Column("attempts", sa.Integer, nullable=False, default=0),
    sa.Column("seconds", sa.Float, nullable=False, default=0.0),
    sa.Column("error", sa.Text, nullable=False, default=""),
    *(sa.Column(status.label, sa.Integer, nullable=False, default=0) for status in ENDS),  # runs by status
    sa.Index("bundles_by_progress", "sweep", "progress", "place"),
)
_events = sa.Table(
    "events",
    _tables,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("sweep", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("time", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False, default=""),
    sa.Index("events_by_sweep", "sweep", "id"),
    sqlite_autoincrement=True,  # a number is never used again: readers ask for what came after one
)
_requests = sa.Table(
    "requests",
    _tables,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("is_new", sa.Boolean, nullable=False),
    sa.Column("sweep", sa.Text, nullable=False),
    sa.Column("time", sa.Text, nullable=False),
)


@dataclass(frozen=True)
class Sweep:
    """A row of the ledger."""

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


@dataclass(frozen=True)
class Request:
    """A request that may be sent again: its Idempotency-Key, and a digest of what it asks for."""

    key: str
    digest: str


@dataclass(frozen=True)
class Event:
    """That the state of a sweep has changed, or how far it is; of the latter the last one is kept."""

    id: int
    kind: str  # state or progress
    time: str
    state: State
    reason: str


class Ledger:
    def __init__(self, path: Path) -> None:
        self.changed: Callable[[str], None] = lambda sweep: None
        where = sa.URL.create("sqlite", database=str(path))
        self.engine = sa.create_engine(where, connect_args={"timeout": 30.0})
        sa.event.listen(self.engine, "connect", _settings)
        try:
            with self.engine.connect() as now:
                there = sa.inspect(now).has_table(_about.name)
                query = sa.select(_about.c.value).where(_about.c.name == "schema")
                version = now.scalar(query) if there else None
        except sa.exc.OperationalError:  # no room, no permission
            raise
        except sa.exc.DatabaseError:
            raise Damaged(f"{path} is no ledger: move it away, then sweep doctor --rebuild") from None
        if version is not None and int(version) > SCHEMA_VERSION:
            raise TooNew(f"the ledger has schema {version}; this one reads {SCHEMA_VERSION} and older")
        if version is None or int(version) < SCHEMA_VERSION:
            with self.engine.begin() as now:
                _tables.create_all(now)
                if version == "1":
                    _from_1(now)
                about = {"name": "schema", "value": str(SCHEMA_VERSION)}
                now.execute(_about.insert().prefix_with("OR REPLACE").values(about))

    def close(self) -> None:
        self.engine.dispose()

    @contextmanager
    def _changing(self, sweep: str) -> Iterator[sa.Connection]:
        """A transaction; whoever listens hears of it when it is done."""
        with self.engine.begin() as now:
            yield now
        self.changed(sweep)

    def add(
        self, sweep: Sweep, bundles: Iterable[Bundle], counts: Mapping[Status, int] | None = None
    ) -> None:
        """A sweep, its bundles, and its runs by status so far, in one transaction."""
        row = {name: getattr(sweep, name) for name in Sweep.__annotations__} | {"state": sweep.state.value}
        with self._changing(sweep.id) as now:
            now.execute(_sweeps.insert().values(row))
            self._insert(now, sweep.id, bundles)
            _put_stored(now, sweep.id, counts or {})
            _tell(now, sweep.id, "state", sweep.state.value, sweep.reason)
        about = {"sweep": sweep.id, "sweep_name": sweep.name, "runs": sweep.runs, "reused": sweep.reused}
        log.info("sweep %s is %s", sweep.id, sweep.state, extra={"event": "sweep_added", **about})

    def add_bundles(self, sweep: str, bundles: Iterable[Bundle]) -> None:
        """Bundles in place of those that were dropped."""
        with self._changing(sweep) as now:
            now.execute(
                _bundles.delete().where(_bundles.c.sweep == sweep, _bundles.c.progress != Progress.MERGED)
            )
            self._insert(now, sweep, bundles)

    def _insert(self, now: sa.Connection, sweep: str, bundles: Iterable[Bundle]) -> None:
        rows = [
            {
                "sweep": sweep, "key": one.key, "place": place, "jobs": one.text, "cost": one.cost,
                "work": one.work,
            }
            for place, one in enumerate(bundles)
        ]  # fmt: skip
        for at in range(0, len(rows), 10_000):
            now.execute(_bundles.insert().prefix_with("OR REPLACE"), rows[at : at + 10_000])

    def sweep(self, sweep: str) -> Sweep:
        with self.engine.connect() as now:
            row = now.execute(sa.select(_sweeps).where(_sweeps.c.id == sweep)).mappings().first()
        if row is None:
            raise NotFound(f"no sweep named {sweep}")
        return _sweep(row)

    def sweeps(
        self,
        *,
        key: str | None = None,
        states: Sequence[State] | None = None,
        name: str | None = None,
        before: tuple[str, str] | None = None,
        limit: int | None = None,
    ) -> list[Sweep]:
        """Newest first; so many, older than one that was created then and has this id.

        A `name` is part of the name or the id, in any case of its letters.
        """
        query = sa.select(_sweeps).order_by(_sweeps.c.created.desc(), _sweeps.c.id.desc()).limit(limit)
        if before is not None:
            query = query.where(sa.tuple_(_sweeps.c.created, _sweeps.c.id) < before)
        if key is not None:
            query = query.where(_sweeps.c.key == key)
        if name:
            query = query.where(
                _sweeps.c.name.icontains(name, autoescape=True) | _sweeps.c.id.contains(name, autoescape=True)
            )
        if states is not None:
            query = query.where(_sweeps.c.state.in_([state.value for state in states]))
        with self.engine.connect() as now:
            return [_sweep(row) for row in now.execute(query).mappings()]

    def set_state(self, sweep: str, state: State, reason: str = "") -> None:
        with self._changing(sweep) as now:
            now.execute(
                _sweeps.update()
                .where(_sweeps.c.id == sweep)
                .values(state=state.value, reason=reason, updated=utc_now())
            )
            _tell(now, sweep, "state", state.value, reason)
        about = {"event": "sweep_state", "sweep": sweep, "state": state.value, "reason": reason}
        log.info("sweep %s is %s%s", sweep, state, f": {reason}" if reason else "", extra=about)

    def events(self, sweep: str, after: int = 0) -> list[Event]:
        """What has happened to a sweep since an event, oldest first."""
        query = (
            sa.select(_events).where(_events.c.sweep == sweep, _events.c.id > after).order_by(_events.c.id)
        )
        with self.engine.connect() as now:
            return [
                Event(row.id, row.kind, row.time, State(row.state), row.reason) for row in now.execute(query)
            ]

    def remember(self, request: Request, sweep: str, is_new: bool) -> None:
        """What became of a request that may be sent again."""
        row = {**asdict(request), "sweep": sweep, "is_new": is_new, "time": utc_now()}
        with self.engine.begin() as now:
            now.execute(_requests.delete().where(_requests.c.time < utc_now(-REMEMBERED)))
            now.execute(_requests.insert().prefix_with("OR REPLACE").values(row))

    def answer_to(self, request: Request) -> tuple[Sweep, bool] | None:
        """The sweep of an earlier request with this key, and whether it was new then; None if there is none.

        Raises Conflict if that request asked for something else.
        """
        with self.engine.connect() as now:
            row = now.execute(sa.select(_requests).where(_requests.c.key == request.key)).first()
        if row is None:
            return None
        if row.digest != request.digest:
            raise Conflict("this Idempotency-Key came with another request before")
        return self.sweep(row.sweep), row.is_new

    def pending(self, sweep: str, limit: int, without: Set[str] = frozenset()) -> list[Bundle]:
        """The next bundles that are not merged, without those named."""
        query = (
            sa.select(_bundles.c.jobs, _bundles.c.cost, _bundles.c.work, _bundles.c.key)
            .where(_bundles.c.sweep == sweep, _bundles.c.progress == Progress.PENDING)
            .order_by(_bundles.c.place)
            .limit(limit + len(without))
        )
        with self.engine.connect() as now:
            rows = [row for row in now.execute(query) if row.key not in without]
        return [Bundle.of(row.jobs, row.cost, row.work) for row in rows[:limit]]

    def bundle(self, sweep: str, key: str) -> Bundle:
        query = sa.select(_bundles.c.jobs, _bundles.c.cost).where(
            _bundles.c.sweep == sweep, _bundles.c.key == key
        )
        with self.engine.connect() as now:
            row = now.execute(query).one()
        return Bundle.of(row.jobs, row.cost)

    def merged(self, sweep: str, bundles: Mapping[str, tuple[float, Mapping[Status, int]]]) -> None:
        """Mark bundles as merged, each with the seconds it took and its runs by status."""
        mark = (
            _bundles.update()
            .where(_bundles.c.sweep == sweep, _bundles.c.key == sa.bindparam("bundle"))
            .where(_bundles.c.progress == Progress.PENDING)  # what comes twice is counted once
            .values(progress=Progress.MERGED)
        )
        rows = [
            {"bundle": key, "seconds": seconds, **_all_ends(counts)}
            for key, (seconds, counts) in bundles.items()
        ]
        if rows:
            with self._changing(sweep) as now:
                now.execute(mark, rows)
                state = now.scalar(sa.select(_sweeps.c.state).where(_sweeps.c.id == sweep))
                now.execute(_events.delete().where(_events.c.sweep == sweep, _events.c.kind == "progress"))
                if state is not None:
                    _tell(now, sweep, "progress", state)

    def recount(self, sweep: str, counts: Mapping[Status, int]) -> None:
        """Runs by status from now on, in place of what was known before."""
        with self._changing(sweep) as now:
            now.execute(_bundles.update().where(_bundles.c.sweep == sweep).values(_all_ends({})))
            _put_stored(now, sweep, counts)

    def tried(self, sweep: str, key: str, error: str) -> int:
        """Count one more failed attempt at a bundle; how many that makes."""
        with self.engine.begin() as now:
            found = (_bundles.c.sweep == sweep) & (_bundles.c.key == key)
            now.execute(
                _bundles.update().where(found).values(attempts=_bundles.c.attempts + 1, error=error[:2000])
            )
            return int(now.scalar(sa.select(_bundles.c.attempts).where(found)) or 0)

    def drop(self, sweep: str) -> None:
        """Give up all bundles that are not merged."""
        with self._changing(sweep) as now:
            now.execute(
                _bundles.update()
                .where(_bundles.c.sweep == sweep, _bundles.c.progress == Progress.PENDING)
                .values(progress=Progress.DROPPED)
            )

    def remove(self, sweep: str) -> None:
        with self._changing(sweep) as now:
            for table in (_bundles, _events, _requests):
                now.execute(table.delete().where(table.c.sweep == sweep))
            now.execute(_sweeps.delete().where(_sweeps.c.id == sweep))
        log.info("sweep %s is removed", sweep, extra={"event": "sweep_removed", "sweep": sweep})

    def totals(self, sweep: str) -> dict[str, Any]:
        """Costs and seconds by progress, bundles left, and runs by status."""
        return self.all_totals([sweep])[sweep]

    def all_totals(self, sweeps: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Of several sweeps at once."""
        query = (
            sa.select(
                _bundles.c.sweep,
                _bundles.c.progress,
                sa.func.count(sa.func.nullif(_bundles.c.key, STORED)),
                sa.func.sum(_bundles.c.cost),
                sa.func.sum(_bundles.c.seconds),
                *(sa.func.sum(_bundles.c[status.label]) for status in ENDS),
            )
            .where(_bundles.c.sweep.in_(sweeps))
            .group_by(_bundles.c.sweep, _bundles.c.progress)
        )
        found: dict[str, dict[int, Any]] = {sweep: {} for sweep in sweeps}
        with self.engine.connect() as now:
            for sweep, progress, *sums in now.execute(query):
                found[sweep][int(progress)] = sums
        return {sweep: _summed(sums) for sweep, sums in found.items()}


def _summed(by_progress: Mapping[int, Sequence[Any]]) -> dict[str, Any]:
    """Of (number, cost, seconds, runs of each status) by the progress of bundles."""
    left, merged, dropped = (by_progress.get(progress, [0, 0.0, 0.0]) for progress in Progress)
    sums = {status: sum(int(row[3 + at]) for row in by_progress.values()) for at, status in enumerate(ENDS)}
    return {
        "bundles_left": int(left[0]),
        "bundles": {one.name.lower(): int(by_progress.get(one, [0])[0]) for one in Progress},
        "cost_done": float(merged[1]),
        "cost_left": float(left[1]),
        "cost_dropped": float(dropped[1]),
        "seconds": float(merged[2]),
        "counts": {status: number for status, number in sums.items() if number},
    }


def _put_stored(now: sa.Connection, sweep: str, counts: Mapping[Status, int]) -> None:
    row = {
        "sweep": sweep, "key": STORED, "place": -1, "jobs": "", "cost": 0.0, "progress": Progress.MERGED,
        **_all_ends(counts),
    }  # fmt: skip
    now.execute(_bundles.insert().prefix_with("OR REPLACE").values(row))


def _tell(now: sa.Connection, sweep: str, kind: str, state: str, reason: str = "") -> None:
    row = {"sweep": sweep, "kind": kind, "time": utc_now(), "state": state, "reason": reason}
    now.execute(_events.insert().values(row))


def _from_1(now: sa.Connection) -> None:
    """Version 1 had no events, and left runs that came from earlier sweeps out of its counts."""
    for row in now.execute(sa.select(_sweeps)).mappings().all():
        _put_stored(now, row["id"], {Status.DONE: row["reused"]})
        _tell(now, row["id"], "state", row["state"], row["reason"])


def _all_ends(counts: Mapping[Status, int]) -> dict[str, int]:
    """The columns of a row."""
    return {status.label: counts.get(status, 0) for status in ENDS}


def utc_now(later: timedelta = timedelta()) -> str:
    return (datetime.now(UTC) + later).isoformat(timespec="milliseconds")


def _sweep(row: Any) -> Sweep:
    return Sweep(**{name: row[name] for name in Sweep.__annotations__} | {"state": State(row["state"])})


def _settings(connection: Any, record: Any) -> None:
    """Readers never wait for the writer, and what is committed survives a loss of power."""
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")
