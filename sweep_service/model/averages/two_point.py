"""Two-point averages E[f(u) g(v)] of a student and a teacher activation, for any pair.

Built-in activations have closed forms. Other pairs use Mehler's formula where it is accurate: with
a_m(f, C) = E[f(√C x) h_m(x)] in orthonormal Hermite polynomials h_m,
    E[f(u) g(v)] = Σ_m ρ^m a_m(f, a) a_m(g, b),   ρ = c/√(ab).
At large variances, where the coefficients decay too slowly, they use quadrature on tables.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache
from typing import NamedTuple, Protocol

import numpy as np
from scipy import special

from sweep_service.errors import OutOfRange
from sweep_service.model.activations import Activation
from sweep_service.model.averages.closed_forms import PAIR_CODES, ClosedForm
from sweep_service.model.averages.tabulated_pairs import average_matrix, tabulate
from sweep_service.numerics.jit import kernel
from sweep_service.numerics.types import AnyArray, Array

MEHLER_TERMS = (16, 32, 64, 128)  # tried in turn; each on twice as many nodes
# Largest estimated error of a sum by Mehler's formula, relative to the largest average of its matrix. It is
# much smaller than the promised 1e-6, so that the right-hand side of a flow has no visible steps.
MEHLER_TOLERANCE = 1e-9
# Fewer terms suffice if the last of them are smaller than this share of all, as their products are neglected.
LAST_TERMS_TOLERANCE = 1e-9
# Largest product of last terms in a sum that is accurate without a closer look: all those after it together
# are at most a hundred times larger.
MAX_LAST_PRODUCT = 1e-13
# Largest distance of nodes relative to the scale of σ: tanh and its derivatives are smooth on a scale of 1.
MAX_NODE_DISTANCE = 1.0
# Above it the coefficients of derivatives follow from those of σ, with rounding of 1e-16 over the variance.
MIN_STEIN_VARIANCE = 1e-3
# A neuron of smaller variance outputs zero numerically; the floor only avoids 0/0 in exact coefficients.
MIN_VARIANCE = 1e-150
PANEL_NODES = 12
MIN_PANEL_VARIANCE = 1e-10  # σ' is constant on the scale of a smaller one, on both sides of a kink


class TwoPoint(Protocol):
    """Averages of a pair of activations that the dynamics and the risk use, as in `ClosedForm`."""

    def values(self, a: Array, b: Array, C: Array, /) -> Array: ...

    def slopes(self, a: Array, b: Array, C: Array, /) -> tuple[Array, Array]: ...

    def slope_power(self, a: Array, /) -> Array: ...


class Pairs(NamedTuple):
    """The pairs of one model: student with student, student with teacher, teacher with teacher."""

    students: TwoPoint
    mixed: TwoPoint
    teachers: TwoPoint


@cache
def hermite_rule(order: int, nodes: int) -> tuple[Array, Array]:
    """Gauss-Hermite nodes x and the matrix w h_m(x), shape (order, nodes)."""
    x, w = special.roots_hermitenorm(nodes)
    h = np.empty((order, nodes))
    h[0], h[1] = 1.0, x
    for m in range(1, order - 1):
        h[m + 1] = (x * h[m] - math.sqrt(m) * h[m - 1]) / math.sqrt(m + 1)
    return x, h * (w / w.sum())


def coefficients(act: Activation, derivative: int, C: Array) -> Array:
    """a_m of σ, σ' or σ'' (derivative 0, 1, 2) at each variance of C, shape (len C, terms)."""
    return _coefficients(act, derivative, C.tobytes())


@lru_cache(maxsize=16)  # one right-hand side uses the same few several times
def _coefficients(act: Activation, derivative: int, variances: bytes) -> Array:
    """Exact if the activation has `hermite`, else by quadrature; a_m(f') = √((m+1)/C) a_{m+1}(f)."""
    C = np.maximum(np.frombuffer(variances), MIN_VARIANCE)
    if act.hermite is not None:
        a = act.hermite(MEHLER_TERMS[-1] + derivative, C)
        for _ in range(derivative):
            a = a[:, 1:] * np.sqrt(np.arange(1, a.shape[1])) / np.sqrt(C)[:, None]
        return np.ascontiguousarray(a)
    if derivative and C.min() >= MIN_STEIN_VARIANCE and not act.kinks:
        a, is_converged = _integrate_coefficients(act, 0, variances)
        if is_converged:  # otherwise the missing terms matter more for each derivative
            for _ in range(derivative):
                a = a[:, 1:] * (np.sqrt(np.arange(1, a.shape[1])) / np.sqrt(C)[:, None])
            return a
    return _integrate_coefficients(act, derivative, variances)[0]


def is_resolved(act: Activation, C: Array) -> bool:
    """Whether `coefficients` at these variances are exact, or their nodes resolve functions of unit scale."""
    return act.hermite is not None or _has_close_nodes(C, 2 * MEHLER_TERMS[-1])


def _has_close_nodes(C: Array, nodes: int) -> bool:
    """Whether no feature of σ(√C x) can lie between the middle nodes, which are π/√nodes apart."""
    return bool(math.pi * math.sqrt(C.max()) <= MAX_NODE_DISTANCE * math.sqrt(nodes))


@lru_cache(maxsize=16)
def _integrate_coefficients(act: Activation, derivative: int, variances: bytes) -> tuple[Array, bool]:
    """Coefficients by quadrature, and whether the last of them are negligible."""
    C = np.maximum(np.frombuffer(variances), MIN_VARIANCE)
    function = (act.value, act.slope, act.curvature)[derivative]
    assert function is not None  # an activation without σ'' has `hermite`
    for terms in MEHLER_TERMS:
        x, weights = hermite_rule(terms, 2 * terms)
        a = function(np.sqrt(C)[:, None] * x) @ weights.T
        is_small = np.all(np.abs(a[:, -8:]).max(1) <= LAST_TERMS_TOLERANCE * np.abs(a).max(1))
        if is_small and _has_close_nodes(C, 2 * terms):
            return a, True
    return a, False


def _tail(act: Activation, derivative: int, C: Array) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Norms of the rows of coefficients, their last terms, and whether the coefficients are accurate.

    By quadrature they are if they decay: it resolves a function that is a polynomial of twice the order.
    """
    a = coefficients(act, derivative, C)
    norm, tail = np.linalg.norm(a, axis=1), np.abs(a[:, -8:]).max(1)
    known = np.full(len(C), True) if act.hermite is not None else tail <= 1e-6 * norm
    return norm, tail, known if act.hermite is not None or not act.kinks else np.full(len(C), False)


class Mehler:
    """The pair (f, g) by Mehler's formula."""

    def __init__(self, f: Activation, g: Activation) -> None:
        self.f, self.g = f, g

    def values(self, a: Array, b: Array, C: Array) -> Array:
        return self._sum(0, 0, a, b, correlation(a, b, C))

    def slopes(self, a: Array, b: Array, C: Array) -> tuple[Array, Array]:
        rho = correlation(a, b, C)
        return self._sum(1, 1, a, b, rho), self._sum(2, 0, a, b, rho)

    def is_accurate(self, df: int, dg: int, a: Array, b: Array, rho: Array) -> AnyArray:
        """Where the neglected terms Σ_{m ≥ L} |ρ|^m |a_m b_m| are small, estimated from the last ones."""
        left, left_tail, left_known = _tail(self.f, df, a)
        right, right_tail, right_known = _tail(self.g, dg, b)
        size = np.abs(rho)
        terms = min(coefficients(self.f, df, a).shape[1], coefficients(self.g, dg, b).shape[1])
        neglected = np.outer(left_tail, right_tail) * size**terms / np.maximum(1.0 - size, 1e-2)
        small = neglected <= MEHLER_TOLERANCE * np.max(np.outer(left, right), initial=0.0)
        return np.asarray(small & np.logical_and.outer(left_known, right_known))

    def _sum(self, df: int, dg: int, a: Array, b: Array, rho: Array) -> Array:
        left, right = coefficients(self.f, df, a), coefficients(self.g, dg, b)
        terms = min(left.shape[1], right.shape[1])
        left, right = left[:, :terms], right[:, :terms]
        # for small variances the last terms are below rounding and are left out
        bound = np.abs(left).max(0) * np.abs(right).max(0)
        terms = max(2, 1 + int(np.max(np.nonzero(bound > 1e-17)[0], initial=0)))
        left, right = left[:, :terms], right[:, :terms]
        if not (self.f.odd and self.g.odd):
            return horner(left, np.ascontiguousarray(right.T), rho)
        # every second term vanishes: σ and σ'' are odd, σ' is even
        first = 1 - df % 2
        total = horner(left[:, first::2], np.ascontiguousarray(right[:, first::2].T), rho * rho)
        return total * rho if first else total


class NumericalPair:
    """The pair (f, g) of any activations: Mehler's formula, or tables where it is inaccurate."""

    def __init__(self, f: Activation, g: Activation) -> None:
        self.f, self.g = f, g
        self.mehler = Mehler(f, g)

    def values(self, a: Array, b: Array, C: Array) -> Array:
        """E[f g]; NaN beyond the range of the tables."""
        values = self.mehler.values(a, b, C)
        wanted = ~self.mehler.is_accurate(0, 0, a, b, correlation(a, b, C))
        if wanted.any():
            tables = tabulate(self.f), tabulate(self.g)
            inside = tables[0].includes(a)[:, None] & tables[1].includes(b)
            values[wanted & ~inside] = np.nan
            average_matrix(*tables, a, b, C, wanted & inside, values, np.empty_like(C), np.empty_like(C))
        return values

    def slopes(self, a: Array, b: Array, C: Array) -> tuple[Array, Array]:
        """E[f' g'] and E[f'' g]; raises `OutOfRange` beyond the range of the tables."""
        slopes, curved, is_accurate = self._sum_short_series(a, b, C)
        if is_accurate:
            return slopes, curved
        slopes, curved = self.mehler.slopes(a, b, C)
        rho = correlation(a, b, C)
        accurate = [self.mehler.is_accurate(df, dg, a, b, rho) for df, dg in ((1, 1), (2, 0))]
        wanted = ~(accurate[0] & accurate[1])
        if wanted.any():
            tables = tabulate(self.f), tabulate(self.g)
            for act, table, variances in zip((self.f, self.g), tables, (a, b), strict=True):
                if not table.includes(variances).all():
                    raise OutOfRange(
                        f"Q_ii = {np.max(variances):.3g}: averages of the activation {act.name} can be "
                        f"computed up to {table.max_variance:.3g}"
                    )
            average_matrix(*tables, a, b, C, wanted, np.empty_like(C), slopes, curved)
        return slopes, curved

    def _sum_short_series(self, a: Array, b: Array, C: Array) -> tuple[Array, Array, bool]:
        """`Mehler.slopes` in one compiled call, and whether its terms become so small that it is accurate."""
        slope, curvature = coefficients(self.f, 1, a), coefficients(self.f, 2, a)
        slope_other, value_other = coefficients(self.g, 1, b), coefficients(self.g, 0, b)
        known = not (self.f.kinks or self.g.kinks) and is_resolved(self.f, a) and is_resolved(self.g, b)
        slopes, curved, tail = sum_slopes(slope, curvature, slope_other, value_other, a, b, C)
        return slopes, curved, known and tail <= MAX_LAST_PRODUCT

    def slope_power(self, a: Array) -> Array:
        """E[f'²] at variances a, by the sum of squares of coefficients where these become small."""
        squares = coefficients(self.f, 1, np.ascontiguousarray(a)) ** 2
        total = squares.sum(1)
        is_small = np.all(squares[:, -8:].max(1) <= MAX_LAST_PRODUCT * total)
        if is_small and not self.f.kinks and is_resolved(self.f, a):
            return np.asarray(total)
        return self._integrate_slope_power(a)

    def _integrate_slope_power(self, a: Array) -> Array:
        """E[f'²] on panels that resolve f' and, being geometric, Gaussians of any width."""
        x, weights = panels_of_any_width(tuple(kink.position for kink in self.f.kinks))
        a = np.maximum(a, MIN_PANEL_VARIANCE)[:, None]
        density = np.exp(-0.5 * x * x / a) / np.sqrt(2.0 * math.pi * a)
        return density @ (weights * self.f.slope(x) ** 2)


@cache
def panels_of_any_width(breaks: tuple[float, ...]) -> tuple[Array, Array]:
    """Gauss-Legendre nodes and weights on geometric panels around zero, also divided at these breaks."""
    powers = 2.0 ** np.arange(-20, 16)
    edges = np.unique(np.add.outer([0.0, *breaks], np.concatenate([-powers, [0.0], powers])))
    x, w = special.roots_legendre(PANEL_NODES)
    half = np.diff(edges)[:, None] / 2
    return (edges[:-1, None] + half * (1.0 + x)).ravel(), (half * w).ravel()


def correlation(a: Array, b: Array, C: Array) -> Array:
    """ρ = c/√(ab), clipped to [-1, 1] because of rounding."""
    norm = np.sqrt(np.maximum(a, MIN_VARIANCE))[:, None] * np.sqrt(np.maximum(b, MIN_VARIANCE))
    return np.clip(C / norm, -1.0, 1.0)


@kernel(fastmath={"contract"})
def sum_slopes(slope, curvature, slope_other, value_other, a, b, C):
    """E[f'g'] and E[f''g] by Mehler's formula, and the last terms relative to the largest ones.

    `slope` and `curvature` (m, terms) are coefficients of f, the others (n, terms) of g.
    """
    m, n = C.shape
    terms = min(min(slope.shape[1], slope_other.shape[1]), min(curvature.shape[1], value_other.shape[1]))
    right, right_value = np.empty((terms, n)), np.empty((terms, n))
    for j in range(n):
        for t in range(terms):
            right[t, j], right_value[t, j] = slope_other[j, t], value_other[j, t]
    slopes, curved, rho = np.zeros((m, n)), np.zeros((m, n)), np.empty(n)
    for i in range(m):
        for j in range(n):
            norm = math.sqrt(max(a[i], MIN_VARIANCE) * max(b[j], MIN_VARIANCE))
            rho[j] = min(1.0, max(-1.0, C[i, j] / norm))
        for t in range(terms - 1, -1, -1):
            x, y = slope[i, t], curvature[i, t]
            for j in range(n):
                slopes[i, j] = slopes[i, j] * rho[j] + x * right[t, j]
            for j in range(n):
                curved[i, j] = curved[i, j] * rho[j] + y * right_value[t, j]
    tail = _relative_tail(slope, slope_other, terms) + _relative_tail(curvature, value_other, terms)
    return slopes, curved, tail


@kernel()
def _relative_tail(left, right, terms):
    """The largest product of late coefficients relative to that of all; NaN if one is not finite."""
    all_left, all_right, late_left, late_right = 0.0, 0.0, 0.0, 0.0
    for i in range(left.shape[0]):
        for t in range(terms):
            size = abs(left[i, t])
            if not math.isfinite(size):
                return math.nan
            all_left = max(all_left, size)
            if t >= terms - 6:
                late_left = max(late_left, size)
    for j in range(right.shape[0]):
        for t in range(terms):
            size = abs(right[j, t])
            if not math.isfinite(size):
                return math.nan
            all_right = max(all_right, size)
            if t >= terms - 6:
                late_right = max(late_right, size)
    return late_left * late_right / max(all_left * all_right, 1e-300)


@kernel(fastmath={"contract"})
def horner(left, right, rho):
    """Σ_m ρ_ij^m left_im right_mj, for left (m, L), right (L, n), rho (m, n)."""
    rows, terms = left.shape
    columns = right.shape[1]
    out = np.zeros((rows, columns))
    for i in range(rows):
        for m in range(terms - 1, -1, -1):
            c = left[i, m]
            for j in range(columns):
                out[i, j] = out[i, j] * rho[i, j] + c * right[m, j]
    return out


@lru_cache(maxsize=64)
def make_two_point(f: Activation, g: Activation) -> TwoPoint:
    """The closed form of the pair (f, g) if there is one, else a numerical pair."""
    code = PAIR_CODES.get((f.code, g.code))
    return NumericalPair(f, g) if code is None else ClosedForm(code)


def has_closed_forms(student: Activation, teacher: Activation) -> bool:
    """Whether the averages of all pairs of a model with these activations have closed forms."""
    codes = student.code, teacher.code
    return {(f, g) for f in codes for g in codes} <= PAIR_CODES.keys()


def make_pairs(student: Activation, teacher: Activation) -> Pairs:
    """The averages of all pairs of a model with these activations."""
    return Pairs(
        make_two_point(student, student), make_two_point(student, teacher), make_two_point(teacher, teacher)
    )
