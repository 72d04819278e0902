"""The ledger: which sweeps there are and how far each of their bundles is. SQLite, a row per bundle.

It can be lost: everything in it follows from the stored specs, the status arrays and the parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from sweep_service.bundles import Bundle
from sweep_service.errors import Damaged, NotFound, TooNew
from sweep_service.status import Status

SCHEMA_VERSION = 1


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


ENDS = tuple(status.label for status in Status if status is not Status.PENDING)

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
    *(sa.Column(label, sa.Integer, nullable=False, default=0) for label in ENDS),  # runs by status
    sa.Index("bundles_by_progress", "sweep", "progress", "place"),
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


class Ledger:
    def __init__(self, path: Path) -> None:
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
        if version is None:
            with self.engine.begin() as now:
                _tables.create_all(now)
                now.execute(
                    _about.insert().prefix_with("OR IGNORE").values(name="schema", value=str(SCHEMA_VERSION))
                )
        elif int(version) > SCHEMA_VERSION:
            raise TooNew(f"the ledger has schema {version}; this one reads {SCHEMA_VERSION} and older")

    def close(self) -> None:
        self.engine.dispose()

    def add(self, sweep: Sweep, bundles: Iterable[Bundle]) -> None:
        """A sweep and its bundles, in one transaction."""
        row = {name: getattr(sweep, name) for name in Sweep.__annotations__} | {"state": sweep.state.value}
        with self.engine.begin() as now:
            now.execute(_sweeps.insert().values(row))
            self._insert(now, sweep.id, bundles)

    def add_bundles(self, sweep: str, bundles: Iterable[Bundle]) -> None:
        """Bundles in place of those that were dropped."""
        with self.engine.begin() as now:
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

    def sweeps(self, *, key: str | None = None, states: Sequence[State] | None = None) -> list[Sweep]:
        """Newest first."""
        query = sa.select(_sweeps).order_by(_sweeps.c.created.desc(), _sweeps.c.id.desc())
        if key is not None:
            query = query.where(_sweeps.c.key == key)
        if states is not None:
            query = query.where(_sweeps.c.state.in_([state.value for state in states]))
        with self.engine.connect() as now:
            return [_sweep(row) for row in now.execute(query).mappings()]

    def set_state(self, sweep: str, state: State, reason: str = "") -> None:
        with self.engine.begin() as now:
            now.execute(
                _sweeps.update()
                .where(_sweeps.c.id == sweep)
                .values(state=state.value, reason=reason, updated=utc_now())
            )

    def pending(self, sweep: str, limit: int, without: Sequence[str] = ()) -> list[Bundle]:
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

    def merged(self, sweep: str, bundles: Mapping[str, tuple[float, Mapping[str, int]]]) -> None:
        """Mark bundles as merged, each with the seconds it took and its runs by status."""
        mark = (
            _bundles.update()
            .where(_bundles.c.sweep == sweep, _bundles.c.key == sa.bindparam("bundle"))
            .values(progress=Progress.MERGED)
        )
        rows = [
            {"bundle": key, "seconds": seconds, **_all_ends(counts)}
            for key, (seconds, counts) in bundles.items()
        ]
        if rows:
            with self.engine.begin() as now:
                now.execute(mark, rows)

    def recount(self, sweep: str, counts: Mapping[str, int]) -> None:
        """Runs by status from now on, in place of what the merged bundles said."""
        with self.engine.begin() as now:
            now.execute(_bundles.update().where(_bundles.c.sweep == sweep).values(_all_ends({})))
            first = now.scalar(
                sa.select(_bundles.c.key).where(
                    _bundles.c.sweep == sweep, _bundles.c.progress == Progress.MERGED
                )
            )
            if first is not None:
                found = (_bundles.c.sweep == sweep) & (_bundles.c.key == first)
                now.execute(_bundles.update().where(found).values(_all_ends(counts)))

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
        with self.engine.begin() as now:
            now.execute(
                _bundles.update()
                .where(_bundles.c.sweep == sweep, _bundles.c.progress == Progress.PENDING)
                .values(progress=Progress.DROPPED)
            )

    def remove(self, sweep: str) -> None:
        with self.engine.begin() as now:
            now.execute(_bundles.delete().where(_bundles.c.sweep == sweep))
            now.execute(_sweeps.delete().where(_sweeps.c.id == sweep))

    def totals(self, sweep: str) -> dict[str, Any]:
        """Costs and seconds by progress, bundles left, and runs by status."""
        query = (
            sa.select(
                _bundles.c.progress,
                sa.func.count(),
                sa.func.sum(_bundles.c.cost),
                sa.func.sum(_bundles.c.seconds),
                *(sa.func.sum(_bundles.c[label]) for label in ENDS),
            )
            .where(_bundles.c.sweep == sweep)
            .group_by(_bundles.c.progress)
        )
        with self.engine.connect() as now:
            rows = {int(row[0]): row for row in now.execute(query)}
        sums = {label: sum(int(row[4 + at]) for row in rows.values()) for at, label in enumerate(ENDS)}
        cost = {progress: float(row[2]) for progress, row in rows.items()}
        return {
            "bundles_left": int(rows[Progress.PENDING][1]) if Progress.PENDING in rows else 0,
            "cost_done": cost.get(Progress.MERGED, 0.0),
            "cost_left": cost.get(Progress.PENDING, 0.0),
            "seconds": float(rows[Progress.MERGED][3]) if Progress.MERGED in rows else 0.0,
            "counts": {label: number for label, number in sums.items() if number},
        }


def _all_ends(counts: Mapping[str, int]) -> dict[str, int]:
    return {label: counts.get(label, 0) for label in ENDS}


def utc_now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _sweep(row: Any) -> Sweep:
    return Sweep(**{name: row[name] for name in Sweep.__annotations__} | {"state": State(row["state"])})


def _settings(connection: Any, record: Any) -> None:
    """Readers never wait for the writer, and what is committed survives a loss of power."""
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")
