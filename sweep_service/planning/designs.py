"""Which points a sweep has: a product of axes, axes that vary together, scalings, the triangle, a list."""

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

MOST_ROWS = 1_000_000


def columns_of(
    spec: SweepSpec, axes: dict[str, list[Scalar]], fixed: dict[str, Scalar]
) -> tuple[bool, dict[str, list[Scalar]]]:
    """Is it a product, and its axes; or the columns of its points."""
    designs = [name for name in ("zip", "scaling", "triangle", "points") if getattr(spec, name)]
    if len(designs) > 1:
        raise InvalidInput(designs[1], "given", f"or {designs[0]}, not both: a sweep has one design")
    if spec.scaling is None:
        for name in ("kappa", "delta"):
            if name in axes or name in fixed:
                raise InvalidInput(f"axes.{name}", "given", "needs scaling: {p0, gamma0}")
    if not designs:
        _require_few(math.prod(map(len, axes.values())))
        return True, axes
    rows = {"zip": _zipped, "scaling": _scaled, "triangle": _triangle, "points": _listed}[designs[0]](
        spec, axes, fixed
    )
    _require_few(len(rows))
    return False, {name: [row[name] for row in rows] for name in rows[0]}


def _require_few(rows: int) -> None:
    if rows > MOST_ROWS:
        raise InvalidInput("axes", f"{rows} points", f"must give at most {MOST_ROWS} points")


Row = dict[str, "Scalar"]


def _product(axes: Mapping[str, Sequence[Scalar]]) -> list[Row]:
    _require_few(math.prod(map(len, axes.values())))
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]


def _refuse(names: Sequence[str], axes: Mapping[str, object], fixed: Mapping[str, object], why: str) -> None:
    for name in names:
        if name in axes or name in fixed:
            raise InvalidInput(f"{'axes' if name in axes else 'fixed'}.{name}", "given", why)


def _zipped(spec: SweepSpec, axes: dict[str, list[Scalar]], fixed: dict[str, Scalar]) -> list[Row]:
    """A product in which the axes of a group move together."""
    if not spec.zip or not all(spec.zip):
        raise InvalidInput("zip", spec.zip, "must be lists of axes that vary together")
    names = [name for group in spec.zip for name in group]
    for name in names:
        if name not in axes:
            raise unknown_name("zip", name, axes)
        if names.count(name) > 1:
            raise InvalidInput("zip", name, "must not name an axis twice")
    order, groups = list(axes), list[list[Row]]()
    together = [sorted(group, key=order.index) for group in spec.zip]
    together += [[name] for name in order if name not in names]
    for group in sorted(together, key=lambda group: order.index(group[0])):
        lengths = {len(axes[name]) for name in group}
        if len(lengths) != 1:
            raise InvalidInput("zip", group, f"must have equal lengths; they have {sorted(lengths)}")
        rows = zip(*(axes[name] for name in group), strict=True)
        groups.append([dict(zip(group, values, strict=True)) for values in rows])
    _require_few(math.prod(map(len, groups)))
    return [{name: value for part in parts for name, value in part.items()} for parts in product(*groups)]


def _scaled(spec: SweepSpec, axes: dict[str, list[Scalar]], fixed: dict[str, Scalar]) -> list[Row]:
    """p = p0 d^kappa, gamma = gamma0 d^-delta."""
    scaling = spec.scaling
    assert scaling is not None
    _refuse(("p", "gamma"), axes, fixed, "follows from scaling")
    for name in ("d", "kappa", "delta", "k"):
        if name not in axes and name not in fixed:
            raise InvalidInput(f"axes.{name}", None, "is required with scaling")
    given = {name: axes.get(name) or [fixed.pop(name)] for name in ("d", "kappa", "delta")}
    rows = []
    for row in _product({**given, **axes}):
        d, kappa, delta = float(row["d"]), float(row["kappa"]), float(row["delta"])
        step = _step(scaling.p_multiple_of, {**fixed, **row})
        p = _rounded(_power(scaling.p0, d, kappa, "kappa"), step)
        gamma = _power(scaling.gamma0, d, -delta, "delta")
        rows.append({"d": row["d"], "p": p, "gamma": gamma, **{n: v for n, v in row.items() if n != "d"}})
    return rows


def _power(factor: float, d: float, exponent: float, field: str) -> float:
    """factor d^exponent, within bounds."""
    logarithm = math.log(factor) + exponent * math.log(d)
    if not abs(logarithm) < math.log(1e15):
        raise InvalidInput(f"axes.{field}", exponent, f"leads out of all bounds at d = {d:g}")
    return factor * d**exponent


def _triangle(spec: SweepSpec, axes: dict[str, list[Scalar]], fixed: dict[str, Scalar]) -> list[Row]:
    """The lattice at every combination of the other axes."""
    assert spec.triangle is not None
    _refuse(("d", "p", "gamma"), axes, fixed, "follows from the triangle")
    n = spec.triangle.resolution
    _require_few(math.prod(map(len, axes.values())) * (n + 1) * (n + 2) // 2)
    rows: list[Row] = []
    lattice = cache(partial(_lattice, spec.triangle))
    for other in _product(axes):
        values = {**fixed, **other}
        if "k" not in values:
            raise InvalidInput("axes.k", None, "is required, here or in fixed")
        step = _step(spec.triangle.p_multiple_of, values)
        rows += [{**point, **other} for point in lattice(int(values["k"]), step)]
    return rows


def _lattice(triangle: Triangle, k: int, step: int) -> list[Row]:
    """(d, p, gamma) with one γ/(pd); of d and p the smaller is rounded, the larger kept where γ <= γ_max."""
    d_min, p_min = smallest(triangle, k)
    most = triangle.gamma_max / triangle.delta_t * (1.0 + 1e-12)  # of p·d, and what rounding takes from it
    if d_min * p_min > most:
        raise InvalidInput(
            "triangle.delta_t", triangle.delta_t,
            f"must be < gamma_max/(p_min d_min) = {triangle.gamma_max / (d_min * p_min):.3g}",
        )  # fmt: skip
    decades, n = math.log(most / (d_min * p_min)), triangle.resolution
    found: dict[tuple[int, int], None] = {}
    for a in range(n + 1):
        for b in range(n + 1 - a):
            d, p = d_min * math.exp(decades * a / n), p_min * math.exp(decades * b / n)
            if d <= p:
                d = max(d_min, round(d))
                p = min(_rounded(p, step), math.floor(most / d / step) * step)
            else:
                p = _rounded(p, step)
                d = min(round(d), math.floor(most / p))
            if d >= d_min and p >= p_min:
                found[int(d), int(p)] = None
    return [{"d": d, "p": p, "gamma": triangle.delta_t * p * d} for d, p in found]


def smallest(triangle: Triangle, k: int) -> tuple[int, int]:
    """The d and the p at which the triangle begins."""
    step = _step(triangle.p_multiple_of, {"k": k})
    return triangle.d_min or k + 1, -(-(triangle.p_min or k) // step) * step


def _listed(spec: SweepSpec, axes: dict[str, list[Scalar]], fixed: dict[str, Scalar]) -> list[Row]:
    assert spec.points is not None
    if axes:
        raise InvalidInput(
            f"axes.{next(iter(axes))}", "given", "or points, not both (only regime may be an axis)"
        )
    for name in spec.points[0]:
        if name in fixed:
            raise InvalidInput(f"fixed.{name}", fixed[name], "is given in points")
    names = list(spec.points[0])
    if not names:
        raise InvalidInput("points[0]", {}, "must name what differs between points")
    for row, point in enumerate(spec.points):
        if set(point) != set(names):
            raise InvalidInput(
                f"points[{row}]", sorted(point), f"must name the same values as the first: {sorted(names)}"
            )
    return [{name: point[name] for name in names} for point in spec.points]


def _step(multiple: Multiple, values: Mapping[str, Scalar]) -> int:
    return int(values["k"]) if multiple == "k" else int(multiple)


def _rounded(value: float, step: int) -> int:
    """The nearest multiple of the step, at least one."""
    return max(1, round(value / step)) * step
