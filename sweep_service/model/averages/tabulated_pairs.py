"""Two-point averages of any two activations by quadrature on tables, for all norms and correlations.

With u = √a z, s² = b - c²/a and the smoothed function g_s(m) = E_x[g(m + s x)],
    E[f(u) g(v)] = ∫ φ(z) f(√a z) g_s(cz/√a) dz.
g and g' are smoothed once for a grid of (ln s, asinh m), so that a pair needs no call of the activation.
Panels of Gauss-Legendre nodes grow geometrically from the scale on which activations vary, which is 1,
and from kinks, where σ' jumps. The jump is subtracted before the tables are made and added in closed form,
because interpolation across it would be inaccurate.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy import special

from sweep_service.errors import InvalidInput
from sweep_service.model.activations import Activation
from sweep_service.numerics.jit import kernel
from sweep_service.numerics.types import AnyArray, Array

# Steps of the grids in asinh m and ln s, the largest field, and the range of s.
FIELD_STEP, SPREAD_STEP = 1.0 / 32.0, 1.0 / 24.0
MAX_FIELD, MIN_SPREAD, MAX_SPREAD = 5e3, 3e-4, 250.0
WINDOW = 9  # half-width of a Gaussian in standard deviations; the rest weighs 2e-19
TOLERANCE = 3e-8  # relative error of the tables that is accepted; averages are promised to 1e-6
_NODES, _WEIGHTS = special.roots_legendre(8)
_HERMITE_NODES, _HERMITE_WEIGHTS = special.roots_hermitenorm(16)
_HERMITE_WEIGHTS = _HERMITE_WEIGHTS / _HERMITE_WEIGHTS.sum()


class Tables(NamedTuple):
    """An activation without its kinks, raw and smoothed, on the grid of fields; and its kinks."""

    raw: Array  # σ, σ', σ'' (3, fields)
    smoothed: Array  # σ, σ' (2, spreads, fields)
    kinks: Array  # rows of `Kink`
    max_variance: float  # of a field, up to which the tables are accurate

    def includes(self, variances: Array) -> AnyArray:
        """Which variances are in the range of the tables; NaN is not."""
        return variances <= self.max_variance


@lru_cache(maxsize=16)
def tabulate(act: Activation) -> Tables:
    """The tables of an activation. Raises `InvalidInput` if it varies too fast for the grid."""
    kinks = np.array(act.kinks, dtype=float).reshape(-1, 2)
    m = np.sinh(_field_grid())
    spreads = np.exp(_spread_grid())
    smoothed = np.stack([_smooth(act, kinks, m, s) for s in spreads], axis=1)
    tables = Tables(_smooth_parts(act, kinks, m), smoothed, kinks, 0.0)
    max_spread = _largest_accurate_spread(act, tables)
    if max_spread < 1.0:
        raise InvalidInput(
            "activation",
            act.name,
            "must vary on a scale of about 1, and σ'' must not jump between its kinks, so that averages over "
            "Gaussian fields can be computed: rescale its argument, or list its kinks",
        )
    return tables._replace(max_variance=max_spread**2)


def _field_grid() -> Array:
    half = math.ceil(math.asinh(MAX_FIELD) / FIELD_STEP)
    return FIELD_STEP * np.arange(-half, half + 1.0)


def _spread_grid() -> Array:
    low, high = math.log(MIN_SPREAD), math.log(MAX_SPREAD)
    return low + SPREAD_STEP * np.arange(math.ceil((high - low) / SPREAD_STEP) + 1.0)


def _smooth_parts(act: Activation, kinks: Array, x: Array) -> Array:
    """σ, σ', σ'' minus those of J relu(x - x₀) for each kink, shape (3, *x)."""
    curvature = np.zeros_like(x) if act.curvature is None else act.curvature(x)
    out = np.array([act.value(x), act.slope(x), curvature])
    for position, jump in kinks:
        out[0] -= jump * np.maximum(x - position, 0.0)
        out[1] -= jump * (x > position)
    return out


def _smooth(act: Activation, kinks: Array, m: Array, s: float, panels: int = 1) -> Array:
    """E_x[σ(m + s x)] and E_x[σ'(m + s x)] without kinks, shape (2, len m)."""
    if s <= 0.2 / panels:  # smooth on the scale of s
        parts = _smooth_parts(act, kinks, m[:, None] + s * _HERMITE_NODES)
        return parts[:2] @ _HERMITE_WEIGHTS
    powers = 2.0 ** np.arange(-1, math.ceil(math.log2(MAX_FIELD + WINDOW * MAX_SPREAD)))
    scales = np.concatenate([kinks[:, 0], [0.0], powers, -powers])
    out = np.empty((2, len(m)))
    for rows in np.array_split(np.arange(len(m)), 1 + len(m) * panels // 64):
        centre = m[rows, None]
        steps = centre + s * np.arange(-WINDOW, WINDOW + 1.0)
        edges = np.concatenate([steps, np.broadcast_to(scales, (len(rows), len(scales)))], axis=1)
        edges = np.sort(np.clip(edges, steps[:, :1], steps[:, -1:]), axis=1)
        low, width = edges[:, :-1], np.diff(edges, axis=1) / panels
        low = np.concatenate([low + n * width for n in range(panels)], axis=1)[:, :, None]
        width = np.concatenate([width] * panels, axis=1)[:, :, None]
        v = low + 0.5 * width * (_NODES + 1.0)
        weights = width * _WEIGHTS * np.exp(-0.5 * ((v - centre[:, :, None]) / s) ** 2)
        parts = _smooth_parts(act, kinks, v)[:2]
        out[:, rows] = np.sum(weights * parts, axis=(2, 3)) / np.sum(weights, axis=(1, 2))
    return out


def _largest_accurate_spread(act: Activation, tables: Tables) -> float:
    """Compare the tables between their nodes with a finer quadrature, from small spreads to large ones."""
    grid = _spread_grid()
    last = 0.0
    for spread in np.exp(grid[2:-3:12] + 0.5 * SPREAD_STEP):
        reach = math.asinh(min(MAX_FIELD / 2.0, 1.0 + WINDOW * spread))
        m = np.sinh(np.linspace(-reach, reach, 101) + 0.3 * FIELD_STEP)
        exact = _smooth(act, tables.kinks, m, spread, panels=2)
        scales = np.max(np.abs(act.value(m))), np.max(np.abs(act.slope(m)))
        for kind in range(2):
            row = _spread_row(tables.raw[kind], tables.smoothed[kind], spread)
            error = np.abs(np.array([_interpolate(row, x) for x in m]) - exact[kind])
            if not np.max(error) <= TOLERANCE * scales[kind]:
                return last
        last = float(spread)
    return last


@kernel()
def _lagrange(t):
    """Weights of the nodes -2 … 3 for interpolation at t in [0, 1]."""
    a, b, c, d, e, f = t + 2.0, t + 1.0, t, t - 1.0, t - 2.0, t - 3.0
    return (
        -b * c * d * e * f / 120.0,
        a * c * d * e * f / 24.0,
        -a * b * d * e * f / 12.0,
        a * b * c * e * f / 12.0,
        -a * b * c * d * f / 24.0,
        a * b * c * d * e / 120.0,
    )


@kernel()
def _locate(x, size):
    """The first of six nodes around position x (in steps) of a grid, and their weights."""
    base = min(max(math.floor(x), 2), size - 4)
    return base - 2, _lagrange(x - base)


@kernel()
def _spread_row(raw, table, s):
    """A row (fields) at spread s: by interpolation in ln s, or below the grid linear in s², exact to s⁴."""
    out = np.empty(table.shape[1])
    if s < MIN_SPREAD:
        share = (s / MIN_SPREAD) ** 2
        for n in range(out.size):
            out[n] = raw[n] + share * (table[0, n] - raw[n])
        return out
    at, w = _locate(math.log(s / MIN_SPREAD) / SPREAD_STEP, table.shape[0])
    for n in range(out.size):
        out[n] = (
            w[0] * table[at, n] + w[1] * table[at + 1, n] + w[2] * table[at + 2, n]
            + w[3] * table[at + 3, n] + w[4] * table[at + 4, n] + w[5] * table[at + 5, n]
        )  # fmt: skip
    return out


@kernel()
def _at(row, at, w):
    return (
        w[0] * row[at] + w[1] * row[at + 1] + w[2] * row[at + 2]
        + w[3] * row[at + 3] + w[4] * row[at + 4] + w[5] * row[at + 5]
    )  # fmt: skip


@kernel()
def _locate_field(m, size):
    limited = min(max(m, -MAX_FIELD), MAX_FIELD)
    return _locate(math.asinh(limited) / FIELD_STEP + (size - 1) // 2, size)


@kernel()
def _interpolate(row, m):
    at, w = _locate_field(m, row.size)
    return _at(row, at, w)


@kernel()
def _smoothed_ramp(y, s):
    """E[relu(y + s x)] and E[θ(y + s x)]."""
    if s > 0.0:
        above = 0.5 * math.erfc(-y / (s * math.sqrt(2.0)))
        return y * above + s * math.exp(-0.5 * (y / s) ** 2) / math.sqrt(2.0 * math.pi), above
    return max(y, 0.0), 1.0 if y > 0.0 else 0.5 if y == 0.0 else 0.0


@kernel()
def _smoothed_pair(rows, kinks, m, s):
    """g_s(m) and g'_s(m)."""
    at, w = _locate_field(m, rows.shape[1])
    value, slope = _at(rows[0], at, w), _at(rows[1], at, w)
    for n in range(kinks.shape[0]):
        ramp, step = _smoothed_ramp(m - kinks[n, 0], s)
        value += kinks[n, 1] * ramp
        slope += kinks[n, 1] * step
    return value, slope


@kernel()
def _add_scales(edges, count, centre, scale):
    """Append centre and centre ± scale 2^n inside the window; returns the new count."""
    if abs(centre) < WINDOW:
        edges[count] = centre
        count += 1
    while scale < 2.0 * WINDOW and count < edges.size - 2:
        edges[count] = min(max(centre - scale, -WINDOW), WINDOW)
        edges[count + 1] = min(max(centre + scale, -WINDOW), WINDOW)
        count += 2
        scale *= 2.0
    return count


@kernel()
def _panel_edges(a, along, s, f_kinks, g_kinks):
    """Edges of the panels in z: steps of the Gaussian, and the scales of f(√a z) and g_s(along·z)."""
    edges = np.empty(4096)
    count = 0
    for n in range(-WINDOW, WINDOW + 1):
        edges[count] = n
        count += 1
    root = max(math.sqrt(a), 1e-12)
    count = _add_scales(edges, count, 0.0, 0.5 / root)
    for n in range(f_kinks.shape[0]):
        count = _add_scales(edges, count, f_kinks[n, 0] / root, 0.5 / root)
    rate = max(abs(along), 1e-12)
    count = _add_scales(edges, count, 0.0, 0.5 / rate * max(1.0, s))
    for n in range(g_kinks.shape[0]):
        position = g_kinks[n, 0] / math.copysign(rate, along)
        count = _add_scales(edges, count, position, max(0.5 * s, 1e-9) / rate)
    return np.sort(edges[:count])


@kernel()
def average_pair(f, g, a, b, c):
    """E[f g], E[f' g'] and E[f'' g] of one pair of fields, from the tables of f and g."""
    root = math.sqrt(a)
    along = c / root if root > 0.0 else 0.0
    limit = math.sqrt(b)
    along = min(max(along, -limit), limit)
    s = math.sqrt(max(b - along * along, 0.0))
    rows = np.empty((2, g.raw.shape[1]))
    for kind in range(2):
        rows[kind] = _spread_row(g.raw[kind], g.smoothed[kind], s)
    edges = _panel_edges(a, along, s, f.kinks, g.kinks)
    value = slope = curved = 0.0
    for n in range(edges.size - 1):
        half = 0.5 * (edges[n + 1] - edges[n])
        if half <= 0.0:
            continue
        for x in range(_NODES.size):
            z = edges[n] + half * (_NODES[x] + 1.0)
            weight = half * _WEIGHTS[x] * math.exp(-0.5 * z * z)
            u = root * z
            at, w = _locate_field(u, f.raw.shape[1])
            value_f, slope_f, curvature_f = _at(f.raw[0], at, w), _at(f.raw[1], at, w), _at(f.raw[2], at, w)
            for kink in range(f.kinks.shape[0]):
                y = u - f.kinks[kink, 0]
                if y > 0.0:
                    value_f += f.kinks[kink, 1] * y
                    slope_f += f.kinks[kink, 1]
            value_g, slope_g = _smoothed_pair(rows, g.kinks, along * z, s)
            value += weight * value_f * value_g
            slope += weight * slope_f * slope_g
            curved += weight * curvature_f * value_g
    for kink in range(f.kinks.shape[0]):  # σ'' has a delta function at a jump of σ'
        if root > 0.0:
            z = f.kinks[kink, 0] / root
            value_g, _ = _smoothed_pair(rows, g.kinks, along * z, s)
            curved += f.kinks[kink, 1] * math.exp(-0.5 * z * z) / root * value_g
    norm = math.sqrt(2.0 * math.pi)
    return value / norm, slope / norm, curved / norm


@kernel()
def average_matrix(f, g, a, b, C, wanted, value, slope, curved):
    """Fill `average_pair` for variances a (m), b (n) and covariances C (m, n) where `wanted`."""
    for i in range(a.size):
        for j in range(b.size):
            if wanted[i, j]:
                value[i, j], slope[i, j], curved[i, j] = average_pair(f, g, a[i], b[j], C[i, j])
