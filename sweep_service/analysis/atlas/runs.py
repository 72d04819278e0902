"""The runs of many sweeps as columns, with those that are the same run, or the same trajectory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from sweep_service.analysis.atlas.columns import Column
from sweep_service.model.parameters import PARAMETERS
from sweep_service.model.structures import number_names
from sweep_service.numerics.types import AnyArray, Array
from sweep_service.planning.axes import EXPONENTS
from sweep_service.planning.columns.groups import group_columns
from sweep_service.status import Status
from sweep_service.store.run_index.columns import DRAW_COLUMNS, POINT_COLUMNS, SUMMARIES, index_schema

DERIVED = ("delta_t", "gamma_over_p")  # follow from d, p and gamma
# Labels of a run that SGD or a theory may lack. A selection by one of them keeps the runs that lack it.
OPTIONAL = ("regime", "regime_options", "repeat")
RESULTS = ("status", "engine", "version", "package")
NUMBERS = (*SUMMARIES, "steps", "seconds")
WITH_VALUES = (Status.DONE.label, Status.DIVERGED.label)


def label_names() -> tuple[str, ...]:
    """Names by which runs are selected, in the order of an index."""
    parameters = (*PARAMETERS, *EXPONENTS, *number_names(), *POINT_COLUMNS)
    return ("sweep", "kind", *parameters, *DRAW_COLUMNS, *RESULTS)


def point_names() -> tuple[str, ...]:
    """Names of the labels that define a point; exponents and steps follow from others."""
    return (*PARAMETERS, *(name for name in POINT_COLUMNS if name not in DERIVED), *number_names())


@dataclass(frozen=True)
class Runs:
    """Columns over the runs of all sweeps: labels, summaries, numbers within the sweep, and run keys."""

    labels: dict[str, Column]
    numbers: dict[str, Array]
    number: AnyArray
    keys: AnyArray  # (run, 2), integers

    @classmethod
    def of(cls, tables: Sequence[pa.Table]) -> Runs:
        """Combine the indexes of sweeps."""
        table = pa.concat_tables(tables or [index_schema().empty_table()]).unify_dictionaries()
        labels, numbers = {}, {}
        for name in label_names():
            labels[name] = Column.of(table[name])
            table = table.drop_columns([name])  # a million runs have hundreds of megabytes of labels
        for name in NUMBERS:
            numbers[name] = table[name].to_numpy().astype(float)
            table = table.drop_columns([name])
        key = table["key"].combine_chunks()
        halves = np.empty((0, 2), "<u8")
        if len(key):
            halves = np.frombuffer(key.buffers()[1], "<u8", count=2 * (key.offset + len(key))).reshape(-1, 2)
        return cls(labels, numbers, table["number"].to_numpy(), halves[key.offset :])

    def __len__(self) -> int:
        return len(self.number)

    def column(self, name: str, rows: AnyArray) -> Column:
        return self.labels[name].take(rows)

    def matches(self, name: str, *texts: str) -> AnyArray:
        """Whether the label of each run is one of these texts."""
        column = self.labels[name]
        return np.append(np.isin(column.values, texts), False)[column.codes]

    @cached_property
    def trajectory(self) -> AnyArray:
        """The trajectory of each run: equal for runs that are the same solution or chain at other times.

        Runs of other versions of a simulator or a regime count as the same trajectory too.
        """
        return self.points(np.arange(len(self)), ("kind", "regime", "regime_options", "seed", "repeat"))

    def points(self, rows: AnyArray, names: Sequence[str] = ()) -> AnyArray:
        """The number of the point of each of these runs; points that differ in other `names` differ too."""
        columns = [self.column(name, rows) for name in (*point_names(), *names)]
        codes = [column.codes.astype(np.int64) + 1 for column in columns if column.varies]
        return group_columns(codes, len(rows)).of_point

    @cached_property
    def _rank(self) -> AnyArray:
        """The place of each run if the best of a trajectory is the first: with values, new, long, fine."""
        version = np.nan_to_num(self.labels["version"].decode().astype(float), nan=-1.0)
        length, samples, sweep = (self.labels[name].codes for name in ("t_max", "samples", "sweep"))
        order = np.lexsort(
            [
                -sweep.astype(np.int64),
                -samples.astype(np.int64),
                -length.astype(np.int64),
                -version,
                ~self.has_values,
            ]
        )
        rank = np.empty(len(self), np.int64)
        rank[order] = np.arange(len(self))
        return rank

    @cached_property
    def has_values(self) -> AnyArray:
        """Whether each run is done or has diverged."""
        return self.matches("status", *WITH_VALUES)

    @cached_property
    def _is_shared(self) -> AnyArray:
        """Whether a trajectory has several rows."""
        return (np.bincount(self.trajectory) > 1)[self.trajectory]

    def distinct(self, rows: AnyArray) -> AnyArray:
        """These rows with each run once: of those with equal keys at one point, the best."""
        return self._first_of(rows, by_key=True)

    def primary(self, rows: AnyArray) -> AnyArray:
        """These rows with each trajectory once, so that no chain counts twice."""
        return self._first_of(rows, by_key=False)

    def _first_of(self, rows: AnyArray, by_key: bool) -> AnyArray:
        is_shared = self._is_shared[rows]
        shared = rows[is_shared]
        if not len(shared):
            return rows
        halves = [self.keys[shared, 1], self.keys[shared, 0]] if by_key else []
        columns = [*halves, self.trajectory[shared]]
        order = np.lexsort([self._rank[shared], *columns])
        differs = np.ones(len(order), bool)
        differs[1:] = np.any([np.diff(column[order].astype(np.uint64)) != 0 for column in columns], axis=0)
        return np.sort(np.concatenate([rows[~is_shared], shared[order[differs]]]))
