"""The outline of a sweep: what follows from its spec without expanding the points.

It checks what the fields of a spec must satisfy together, and counts points, runs and bytes from the lengths
of axes, so that a sweep that is too large is refused before any work is done for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count, islice
from typing import Any

import numpy as np

from sweep_service.dynamics.fluctuations.requirements import NEEDED_REGIME, any_with_fluctuations
from sweep_service.dynamics.options import RegimeOptions
from sweep_service.errors import ErrorCollector, InvalidInput, unknown_name
from sweep_service.model.observables import OBSERVABLES, select_observables
from sweep_service.model.parameters import PARAMETERS, Scalar
from sweep_service.model.point import Point
from sweep_service.model.structures import STRUCTURES, find_number, insert_numbers, number_names
from sweep_service.numerics.types import Array
from sweep_service.planning.axes import (
    CORE_AXES,
    POINT,
    REGIME,
    Spaced,
    axis_names,
    axis_sort_key,
    convert,
    join_path,
    list_values,
)
from sweep_service.planning.designs import DESIGNS, Design, design_name, find_design_errors
from sweep_service.planning.growth.target_error import MIN_PILOT
from sweep_service.planning.hints import NAME_HINTS
from sweep_service.planning.spec import FINAL_RISK, SweepSpec, TargetError
from sweep_service.planning.spec_text import locating_errors, parse_text

SpecSource = SweepSpec | Mapping[str, Any] | str | bytes
OVERLAPS = "overlaps"  # listed among the observables of a spec to store M and Q, or q
MAX_DEFAULT_OVERLAPS = 256  # overlaps per sample up to which they are stored by default


@dataclass(frozen=True)
class Outline:
    """A checked spec: axes as lists, single values, and everything else that is the same at all points.

    It has the attributes of a grid that do not need its points.
    """

    spec: SweepSpec
    axes: Mapping[str, list[Scalar]]  # of the points, so without the regime
    fixed: Mapping[str, Scalar]
    structures: Mapping[str, Any]  # as written: init, teacher, second_layer, schedule
    regimes: tuple[str, ...]
    times: Array
    observables: tuple[str, ...]
    options: RegimeOptions
    segments: tuple[int, ...] = ()  # numbers of samples after which runs continue, see `Time.then`

    @classmethod
    def of(cls, spec: SweepSpec) -> Outline:
        """Check a spec.

        Raises
        ------
        InvalidInput
            Names the field that is wrong, its value and what is allowed; `InvalidSpec` if there are several.
        """
        errors = ErrorCollector()
        axes, fixed, structures = _split_axes(spec)
        regimes = tuple(str(name) for name in axes.pop(REGIME, []))
        errors.add_all(_find_name_errors(spec))
        if not errors.errors:  # unknown names would make others seem to be missing
            errors.add_all(_find_regime_errors(spec, regimes))
            errors.add_all(find_design_errors(spec, axes, fixed))
        errors.add_all(_find_observable_errors(spec))
        errors.add_all(_find_target_errors(spec))
        with errors.catch():
            parts = spec.time.parts()
        with errors.catch():
            options = replace(RegimeOptions.parse(spec.regime_options), fluctuations=spec.fluctuations)
        if errors.errors:
            errors.add_all(_find_structure_errors(structures, axes, fixed))
        errors.raise_errors()
        names = spec.observables
        observables = select_observables(names and [name for name in names if name != OVERLAPS])
        ends = tuple(np.cumsum([len(part) for part in parts])[:-1].tolist())
        times = np.concatenate(parts)
        return cls(spec, axes, fixed, structures, regimes, times, observables, options, ends)

    @classmethod
    def read(cls, source: SpecSource) -> Outline:
        """Read a spec from a mapping or from JSON or YAML, and check it; raises all errors at once."""
        with locating_errors(source):
            content = parse_text(source) if isinstance(source, (str, bytes)) else source
            try:
                spec = SweepSpec.parse(content)
            except InvalidInput as error:
                if isinstance(content, Mapping):
                    _add_later_errors(error, content).raise_errors()
                raise
            return cls.of(spec)

    @property
    def design(self) -> Design:
        return DESIGNS[design_name(self.spec)]

    @property
    def is_product(self) -> bool:
        return design_name(self.spec) == "product"

    @property
    def simulate(self) -> bool:
        return self.spec.simulate

    @property
    def target(self) -> TargetError | None:
        return self.spec.target_error

    @property
    def pilot(self) -> int:
        """The number of seeds of every point; with a target error, others may follow."""
        return len(self.spec.seeds.init)

    @cached_property
    def seeds(self) -> tuple[int, ...]:
        """All seeds for which there is room: those of the spec, then the smallest unused ones."""
        given = self.spec.seeds.init
        room = self.pilot if self.target is None else max(self.pilot, self.target.max_seeds)
        used = set(given)
        return (*given, *islice((seed for seed in count() if seed not in used), room - self.pilot))

    @property
    def repeats(self) -> tuple[int, ...]:
        return tuple(self.spec.seeds.repeat)

    @property
    def keep_state(self) -> bool | None:
        return self.spec.keep_state

    @cached_property
    def point_count(self) -> int:
        return self.design.count(self.spec, self.axes, self.fixed)

    def __len__(self) -> int:
        return self.point_count

    @property
    def dims(self) -> tuple[str, ...]:
        if not self.is_product:
            return (POINT,)
        return (*CORE_AXES, *(name for name in self.axes if name not in CORE_AXES))

    @property
    def shape(self) -> tuple[int, ...]:
        if not self.is_product:
            return (self.point_count,)
        return tuple(len(self.axes.get(name, [None])) for name in self.dims)

    @cached_property
    def largest_p(self) -> int:
        """The largest p of all points; one above the bound of p is rejected at its point."""
        bound = PARAMETERS["p"].most
        p = self.design.largest_p(self.spec, self.axes, self.fixed)
        return p if bound is None else min(p, int(bound))

    @cached_property
    def largest_k(self) -> int:
        given = [point["k"] for point in self.spec.points or () if "k" in point]
        return max(int(k) for k in [*given, *self.axes.get("k", []), self.fixed.get("k", 1)])

    @property
    def overlaps(self) -> bool:
        """Whether the overlaps are stored."""
        if self.spec.observables is not None:
            return OVERLAPS in self.spec.observables
        return count_overlaps(self.largest_p, self.largest_k) <= MAX_DEFAULT_OVERLAPS


def count_overlaps(p: int, k: int) -> int:
    """Count the different numbers of M and Q."""
    return p * k + p * (p + 1) // 2


def _split_axes(spec: SweepSpec) -> tuple[dict[str, list[Scalar]], dict[str, Scalar], dict[str, Any]]:
    """Return axes as lists, single values and structured parameters."""
    axes: dict[str, list[Scalar]] = {}
    fixed: dict[str, Scalar] = {}
    for name, axis in spec.axes.items():
        values = list_values(name, axis)
        if isinstance(axis, (list, Spaced)) or name == REGIME:
            axes[name] = values
        else:
            fixed[name] = values[0]
    for name, value in spec.fixed.items():
        if name == REGIME:
            axes.setdefault(name, [value])
        elif name not in axes:
            fixed[name] = convert(name, value)
    numbers = {name: fixed.pop(name) for name in list(fixed) if name in number_names(spec.structures)}
    structures = insert_numbers(spec.structures, numbers)
    return {name: axes[name] for name in sorted(axes, key=axis_sort_key)}, fixed, structures


def _find_name_errors(spec: SweepSpec) -> Iterator[InvalidInput]:
    """Yield the errors of names: unknown, given twice, or with a value twice."""
    if spec.init.get("kind") == "weights":
        yield InvalidInput("init.kind", "weights", "is only for Python: give a sweep the overlaps instead")
    known = axis_names(spec.structures)
    points = dict.fromkeys(name for point in spec.points or () for name in point)
    for field, names in (("axes", spec.axes), ("fixed", spec.fixed), ("points", points)):
        yield from (unknown_name(f"{field} (key)", n, known, NAME_HINTS) for n in names if n not in known)
    for name in spec.fixed:
        if name in spec.axes:
            yield InvalidInput(f"fixed.{name}", spec.fixed[name], "is already an axis")
    for name in (*spec.axes, *spec.fixed):
        if find_number(spec.structures, name) is not None:
            yield InvalidInput(name, "given", f"is already in {name.partition('.')[0]}")
    zipped = {name for group in spec.zip or () for name in group}
    for name, axis in spec.axes.items():
        values = list_values(name, axis)
        if name not in zipped and len(set(values)) != len(values):
            yield InvalidInput(f"axes.{name}", values, "must not repeat a value")


def _find_regime_errors(spec: SweepSpec, regimes: tuple[str, ...]) -> Iterator[InvalidInput]:
    if not regimes and not spec.simulate:
        allowed = "leaves nothing to compute: add a regime to axes, or set simulate to true"
        yield InvalidInput("simulate", False, allowed)
    if spec.fluctuations and not any_with_fluctuations(regimes):
        yield InvalidInput("fluctuations", True, NEEDED_REGIME)


def _find_observable_errors(spec: SweepSpec) -> Iterator[InvalidInput]:
    known = (*OBSERVABLES, OVERLAPS)
    for row, name in enumerate(spec.observables or ()):
        if name not in known:
            yield unknown_name(f"observables[{row}]", name, known)


def _find_target_errors(spec: SweepSpec) -> Iterator[InvalidInput]:
    """Yield what prevents a target error."""
    target = spec.target_error
    if target is None:
        return
    if not spec.simulate:
        yield InvalidInput("target_error", "given", "needs runs of SGD, but simulate is false")
    if (target.relative is None) == (target.absolute is None):
        given = "both" if target.relative is not None else None
        yield InvalidInput("target_error", given, "must have one of relative and absolute")
    pilot = len(spec.seeds.init)
    if pilot < MIN_PILOT:
        allowed = f"must be at least {MIN_PILOT} initial conditions, the pilot of target_error"
        yield InvalidInput("seeds.init", pilot, allowed)
    if target.max_seeds < pilot:
        allowed = f"must be at least the {pilot} initial conditions of the pilot"
        yield InvalidInput("target_error.max_seeds", target.max_seeds, allowed)
    stored = [name for name in spec.observables or OBSERVABLES if name in OBSERVABLES]
    if spec.observables is None:
        stored = list(select_observables(None))
    known = dict.fromkeys([FINAL_RISK, "risk", *(name for name in stored if not OBSERVABLES[name].dims)])
    if target.value not in known:
        yield unknown_name("target_error.value", target.value, known)


def _find_structure_errors(
    structures: Mapping[str, Any], axes: Mapping[str, list[Scalar]], fixed: Mapping[str, Scalar]
) -> Iterator[InvalidInput]:
    """Yield the errors of structured parameters at the first point, if its shape is known."""
    sizes = [axes[name][0] if name in axes else fixed.get(name) for name in ("d", "p", "k")]
    if None in sizes:
        return
    numbers = {name: axes[name][0] for name in axes if name in number_names(structures)}
    shape = dict(zip(("d", "p", "k"), sizes, strict=True))
    try:
        Point.parse({**shape, "gamma": 1.0, **insert_numbers(structures, numbers)})
    except InvalidInput as error:  # an error of another field depends on the point, and is reported there
        yield from (item for item in error.errors if item.field.partition(".")[0] in STRUCTURES)


def _add_later_errors(error: InvalidInput, content: Mapping[str, Any]) -> ErrorCollector:
    """Add the errors that the valid fields of a spec have to those of its invalid fields."""
    errors = ErrorCollector()
    errors.add(error)
    spec, left_out = SweepSpec.parse_valid_fields(content)
    try:
        Outline.of(spec)
    except InvalidInput as later:
        errors.add_all(item for item in later.errors if not _depends_on(item.field, left_out))
    return errors


def _depends_on(field: str, left_out: set[str]) -> bool:
    """Whether an error of a field may only be due to the fields that were left out."""
    name = field.partition(".")[2] if field.startswith(("axes.", "fixed.")) else field
    top = field.partition(".")[0].partition("[")[0].partition(" ")[0]
    is_design = top in ("zip", "points", "scaling", "triangle", "simulate")
    if top in left_out or (is_design and any(path.startswith(("axes", "fixed")) for path in left_out)):
        return True
    return any(join_path(parent, name) in left_out or parent in left_out for parent in ("axes", "fixed"))
