"""Run keys: digests of everything that the values of a run depend on, and of nothing else.

Runs with equal keys have equal values. They are computed once, within a sweep and over all sweeps.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat
from typing import Any, TypeVar

import numpy as np

from sweep_service.abandonment import check_abandoned
from sweep_service.by_value import entry_version
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.errors import InvalidInput
from sweep_service.identity import Key, KeyTemplate, canonical_json
from sweep_service.model.initial import Shape
from sweep_service.model.parameters import FIRST_PARAMETERS, PARAMETERS
from sweep_service.model.point import Point
from sweep_service.numerics.types import AnyArray
from sweep_service.planning.columns.groups import PerPoint, evaluate
from sweep_service.planning.grids import Grid
from sweep_service.planning.runs import Kind
from sweep_service.plugins import find_plugin
from sweep_service.registries import REGISTRIES, EntryKey, has_built_in
from sweep_service.simulators.selection import SIMULATORS

KEY_DTYPE = np.dtype("V16")  # half of a SHA-256, enough to avoid collisions among 1e12 runs
KEY_NUMBERS = tuple(name for name in FIRST_PARAMETERS if PARAMETERS[name].kind != "text")
SIZES = ("d", "p", "k")  # of a start
BLOCK_SIZE = 1 << 16  # points whose texts are in memory at once
ACTIVATION_PARAMETERS = ("activation", "teacher_activation")
AUTO = "auto"
Item = TypeVar("Item")
EntryVersions = Mapping[EntryKey, str]


def run_keys(grid: Grid) -> dict[Kind, AnyArray]:
    """Return the key of each run, by kind, in the order of run numbers.

    Entries of plugins enter with their versions, so that those of runs without any stay as they are.
    """
    added = entry_versions(grid)
    times = Key.of(times=grid.times).digest
    return {"sgd": sgd_keys(grid, added)[-1], "ode": _ode_keys(grid, times, added)}


def sgd_keys(grid: Grid, added: EntryVersions | None = None) -> list[AnyArray]:
    """Return the keys of SGD runs that end with each segment of the times; the last are those of the grid.

    The key of a continued run names that of the run that it continues. `added` are the versions of the
    entries of plugins, if they are known.
    """
    if grid.simulators is None:
        return [np.empty(0, KEY_DTYPE)] * (1 + len(grid.segments))
    parts = [Key.of(times=times).digest for times in np.split(grid.times, grid.segments)]
    keys = [_stream_keys(grid, parts[0], entry_versions(grid) if added is None else added)]
    for times in parts[1:]:
        keys.append(_continued_keys(grid, keys[-1], times))
    return keys


def _simulator_texts(grid: Grid, times: str) -> list[bytes]:
    """Return the end of the content of run keys, for each simulator."""
    assert grid.simulators is not None
    return [f"{times}/{name}/{SIMULATORS[name].version}".encode() for name in grid.simulators.values]


def _continued_keys(grid: Grid, earlier: AnyArray, times: str) -> AnyArray:
    """Return the keys of runs that continue those with the keys `earlier`."""
    assert grid.simulators is not None
    runs_per_point = len(grid.seeds) * len(grid.repeats)
    ends, group = _simulator_texts(grid, times), np.repeat(grid.simulators.group, runs_per_point)
    keys = np.empty_like(earlier)
    for block in _blocks(len(earlier)):
        texts = [key.hex().encode() for key in earlier[block].tolist()]
        keys[block] = _digest(b"continued sgd", texts, _take(ends, group[block]))
    return keys


def _stream_keys(grid: Grid, times: str, added: EntryVersions) -> AnyArray:
    assert grid.simulators is not None
    ends, group = _simulator_texts(grid, times), grid.simulators.group
    templates = evaluate(grid, partial(_stream_template, grid, added))
    keys = np.empty((len(grid), len(grid.seeds), len(grid.repeats)), KEY_DTYPE)
    for seed_place, seed in enumerate(grid.seeds):
        for repeat_place, number in enumerate(grid.repeats):
            streams = _digest_contents(grid, templates, {"seed": seed, "repeat": number})
            for block in _blocks(len(grid)):
                columns = streams.take(block), _take(ends, group[block])
                keys[block, seed_place, repeat_place] = _digest(b"sgd", *columns)
    return keys.reshape(-1)


def _ode_keys(grid: Grid, times: str, added: EntryVersions) -> AnyArray:
    if not grid.regimes:
        return np.empty(0, KEY_DTYPE)
    without, options = (
        Key.of(options=options.content()).digest
        for options in (replace(grid.options, fluctuations=False), grid.options)
    )
    start_templates = evaluate(grid, partial(_start_template, grid))
    parameters = [
        _digest_contents(grid, evaluate(grid, partial(_parameter_template, grid, added, regime)), {})
        for regime in grid.regimes
    ]
    keys = np.empty((len(grid), len(grid.regimes), len(grid.seeds)), KEY_DTYPE)
    for seed_place, seed in enumerate(grid.seeds):
        starts = _digest_contents(grid, start_templates, {"seed": seed})
        for regime_place, regime in enumerate(grid.regimes):
            used = options if regime in REGIMES and REGIMES[regime].has_fluctuations else without
            end = f"{used}/{times}/{regime_version(regime)}".encode()
            for block in _blocks(len(grid)):
                columns = parameters[regime_place].take(block), starts.take(block), repeat(end)
                keys[block, regime_place, seed_place] = _digest(f"ode/{regime}".encode(), *columns)
    return keys.reshape(-1)


def _stream_template(grid: Grid, added: EntryVersions, point: Point) -> KeyTemplate:
    """Return the template of `stream_key`, with the entries of plugins that the runs use."""
    content = {**_constant_content(grid, point, ()), "init": point.init.digest}
    content |= _added_content(added, point, None)
    return KeyTemplate(content, (*_varying_numbers(grid), "seed", "repeat"))


def _parameter_template(grid: Grid, added: EntryVersions, regime: str, point: Point) -> KeyTemplate:
    """Return the template of the parameters that a regime depends on, apart from its start.

    A regime that does not depend on d is computed once for all d.
    """
    ignored = REGIMES[regime].ignored_parameters(grid.options) if regime in REGIMES else ()
    varying = [name for name in _varying_numbers(grid) if name not in ignored]
    content = _constant_content(grid, point, ignored) | _added_content(added, point, regime)
    return KeyTemplate(content, varying)


def _start_template(grid: Grid, point: Point) -> KeyTemplate:
    """Return the template of `Init.key`, which has no d if the overlaps are shared over d, or explicit."""
    # Sizes that vary are not read, because the template is the same for all of them.
    shape = Shape(*(0 if name in grid.axes else point[name] for name in SIZES))
    content = point.init.key_content(shape, 0)
    varying = [name for name in SIZES if name in grid.axes and content[name] is not None]
    return KeyTemplate(content, (*varying, "seed"))


def entry_versions(grid: Grid) -> dict[EntryKey, str]:
    """Return the versions of the registered entries that a grid uses and that are not of this package."""
    names = [("init", str(grid.structures.get("init", {}).get("kind")))]
    names += [("observable", name) for name in grid.observables]
    for parameter in ACTIVATION_PARAMETERS:
        used = grid.axes.get(parameter) or [grid.fixed.get(parameter, "")]
        names += [("activation", str(name)) for name in used]
    names += [("regime", name) for regime in grid.regimes for name in _possible_regimes(regime)]
    known = (key for key in dict.fromkeys(names) if key[1] in REGISTRIES[key[0]])
    return {key: version for key in known if (version := entry_version(*key))}


def refuse_local_entries(grid: Grid) -> None:
    """Refuse a grid with entries of this process for workers that it has not started."""
    for kind, name in entry_versions(grid):
        if find_plugin(kind, name) is None:
            raise InvalidInput(
                kind,
                name,
                "is registered in this process only, and not sent to a cluster that it did not start: make "
                "it a plugin of this process and of all workers, or leave out the scheduler",
            )


def _added_content(added: EntryVersions, point: Point, regime: str | None) -> dict[str, Any]:
    """Return what the key of a run contains for entries of plugins: nothing if it uses none.

    An observable of a plugin is in the keys of all runs of its sweep, because they store its values.
    """
    if not added:
        return {}
    activations = {("activation", str(point[name])) for name in ACTIVATION_PARAMETERS}
    regimes = {("regime", name) for name in (_possible_regimes(regime) if regime else ())}
    used = {
        f"{kind} {name}": version
        for (kind, name), version in added.items()
        if kind in ("init", "observable") or (kind, name) in activations | regimes
    }
    return {"entries": used} if used else {}


def _possible_regimes(name: str) -> Iterable[str]:
    """Return the regimes that a name may stand for: auto chooses among those of the package."""
    return (name,) if name != AUTO else (known for known in REGIMES if has_built_in("regime", known))


def _varying_numbers(grid: Grid) -> list[str]:
    return [name for name in KEY_NUMBERS if name in grid.axes]


def _constant_content(grid: Grid, point: Point, ignored: Collection[str]) -> dict[str, Any]:
    """Return `Point.content` without the numbers that vary, and without ignored parameters."""
    left_out = {*ignored, *_varying_numbers(grid)}
    content = {name: point[name] for name in FIRST_PARAMETERS if name not in left_out}
    return content | {name: point.non_default[name] for name in point.non_default.keys() - left_out}


@dataclass(frozen=True)
class Digests:
    """Different digests, and which of them belongs to each point."""

    texts: AnyArray  # of 64 bytes
    group: AnyArray

    def take(self, block: slice) -> list[bytes]:
        return self.texts[self.group[block]].tolist()


def _digest_contents(grid: Grid, templates: PerPoint[KeyTemplate], constant: Mapping[str, int]) -> Digests:
    """Digest the content at each point; `constant` holds entries that are the same at all points."""
    names = {name for template in templates.values for name in template.varying} - constant.keys()
    groups = grid.group_points(templates.axes | names)
    columns = {name: _number_texts(grid, name, groups.first) for name in names}
    same = {name: canonical_json(value) for name, value in constant.items()}
    digests, template = np.empty(len(groups.first), "S64"), templates.group[groups.first]
    order = np.argsort(template, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(template[order])) + 1):
        texts: dict[str, Iterable[str]] = {name: repeat(text, len(rows)) for name, text in same.items()}
        texts |= {name: _take(column, rows) for name, column in columns.items()}
        joined = "".join(templates.values[template[rows[0]]].digests(texts))
        digests[rows] = np.frombuffer(joined.encode(), digests.dtype)
    return Digests(digests, groups.of_point)


def _number_texts(grid: Grid, name: str, points: AnyArray) -> list[str]:
    """Return the canonical text of a parameter at some points."""
    values, read = grid.values(name, points), PARAMETERS[name].read
    texts = {value: canonical_json(read(value, name)) for value in set(values)}
    return [texts[value] for value in values]


def _take(items: Sequence[Item], positions: AnyArray) -> Iterator[Item]:
    return map(items.__getitem__, positions.tolist())


def _blocks(size: int) -> Iterator[slice]:
    """Yield slices of a long column, because lists of its texts would take much memory."""
    for start in range(0, size, BLOCK_SIZE):
        check_abandoned()
        yield slice(start, start + BLOCK_SIZE)


def _digest(first: bytes, *columns: Iterable[bytes]) -> AnyArray:
    """Return the key of each row of columns of texts."""
    rows = map(b"/".join, zip(repeat(first), *columns, strict=False))
    digests = b"".join([hashlib.sha256(row).digest() for row in rows])
    return np.frombuffer(digests, KEY_DTYPE)[:: hashlib.sha256().digest_size // KEY_DTYPE.itemsize]


def regime_version(name: str) -> int:
    """Return the version of a regime. That of auto, which may choose any regime, rises with each of them."""
    if name in REGIMES:
        return REGIMES[name].version
    return 1 + sum(regime.version - 1 for regime in REGIMES.values())


def as_integers(keys: AnyArray) -> AnyArray:
    """Return keys as pairs of integers, which NumPy sorts and compares much faster than bytes."""
    return np.ascontiguousarray(keys).view("<u8").reshape(-1, 2)


def match_keys(ours: AnyArray, theirs: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Return the positions of the keys that both columns have, in each; ours are all different."""
    groups = CopyGroups(np.concatenate([ours, theirs]))
    is_ours = groups.first < len(ours)  # the first of equal keys
    sizes = np.diff(groups.begin)
    shared = np.flatnonzero(is_ours & (sizes > 1))
    return groups.first[shared], groups.order[groups.begin[shared] + 1] - len(ours)


class CopyGroups:
    """Groups of runs of a sweep with equal keys, which are computed once and stored for each copy."""

    def __init__(self, keys: AnyArray) -> None:
        halves = as_integers(keys)
        self.order = np.lexsort(halves.T)  # stable, so that copies stay in the order of their numbers
        is_first = np.ones(len(keys), bool)
        is_first[1:] = np.any(np.diff(halves[self.order], axis=0), axis=1)
        self.begin = np.append(np.flatnonzero(is_first), len(keys))
        self.first, self.group = self.order[is_first], np.empty(len(keys), np.int64)
        self.group[self.order] = np.cumsum(is_first) - 1

    def first_runs(self) -> AnyArray:
        """Return the number of the first run of each key."""
        return np.sort(self.first)

    def expand(self, numbers: AnyArray) -> tuple[AnyArray, AnyArray]:
        """Return, for all copies of computed runs, the rows of their values and their run numbers."""
        groups = self.group[numbers]
        counts = self.begin[groups + 1] - self.begin[groups]
        rows = np.repeat(np.arange(len(numbers)), counts)
        offset = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        return rows, self.order[self.begin[groups][rows] + offset]
