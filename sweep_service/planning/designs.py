"""Designs, which turn axes into points: product, zip, scaling, triangle of limits, list of points."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache, partial
from itertools import product
from typing import TYPE_CHECKING

from sweep_service.errors import InvalidInput, unknown_name

if TYPE_CHECKING:
    from sweep_service.model.parameters import Scalar
    from sweep_service.planning.spec import Multiple, SweepSpec, Triangle

Columns = Mapping[str, Sequence["Scalar"]]

MAX_POINTS = 1_000_000


def expand_design(
    spec: SweepSpec, axes: dict[str, list[Scalar]], fixed: dict[str, Scalar]
) -> tuple[bool, dict[str, list[Scalar]]]:
    """Return (True, axes) for a product, else (False, columns of the points)."""
    designs = [name for name in ("zip", "scaling", "triangle", "points") if getattr(spec, name)]
    if len(designs) > 1:
        raise InvalidInput(
            designs[1], "given", f"cannot be combined with {designs[0]}: a sweep has one design"
        )
    if spec.scaling is None:
        for name in ("kappa", "delta"):
            if name in axes or name in fixed:
                raise InvalidInput(f"axes.{name}", "given", "needs scaling: {p0, gamma0}")
    if not designs:
        _check_point_count(math.prod(map(len, axes.values())))
        return True, axes
    make_rows = {
        "zip": _zip_rows,
        "scaling": _scaling_rows,
        "triangle": _triangle_rows,
        "points": _point_rows,
    }
    rows = make_rows[designs[0]](spec, axes, fixed)
    _check_point_count(len(rows))
    return False, {name: [row[name] for row in rows] for name in rows[0]}


def _check_point_count(count: int) -> None:
    if count > MAX_POINTS:
        raise InvalidInput("axes", f"{count} points", f"must give at most {MAX_POINTS} points")


Row = dict[str, "Scalar"]


def _product_rows(axes: Mapping[str, Sequence[Scalar]]) -> list[Row]:
    _check_point_count(math.prod(map(len, axes.values())))
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]


def _reject(
    names: Sequence[str], axes: Mapping[str, object], fixed: Mapping[str, object], reason: str
) -> None:
    for name in names:
        if name in axes or name in fixed:
            raise InvalidInput(f"{'axes' if name in axes else 'fixed'}.{name}", "given", reason)


def _zip_rows(spec: SweepSpec, axes: dict[str, list[Scalar]], fixed: dict[str, Scalar]) -> list[Row]:
    """Return the product of groups of axes; the axes of a group vary together."""
    if not spec.zip or not all(spec.zip):
        raise InvalidInput("zip", spec.zip, "must be a list of groups of axes that vary together")
    names = [name for group in spec.zip for name in group]
    for name in names:
        if name not in axes:
            raise unknown_name("zip", name, axes)
        if names.count(name) > 1:
            raise InvalidInput("zip", name, "must not name an axis twice")
    order, rows_by_group = list(axes), list[list[Row]]()
    groups = [sorted(group, key=order.index) for group in spec.zip]
    groups += [[name] for name in order if name not in names]
    for group in sorted(groups, key=lambda group: order.index(group[0])):
        lengths = {len(axes[name]) for name in group}
        if len(lengths) != 1:
            raise InvalidInput("zip", group, f"must be axes of equal length; theirs are {sorted(lengths)}")
        rows = zip(*(axes[name] for name in group), strict=True)
        rows_by_group.append([dict(zip(group, values, strict=True)) for values in rows])
    _check_point_count(math.prod(map(len, rows_by_group)))
    return [{name: value for row in rows for name, value in row.items()} for rows in product(*rows_by_group)]


def _scaling_rows(spec: SweepSpec, axes: dict[str, list[Scalar]], fixed: dict[str, Scalar]) -> list[Row]:
    """p = p0 d^kappa, gamma = gamma0 d^-delta."""
    scaling = spec.scaling
    assert scaling is not None
    _reject(("p", "gamma"), axes, fixed, "follows from scaling")
    for name in ("d", "kappa", "delta", "k"):
        if name not in axes and name not in fixed:
            raise InvalidInput(f"axes.{name}", None, "is required with scaling")
    scaling_axes = {name: axes.get(name) or [fixed.pop(name)] for name in ("d", "kappa", "delta")}
    rows = []
    for row in _product_rows({**scaling_axes, **axes}):
        d, kappa, delta = float(row["d"]), float(row["kappa"]), float(row["delta"])
        step = _step(scaling.p_multiple_of, {**fixed, **row})
        p = _round_to_multiple(_scale(scaling.p0, d, kappa, "kappa"), step)
        gamma = _scale(scaling.gamma0, d, -delta, "delta")
        rows.append({"d": row["d"], "p": p, "gamma": gamma, **{n: v for n, v in row.items() if n != "d"}})
    return rows


def _scale(factor: float, d: float, exponent: float, field: str) -> float:
    """Return factor d^exponent, or raise InvalidInput if it is not within (1e-15, 1e15)."""
    logarithm = math.log(factor) + exponent * math.log(d)
    if not abs(logarithm) < math.log(1e15):
        raise InvalidInput(f"axes.{field}", exponent, f"gives a value outside (1e-15, 1e15) at d = {d:g}")
    return factor * d**exponent


def _triangle_rows(spec: SweepSpec, axes: dict[str, list[Scalar]], fixed: dict[str, Scalar]) -> list[Row]:
    """Return the lattice of the triangle at every combination of the other axes."""
    assert spec.triangle is not None
    _reject(("d", "p", "gamma"), axes, fixed, "follows from the triangle")
    n = spec.triangle.resolution
    _check_point_count(math.prod(map(len, axes.values())) * (n + 1) * (n + 2) // 2)
    rows: list[Row] = []
    lattice = cache(partial(_lattice, spec.triangle))
    for other in _product_rows(axes):
        values = {**fixed, **other}
        if "k" not in values:
            raise InvalidInput("axes.k", None, "is required, in axes or fixed")
        step = _step(spec.triangle.p_multiple_of, values)
        rows += [{**point, **other} for point in lattice(int(values["k"]), step)]
    return rows


def _lattice(triangle: Triangle, k: int, step: int) -> list[Row]:
    """Return points (d, p, gamma) with the same γ/(pd), for multiples of `step` as p.

    The smaller of d and p is rounded first; the larger is then limited so that γ <= γ_max.
    """
    d_min, p_min = smallest_d_and_p(triangle, k)
    max_pd = triangle.gamma_max / triangle.delta_t * (1.0 + 1e-12)  # the margin absorbs rounding errors
    if d_min * p_min > max_pd:
        raise InvalidInput(
            "triangle.delta_t", triangle.delta_t,
            f"must be < gamma_max/(p_min d_min) = {triangle.gamma_max / (d_min * p_min):.3g}",
        )  # fmt: skip
    extent, n = math.log(max_pd / (d_min * p_min)), triangle.resolution
    points: dict[tuple[int, int], None] = {}
    for a in range(n + 1):
        for b in range(n + 1 - a):
            d, p = d_min * math.exp(extent * a / n), p_min * math.exp(extent * b / n)
            if d <= p:
                d = max(d_min, round(d))
                p = min(_round_to_multiple(p, step), math.floor(max_pd / d / step) * step)
            else:
                p = _round_to_multiple(p, step)
                d = min(round(d), math.floor(max_pd / p))
            if d >= d_min and p >= p_min:
                points[int(d), int(p)] = None
    return [{"d": d, "p": p, "gamma": triangle.delta_t * p * d} for d, p in points]


def smallest_d_and_p(triangle: Triangle, k: int) -> tuple[int, int]:
    """Return the smallest d and the smallest p of the triangle."""
    step = _step(triangle.p_multiple_of, {"k": k})
    return triangle.d_min or k + 1, -(-(triangle.p_min or k) // step) * step


def _point_rows(spec: SweepSpec, axes: dict[str, list[Scalar]], fixed: dict[str, Scalar]) -> list[Row]:
    assert spec.points is not None
    if axes:
        raise InvalidInput(
            f"axes.{next(iter(axes))}", "given", "cannot be combined with points (only regime can be an axis)"
        )
    for name in spec.points[0]:
        if name in fixed:
            raise InvalidInput(f"fixed.{name}", fixed[name], "is already given in points")
    names = list(spec.points[0])
    if not names:
        raise InvalidInput("points[0]", {}, "must name at least one value")
    for row, point in enumerate(spec.points):
        if set(point) != set(names):
            raise InvalidInput(
                f"points[{row}]",
                sorted(point),
                f"must have the same keys as the first point: {sorted(names)}",
            )
    return [{name: point[name] for name in names} for point in spec.points]


def _step(multiple: Multiple, values: Mapping[str, Scalar]) -> int:
    return int(values["k"]) if multiple == "k" else int(multiple)


def _round_to_multiple(value: float, step: int) -> int:
    """Return the nearest positive multiple of `step`."""
    return max(1, round(value / step)) * step
