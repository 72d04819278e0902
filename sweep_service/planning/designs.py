"""Designs, which turn axes into points: product, zip, scaling, triangle of limits, list of points.

Each design checks a spec, counts its points from the lengths of axes, and makes the points.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np

from sweep_service.errors import InvalidInput, unknown_name
from sweep_service.model.parameters import Scalar
from sweep_service.numerics.types import AnyArray
from sweep_service.planning.axes import CORE_AXES, EXPONENTS, REGIME, convert
from sweep_service.planning.hints import NAME_HINTS
from sweep_service.planning.spec import Multiple, SweepSpec, Triangle

Columns = Mapping[str, Sequence[Scalar]]
Axes = Mapping[str, Sequence[Scalar]]
Fixed = Mapping[str, Scalar]
Row = dict[str, Scalar]

MAX_POINTS = 1_000_000
REQUIRED = (*CORE_AXES, "k")


@dataclass(frozen=True)
class Design:
    """One way to turn axes into points. All functions receive the spec, its axes as lists, and fixed values.

    `find_errors` yields what is wrong; the other functions may assume that there is nothing. `count` is the
    number of points, `largest_p` their largest p, and `make_columns` returns the values of each axis at the
    points.
    """

    find_errors: Callable[[SweepSpec, Axes, Fixed], Iterator[InvalidInput]]
    count: Callable[[SweepSpec, Axes, Fixed], int]
    largest_p: Callable[[SweepSpec, Axes, Fixed], int]
    make_columns: Callable[[SweepSpec, Axes, Fixed], dict[str, list[Scalar]]]


def given_designs(spec: SweepSpec) -> list[str]:
    """Return the names of the designs that a spec gives; a product has none."""
    return [name for name in DESIGNS if name != "product" and getattr(spec, name)]


def find_design_errors(spec: SweepSpec, axes: Axes, fixed: Fixed) -> Iterator[InvalidInput]:
    """Yield the errors of the design of a spec."""
    names = given_designs(spec)
    for name in names[1:]:
        yield InvalidInput(name, "given", f"cannot be combined with {names[0]}: a sweep has one design")
    if len(names) > 1:
        return
    if spec.scaling is None:
        yield from _unwanted(EXPONENTS, spec, "needs scaling: {p0, gamma0}")
    yield from DESIGNS[design_name(spec)].find_errors(spec, axes, fixed)


def design_name(spec: SweepSpec) -> str:
    return next(iter(given_designs(spec)), "product")


def _unwanted(names: Iterable[str], spec: SweepSpec, reason: str) -> Iterator[InvalidInput]:
    for name in names:
        if name in spec.axes or name in spec.fixed:
            yield InvalidInput(f"{'axes' if name in spec.axes else 'fixed'}.{name}", "given", reason)


def _missing(names: Sequence[str], axes: Axes, fixed: Fixed, reason: str) -> Iterator[InvalidInput]:
    for name in names:
        if name not in axes and name not in fixed:
            yield InvalidInput(f"axes.{name}", None, reason)


# ---- product


def _find_product_errors(spec: SweepSpec, axes: Axes, fixed: Fixed) -> Iterator[InvalidInput]:
    yield from _missing(REQUIRED, axes, fixed, "is required, in axes or fixed")


def _count_product(spec: SweepSpec, axes: Axes, fixed: Fixed) -> int:
    return math.prod(map(len, axes.values()))


def _largest_given_p(spec: SweepSpec, axes: Axes, fixed: Fixed) -> int:
    return max(int(p) for p in axes.get("p") or [fixed["p"]])


def _product_columns(spec: SweepSpec, axes: Axes, fixed: Fixed) -> dict[str, list[Scalar]]:
    return _multiply([{name: values} for name, values in axes.items()])


def _multiply(groups: Sequence[Axes]) -> dict[str, list[Scalar]]:
    """Return the columns of a product of groups, whose axes vary together; the last group varies fastest."""
    columns: dict[str, list[Scalar]] = {}
    lengths = [len(next(iter(group.values()))) for group in groups]
    for place, group in enumerate(groups):
        slower, faster = math.prod(lengths[:place]), math.prod(lengths[place + 1 :])
        for name, values in group.items():
            columns[name] = [value for value in values for _ in range(faster)] * slower
    return columns


# ---- zip


def _find_zip_errors(spec: SweepSpec, axes: Axes, fixed: Fixed) -> Iterator[InvalidInput]:
    yield from _find_product_errors(spec, axes, fixed)
    if not spec.zip or not all(spec.zip):
        yield InvalidInput("zip", spec.zip, "must be a list of groups of axes that vary together")
        return
    seen = set[str]()
    for row, group in enumerate(spec.zip):
        for column, name in enumerate(group):
            path = f"zip[{row}][{column}]"
            if name in fixed:
                yield InvalidInput(
                    path, name, "must be an axis with a list of values; a single value applies to all points"
                )
            elif name not in axes:
                yield unknown_name(path, name, axes, NAME_HINTS)
            elif name in seen:
                yield InvalidInput(path, name, "must not name an axis twice")
            seen.add(name)
        lengths = {name: len(axes[name]) for name in group if name in axes}
        if len(set(lengths.values())) > 1:
            listed = ", ".join(f"{name} has {length}" for name, length in lengths.items())
            yield InvalidInput(f"zip[{row}]", group, f"must be axes of equal length: {listed}")


def _zip_groups(spec: SweepSpec, axes: Axes) -> list[list[str]]:
    """Return the groups in the order of the axes; an axis that is not zipped is a group of its own."""
    order, zipped = list(axes), {name for group in spec.zip or () for name in group}
    groups = [sorted(group, key=order.index) for group in spec.zip or ()]
    groups += [[name] for name in order if name not in zipped]
    return sorted(groups, key=lambda group: order.index(group[0]))


def _count_zip(spec: SweepSpec, axes: Axes, fixed: Fixed) -> int:
    return math.prod(len(axes[group[0]]) for group in _zip_groups(spec, axes))


def _zip_columns(spec: SweepSpec, axes: Axes, fixed: Fixed) -> dict[str, list[Scalar]]:
    """Return the product of groups of axes; the axes of a group vary together."""
    return _multiply([{name: axes[name] for name in group} for group in _zip_groups(spec, axes)])


# ---- scaling


def _find_scaling_errors(spec: SweepSpec, axes: Axes, fixed: Fixed) -> Iterator[InvalidInput]:
    yield from _unwanted(("p", "gamma"), spec, "follows from scaling")
    yield from _missing(("d", *EXPONENTS, "k"), axes, fixed, "is required with scaling")


def _scaling_axes(axes: Axes, fixed: Fixed) -> dict[str, Sequence[Scalar]]:
    return {**{name: axes.get(name) or [fixed[name]] for name in ("d", *EXPONENTS)}, **axes}


def _largest_scaled_p(spec: SweepSpec, axes: Axes, fixed: Fixed) -> int:
    """p = p0 d^kappa is largest at the largest exponent, and there at one end of d."""
    assert spec.scaling is not None
    all_axes = _scaling_axes(axes, fixed)
    kappa = max(float(value) for value in all_axes["kappa"])
    dims = [float(value) for value in all_axes["d"]]
    p = max(_scale(spec.scaling.p0, d, kappa, "kappa") for d in (min(dims), max(dims)))
    steps = {_step(spec.scaling.p_multiple_of, {"k": k}) for k in axes.get("k") or [fixed["k"]]}
    return max(_round_to_multiple(p, step) for step in steps)


def _scaling_columns(spec: SweepSpec, axes: Axes, fixed: Fixed) -> dict[str, list[Scalar]]:
    """p = p0 d^kappa, gamma = gamma0 d^-delta."""
    scaling = spec.scaling
    assert scaling is not None
    columns = _product_columns(spec, _scaling_axes(axes, fixed), fixed)
    size = len(columns["d"])

    @cache
    def scale_width(d: Scalar, kappa: Scalar, k: Scalar) -> int:
        width = _scale(scaling.p0, float(d), float(kappa), "kappa")
        return _round_to_multiple(width, _step(scaling.p_multiple_of, {"k": k}))

    @cache
    def scale_rate(d: Scalar, delta: Scalar) -> float:
        return _scale(scaling.gamma0, float(d), -float(delta), "delta")

    p, gamma = list[Scalar](), list[Scalar]()
    k = columns.get("k") or [fixed["k"]] * size
    for values in zip(columns["d"], columns["kappa"], columns["delta"], k, strict=True):
        p.append(scale_width(values[0], values[1], values[3]))
        gamma.append(scale_rate(values[0], values[2]))
    return {**columns, "p": p, "gamma": gamma}


def _scale(factor: float, d: float, exponent: float, field: str) -> float:
    """Return factor d^exponent, or raise InvalidInput if it is not within (1e-15, 1e15)."""
    logarithm = math.log(factor) + exponent * math.log(d)
    if not abs(logarithm) < math.log(1e15):
        raise InvalidInput(f"axes.{field}", exponent, f"gives a value outside (1e-15, 1e15) at d = {d:g}")
    return factor * d**exponent


# ---- triangle


def _find_triangle_errors(spec: SweepSpec, axes: Axes, fixed: Fixed) -> Iterator[InvalidInput]:
    assert spec.triangle is not None
    yield from _unwanted(CORE_AXES, spec, "follows from the triangle")
    yield from _missing(("k",), axes, fixed, "is required, in axes or fixed")
    for k in axes.get("k") or ([fixed["k"]] if "k" in fixed else []):
        d_min, p_min = smallest_d_and_p(spec.triangle, int(k))
        if d_min * p_min > _largest_pd(spec.triangle):
            limit = spec.triangle.gamma_max / (d_min * p_min)
            allowed = f"must be < gamma_max/(p_min d_min) = {limit:.3g}"
            yield InvalidInput("triangle.delta_t", spec.triangle.delta_t, allowed)
            return


def _count_triangle(spec: SweepSpec, axes: Axes, fixed: Fixed) -> int:
    """Count the points; more than `MAX_POINTS` are not counted exactly, as points may coincide."""
    assert spec.triangle is not None
    n = spec.triangle.resolution
    combinations = math.prod(map(len, axes.values()))
    if combinations * (n + 1) * (n + 2) // 2 > MAX_POINTS:
        return combinations * (n + 1) * (n + 2) // 2
    lattices = _lattices(spec, axes, fixed)
    return sum(len(p) for _, p in lattices.values()) * combinations // len(lattices)


def _largest_triangle_p(spec: SweepSpec, axes: Axes, fixed: Fixed) -> int:
    return max(int(p.max()) for _, p in _lattices(spec, axes, fixed).values())


def _triangle_columns(spec: SweepSpec, axes: Axes, fixed: Fixed) -> dict[str, list[Scalar]]:
    """Return the lattice of the triangle at every combination of the other axes."""
    assert spec.triangle is not None
    others = _product_columns(spec, axes, fixed)
    lattices = [_lattices(spec, axes, fixed)[int(k)] for k in others.get("k") or [fixed["k"]]]
    if "k" not in others:
        lattices *= math.prod(map(len, axes.values()))
    d, p = (np.concatenate(sizes) for sizes in zip(*lattices, strict=True))
    columns: dict[str, list[Scalar]] = {
        "d": d.astype(np.int64).tolist(),
        "p": p.astype(np.int64).tolist(),
        "gamma": (spec.triangle.delta_t * p * d).tolist(),
    }
    for name, values in others.items():
        pairs = zip(values, lattices, strict=True)
        columns[name] = [value for value, lattice in pairs for _ in range(len(lattice[0]))]
    return columns


def _lattices(spec: SweepSpec, axes: Axes, fixed: Fixed) -> dict[int, tuple[AnyArray, AnyArray]]:
    """Return d and p of the lattice of each k."""
    assert spec.triangle is not None
    ks = [int(k) for k in axes.get("k") or [fixed["k"]]]
    return {k: _lattice(spec.triangle, k) for k in ks}


@lru_cache(maxsize=16)  # a spec is counted before it is expanded
def _lattice(triangle: Triangle, k: int) -> tuple[AnyArray, AnyArray]:
    """Return d and p of points with the same γ/(pd), once each.

    The smaller of d and p is rounded first; the larger is then limited so that γ <= γ_max.
    """
    step = _step(triangle.p_multiple_of, {"k": k})
    (d_min, p_min), max_pd, n = smallest_d_and_p(triangle, k), _largest_pd(triangle), triangle.resolution
    extent = math.log(max_pd / (d_min * p_min))
    factors = np.array([math.exp(extent * a / n) for a in range(n + 1)])
    a, b = np.nonzero(np.add.outer(np.arange(n + 1), np.arange(n + 1)) <= n)
    d, p = d_min * factors[a], p_min * factors[b]
    rounded_p = np.maximum(1, np.rint(p / step)) * step
    first_d = np.maximum(d_min, np.rint(d))
    is_small = d <= p
    p = np.where(is_small, np.minimum(rounded_p, np.floor(max_pd / first_d / step) * step), rounded_p)
    d = np.where(is_small, first_d, np.minimum(np.rint(d), np.floor(max_pd / rounded_p)))
    pairs = (d + 1j * p)[(d >= d_min) & (p >= p_min)]
    _, first = np.unique(pairs, return_index=True)
    distinct = pairs[np.sort(first)]
    return distinct.real, distinct.imag


def _largest_pd(triangle: Triangle) -> float:
    return triangle.gamma_max / triangle.delta_t * (1.0 + 1e-12)  # the margin absorbs rounding errors


def smallest_d_and_p(triangle: Triangle, k: int) -> tuple[int, int]:
    """Return the smallest d and the smallest p of the triangle."""
    step = _step(triangle.p_multiple_of, {"k": k})
    return triangle.d_min or k + 1, -(-(triangle.p_min or k) // step) * step


# ---- points


def _find_point_errors(spec: SweepSpec, axes: Axes, fixed: Fixed) -> Iterator[InvalidInput]:
    assert spec.points is not None
    reason = "cannot be combined with points (only regime can be an axis)"
    yield from _unwanted((name for name in spec.axes if name != REGIME), spec, reason)
    names = list(dict.fromkeys(name for point in spec.points for name in point))
    if not names:
        yield InvalidInput("points[0]", {}, "must name at least one value")
        return
    for name in names:
        if name in spec.fixed:
            yield InvalidInput(f"fixed.{name}", spec.fixed[name], "is already given in points")
    if REGIME in names:
        yield InvalidInput(
            "points (key)", REGIME, "must be in axes or fixed, because it applies to all points"
        )
    for name in REQUIRED:
        if name not in fixed and name not in names:
            yield InvalidInput(f"points[0].{name}", None, "is required, in points or fixed")
    yield from _find_unequal_points(spec.points)


def _find_unequal_points(points: Sequence[Row]) -> Iterator[InvalidInput]:
    """Yield an error for each name that a point lacks, or has alone."""
    counts = Counter(name for point in points for name in point)
    usual = {name for name, count in counts.items() if 2 * count >= len(points)}
    for row, point in enumerate(points):
        for name in counts:
            if name in usual and name not in point:
                yield InvalidInput(f"points[{row}].{name}", None, "is required, because other points have it")
            if name in point and name not in usual:
                allowed = "must be given in all points or in none"
                yield InvalidInput(f"points[{row}].{name}", point[name], allowed)


def _count_points(spec: SweepSpec, axes: Axes, fixed: Fixed) -> int:
    return len(spec.points or ())


def _largest_point_p(spec: SweepSpec, axes: Axes, fixed: Fixed) -> int:
    return max(int(point.get("p", fixed.get("p", 1))) for point in spec.points or ())


def _point_columns(spec: SweepSpec, axes: Axes, fixed: Fixed) -> dict[str, list[Scalar]]:
    assert spec.points is not None
    return {name: [convert(name, point[name]) for point in spec.points] for name in spec.points[0]}


def _step(multiple: Multiple, values: Mapping[str, Scalar]) -> int:
    return int(values["k"]) if multiple == "k" else int(multiple)


def _round_to_multiple(value: float, step: int) -> int:
    """Return the nearest positive multiple of `step`."""
    return max(1, round(value / step)) * step


DESIGNS: dict[str, Design] = {
    "product": Design(_find_product_errors, _count_product, _largest_given_p, _product_columns),
    "zip": Design(_find_zip_errors, _count_zip, _largest_given_p, _zip_columns),
    "scaling": Design(_find_scaling_errors, _count_product, _largest_scaled_p, _scaling_columns),
    "triangle": Design(_find_triangle_errors, _count_triangle, _largest_triangle_p, _triangle_columns),
    "points": Design(_find_point_errors, _count_points, _largest_point_p, _point_columns),
}
