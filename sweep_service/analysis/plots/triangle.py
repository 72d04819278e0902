"""The triangle of limits: all (d, p, γ) with one step γ/(p d), and a value on it.

Barycentric coordinates are affine, so colours, contours and points are ordinary artists on any axes; only
the sides and their ticks are drawn by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from sweep_service.analysis.plots import colormaps, style
from sweep_service.analysis.plots.options import Limits, Scale
from sweep_service.errors import InvalidInput
from sweep_service.numerics.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

HEIGHT = np.sqrt(0.75)
CORNERS = np.array([[0.5, HEIGHT], [0.0, 0.0], [1.0, 0.0]])  # of u_d, u_p and u_gamma
CORNER_LABELS = (
    "high-dimensional\n$d \\to \\infty$",
    "mean field\n$p \\to \\infty$",
    "classical\n$\\gamma \\to 0$",
)
# The values of each parameter are written along the side that ends in its corner, with ticks along the lines
# of constant value.
SIDES = {"d": (0, 2), "p": (1, 0), "gamma": (2, 1)}
ANGLES = {"d": -60.0, "p": 60.0, "gamma": 0.0}
TICK_DIRECTIONS = {"d": (1.0, 0.0), "p": (-0.5, HEIGHT), "gamma": (-0.5, -HEIGHT)}
OUTWARD = {"d": (HEIGHT, 0.5), "p": (-HEIGHT, 0.5), "gamma": (0.0, -1.0)}
MAX_LARGE_MARKERS = 40  # with more points, markers are small
LABEL_HALF_SIZE = np.array([0.15, 0.045])  # of a label of γ/p, plus that of a point
LABEL_OFFSET = np.array([0.0, 0.035])  # from a line to its label
EXPONENTS = np.arange(-12.0, 13.0)


def plot_triangle(
    triangle: xr.DataArray,
    axes: Axes | None = None,
    *,
    scale: Scale | None = None,
    levels: int | Sequence[float] | None = None,
    cmap: Colormap | None = None,
    limits: Limits | None = None,
) -> Figure:
    """Draw colours and contours of a value, lines of equal γ/p, and the choice of `auto` as the markers.

    Common `limits` of the colours and `levels` of the contours make triangles comparable. By default there
    are five contours, evenly spaced in colour. The colour bar shows the levels.
    """
    name = str(triangle.attrs.get("value", triangle.name or ""))
    if colormaps.is_categorical(triangle.values):
        raise InvalidInput("value", name, "must be a number at each point: a triangle cannot show labels")
    u = np.column_stack([triangle[f"u_{name}"].values for name in SIDES])
    x, y = (u @ CORNERS).T
    values = np.asarray(triangle.values, dtype=float)
    valid = np.isfinite(values)

    with style.canvas(axes, height=4.0) as (figure, axes):
        norm, colours = colormaps.choose_scale(name, values, scale, cmap, limits)
        values = colormaps.clip(values, norm)
        triangulation = colormaps.triangulate(x[valid], y[valid])
        mappable: Any = None
        if triangulation is not None:
            surface, heights = colormaps.refine_surface(triangulation, values[valid], norm)
            mappable = colormaps.draw_surface(axes, surface, heights, norm, colours)
            even_levels = norm.inverse(np.linspace(0.0, 1.0, 7)[1:-1])
            lines = colormaps.choose_levels(even_levels if levels is None else levels, norm)
            draw = partial(axes.tricontour, triangulation, norm(values[valid]))
            colormaps.draw_contours(axes, draw, norm(values[valid]), norm, lines, labelled=False)
            _draw_ratio_lines(axes, triangle, u, np.column_stack([x, y]))
        markers = _draw_points(
            axes,
            triangle,
            x,
            y,
            values,
            None if triangulation is not None else {"norm": norm, "cmap": colours},
        )
        _draw_frame(axes, triangle, u)
        if mappable is None:
            from matplotlib.cm import ScalarMappable

            mappable = ScalarMappable(norm, colours)
        bar = colormaps.add_colour_bar(
            axes, mappable, colormaps.value_label(triangle), location="bottom", shrink=0.9
        )
        if triangulation is not None:
            bar.add_lines(lines, ["k"] * len(lines), 0.6)
        if markers:
            options = {"handlelength": 1.0, "title": "chosen by auto", "alignment": "left"}
            style.legend_below(axes, markers, 2, points=2.0, **options)
        if "delta_t" in triangle.attrs:
            axes.text(-0.2, HEIGHT + 0.06, style.format_parameter("delta_t", triangle.attrs["delta_t"]))
    return figure


def _fit_log_line(triangle: xr.DataArray, u: Array, name: str) -> tuple[float, float] | None:
    """Slope and intercept of log10 of a parameter, which is linear in its u; None if it does not vary."""
    along = u[:, list(SIDES).index(name)]
    if np.ptp(along) == 0.0:
        return None
    slope, start = np.polyfit(along, np.log10(triangle[name].values.astype(float)), 1)
    return float(slope), float(start)


def _draw_ratio_lines(axes: Axes, triangle: xr.DataArray, u: Array, points: Array) -> None:
    """Draw lines of equal γ/p = δt d, which are those of d, with a label where there are fewest points."""
    line = _fit_log_line(triangle, u, "d")
    if line is None:
        return
    ratio = float(np.median(triangle["gamma"].values / triangle["p"].values / triangle["d"].values))
    for power in EXPONENTS:
        share = (power - np.log10(ratio) - line[1]) / line[0]
        if 0.02 < share < 0.93:
            left, right = (share * CORNERS[0] + (1.0 - share) * CORNERS[at] for at in (1, 2))
            axes.plot(*np.column_stack([left, right]), color="w", lw=0.7, ls="--", zorder=3)
            along = left + (right - left) * np.linspace(0.25, 0.75, 21)[:, None]
            x, y = _freest_position(np.concatenate([along + LABEL_OFFSET, along - LABEL_OFFSET]), points)
            text = rf"$\gamma/p=$ {style.format_number(10.0**power)}"
            style.outline([axes.text(x, y, text, ha="center", va="center", fontsize=6, zorder=5)])


def _freest_position(positions: Array, points: Array) -> Array:
    """The position of a label that covers fewest points, as near to the middle as possible."""
    distances = np.abs(positions[:, None] - points) / LABEL_HALF_SIZE
    freedom = np.minimum(distances.max(axis=2).min(axis=1), 1.0)
    return positions[np.argmax(freedom - 0.5 * np.abs(positions[:, 0] - 0.5))]


def _draw_points(
    axes: Axes, triangle: xr.DataArray, x: Array, y: Array, values: Array, options: dict[str, Any] | None
) -> list[Any]:
    """Draw the points, with a marker for each choice of `auto`; coloured if there is no surface."""
    coordinate = next(
        (triangle[name].values for name in ("auto_regime", "regime") if name in triangle.coords), None
    )
    regimes = (
        np.full(len(x), "") if coordinate is None or coordinate.ndim == 0 else colormaps.to_texts(coordinate)
    )
    size = 14 if len(x) <= MAX_LARGE_MARKERS else 6
    handles, order = [], {name: at for at, name in enumerate(style.REGIME_STYLES)}
    for at, regime in enumerate(sorted(set(regimes), key=lambda regime: order.get(regime, 99))):
        mask = (regimes == regime) & np.isfinite(values)
        marker = style.MARKERS[at % len(style.MARKERS)]
        fill = {"c": "w"} if options is None else {"c": values[mask], **options}
        artist = axes.scatter(
            x[mask], y[mask], s=size, marker=marker, edgecolors="k", linewidths=0.5, zorder=4, **fill
        )
        if regime:
            artist.set_label(style.name_to_text(regime))
            handles.append(artist)
    missing = ~np.isfinite(values)
    axes.plot(x[missing], y[missing], "x", color="0.4", ms=4, zorder=4)
    return handles


def _draw_frame(axes: Axes, triangle: xr.DataArray, u: Array) -> None:
    """Draw the sides with the values of d, p and γ, and the names of the corners."""
    centred: dict[str, Any] = {"ha": "center", "va": "center"}
    axes.plot(*CORNERS[[0, 1, 2, 0]].T, color="k", lw=0.8, zorder=3)
    for name, (near, far) in SIDES.items():
        x, y = 0.5 * (CORNERS[near] + CORNERS[far]) + 0.17 * np.array(OUTWARD[name])
        axes.text(x, y, style.axis_label(name), rotation=ANGLES[name], **centred)
        line = _fit_log_line(triangle, u, name)
        slope, start = line or (1.0, np.inf)
        tip, gap = np.array(TICK_DIRECTIONS[name]), 0.03 if name == "d" else 0.065
        for power in EXPONENTS:
            share = (power - start) / slope
            if -1e-9 < share < 1.0 + 1e-9:
                base = share * CORNERS[near] + (1.0 - share) * CORNERS[far]
                axes.plot(*np.column_stack([base, base + 0.02 * tip]), color="k", lw=0.6)
                options = centred | ({"ha": "left"} if name == "d" else {})
                x, y = base + gap * tip
                axes.text(x, y, style.format_number(10.0**power), fontsize=7, **options)
    for (x, y), limit in zip(CORNERS, CORNER_LABELS, strict=True):
        up = y > 0
        placement: dict[str, Any] = {"y": y + 0.035, "va": "bottom"} if up else {"y": y - 0.12, "va": "top"}
        axes.text(x=x, s=limit, ha="center", fontsize=7.5, **placement)
    axes.set(aspect="equal", xlim=(-0.2, 1.2), ylim=(-0.24, HEIGHT + 0.16))
    axes.set_axis_off()
