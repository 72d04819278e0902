"""The triangle of limits: every (d, p, γ) with one step γ/(p d), and a value over it.

Plain matplotlib: a barycentric map is affine, so colours, contours and points are ordinary ones, on any
axes; only the sides and their ticks are drawn by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from sweep_service.analysis.plots import colormaps, style
from sweep_service.errors import InvalidInput
from sweep_service.numerics.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.tri import Triangulation

HEIGHT = np.sqrt(0.75)
CORNERS = np.array([[0.5, HEIGHT], [0.0, 0.0], [1.0, 0.0]])  # of u_d, u_p and u_gamma
LIMITS = (
    "high-dimensional\n$d \\to \\infty$",
    "mean field\n$p \\to \\infty$",
    "classical\n$\\gamma \\to 0$",
)
# The values of each are written along the side that ends in its corner, with ticks along lines of one value.
SIDES = {"d": (0, 2), "p": (1, 0), "gamma": (2, 1)}
ANGLES = {"d": -60.0, "p": 60.0, "gamma": 0.0}
TICKS = {"d": (1.0, 0.0), "p": (-0.5, HEIGHT), "gamma": (-0.5, -HEIGHT)}
OUT = {"d": (HEIGHT, 0.5), "p": (-HEIGHT, 0.5), "gamma": (0.0, -1.0)}
CROWD = 40  # points that have room for large markers
WRITTEN = np.array([0.15, 0.045])  # half the width and height of a number of γ/p, and of a point
BESIDE = np.array([0.0, 0.035])  # from a line to what is written of it
POWERS = np.arange(-12.0, 13.0)


def plot_triangle(
    triangle: xr.DataArray,
    axes: Axes | None = None,
    *,
    limits: tuple[float, float] | None = None,
    levels: Sequence[float] | None = None,
) -> Figure:
    """Colours and contours of the value, lines of equal γ/p, and what `auto` would choose as the marker.

    `limits` of the colours and `levels` of the contours make triangles comparable; by default there are
    five contours, evenly spaced in colour. The bar of colours shows where they are.
    """
    name = str(triangle.attrs.get("value", triangle.name or ""))
    if colormaps.is_categorical(triangle.values):
        raise InvalidInput("value", name, "is a word at each point: a triangle shows numbers")
    u = np.column_stack([triangle[f"u_{name}"].values for name in SIDES])
    x, y = (u @ CORNERS).T
    values = np.asarray(triangle.values, dtype=float)
    there = np.isfinite(values)

    with style.canvas(axes, height=4.0) as (figure, axes):
        norm, cmap = colormaps.scale(name, values if limits is None else limits)
        values = colormaps.clipped(values, norm)
        net = colormaps.net_of(x[there], y[there])
        drawn: Any = None
        if net is not None:
            drawn = colormaps.surface(axes, net, values[there], norm, cmap)
            evenly = norm.inverse(np.linspace(0.0, 1.0, 7)[1:-1])
            lines = np.asarray(evenly if levels is None else levels, dtype=float)
            _contours(axes, net, values[there], norm, lines)
            _ratio_lines(axes, triangle, u, np.column_stack([x, y]))
        markers = _points(
            axes, triangle, x, y, values, None if net is not None else {"norm": norm, "cmap": cmap}
        )
        _frame(axes, triangle, u)
        if drawn is None:
            from matplotlib.cm import ScalarMappable

            drawn = ScalarMappable(norm, cmap)
        bar = colormaps.bar(axes, drawn, colormaps.value_label(triangle), location="bottom", shrink=0.9)
        if net is not None:
            bar.add_lines(lines, ["k"] * len(lines), 0.6)
        if markers:
            look = {"handlelength": 1.0, "title": "chosen by auto", "alignment": "left"}
            style.legend_below(axes, markers, 2, points=2.0, **look)
        if "delta_t" in triangle.attrs:
            axes.text(-0.2, HEIGHT + 0.06, style.text("delta_t", triangle.attrs["delta_t"]))
    return figure


def _contours(axes: Axes, net: Triangulation, values: Array, norm: Any, levels: Array) -> None:
    """Lines of equal value, between the points as the colours are."""
    heights, wanted = (np.asarray(norm(one), dtype=float) for one in (values, levels))
    crossed = wanted[(wanted > heights.min()) & (wanted < heights.max())]
    if len(crossed):
        axes.tricontour(net, heights, levels=crossed, colors="k", linewidths=0.6, alpha=0.7)


def _line(triangle: xr.DataArray, u: Array, name: str) -> tuple[float, float] | None:
    """(slope, start) of log10 of a parameter, which is linear in its u; None where it does not vary."""
    along = u[:, list(SIDES).index(name)]
    if np.ptp(along) == 0.0:
        return None
    slope, start = np.polyfit(along, np.log10(triangle[name].values.astype(float)), 1)
    return float(slope), float(start)


def _ratio_lines(axes: Axes, triangle: xr.DataArray, u: Array, points: Array) -> None:
    """γ/p = δt d: its lines are those of d, each with its number where points leave most room."""
    line = _line(triangle, u, "d")
    if line is None:
        return
    ratio = float(np.median(triangle["gamma"].values / triangle["p"].values / triangle["d"].values))
    for power in POWERS:
        share = (power - np.log10(ratio) - line[1]) / line[0]
        if 0.02 < share < 0.93:
            left, right = (share * CORNERS[0] + (1.0 - share) * CORNERS[at] for at in (1, 2))
            axes.plot(*np.column_stack([left, right]), color="w", lw=0.7, ls="--", zorder=3)
            along = left + (right - left) * np.linspace(0.25, 0.75, 21)[:, None]
            x, y = _roomiest(np.concatenate([along + BESIDE, along - BESIDE]), points)
            text = rf"$\gamma/p=$ {style.number(10.0**power)}"
            style.outlined([axes.text(x, y, text, ha="center", va="center", fontsize=6, zorder=5)])


def _roomiest(places: Array, points: Array) -> Array:
    """Where what is written covers no point, or few, as near to the middle as can be."""
    away = np.abs(places[:, None] - points) / WRITTEN
    free = np.minimum(away.max(axis=2).min(axis=1), 1.0)
    return places[np.argmax(free - 0.5 * np.abs(places[:, 0] - 0.5))]


def _points(
    axes: Axes, triangle: xr.DataArray, x: Array, y: Array, values: Array, look: dict[str, Any] | None
) -> list[Any]:
    """The points, by what `auto` would choose there; filled with their values where no surface is."""
    said = next(
        (triangle[name].values for name in ("auto_regime", "regime") if name in triangle.coords), None
    )
    regimes = np.full(len(x), "") if said is None or said.ndim == 0 else colormaps.named(said)
    size = 14 if len(x) <= CROWD else 6
    handles, order = [], {name: at for at, name in enumerate(style.REGIME_STYLES)}
    for at, regime in enumerate(sorted(set(regimes), key=lambda one: order.get(one, 99))):
        here = (regimes == regime) & np.isfinite(values)
        marker = style.MARKERS[at % len(style.MARKERS)]
        fill = {"c": "w"} if look is None else {"c": values[here], **look}
        drawn = axes.scatter(
            x[here], y[here], s=size, marker=marker, edgecolors="k", linewidths=0.5, zorder=4, **fill
        )
        if regime:
            drawn.set_label(style.words(regime))
            handles.append(drawn)
    gone = ~np.isfinite(values)
    axes.plot(x[gone], y[gone], "x", color="0.4", ms=4, zorder=4)
    return handles


def _frame(axes: Axes, triangle: xr.DataArray, u: Array) -> None:
    """The sides with the values of d, p and γ, and the names of the corners."""
    middle: dict[str, Any] = {"ha": "center", "va": "center"}
    axes.plot(*CORNERS[[0, 1, 2, 0]].T, color="k", lw=0.8, zorder=3)
    for name, (here, there) in SIDES.items():
        x, y = 0.5 * (CORNERS[here] + CORNERS[there]) + 0.17 * np.array(OUT[name])
        axes.text(x, y, style.label(name), rotation=ANGLES[name], **middle)
        line = _line(triangle, u, name)
        slope, start = line or (1.0, np.inf)
        tip, gap = np.array(TICKS[name]), 0.03 if name == "d" else 0.065
        for power in POWERS:
            share = (power - start) / slope
            if -1e-9 < share < 1.0 + 1e-9:
                foot = share * CORNERS[here] + (1.0 - share) * CORNERS[there]
                axes.plot(*np.column_stack([foot, foot + 0.02 * tip]), color="k", lw=0.6)
                look = middle | ({"ha": "left"} if name == "d" else {})
                x, y = foot + gap * tip
                axes.text(x, y, style.number(10.0**power), fontsize=7, **look)
    for (x, y), limit in zip(CORNERS, LIMITS, strict=True):
        up = y > 0
        place: dict[str, Any] = {"y": y + 0.035, "va": "bottom"} if up else {"y": y - 0.12, "va": "top"}
        axes.text(x=x, s=limit, ha="center", fontsize=7.5, **place)
    axes.set(aspect="equal", xlim=(-0.2, 1.2), ylim=(-0.24, HEIGHT + 0.16))
    axes.set_axis_off()
