"""Values at points of an atlas from the summaries of runs, without reading any curve."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from sweep_service.analysis.atlas.columns import MISSING
from sweep_service.analysis.atlas.runs import DERIVED, Runs, point_names
from sweep_service.analysis.curves import plain_value
from sweep_service.analysis.phase_diagram import REDUCTIONS
from sweep_service.analysis.selection import format_values
from sweep_service.errors import InvalidInput, LimitExceeded, unknown_name
from sweep_service.model.labels import variable_attributes
from sweep_service.numerics.types import AnyArray, Array
from sweep_service.planning.axes import EXPONENTS, POINT
from sweep_service.planning.columns.groups import MAX_CODE
from sweep_service.planning.schema import KIND_TITLES
from sweep_service.status import Status

# Parameters that follow from others in a scaling design or on the triangle.
FUNCTIONS = {
    **dict.fromkeys(DERIVED, ("d", "p", "gamma")),
    **dict.fromkeys(EXPONENTS, ("d", "p", "gamma", *DERIVED)),
}
DENSE_CODES_PER_RUN, MIN_DENSE_CODES = 4, 1 << 16
DIVERGED, STATUS = "diverged", "status"


@dataclass(frozen=True)
class Summary:
    """A value that an index holds: the kind of its runs, the column, and its long name."""

    kind: str
    column: str
    long_name: str
    depends_on_end: bool = True  # so that runs of different length have different values
    units: str = "1"


def summary_values() -> dict[str, Summary]:
    """Values that need no curves, by the names that diagrams of one sweep use."""
    values: dict[str, Summary] = {}
    for kind, title in KIND_TITLES.items():
        late = f"excess risk, mean over the last half of the time ({title})"
        values |= {
            f"{kind}_risk": Summary(kind, "final_risk", late),
            f"{kind}_final_risk": Summary(kind, "final_risk", late),
            f"{kind}_final_slope": Summary(
                kind, "final_slope", f"slope of ln R in ln t at late times ({title})"
            ),
            f"{kind}_initial_risk": Summary(kind, "initial_risk", f"excess risk at t = 0 ({title})", False),
            f"{kind}_diverged": Summary(kind, DIVERGED, f"share of ended runs that diverged ({title})"),
            f"{kind}_divergence_time": Summary(
                kind, "divergence_time", f"time of divergence ({title})", False
            ),
            f"{kind}_bound": Summary(kind, "bound", f"largest max_i Q_ii along a run ({title})"),
            f"{kind}_order_parameter": Summary(
                kind, "order_parameter", f"specialisation at the end ({title})"
            ),
            f"{kind}_seconds": Summary(kind, "seconds", "processor time of a run", True, "s"),
        }
    return values | {"sgd_steps": Summary("sgd", "steps", "steps taken by the end of a run")}


def find_summary(value: str, where: Mapping[str, Any]) -> tuple[str, Summary] | None:
    """The summary that a value names; without a prefix of SGD, or of the theory if a regime is selected."""
    values = summary_values()
    kinds = reversed(KIND_TITLES) if "regime" in where else KIND_TITLES
    names = [name for name in (value, *(f"{kind}_{value}" for kind in kinds)) if name in values]
    return (names[0], values[names[0]]) if names else None


def read_values(runs: Runs, rows: AnyArray, summary: Summary) -> Array:
    """The value of each run; NaN for runs without one."""
    if summary.column != DIVERGED:
        return runs.numbers[summary.column][rows]
    has_diverged = runs.matches(STATUS, Status.DIVERGED.label)[rows]
    return np.where(runs.has_values[rows], has_diverged.astype(float), np.nan)


class Cells(NamedTuple):
    """Groups of runs with equal labels: the group of each run, and the codes of each group by label."""

    of_run: AnyArray
    codes: dict[str, AnyArray]

    @property
    def size(self) -> int:
        return len(next(iter(self.codes.values())))


def group_runs(runs: Runs, rows: AnyArray, names: Sequence[str]) -> Cells:
    """Group runs by the classes of some labels, in ascending order of the labels."""
    columns = [runs.column(name, rows).class_codes().astype(np.int64) + 1 for name in names]
    groups, codes = number_groups(columns)
    return Cells(groups, {name: column - 1 for name, column in zip(names, codes, strict=True)})


def number_groups(columns: Sequence[AnyArray]) -> tuple[AnyArray, list[AnyArray]]:
    """The group of each row of columns of codes from 0 on, and the codes of each group.

    Codes that are dense are counted, which is much faster than sorting them.
    """
    lengths = [int(column.max(initial=0)) + 1 for column in columns]
    combined = np.zeros(len(columns[0]), np.int64)
    if math.prod(lengths) > MAX_CODE:
        raise LimitExceeded("labels", math.prod(lengths), "are too many combinations: select some values")
    for column, length in zip(columns, lengths, strict=True):
        combined = combined * length + column
    if math.prod(lengths) <= DENSE_CODES_PER_RUN * len(combined) + MIN_DENSE_CODES:
        is_present = np.bincount(combined, minlength=math.prod(lengths)) > 0
        present, groups = np.flatnonzero(is_present), (np.cumsum(is_present) - 1)[combined]
    else:
        present, groups = np.unique(combined, return_inverse=True)
    codes = []
    for length in reversed(lengths):
        present, code = np.divmod(present, length)
        codes.append(code)
    return groups, codes[::-1]


def check_constants(
    runs: Runs, rows: AnyArray, shown: Sequence[str], extra: Sequence[str] = ()
) -> dict[str, Any]:
    """Labels with one value; raises an error that lists the values of another one that still varies.

    Parameters from which a shown one follows, as gamma/p does, may vary between the shown points.
    """
    functions = {name for shown_name in shown for name in FUNCTIONS.get(shown_name, ())}
    constants: dict[str, Any] = {}
    cells = None
    for name in (*point_names(), *extra):
        if name in shown:
            continue
        column = runs.labels[name]
        if column.is_constant:
            if len(column.values) and len(rows):
                constants[name] = plain_value(column.values[0])
            continue
        codes = column.take(rows).class_codes()
        if not len(codes) or bool((codes == codes[0]).all()):
            if len(codes) and codes[0] != MISSING:
                constants[name] = plain_value(column.class_values[codes[0]])
            continue
        if name in functions:
            cells = group_runs(runs, rows, shown) if cells is None else cells
            _, pairs = number_groups([cells.of_run, codes.astype(np.int64) + 1])
            if len(pairs[0]) == cells.size:
                continue
        raise _varies(
            name, column.class_values[np.unique(codes[codes != MISSING])], bool((codes == MISSING).any())
        )
    return constants


def _varies(name: str, values: AnyArray, some_lack_it: bool) -> InvalidInput:
    texts = format_values(values) + (", and none" if some_lack_it else "")
    if name == "structures":
        allowed = "the sweeps differ in init, teacher, second_layer or schedule: select some by sweep=…"
        return InvalidInput(name, values.tolist(), allowed)
    ways = ", ".join(REDUCTIONS)
    allowed = f"varies and is not shown: select one of {texts}, or reduce over all of them by {ways}"
    return InvalidInput(name, None, allowed)


def summary_diagram(
    runs: Runs,
    rows: AnyArray,
    axes: Sequence[str],
    value: str,
    summary: Summary,
    reductions: Mapping[str, str],
) -> xr.DataArray:
    """The mean of a value over the runs of each point, with its standard error and the number of runs.

    Points are the combinations of the values of `axes` that runs have. Then the value is reduced over other
    labels, ignoring NaN. The errors are those of `ds.sweep.phase_diagram` for the dataset of these runs.
    """
    for name in (*axes, *reductions):
        if name not in runs.labels:
            raise unknown_name("axis", name, point_names())
    rows = rows[runs.matches("kind", summary.kind)[rows]]
    if not len(rows):
        raise InvalidInput("value", value, f"no selected run has it: none is of kind {summary.kind}")
    rows = runs.primary(rows)
    extra = ["regime", "regime_options"] if summary.kind == "ode" else []
    extra += ["t_max"] if summary.depends_on_end else []
    constants = check_constants(runs, rows, (*axes, *reductions), extra)
    table = _average(runs, rows, (*axes, *reductions), read_values(runs, rows, summary))
    long_name = summary.long_name
    for name, how in reductions.items():
        table = _reduce(table, name, how)
        long_name = f"{how} over {name} of {long_name}"
    result = xr.DataArray(
        table.mean,
        dims=POINT,
        coords={
            name: (POINT, _label_values(runs, name, table.codes[name]), variable_attributes(name))
            for name in axes
        },
        name=value,
    )
    result = result.assign_coords(standard_error=(POINT, table.error()), runs=(POINT, table.runs))
    at = {name: values_of(runs, rows, name) for name in reductions}
    units = {} if summary.units == "1" else {"units": summary.units}
    attributes = {
        "long_name": long_name,
        **units,
        "reduced": _count_draws(runs, rows),
        "value": value,
        "at": at,
        "fixed": constants,
    }
    return result.assign_attrs(attributes)


def values_of(runs: Runs, rows: AnyArray, name: str) -> list[Any]:
    column = runs.column(name, rows)
    codes = np.unique(column.class_codes())
    return [plain_value(column.class_values[code]) for code in codes if code != MISSING]


def _label_values(runs: Runs, name: str, codes: AnyArray) -> AnyArray:
    column = runs.labels[name]
    if not (codes == MISSING).any():
        return column.class_values[codes]
    missing = [np.nan] if column.is_number else ["none"]
    return np.append(column.class_values.astype(float if column.is_number else object), missing)[codes]


def _count_draws(runs: Runs, rows: AnyArray) -> dict[str, int]:
    """The numbers of seeds and repeats of the runs; a theory has no repeats."""
    counts = {name: len(values_of(runs, rows, name)) for name in ("seed", "repeat")}
    return {name: count for name, count in counts.items() if count}


class Table(NamedTuple):
    """Cells with the mean over runs, their number, and the deviation of each draw of a cell.

    Deviations are those of `average_with_deviations`: their squares add up to the squared standard error.
    """

    codes: dict[str, AnyArray]
    mean: Array
    runs: AnyArray
    cell: AnyArray  # of each deviation
    draw: AnyArray
    deviation: Array

    def error(self) -> Array:
        squares = np.bincount(self.cell, self.deviation**2, minlength=len(self.mean))
        known = np.bincount(self.cell, minlength=len(self.mean)) > 0
        return np.sqrt(np.where(known, squares, np.nan))


def _average(runs: Runs, rows: AnyArray, names: Sequence[str], values: Array) -> Table:
    cells = group_runs(runs, rows, names)
    has_one_seed = len(np.unique(runs.column("seed", rows).codes)) == 1
    draws = runs.column("repeat" if has_one_seed else "seed", rows).codes.astype(np.int64) + 1
    known = ~np.isnan(values)
    cell, value = cells.of_run[known], values[known]
    with np.errstate(all="ignore"):  # values overflow just before a divergence
        count = np.bincount(cell, minlength=cells.size)
        mean = np.bincount(cell, value, minlength=cells.size) / np.where(count > 0, count, np.nan)
        pair_of_run, (pair_cell, pair_draw) = number_groups([cell, draws[known]])
        sums = np.bincount(pair_of_run, value - mean[cell], minlength=len(pair_cell))
        draws_of_cell = np.bincount(pair_cell, minlength=cells.size).astype(float)
        scale = np.sqrt(draws_of_cell / np.where(draws_of_cell > 1, draws_of_cell - 1, np.nan)) / count
    return Table(cells.codes, mean, count, pair_cell, pair_draw, sums * scale[pair_cell])


def _reduce(table: Table, name: str, how: str) -> Table:
    """Reduce over a label; only a mean has an error, and only if each cell has one."""
    import pandas as pd  # type: ignore[import-untyped]

    names = [label for label in table.codes if label != name]
    groups, codes = number_groups([table.codes[label] + 1 for label in names])
    size = len(codes[0])
    mean = getattr(pd.Series(table.mean).groupby(groups), how)().reindex(range(size)).to_numpy()
    count = np.bincount(groups, table.runs, minlength=size).astype(int)
    pair_of_deviation, (cell, draw) = number_groups([groups[table.cell], table.draw])
    sums = np.bincount(pair_of_deviation, table.deviation, minlength=len(cell)) / np.bincount(groups)[cell]
    lacks_error = np.bincount(groups, np.isnan(table.error()), minlength=size) > 0
    sums = np.where(lacks_error[cell] | (how != "mean"), np.nan, sums)
    shown = {label: code - 1 for label, code in zip(names, codes, strict=True)}
    return Table(shown, mean, count, cell, draw, sums)
