"""The ledger: a SQLite database of sweeps, with a row for each bundle and its progress.

It can be rebuilt from the stored specs, status arrays and parts, except for the history of states, the owners
and the keys of requests.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from sweep_service.errors import Conflict, Damaged, NotFound, StoreGone, TooNew
from sweep_service.planning.bundles import Bundle
from sweep_service.status import Status
from sweep_service.store.ledger import tables
from sweep_service.store.ledger.guard import RESTORE_LEDGER, LedgerGuard
from sweep_service.store.ledger.records import (
    EMPTY_QUEUE,
    EndedBundle,
    Event,
    Progress,
    Queue,
    Request,
    State,
    SweepRecord,
    WorkTotals,
    utc_now,
)
from sweep_service.store.notes import Notes

QUEUE_ENDS = 64  # bundles at each end of a queue, more than most clusters have threads
RECENT_BUNDLES = 256  # by which the load of the machine is judged
log = logging.getLogger(__package__)
REQUEST_LIFETIME = timedelta(days=7)  # for which the key of a request is kept


class Ledger:
    """The database of sweeps. `on_change` is called with a sweep id after each change."""

    def __init__(self, path: Path) -> None:
        self.on_change: Callable[[str], None] = lambda sweep_id: None
        url = sa.URL.create("sqlite", database=str(path))
        self.engine = sa.create_engine(url, connect_args={"timeout": 30.0})
        sa.event.listen(self.engine, "connect", tables.set_pragmas)
        try:
            self._open(path)
        except BaseException:
            self.close()  # otherwise the pool keeps its connection until it is garbage-collected
            raise

    def _open(self, path: Path) -> None:
        """Create the tables, or check the schema and convert an older one."""
        guard = LedgerGuard(path)
        try:
            with self.engine.connect() as connection:
                version = tables.read_schema(connection)
        except sa.exc.OperationalError:  # disk full, no permission
            raise
        except (sa.exc.DatabaseError, ValueError):
            raise Damaged(f"{path} is not a ledger: move it away, then run sweep doctor --rebuild") from None
        if version > tables.SCHEMA_VERSION:
            raise TooNew(
                f"the ledger has schema {version}, but this version reads only {tables.SCHEMA_VERSION} "
                "and older: upgrade sweep-service"
            )
        if version < tables.SCHEMA_VERSION:
            with self.engine.connect() as connection:
                connection.exec_driver_sql("BEGIN IMMEDIATE")  # one process migrates, others wait for it
                tables.migrate(connection)
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
            connection.execute(tables.sweeps.insert().values(_to_row(sweep)))
            self._insert(connection, sweep.id, bundles)
            tables.put_stored(connection, sweep.id, counts or {})
            tables.add_event(connection, sweep.id, "state", sweep.state.value, sweep.reason)
        extra = {"sweep": sweep.id, "sweep_name": sweep.name, "runs": sweep.runs, "reused": sweep.reused}
        name = f" ({sweep.name})" if sweep.name else ""
        text = f"sweep {sweep.id}{name} is {sweep.state}: {sweep.runs} runs"
        log.info("%s", text, extra={"event": "sweep_added", **extra})

    def replace_bundles(self, sweep_id: str, bundles: Iterable[Bundle]) -> None:
        """Replace all bundles that are not merged."""
        with self._transaction(sweep_id) as connection:
            connection.execute(
                tables.bundles.delete().where(
                    tables.bundles.c.sweep == sweep_id, tables.bundles.c.progress != Progress.MERGED
                )
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
            connection.execute(
                tables.bundles.insert().prefix_with("OR REPLACE"), rows[start : start + 10_000]
            )

    def sweep(self, sweep_id: str) -> SweepRecord:
        with self.engine.connect() as connection:
            row = (
                connection.execute(sa.select(tables.sweeps).where(tables.sweeps.c.id == sweep_id))
                .mappings()
                .first()
            )
        if row is None:
            raise NotFound(f"no sweep named {sweep_id}")
        return _to_record(row)

    def sweeps(
        self,
        *,
        key: str | None = None,
        states: Sequence[State] | None = None,
        name: str | None = None,
        tags: Sequence[str] = (),
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
        tags
            Only sweeps that have all of these tags.
        before
            (created, id) of a sweep: only older ones.
        limit
            Maximal number of sweeps.
        """
        query = (
            sa.select(tables.sweeps)
            .order_by(tables.sweeps.c.created.desc(), tables.sweeps.c.id.desc())
            .limit(limit)
        )
        if before is not None:
            query = query.where(sa.tuple_(tables.sweeps.c.created, tables.sweeps.c.id) < before)
        if key is not None:
            query = query.where(tables.sweeps.c.key == key)
        if name:
            query = query.where(
                tables.sweeps.c.name.icontains(name, autoescape=True)
                | tables.sweeps.c.id.contains(name, autoescape=True)
            )
        for tag in tags:
            # A tag contains no quote, so that the text of the list contains it as a whole or not at all.
            query = query.where(tables.sweeps.c.tags.contains(_to_json(tag), autoescape=True))
        if states is not None:
            query = query.where(tables.sweeps.c.state.in_([state.value for state in states]))
        with self.engine.connect() as connection:
            return [_to_record(row) for row in connection.execute(query).mappings()]

    def set_state(
        self, sweep_id: str, state: State, reason: str = "", stored_bytes: int | None = None
    ) -> None:
        """Set the state, and the size if given; append an event in the same transaction, and log it."""
        size = {} if stored_bytes is None else {"stored_bytes": stored_bytes}
        with self._transaction(sweep_id) as connection:
            connection.execute(
                tables.sweeps.update()
                .where(tables.sweeps.c.id == sweep_id)
                .values(state=state.value, reason=reason, updated=utc_now(), **size)
            )
            tables.add_event(connection, sweep_id, "state", state.value, reason)
        _log_state(sweep_id, state, reason)

    def set_notes(self, sweep_id: str, notes: Notes) -> None:
        """Set the name, the note and the tags, and replace the last event about them."""
        is_sweep = tables.sweeps.c.id == sweep_id
        with self._transaction(sweep_id) as connection:
            connection.execute(
                tables.sweeps.update()
                .where(is_sweep)
                .values(name=notes.name, note=notes.note, tags=_to_json(notes.tags))
            )
            row = connection.execute(
                sa.select(tables.sweeps.c.state, tables.sweeps.c.reason).where(is_sweep)
            ).first()
            tables.remove_events(connection, sweep_id, "notes")
            if row is not None:
                tables.add_event(connection, sweep_id, "notes", row.state, row.reason)

    def set_versions(self, sweep_id: str, versions: Mapping[str, int | str], package: str) -> None:
        """Record the versions with which a sweep goes on."""
        with self._transaction(sweep_id) as connection:
            connection.execute(
                tables.sweeps.update()
                .where(tables.sweeps.c.id == sweep_id)
                .values(versions=json.dumps(versions), package=package)
            )

    def restart(self, sweep: SweepRecord, bundles: Iterable[Bundle], counts: Mapping[Status, int]) -> None:
        """Replace the row of a sweep, all of its bundles and the counts of its stored runs."""
        with self._transaction(sweep.id) as connection:
            connection.execute(
                tables.sweeps.update()
                .where(tables.sweeps.c.id == sweep.id)
                .values({**_to_row(sweep), "updated": utc_now()})
            )
            connection.execute(tables.bundles.delete().where(tables.bundles.c.sweep == sweep.id))
            self._insert(connection, sweep.id, bundles)
            tables.put_stored(connection, sweep.id, counts)
            tables.add_event(connection, sweep.id, "state", sweep.state.value, sweep.reason)
        _log_state(sweep.id, sweep.state, sweep.reason)

    def set_stored_bytes(self, sweep_id: str, size: int) -> None:
        """Store the measured size of the files of a sweep."""
        with self._transaction(sweep_id) as connection:
            connection.execute(
                tables.sweeps.update().where(tables.sweeps.c.id == sweep_id).values(stored_bytes=size)
            )

    def events(self, sweep_id: str, after: int = 0) -> list[Event]:
        """Return the events of a sweep after an event id, oldest first."""
        query = (
            sa.select(tables.events)
            .where(tables.events.c.sweep == sweep_id, tables.events.c.id > after)
            .order_by(tables.events.c.id)
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
            connection.execute(
                tables.requests.delete().where(tables.requests.c.time < utc_now(-REQUEST_LIFETIME))
            )
            connection.execute(tables.requests.insert().prefix_with("OR REPLACE").values(row))

    def find_answer(self, request: Request) -> tuple[SweepRecord, bool] | None:
        """Return the sweep of an earlier request with this key, and whether it was new then; None if none.

        Raises Conflict if the content of that request was different.
        """
        with self.engine.connect() as connection:
            row = connection.execute(
                sa.select(tables.requests).where(tables.requests.c.key == request.key)
            ).first()
        if row is None:
            return None
        if row.digest != request.digest:
            raise Conflict("this Idempotency-Key was already used with another request")
        return self.sweep(row.sweep), row.is_new

    def pending_bundles(self, sweep_id: str, limit: int, after: str | None = None) -> list[Bundle]:
        """Return the next bundles that are not merged, behind the bundle with the key `after`."""
        bundles = tables.bundles.c
        query = (
            sa.select(bundles.jobs, bundles.cost, bundles.work, bundles.key)
            .where(bundles.sweep == sweep_id, bundles.progress == Progress.PENDING)
            .order_by(bundles.place)
            .limit(limit)
        )
        if after is not None:
            place = sa.select(bundles.place).where(bundles.sweep == sweep_id, bundles.key == after)
            query = query.where(bundles.place > place.scalar_subquery())
        with self.engine.connect() as connection:
            rows = connection.execute(query).all()
        return [_to_bundle(row.key, row.jobs, row.cost, row.work) for row in rows]

    def without_pending(self, sweep_ids: Sequence[str]) -> set[str]:
        """Return those of some sweeps of which no bundle is left to merge, without reading every bundle."""
        is_pending = sa.exists().where(
            tables.bundles.c.sweep == tables.sweeps.c.id, tables.bundles.c.progress == Progress.PENDING
        )
        query = sa.select(tables.sweeps.c.id).where(tables.sweeps.c.id.in_(sweep_ids), ~is_pending)
        with self.engine.connect() as connection:
            return set(connection.scalars(query)) if sweep_ids else set()

    def bundle(self, sweep_id: str, key: str) -> Bundle:
        query = sa.select(tables.bundles.c.jobs, tables.bundles.c.cost).where(
            tables.bundles.c.sweep == sweep_id, tables.bundles.c.key == key
        )
        with self.engine.connect() as connection:
            row = connection.execute(query).one()
        return Bundle.from_json(row.jobs, row.cost)

    def mark_merged(
        self,
        sweep_id: str,
        bundles: Mapping[str, tuple[float, Mapping[Status, int]]],
        elapsed: Mapping[str, float] | None = None,
        ended: Mapping[str, str] | None = None,
    ) -> None:
        """Mark bundles as merged, each with its (processor seconds, runs by status).

        `elapsed` are the seconds that a worker was busy with them, if known, and `ended` the times at which
        their results arrived, by default now.
        """
        busy, arrivals, now = elapsed or {}, ended or {}, utc_now()
        update = (
            tables.bundles.update()
            .where(tables.bundles.c.sweep == sweep_id, tables.bundles.c.key == sa.bindparam("bundle"))
            .where(tables.bundles.c.progress == Progress.PENDING)  # a part merged twice is counted once
            .values(progress=Progress.MERGED)
        )
        rows = [
            {
                "bundle": key,
                "seconds": seconds,
                "elapsed": busy.get(key),
                "ended": arrivals.get(key, now),
                **tables.status_columns(counts),
            }
            for key, (seconds, counts) in bundles.items()
        ]
        if rows:
            with self._transaction(sweep_id) as connection:
                connection.execute(update, rows)
                state = connection.scalar(
                    sa.select(tables.sweeps.c.state).where(tables.sweeps.c.id == sweep_id)
                )
                tables.remove_events(connection, sweep_id, "progress")
                if state is not None:
                    tables.add_event(connection, sweep_id, "progress", state)

    def set_counts(self, sweep_id: str, counts: Mapping[Status, int]) -> None:
        """Replace the counts of runs by status, also those of merged bundles."""
        with self._transaction(sweep_id) as connection:
            connection.execute(
                tables.bundles.update()
                .where(tables.bundles.c.sweep == sweep_id)
                .values(tables.status_columns({}))
            )
            is_stored = (tables.bundles.c.sweep == sweep_id) & (tables.bundles.c.key == tables.STORED_KEY)
            update = tables.bundles.update().where(is_stored).values(tables.status_columns(counts))
            if connection.execute(update).rowcount == 0:
                tables.put_stored(connection, sweep_id, counts)

    def set_stored_cost(self, sweep_id: str, cost: float, seconds: float) -> None:
        """Set the predicted and measured seconds of the runs that were stored before any bundle."""
        is_stored = (tables.bundles.c.sweep == sweep_id) & (tables.bundles.c.key == tables.STORED_KEY)
        with self._transaction(sweep_id) as connection:
            connection.execute(tables.bundles.update().where(is_stored).values(cost=cost, seconds=seconds))

    def count_attempt(self, sweep_id: str, key: str, error: str) -> int:
        """Count a failed attempt at a bundle; return the number of failed attempts so far."""
        with self.engine.begin() as connection:
            is_bundle = (tables.bundles.c.sweep == sweep_id) & (tables.bundles.c.key == key)
            connection.execute(
                tables.bundles.update()
                .where(is_bundle)
                .values(attempts=tables.bundles.c.attempts + 1, error=error[:2000])
            )
            return int(connection.scalar(sa.select(tables.bundles.c.attempts).where(is_bundle)) or 0)

    def drop_bundles(self, sweep_id: str) -> None:
        """Mark all bundles that are not merged as dropped."""
        with self._transaction(sweep_id) as connection:
            connection.execute(
                tables.bundles.update()
                .where(tables.bundles.c.sweep == sweep_id, tables.bundles.c.progress == Progress.PENDING)
                .values(progress=Progress.DROPPED)
            )

    def remove(self, sweep_id: str) -> None:
        with self._transaction(sweep_id) as connection:
            for table in (tables.bundles, tables.events, tables.requests):
                connection.execute(table.delete().where(table.c.sweep == sweep_id))
            connection.execute(tables.sweeps.delete().where(tables.sweeps.c.id == sweep_id))
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
                tables.bundles.c.sweep,
                tables.bundles.c.progress,
                sa.func.count(sa.func.nullif(tables.bundles.c.key, tables.STORED_KEY)),
                sa.func.sum(tables.bundles.c.cost),
                sa.func.sum(tables.bundles.c.seconds),
                *(sa.func.sum(tables.bundles.c[status.label]) for status in tables.COUNTED_STATUSES),
            )
            .where(tables.bundles.c.sweep.in_(sweep_ids))
            .group_by(tables.bundles.c.sweep, tables.bundles.c.progress)
        )
        sums_by_sweep: dict[str, dict[int, Any]] = {sweep_id: {} for sweep_id in sweep_ids}
        with self.engine.connect() as connection:
            for sweep_id, progress, *sums in connection.execute(query):
                sums_by_sweep[sweep_id][int(progress)] = sums
        return {sweep_id: _make_totals(sums) for sweep_id, sums in sums_by_sweep.items()}

    def progress_totals(self, sweep_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return `all_totals` with sums by class of work, the time of the last merge, and the ends of the
        queue and the recent bundles of a sweep that is not complete."""
        totals = self.all_totals(sweep_ids)
        for sweep_id in sweep_ids:
            totals[sweep_id] |= {"work": {}, "merged": "", "queue": EMPTY_QUEUE, "recent": []}
            if totals[sweep_id]["bundles_left"]:
                totals[sweep_id]["queue"] = self.queue(sweep_id)
                totals[sweep_id]["recent"] = self.recent_bundles(sweep_id)
        seconds = tables.bundles.c.seconds
        elapsed = sa.func.coalesce(tables.bundles.c.elapsed, seconds)
        query = (
            sa.select(
                tables.bundles.c.sweep,
                tables.bundles.c.work,
                tables.bundles.c.progress,
                sa.func.count(),
                sa.func.sum(tables.bundles.c.cost),
                sa.func.sum(seconds),
                sa.func.sum(elapsed),
                sa.func.sum(seconds * seconds / sa.func.nullif(tables.bundles.c.cost, 0.0)),
            )
            .where(tables.bundles.c.sweep.in_(sweep_ids))
            .where(sa.or_(tables.bundles.c.key != tables.STORED_KEY, tables.bundles.c.cost > 0.0))
            .group_by(tables.bundles.c.sweep, tables.bundles.c.work, tables.bundles.c.progress)
        )
        merges = sa.select(tables.events.c.sweep, sa.func.max(tables.events.c.time)).where(
            tables.events.c.sweep.in_(sweep_ids), tables.events.c.kind == "progress"
        )
        with self.engine.connect() as connection:
            for sweep_id, name, *sums in connection.execute(query):
                _add_work(totals[sweep_id]["work"].setdefault(name, WorkTotals()), *sums)
            for sweep_id, time in connection.execute(merges.group_by(tables.events.c.sweep)):
                totals[sweep_id]["merged"] = time
        return totals

    def recent_bundles(self, sweep_id: str) -> list[EndedBundle]:
        """Return the bundles that ended last, the last first, if it is known how long they took."""
        recent = (
            sa.select(tables.bundles.c.ended, tables.bundles.c.seconds, tables.bundles.c.elapsed)
            .where(
                tables.bundles.c.sweep == sweep_id,
                tables.bundles.c.progress == Progress.MERGED,
                tables.bundles.c.ended.is_not(None),
                tables.bundles.c.elapsed > 0.0,
            )
            .order_by(tables.bundles.c.ended.desc())
            .limit(RECENT_BUNDLES)
        )
        with self.engine.connect() as connection:
            return [
                EndedBundle(datetime.fromisoformat(row.ended).timestamp(), row.seconds, row.elapsed)
                for row in connection.execute(recent)
            ]

    def queue(self, sweep_id: str) -> Queue:
        """Return the first and the last bundles that are not merged, in the order of submission."""
        query = (
            sa.select(tables.bundles.c.place, tables.bundles.c.work, tables.bundles.c.cost)
            .where(tables.bundles.c.sweep == sweep_id, tables.bundles.c.progress == Progress.PENDING)
            .limit(QUEUE_ENDS)
        )
        with self.engine.connect() as connection:
            first = connection.execute(query.order_by(tables.bundles.c.place)).all()
            last = connection.execute(query.order_by(tables.bundles.c.place.desc())).all()[::-1]
        end = first[-1].place if first else 0
        return Queue(
            [(row.work, row.cost) for row in first],
            [(row.work, row.cost) for row in last if row.place > end],
        )


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
        for column, status in enumerate(tables.COUNTED_STATUSES, start=3)
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


def _log_state(sweep_id: str, state: State, reason: str) -> None:
    extra = {"event": "sweep_state", "sweep": sweep_id, "state": state.value, "reason": reason}
    log.info("sweep %s is %s%s", sweep_id, state, f": {reason}" if reason else "", extra=extra)


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _to_row(sweep: SweepRecord) -> dict[str, Any]:
    values = {name: getattr(sweep, name) for name in SweepRecord.__annotations__}
    texts = {name: _to_json(values[name]) for name in ("versions", "fixed", "tags")}
    return {**values, "state": sweep.state.value, **texts}


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
        | {"state": State(row["state"])}
        | {name: json.loads(row[name] or "{}") for name in ("versions", "fixed")}
        | {"tags": tuple(json.loads(row["tags"] or "[]"))}
    )
