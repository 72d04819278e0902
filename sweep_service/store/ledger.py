"""The ledger: a SQLite database of sweeps, with a row for each bundle and its progress.

It can be rebuilt from the stored specs, status arrays and parts, except for the history of states, the owners
and the keys of requests.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa

from sweep_service.errors import Conflict, Damaged, NotFound, StoreGone, TooNew
from sweep_service.planning.bundles import Bundle
from sweep_service.status import Status
from sweep_service.store.ledger_guard import RESTORE_LEDGER, LedgerGuard
from sweep_service.store.migration import add_missing_columns

SCHEMA_VERSION = 4
QUEUE_ENDS = 64  # bundles at each end of a queue, more than most clusters have threads
RECENT_BUNDLES = 12  # by which the present load of the machine is judged
STORED_KEY = "stored"  # key of the row, among bundles, that counts runs stored before any bundle was merged
log = logging.getLogger(__name__)
REQUEST_LIFETIME = timedelta(days=7)  # for which the key of a request is kept


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


# The statuses that are counted, each in a column of `bundles`.
COUNTED_STATUSES = tuple(status for status in Status if status is not Status.PENDING)

_schema = sa.MetaData()
_metadata = sa.Table(
    "about", _schema, sa.Column("name", sa.Text, primary_key=True), sa.Column("value", sa.Text)
)
_sweeps = sa.Table(
    "sweeps",
    _schema,
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
    # Of simulators and regimes as JSON, and of the package. Sweeps of earlier schemas have neither.
    sa.Column("versions", sa.Text, nullable=False, server_default=""),
    sa.Column("package", sa.Text, nullable=False, server_default=""),
    sa.Column("owner", sa.Text),  # since schema 3
    sa.Column("stored_bytes", sa.Integer),  # since schema 3
)
_bundles = sa.Table(
    "bundles",
    _schema,
    sa.Column("sweep", sa.Text, sa.ForeignKey("sweeps.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("place", sa.Integer, nullable=False),  # position in the order of submission
    sa.Column("jobs", sa.Text, nullable=False),
    sa.Column("cost", sa.Float, nullable=False),
    sa.Column("work", sa.Text, nullable=False, default=""),
    sa.Column("progress", sa.Integer, nullable=False, default=0),
    sa.Column("attempts", sa.Integer, nullable=False, default=0),
    sa.Column("seconds", sa.Float, nullable=False, default=0.0),
    sa.Column("elapsed", sa.Float),  # that a worker was busy with it; since schema 4
    sa.Column("merged", sa.Text),  # time of the merge; since schema 4
    sa.Column("error", sa.Text, nullable=False, default=""),
    *(
        sa.Column(status.label, sa.Integer, nullable=False, default=0) for status in COUNTED_STATUSES
    ),  # runs by status
    sa.Index("bundles_by_progress", "sweep", "progress", "place"),
)
_events = sa.Table(
    "events",
    _schema,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("sweep", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("time", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False, default=""),
    sa.Index("events_by_sweep", "sweep", "id"),
    sqlite_autoincrement=True,  # ids are never reused, because readers ask for events after an id
)
_requests = sa.Table(
    "requests",
    _schema,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("is_new", sa.Boolean, nullable=False),
    sa.Column("sweep", sa.Text, nullable=False),
    sa.Column("time", sa.Text, nullable=False),
)


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
    versions: dict[str, int] = field(default_factory=dict)  # of simulators and regimes; empty if unknown
    package: str = ""  # version of the package that last worked on the sweep; empty if unknown
    owner: str | None = None  # name of the token that submitted it
    stored_bytes: int | None = None  # size of its files when they were last measured


@dataclass(frozen=True)
class Request:
    """A request that may be repeated: its Idempotency-Key and a digest of its content."""

    key: str
    digest: str


@dataclass(frozen=True)
class Event:
    """A change of the state of a sweep, or of its progress; only the last progress event is kept."""

    id: int
    kind: str  # state or progress
    time: str
    state: State
    reason: str


class Queue(NamedTuple):
    """The ends of the queue of bundles, as (class of work, predicted cost), both beginning at the end."""

    first: list[tuple[str, float]]
    last: list[tuple[str, float]]


EMPTY_QUEUE = Queue([], [])


@dataclass
class WorkTotals:
    """Bundles, predicted cost, processor seconds, and seconds that workers were busy with them."""

    bundles: int = 0  # merged
    cost_done: float = 0.0
    seconds: float = 0.0
    elapsed: float = 0.0
    squares: float = 0.0  # Σ elapsed²/cost, which gives the scatter of elapsed/cost
    bundles_left: int = 0
    cost_left: float = 0.0
    cost_dropped: float = 0.0


class Ledger:
    """The database of sweeps. `on_change` is called with a sweep id after each change."""

    def __init__(self, path: Path) -> None:
        self.on_change: Callable[[str], None] = lambda sweep_id: None
        url = sa.URL.create("sqlite", database=str(path))
        self.engine = sa.create_engine(url, connect_args={"timeout": 30.0})
        sa.event.listen(self.engine, "connect", _set_pragmas)
        guard = LedgerGuard(path)
        try:
            with self.engine.connect() as connection:
                version = _read_schema(connection)
        except sa.exc.OperationalError:  # disk full, no permission
            raise
        except (sa.exc.DatabaseError, ValueError):
            raise Damaged(f"{path} is not a ledger: move it away, then run sweep doctor --rebuild") from None
        if version > SCHEMA_VERSION:
            raise TooNew(
                f"the ledger has schema {version}, but this version reads only {SCHEMA_VERSION} and older: "
                "upgrade sweep-service"
            )
        if version < SCHEMA_VERSION:
            with self.engine.connect() as connection:
                connection.exec_driver_sql("BEGIN IMMEDIATE")  # one process migrates, others wait for it
                _migrate(connection)
                connection.commit()
        guard.attach(self.engine)

    def close(self) -> None:
        self.engine.dispose()

    @contextmanager
    def _transaction(self, sweep_id: str) -> Iterator[sa.Connection]:
        """Run a transaction that changes a sweep, and call `on_change` after the commit."""
        with self.engine.begin() as connection:
            yield connection
        self.on_change(sweep_id)

    def add(
        self, sweep: SweepRecord, bundles: Iterable[Bundle], counts: Mapping[Status, int] | None = None
    ) -> None:
        """Add a sweep, its bundles and the counts of its stored runs in one transaction."""
        with self._transaction(sweep.id) as connection:
            connection.execute(_sweeps.insert().values(_to_row(sweep)))
            self._insert(connection, sweep.id, bundles)
            _put_stored(connection, sweep.id, counts or {})
            _add_event(connection, sweep.id, "state", sweep.state.value, sweep.reason)
        extra = {"sweep": sweep.id, "sweep_name": sweep.name, "runs": sweep.runs, "reused": sweep.reused}
        name = f" ({sweep.name})" if sweep.name else ""
        text = f"sweep {sweep.id}{name} is {sweep.state}: {sweep.runs} runs"
        log.info("%s", text, extra={"event": "sweep_added", **extra})

    def replace_bundles(self, sweep_id: str, bundles: Iterable[Bundle]) -> None:
        """Replace all bundles that are not merged."""
        with self._transaction(sweep_id) as connection:
            connection.execute(
                _bundles.delete().where(_bundles.c.sweep == sweep_id, _bundles.c.progress != Progress.MERGED)
            )
            self._insert(connection, sweep_id, bundles)

    def _insert(self, connection: sa.Connection, sweep_id: str, bundles: Iterable[Bundle]) -> None:
        rows = [
            {
                "sweep": sweep_id, "key": bundle.key, "place": place, "jobs": bundle.jobs_json,
                "cost": bundle.cost, "work": bundle.work_class,
            }
            for place, bundle in enumerate(bundles)
        ]  # fmt: skip
        for start in range(0, len(rows), 10_000):
            connection.execute(_bundles.insert().prefix_with("OR REPLACE"), rows[start : start + 10_000])

    def sweep(self, sweep_id: str) -> SweepRecord:
        with self.engine.connect() as connection:
            row = connection.execute(sa.select(_sweeps).where(_sweeps.c.id == sweep_id)).mappings().first()
        if row is None:
            raise NotFound(f"no sweep named {sweep_id}")
        return _to_record(row)

    def sweeps(
        self,
        *,
        key: str | None = None,
        states: Sequence[State] | None = None,
        name: str | None = None,
        before: tuple[str, str] | None = None,
        limit: int | None = None,
    ) -> list[SweepRecord]:
        """Return sweeps, newest first.

        Parameters
        ----------
        key
            Digest of the canonical spec and of the versions.
        states
            Only sweeps in one of these states.
        name
            Text that the name (ignoring case) or the id contains.
        before
            (created, id) of a sweep: only older ones.
        limit
            Maximal number of sweeps.
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
        with self.engine.connect() as connection:
            return [_to_record(row) for row in connection.execute(query).mappings()]

    def set_state(
        self, sweep_id: str, state: State, reason: str = "", stored_bytes: int | None = None
    ) -> None:
        """Set the state, and the size if given; append an event in the same transaction, and log it."""
        size = {} if stored_bytes is None else {"stored_bytes": stored_bytes}
        with self._transaction(sweep_id) as connection:
            connection.execute(
                _sweeps.update()
                .where(_sweeps.c.id == sweep_id)
                .values(state=state.value, reason=reason, updated=utc_now(), **size)
            )
            _add_event(connection, sweep_id, "state", state.value, reason)
        _log_state(sweep_id, state, reason)

    def set_versions(self, sweep_id: str, versions: Mapping[str, int], package: str) -> None:
        """Record the versions with which a sweep goes on."""
        with self._transaction(sweep_id) as connection:
            connection.execute(
                _sweeps.update()
                .where(_sweeps.c.id == sweep_id)
                .values(versions=json.dumps(versions), package=package)
            )

    def restart(self, sweep: SweepRecord, bundles: Iterable[Bundle], counts: Mapping[Status, int]) -> None:
        """Replace the row of a sweep, all of its bundles and the counts of its stored runs."""
        with self._transaction(sweep.id) as connection:
            connection.execute(
                _sweeps.update()
                .where(_sweeps.c.id == sweep.id)
                .values({**_to_row(sweep), "updated": utc_now()})
            )
            connection.execute(_bundles.delete().where(_bundles.c.sweep == sweep.id))
            self._insert(connection, sweep.id, bundles)
            _put_stored(connection, sweep.id, counts)
            _add_event(connection, sweep.id, "state", sweep.state.value, sweep.reason)
        _log_state(sweep.id, sweep.state, sweep.reason)

    def set_stored_bytes(self, sweep_id: str, size: int) -> None:
        """Store the measured size of the files of a sweep."""
        with self._transaction(sweep_id) as connection:
            connection.execute(_sweeps.update().where(_sweeps.c.id == sweep_id).values(stored_bytes=size))

    def events(self, sweep_id: str, after: int = 0) -> list[Event]:
        """Return the events of a sweep after an event id, oldest first."""
        query = (
            sa.select(_events).where(_events.c.sweep == sweep_id, _events.c.id > after).order_by(_events.c.id)
        )
        with self.engine.connect() as connection:
            return [
                Event(row.id, row.kind, row.time, State(row.state), row.reason)
                for row in connection.execute(query)
            ]

    def save_answer(self, request: Request, sweep_id: str, is_new: bool) -> None:
        """Store the answer to a request that may be repeated."""
        row = {**asdict(request), "sweep": sweep_id, "is_new": is_new, "time": utc_now()}
        with self.engine.begin() as connection:
            connection.execute(_requests.delete().where(_requests.c.time < utc_now(-REQUEST_LIFETIME)))
            connection.execute(_requests.insert().prefix_with("OR REPLACE").values(row))

    def find_answer(self, request: Request) -> tuple[SweepRecord, bool] | None:
        """Return the sweep of an earlier request with this key, and whether it was new then; None if none.

        Raises Conflict if the content of that request was different.
        """
        with self.engine.connect() as connection:
            row = connection.execute(sa.select(_requests).where(_requests.c.key == request.key)).first()
        if row is None:
            return None
        if row.digest != request.digest:
            raise Conflict("this Idempotency-Key was already used with another request")
        return self.sweep(row.sweep), row.is_new

    def pending_bundles(self, sweep_id: str, limit: int, exclude: Set[str] = frozenset()) -> list[Bundle]:
        """Return the next bundles that are not merged, except those with keys in `exclude`."""
        query = (
            sa.select(_bundles.c.jobs, _bundles.c.cost, _bundles.c.work, _bundles.c.key)
            .where(_bundles.c.sweep == sweep_id, _bundles.c.progress == Progress.PENDING)
            .order_by(_bundles.c.place)
            .limit(limit + len(exclude))
        )
        with self.engine.connect() as connection:
            rows = [row for row in connection.execute(query) if row.key not in exclude]
        return [_to_bundle(row.key, row.jobs, row.cost, row.work) for row in rows[:limit]]

    def bundle(self, sweep_id: str, key: str) -> Bundle:
        query = sa.select(_bundles.c.jobs, _bundles.c.cost).where(
            _bundles.c.sweep == sweep_id, _bundles.c.key == key
        )
        with self.engine.connect() as connection:
            row = connection.execute(query).one()
        return Bundle.from_json(row.jobs, row.cost)

    def mark_merged(
        self,
        sweep_id: str,
        bundles: Mapping[str, tuple[float, Mapping[Status, int]]],
        elapsed: Mapping[str, float] | None = None,
    ) -> None:
        """Mark bundles as merged, each with its (processor seconds, runs by status).

        `elapsed` are the seconds that a worker was busy with them, if known.
        """
        busy, now = elapsed or {}, utc_now()
        update = (
            _bundles.update()
            .where(_bundles.c.sweep == sweep_id, _bundles.c.key == sa.bindparam("bundle"))
            .where(_bundles.c.progress == Progress.PENDING)  # a part merged twice is counted once
            .values(progress=Progress.MERGED)
        )
        rows = [
            {
                "bundle": key,
                "seconds": seconds,
                "elapsed": busy.get(key),
                "merged": now,
                **_status_columns(counts),
            }
            for key, (seconds, counts) in bundles.items()
        ]
        if rows:
            with self._transaction(sweep_id) as connection:
                connection.execute(update, rows)
                state = connection.scalar(sa.select(_sweeps.c.state).where(_sweeps.c.id == sweep_id))
                connection.execute(
                    _events.delete().where(_events.c.sweep == sweep_id, _events.c.kind == "progress")
                )
                if state is not None:
                    _add_event(connection, sweep_id, "progress", state)

    def set_counts(self, sweep_id: str, counts: Mapping[Status, int]) -> None:
        """Replace the counts of runs by status, also those of merged bundles."""
        with self._transaction(sweep_id) as connection:
            connection.execute(
                _bundles.update().where(_bundles.c.sweep == sweep_id).values(_status_columns({}))
            )
            is_stored = (_bundles.c.sweep == sweep_id) & (_bundles.c.key == STORED_KEY)
            update = _bundles.update().where(is_stored).values(_status_columns(counts))
            if connection.execute(update).rowcount == 0:
                _put_stored(connection, sweep_id, counts)

    def set_stored_cost(self, sweep_id: str, cost: float, seconds: float) -> None:
        """Set the predicted and measured seconds of the runs that were stored before any bundle."""
        is_stored = (_bundles.c.sweep == sweep_id) & (_bundles.c.key == STORED_KEY)
        with self._transaction(sweep_id) as connection:
            connection.execute(_bundles.update().where(is_stored).values(cost=cost, seconds=seconds))

    def count_attempt(self, sweep_id: str, key: str, error: str) -> int:
        """Count a failed attempt at a bundle; return the number of failed attempts so far."""
        with self.engine.begin() as connection:
            is_bundle = (_bundles.c.sweep == sweep_id) & (_bundles.c.key == key)
            connection.execute(
                _bundles.update()
                .where(is_bundle)
                .values(attempts=_bundles.c.attempts + 1, error=error[:2000])
            )
            return int(connection.scalar(sa.select(_bundles.c.attempts).where(is_bundle)) or 0)

    def drop_bundles(self, sweep_id: str) -> None:
        """Mark all bundles that are not merged as dropped."""
        with self._transaction(sweep_id) as connection:
            connection.execute(
                _bundles.update()
                .where(_bundles.c.sweep == sweep_id, _bundles.c.progress == Progress.PENDING)
                .values(progress=Progress.DROPPED)
            )

    def remove(self, sweep_id: str) -> None:
        with self._transaction(sweep_id) as connection:
            for table in (_bundles, _events, _requests):
                connection.execute(table.delete().where(table.c.sweep == sweep_id))
            connection.execute(_sweeps.delete().where(_sweeps.c.id == sweep_id))
        log.info("sweep %s is removed", sweep_id, extra={"event": "sweep_removed", "sweep": sweep_id})

    def find_damage(self) -> list[str]:
        """Return what SQLite's own check of the file finds."""
        with self.engine.connect() as connection:
            rows = [str(row[0]) for row in connection.execute(sa.text("PRAGMA integrity_check"))]
        return [row for row in rows if row != "ok"]

    def totals(self, sweep_id: str) -> dict[str, Any]:
        """Return costs and seconds by progress, bundles left, and runs by status."""
        return self.all_totals([sweep_id])[sweep_id]

    def all_totals(self, sweep_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return the `totals` of several sweeps."""
        query = (
            sa.select(
                _bundles.c.sweep,
                _bundles.c.progress,
                sa.func.count(sa.func.nullif(_bundles.c.key, STORED_KEY)),
                sa.func.sum(_bundles.c.cost),
                sa.func.sum(_bundles.c.seconds),
                *(sa.func.sum(_bundles.c[status.label]) for status in COUNTED_STATUSES),
            )
            .where(_bundles.c.sweep.in_(sweep_ids))
            .group_by(_bundles.c.sweep, _bundles.c.progress)
        )
        sums_by_sweep: dict[str, dict[int, Any]] = {sweep_id: {} for sweep_id in sweep_ids}
        with self.engine.connect() as connection:
            for sweep_id, progress, *sums in connection.execute(query):
                sums_by_sweep[sweep_id][int(progress)] = sums
        return {sweep_id: _make_totals(sums) for sweep_id, sums in sums_by_sweep.items()}

    def progress_totals(self, sweep_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return `all_totals` with sums by class of work, the time of the last merge, and the queue."""
        totals = self.all_totals(sweep_ids)
        for sweep_id in sweep_ids:
            totals[sweep_id] |= {"work": {}, "merged": "", "queue": EMPTY_QUEUE, "stretch": None}
            if totals[sweep_id]["bundles_left"]:
                totals[sweep_id]["queue"] = self.queue(sweep_id)
                totals[sweep_id]["stretch"] = self.stretch(sweep_id)
        elapsed = sa.func.coalesce(_bundles.c.elapsed, _bundles.c.seconds)
        query = (
            sa.select(
                _bundles.c.sweep,
                _bundles.c.work,
                _bundles.c.progress,
                sa.func.count(),
                sa.func.sum(_bundles.c.cost),
                sa.func.sum(_bundles.c.seconds),
                sa.func.sum(elapsed),
                sa.func.sum(elapsed * elapsed / sa.func.nullif(_bundles.c.cost, 0.0)),
            )
            .where(_bundles.c.sweep.in_(sweep_ids))
            .where(sa.or_(_bundles.c.key != STORED_KEY, _bundles.c.cost > 0.0))
            .group_by(_bundles.c.sweep, _bundles.c.work, _bundles.c.progress)
        )
        merges = sa.select(_events.c.sweep, sa.func.max(_events.c.time)).where(
            _events.c.sweep.in_(sweep_ids), _events.c.kind == "progress"
        )
        with self.engine.connect() as connection:
            for sweep_id, name, *sums in connection.execute(query):
                _add_work(totals[sweep_id]["work"].setdefault(name, WorkTotals()), *sums)
            for sweep_id, time in connection.execute(merges.group_by(_events.c.sweep)):
                totals[sweep_id]["merged"] = time
        return totals

    def stretch(self, sweep_id: str) -> float | None:
        """Return the elapsed time per processor second of the bundles that were merged last, if known."""
        recent = (
            sa.select(_bundles.c.elapsed, _bundles.c.seconds)
            .where(_bundles.c.sweep == sweep_id, _bundles.c.merged.is_not(None), _bundles.c.elapsed > 0.0)
            .order_by(_bundles.c.merged.desc())
            .limit(RECENT_BUNDLES)
        )
        with self.engine.connect() as connection:
            rows = connection.execute(recent).all()
        seconds = sum(row.seconds for row in rows)
        return sum(row.elapsed for row in rows) / seconds if seconds else None

    def queue(self, sweep_id: str) -> Queue:
        """Return the first and the last bundles that are not merged, in the order of submission."""
        query = sa.select(_bundles.c.work, _bundles.c.cost).where(
            _bundles.c.sweep == sweep_id, _bundles.c.progress == Progress.PENDING
        )
        with self.engine.connect() as connection:
            ends = [
                [(row.work, row.cost) for row in connection.execute(query.order_by(order).limit(QUEUE_ENDS))]
                for order in (_bundles.c.place, _bundles.c.place.desc())
            ]
        return Queue(*ends)


def _add_work(
    work: WorkTotals,
    progress: int,
    bundles: int,
    cost: float,
    seconds: float,
    elapsed: float,
    squares: float | None,
) -> None:
    """Add the sums of the bundles with one progress."""
    if progress == Progress.MERGED:
        work.bundles, work.cost_done = bundles, cost
        work.seconds, work.elapsed, work.squares = seconds, elapsed, squares or 0.0
    elif progress == Progress.PENDING:
        work.bundles_left, work.cost_left = bundles, cost
    else:
        work.cost_dropped = cost


def _make_totals(by_progress: Mapping[int, Sequence[Any]]) -> dict[str, Any]:
    """Make totals from sums (bundles, cost, seconds, runs of each status) by progress."""
    left, merged, dropped = (by_progress.get(progress, [0, 0.0, 0.0]) for progress in Progress)
    counts = {
        status: sum(int(sums[column]) for sums in by_progress.values())
        for column, status in enumerate(COUNTED_STATUSES, start=3)
    }
    return {
        "bundles_left": int(left[0]),
        "bundles": {progress.name.lower(): int(by_progress.get(progress, [0])[0]) for progress in Progress},
        "cost_done": float(merged[1]),
        "cost_left": float(left[1]),
        "cost_dropped": float(dropped[1]),
        "seconds": float(merged[2]),
        "counts": {status: count for status, count in counts.items() if count},
    }


def _put_stored(connection: sa.Connection, sweep_id: str, counts: Mapping[Status, int]) -> None:
    row = {
        "sweep": sweep_id, "key": STORED_KEY, "place": -1, "jobs": "", "cost": 0.0,
        "progress": Progress.MERGED, **_status_columns(counts),
    }  # fmt: skip
    connection.execute(_bundles.insert().prefix_with("OR REPLACE").values(row))


def _add_event(connection: sa.Connection, sweep_id: str, kind: str, state: str, reason: str = "") -> None:
    row = {"sweep": sweep_id, "kind": kind, "time": utc_now(), "state": state, "reason": reason}
    connection.execute(_events.insert().values(row))


def _log_state(sweep_id: str, state: State, reason: str) -> None:
    extra = {"event": "sweep_state", "sweep": sweep_id, "state": state.value, "reason": reason}
    log.info("sweep %s is %s%s", sweep_id, state, f": {reason}" if reason else "", extra=extra)


def _read_schema(connection: sa.Connection) -> int:
    """Return the schema version of a database, 0 if it has no tables yet."""
    if not sa.inspect(connection).has_table(_metadata.name):
        return 0
    return int(connection.scalar(sa.select(_metadata.c.value).where(_metadata.c.name == "schema")) or 0)


def _migrate(connection: sa.Connection) -> None:
    """Create the tables, or convert those of an earlier schema."""
    version = _read_schema(connection)  # again, because another process may have migrated meanwhile
    if version >= SCHEMA_VERSION:
        return
    _schema.create_all(connection)
    columns = {column["name"] for column in sa.inspect(connection).get_columns(_sweeps.name)}
    for name in ("versions", "package"):  # new in schema 3
        if name not in columns:
            connection.exec_driver_sql(f"ALTER TABLE sweeps ADD COLUMN {name} TEXT NOT NULL DEFAULT ''")
    add_missing_columns(connection, _sweeps)
    add_missing_columns(connection, _bundles)
    if version == 1:
        _migrate_from_1(connection)
    row = {"name": "schema", "value": str(SCHEMA_VERSION)}
    connection.execute(_metadata.insert().prefix_with("OR REPLACE").values(row))


def _migrate_from_1(connection: sa.Connection) -> None:
    """Add what schema 1 lacked: events, and counts of reused runs."""
    for row in connection.execute(sa.select(_sweeps)).mappings().all():
        _put_stored(connection, row["id"], {Status.DONE: row["reused"]})
        _add_event(connection, row["id"], "state", row["state"], row["reason"])


def _status_columns(counts: Mapping[Status, int]) -> dict[str, int]:
    return {status.label: counts.get(status, 0) for status in COUNTED_STATUSES}


def utc_now(offset: timedelta = timedelta()) -> str:
    """Return the current time in UTC, shifted by `offset`, in ISO format with milliseconds."""
    return (datetime.now(UTC) + offset).isoformat(timespec="milliseconds")


def _to_row(sweep: SweepRecord) -> dict[str, Any]:
    values = {name: getattr(sweep, name) for name in SweepRecord.__annotations__}
    return {**values, "state": sweep.state.value, "versions": json.dumps(sweep.versions)}


def _to_bundle(key: str, jobs: str, cost: float, work_class: str) -> Bundle:
    bundle = Bundle.from_json(jobs, cost, work_class)
    if bundle.key != key:
        raise StoreGone(f"the ledger is damaged: {RESTORE_LEDGER}")
    return bundle


def _to_record(row: Any) -> SweepRecord:
    if row["state"] not in set(State):
        raise StoreGone(f"the ledger is damaged: {RESTORE_LEDGER}")
    return SweepRecord(
        **{name: row[name] for name in SweepRecord.__annotations__}
        | {"state": State(row["state"]), "versions": json.loads(row["versions"] or "{}")}
    )


def _set_pragmas(connection: Any, record: Any) -> None:
    """Configure SQLite so that readers never wait for the writer and commits survive a power failure."""
    for pragma in ("synchronous=FULL", "journal_mode=WAL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")
