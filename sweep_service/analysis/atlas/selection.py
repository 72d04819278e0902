"""Selection of runs by labels, and facets: how many of the selected runs have each value of each label."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sweep_service.analysis.atlas.columns import Column
from sweep_service.analysis.atlas.runs import OPTIONAL, Runs
from sweep_service.analysis.curves import plain_value
from sweep_service.analysis.selection import match_values
from sweep_service.errors import InvalidInput, unknown_name
from sweep_service.model.labels import find_label
from sweep_service.numerics.types import AnyArray
from sweep_service.store.run_index.columns import index_columns

MAX_FACET_VALUES = 100  # a label with more values has a range only
SWEEP = "sweep"
HIDDEN = (
    "structures",
    "times",
    "observables",
    "package",
    "regime_options",
)  # as facets only where they differ


def match_runs(runs: Runs, name: str, wanted: Any) -> AnyArray:
    """Whether each run has a wanted value: a number, a text, a sequence, a range `0.1:1` or a slice."""
    return np.append(_match_label(runs, name, wanted), name in OPTIONAL)[runs.labels[name].codes]


def common_values(runs: Runs, name: str, *wanted: Any) -> list[Any]:
    """The values of a label that several selections want; raises InvalidInput if there are none."""
    matches = np.all([_match_label(runs, name, selection) for selection in wanted], axis=0)
    if not matches.any():
        raise InvalidInput(name, wanted[-1], f"is not among the values that are selected: {wanted[0]}")
    return [plain_value(value) for value in runs.labels[name].values[matches]]


def _match_label(runs: Runs, name: str, wanted: Any) -> AnyArray:
    """Whether each value of a label is wanted."""
    if name not in runs.labels:
        raise unknown_name("selection", name, runs.labels)
    values = runs.labels[name].values
    if isinstance(wanted, slice):
        wanted = range_text(name, wanted)
    if not len(values):
        raise InvalidInput(name, wanted, "no run has a value of it")
    return match_values(name, values, wanted)


def range_text(name: str, wanted: slice) -> str:
    """A slice, which includes both ends, as the text of a range."""
    if wanted.step is not None:
        raise InvalidInput(name, wanted, "must be a slice without a step, such as slice(0.1, 1)")
    return ":".join("" if end is None else repr(plain_value(end)) for end in (wanted.start, wanted.stop))


def select_rows(runs: Runs, where: Mapping[str, Any]) -> AnyArray:
    """The rows that have all wanted values; raises InvalidInput if there are none."""
    mask = np.ones(len(runs), bool)
    for name, wanted in where.items():
        mask &= match_runs(runs, name, wanted)
    rows = np.flatnonzero(mask)
    if where and not len(rows):
        raise InvalidInput(", ".join(where), list(where.values()), "no run has all of these values")
    return rows


def compute_facets(runs: Runs, where: Mapping[str, Any]) -> dict[str, Any]:
    """Count the selected runs by the values of each label.

    The values of a label that is selected are counted as if it were not, so that another one can be chosen;
    `selected` tells which of its values are.
    """
    masks = {name: match_runs(runs, name, wanted) for name, wanted in where.items()}
    misses = np.zeros(len(runs), np.int16)
    for mask in masks.values():
        misses += ~mask
    selected = np.flatnonzero(misses == 0)
    rows = runs.distinct(selected)
    facets = []
    for name, column in runs.labels.items():
        counted = selected if name == SWEEP else rows  # each sweep has all of its runs
        if name in masks:
            counted = np.flatnonzero(misses - ~masks[name] == 0)
            counted = counted if name == SWEEP else runs.distinct(counted)
        chosen = column.count(rows) > 0 if name in masks else np.zeros(len(column.values), bool)
        facet = _describe_facet(name, column, column.count(counted), len(counted), chosen)
        if facet is not None:
            facets.append(facet)
    return {
        "runs": len(rows),
        "with_values": int(runs.has_values[rows].sum()),
        "points": int(runs.points(rows).max(initial=-1)) + 1,
        "sweeps": int((runs.labels[SWEEP].count(selected) > 0).sum()),
        "parameters": facets,
    }


def _describe_facet(
    name: str, column: Column, value_counts: AnyArray, total: int, chosen: AnyArray
) -> dict[str, Any] | None:
    """The values of a label with counts, or their range; None for a label that tells nothing."""
    counts = np.bincount(column.classes, value_counts, minlength=len(column.class_values)).astype(int)
    present = np.flatnonzero(counts)
    if not len(present) or (name in HIDDEN and len(present) == 1):
        return None
    values, label = column.class_values[present], find_label(name)
    facet: dict[str, Any] = {
        "name": name,
        "long_name": index_columns()[name].long_name,
        "symbol": "" if label is None else label.symbol,
        "type": "number" if column.is_number else "text",
        "distinct": len(present),
        "missing": total - int(counts.sum()),
        "range": [plain_value(values[at]) for at in (0, -1)] if column.is_number else None,
        "values": None,
    }
    if len(present) <= MAX_FACET_VALUES:
        selected = np.bincount(column.classes, chosen, minlength=len(counts)) > 0
        facet["values"] = [
            {"value": plain_value(value), "runs": int(counts[at]), "selected": bool(selected[at])}
            for at, value in zip(present, values, strict=True)
        ]  # fmt: skip
    return facet
