"""Extends a spec by more values of axes, points, seeds and observables, and by later times.

Everything else stays as it is, because a change would make the stored runs useless. Axes of numbers stay
sorted, so that slices and plots of the new dataset work. Names, and points, are appended.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from sweep_service.errors import ErrorCollector, InvalidInput
from sweep_service.model.parameters import PARAMETERS, Scalar
from sweep_service.model.structures import default_number, find_number, remove_number, split_name
from sweep_service.planning.axes import (
    MAX_VALUES,
    Axis,
    holds_names,
    list_values,
    read_axes,
    read_entries,
)
from sweep_service.planning.outline import OVERLAPS, Outline
from sweep_service.planning.spec import MAX_LAST_TIME, SweepSpec, read_point_list, read_seed_list
from sweep_service.planning.spec_text import locating_errors, parse_text
from sweep_service.validation import read_integer, read_number, reject_unknown_keys

CHANGE_FIELDS = ("name", "axes", "points", "seeds", "time", "observables")


def extend_spec(spec: SweepSpec, change: str | bytes, name: str | None = None) -> SweepSpec:
    """Return a spec with the values of `change` (JSON or YAML) added.

    Parameters
    ----------
    spec
        The spec to extend.
    change
        A mapping with keys from `CHANGE_FIELDS`.
    name
        Name of the new spec. By default that in `change`, or that of `spec`.

    Raises
    ------
    InvalidInput
        Names the field that is wrong, its value and what is allowed; `InvalidSpec` if there are several.
    """
    with locating_errors(change):
        more = parse_text(change, "change")
        if not isinstance(more, Mapping):
            raise InvalidInput("change", more, f"must be a mapping with keys from {', '.join(CHANGE_FIELDS)}")
        content = json.loads(spec.model_dump_json())
        content["name"] = more.get("name", spec.name) if name is None else name
        errors = ErrorCollector()
        with errors.catch():
            reject_unknown_keys(more, CHANGE_FIELDS, "change")
        with errors.catch():
            content |= _merge_axes(spec, read_axes(more.get("axes", {})))
        with errors.catch():
            content["seeds"] = _merge_seeds(spec, more.get("seeds", {}))
        with errors.catch():
            content["time"] = _append_times(spec, more.get("time"))
        with errors.catch():
            content["points"] = _merge_points(spec, read_point_list(more.get("points")))
        with errors.catch():
            content["observables"] = _merge_observables(spec, more.get("observables"))
        errors.raise_errors()
        return SweepSpec.parse(content)


def current_values(spec: SweepSpec, name: str) -> list[Scalar]:
    """Return the values of a name in a spec: those of its axis, a single value, or a default."""
    given = spec.axes.get(name, spec.fixed.get(name, find_number(spec.structures, name)))
    if given is not None:
        return list_values(name, given)
    if split_name(name) is not None:
        default = default_number(spec.structures, name)
        return [] if default is None else [default]
    if name not in PARAMETERS:
        return []
    parameter = PARAMETERS[name]
    if parameter.default_from:
        return current_values(spec, parameter.default_from)
    return [] if parameter.default is None else [parameter.default]


def _merge_axes(spec: SweepSpec, new: Mapping[str, Axis]) -> dict[str, Any]:
    """Return `axes`, `fixed` and structured parameters with more values; a single value becomes an axis."""
    axes = dict(spec.axes)
    zipped = {name for group in spec.zip or () for name in group}
    for name, axis in new.items():
        old_values, new_values = current_values(spec, name), list_values(name, axis)
        if name not in zipped and not set(new_values) <= set(old_values):
            axes[name] = _merge_values(name, old_values, new_values)
    for group in spec.zip or ():
        axes |= _merge_zipped(spec, group, new)
    structures = spec.structures
    for name in axes:
        structures = remove_number(structures, name)
    fixed = {name: value for name, value in spec.fixed.items() if name not in axes}
    return {"axes": axes, "fixed": fixed, **structures}


def _merge_values(name: str, old: Sequence[Scalar], new: Sequence[Scalar]) -> list[Scalar]:
    """Return all values once: names in the order of appearance, numbers sorted in the direction of `old`."""
    values = list(dict.fromkeys([*old, *new]))
    if holds_names(name):
        return values
    return sorted(values, reverse=_is_descending([float(value) for value in old]))


def _is_descending(values: Sequence[float]) -> bool:
    return len(values) > 1 and all(first > second for first, second in pairwise(values))


def _merge_zipped(spec: SweepSpec, group: Sequence[str], new: Mapping[str, Axis]) -> dict[str, list[Scalar]]:
    """Append rows of axes that vary together, each row once."""
    given = [name for name in group if name in new]
    if not given:
        return {}
    for name in group:
        if name not in new:
            raise InvalidInput(f"axes.{name}", None, f"is required, because it is zipped with {given[0]}")
    columns = {name: list_values(name, new[name]) for name in group}
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise InvalidInput("axes", group, f"must have equally many values of axes that are zipped: {listed}")
    old_rows = zip(*(current_values(spec, name) for name in group), strict=True)
    rows = dict.fromkeys([*old_rows, *zip(*columns.values(), strict=True)])
    return {name: [row[column] for row in rows] for column, name in enumerate(group)}


def _merge_seeds(spec: SweepSpec, new: Any) -> dict[str, list[int]]:
    new = new if isinstance(new, Mapping) else {"init": new}
    reject_unknown_keys(new, ("init", "repeat"), "seeds")
    added = {"init": [], "repeat": [], **read_entries(new, "seeds", read_seed_list)}
    merged = {}
    for name, seeds in added.items():
        old = getattr(spec.seeds, name)
        merged[name] = old if set(seeds) <= set(old) else sorted({*old, *seeds}, reverse=_is_descending(old))
    return merged


def _append_times(spec: SweepSpec, new: Any) -> dict[str, Any]:
    """Return the section `time` with log-spaced times beyond its last one.

    By default there are as many per decade as there are between the first and the last time now.
    """
    content: dict[str, Any] = spec.time.model_dump()
    if new is None:
        return content
    if not isinstance(new, Mapping):
        raise InvalidInput("time", new, "must be a mapping, such as {max: 1000, samples: 40}")
    reject_unknown_keys(new, ("max", "samples"), "time")
    if "max" not in new:
        raise InvalidInput("time.max", None, "is required")
    last = read_number(new["max"], "time.max", above=0.0, most=MAX_LAST_TIME)
    if last == spec.time.last and "samples" not in new:
        return content
    if last <= spec.time.last:
        raise InvalidInput("time.max", last, f"must be > {spec.time.last:g}, the last time of the sweep")
    samples = new.get("samples", _default_samples(spec, last))
    later = {"max": last, "samples": read_integer(samples, "time.samples", 1, MAX_VALUES)}
    return {**content, "then": [*content["then"], later]}


def _default_samples(spec: SweepSpec, last: float) -> int:
    """Return the number of samples up to a later time at the present number per decade."""
    time = spec.time
    decades = math.log10(time.last / float(time.times()[1]))
    if decades <= 0.0:
        return 1
    per_decade = (time.samples - 1 + sum(later.samples for later in time.then)) / decades
    return min(MAX_VALUES, max(1, round(per_decade * math.log10(last / time.last))))


def _merge_points(spec: SweepSpec, new: list[dict[str, Scalar]] | None) -> list[dict[str, Scalar]] | None:
    if new is None:
        return spec.points
    if spec.points is None:
        raise InvalidInput("points", "given", "can only be added to a sweep whose design is points")
    return list({tuple(sorted(point.items())): point for point in [*spec.points, *new]}.values())


def _merge_observables(spec: SweepSpec, new: Any) -> list[str] | None:
    """Return the observables of the spec and the new ones; None where both are the defaults."""
    if new is None:
        return spec.observables
    if not isinstance(new, list) or not all(isinstance(name, str) for name in new):
        raise InvalidInput("observables", new, "must be a list of names")
    outline = Outline.of(spec)
    stored = [*outline.observables, *([OVERLAPS] if outline.overlaps else [])]
    return spec.observables if set(new) <= set(stored) else list(dict.fromkeys([*stored, *new]))
