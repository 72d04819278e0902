"""Phase diagrams: a value or a label over two parameters, on a grid or at scattered points."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xarray as xr

from sweep_service.analysis.plots import colormaps, style
from sweep_service.analysis.plots.options import Limits, Scale
from sweep_service.errors import InvalidInput
from sweep_service.numerics.types import AnyArray, Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure
    from matplotlib.tri import Triangulation

MAX_CELL_TICKS = 7
MIN_LABELLED_LENGTH = 0.35  # of a line of equal γ/p, in units of the axes
MAX_OUTLINED_CELLS = 200  # more cells have no lines between them
CONTOUR_SUBDIVISIONS = 8  # of the distance between two values of an axis
RATIO_LEVELS = 10.0 ** np.arange(-8, 9)


def plot_phase_diagram(
    diagram: xr.DataArray,
    axes: Axes | None = None,
    *,
    scale: Scale | None = None,
    levels: int | Sequence[float] | None = None,
    cmap: Colormap | None = None,
    limits: Limits | None = None,
    ratio_lines: bool = False,
    title: str | None = None,
) -> Figure:
    """Draw cells of a grid (y, x), or a surface through points with `attrs["x"]` and `attrs["y"]`.

    Numbers have a colour bar and labels a legend; missing values are hatched. `scale`, `cmap` and `limits`
    are those of the colours, `levels` the labelled contour lines. `ratio_lines` adds lines of equal γ/p if
    the axes are gamma and p.
    """
    if diagram.ndim == 2:
        y, x = (str(dim) for dim in diagram.dims)
    elif diagram.ndim == 1 and {"x", "y"} <= set(diagram.attrs):
        x, y = str(diagram.attrs["x"]), str(diagram.attrs["y"])
    else:
        raise InvalidInput("diagram", diagram.dims, "must be a grid (y, x), or points with attrs x and y")
    columns, axis_texts = zip(*(_axis_positions(diagram[name].values) for name in (x, y)), strict=True)
    logs = [
        not texts and style.is_log(name, column)
        for name, column, texts in zip((x, y), columns, axis_texts, strict=True)
    ]
    name = str(diagram.attrs.get("value", diagram.name or ""))
    values, category_colours = _number_categories(diagram.values)
    if category_colours:
        _reject_number_options(name, scale=scale, levels=levels, cmap=cmap, limits=limits)

    with style.canvas(axes, height=2.7) as (figure, axes):
        from matplotlib.colors import ListedColormap, Normalize

        if category_colours:
            norm: Any = Normalize(-0.5, len(category_colours) - 0.5)
            colours: Any = ListedColormap(list(category_colours.values()))
        else:
            norm, colours = colormaps.choose_scale(name, values, scale, cmap, limits)
            values = colormaps.clip(values, norm)
        axes.set_xscale("log" if logs[0] else "linear")
        axes.set_yscale("log" if logs[1] else "linear")
        plane = Plane(axes, list(columns), logs, values, norm)
        draw_values = _draw_grid if diagram.ndim == 2 else _draw_points
        mappable = draw_values(plane, colours, bool(category_colours))
        for axis, texts in zip((axes.xaxis, axes.yaxis), axis_texts, strict=True):
            if texts:
                axis.set_ticks(range(len(texts)), labels=[style.name_to_text(text) for text in texts])
        handles = [
            style.colour_swatch(style.name_to_text(name), colour) for name, colour in category_colours.items()
        ]
        if diagram.ndim == 2 and np.isnan(values).any():
            handles.append(colormaps.hatch_background(axes))
        if ratio_lines and {x, y} == {"gamma", "p"}:
            _draw_ratio_lines(axes, x == "gamma")
        if not category_colours:
            bar = colormaps.add_colour_bar(axes, mappable, colormaps.value_label(diagram))
            if levels is not None:
                lines = colormaps.choose_levels(levels, norm)
                draw_contours = _draw_grid_contours if diagram.ndim == 2 else _draw_point_contours
                draw_contours(plane, lines)
                bar.add_lines(lines, ["k"] * len(lines), 0.6)
        if handles:
            style.legend_below(axes, handles, 3)
        axes.set(xlabel=style.axis_label(x), ylabel=style.axis_label(y))
        if title is None:
            title = style.format_title(diagram.attrs.get("at", {}), diagram.attrs.get("fixed"))
        axes.set_title(title, wrap=True)
    return figure


class Plane(NamedTuple):
    """Values on two axes: the positions of a grid's columns and rows, or of its points, and their norm."""

    axes: Axes
    columns: list[Array]
    logs: list[bool]
    values: Array
    norm: Any

    @property
    def drawn_columns(self) -> list[Array]:
        """Positions on the axes as they are drawn."""
        return [
            np.log(column) if log else column for column, log in zip(self.columns, self.logs, strict=True)
        ]


def _number_categories(values: AnyArray) -> tuple[Array, dict[str, str]]:
    """Numbers as they are, or positions of texts in the list of categories with their colours."""
    if not colormaps.is_categorical(values):
        return np.asarray(values, dtype=float), {}
    texts = colormaps.to_texts(values)
    category_colours = style.category_colours(set(texts.ravel()) - {""})
    present = list(category_colours)
    positions = [present.index(text) if text else np.nan for text in texts.ravel()]
    return np.array(positions, dtype=float).reshape(texts.shape), category_colours


def _reject_number_options(name: str, **options: Any) -> None:
    for option, value in options.items():
        if value is not None:
            raise InvalidInput(option, value, f"must be left out: {name} is a label, not a number")


def _axis_positions(values: AnyArray) -> tuple[Array, list[str]]:
    """Positions of values on an axis, and for texts, at positions 0, 1, …, the texts themselves."""
    if values.dtype.kind in "iuf":
        return values.astype(float), []
    texts = [str(value) for value in values]
    distinct = list(dict.fromkeys(texts))
    return np.array([distinct.index(text) for text in texts], dtype=float), distinct


def cell_edges(values: Array, log: bool) -> Array:
    """Borders of cells around values, half-way between neighbours on the axis as it is drawn."""
    at = np.log(values) if log else values
    if len(at) == 1:
        borders = at[0] + np.array([-0.5, 0.5]) * (1.0 if log else abs(at[0]) or 1.0)
    else:
        middle = 0.5 * (at[1:] + at[:-1])
        borders = np.concatenate([[2 * at[0] - middle[0]], middle, [2 * at[-1] - middle[-1]]])
    return np.exp(borders) if log else borders


def _draw_grid(plane: Plane, cmap: Any, categories: bool) -> Any:
    axes, columns = plane.axes, plane.columns
    orders = [np.argsort(column) for column in columns]
    borders = [
        cell_edges(column[order], log) for column, order, log in zip(columns, orders, plane.logs, strict=True)
    ]
    cells = plane.values[np.ix_(orders[1], orders[0])]
    for axis, column, order in zip((axes.xaxis, axes.yaxis), columns, orders, strict=True):
        if len(column) <= MAX_CELL_TICKS:  # label each cell by its value
            axis.set_ticks(column[order], labels=[style.format_number(value, 2) for value in column[order]])
            axis.set_ticks([], minor=True)
    axes.spines[["top", "right"]].set_visible(True)
    return axes.pcolormesh(
        *borders,
        np.ma.masked_invalid(cells),
        norm=plane.norm,
        cmap=cmap,
        edgecolors="w",
        lw=0.2 if cells.size <= MAX_OUTLINED_CELLS else 0.0,
    )


def _draw_grid_contours(plane: Plane, levels: Array) -> None:
    """Draw lines through the centres of cells, between which norm(values) is linear on the drawn axes."""
    orders = [np.argsort(column) for column in plane.columns]
    x, y = (column[order] for column, order in zip(plane.drawn_columns, orders, strict=True))
    if min(len(x), len(y)) < 2:
        raise InvalidInput("levels", levels.tolist(), "need at least two values of each axis")
    heights = np.asarray(np.ma.filled(plane.norm(plane.values[np.ix_(orders[1], orders[0])]), np.nan), float)
    if not np.isfinite(heights).any():
        return
    fine_x, fine_y = (_refine(column) for column in (x, y))  # constant between a centre and the border
    heights = np.stack([np.interp(fine_x, x, row) for row in heights])
    heights = np.stack([np.interp(fine_y, y, column) for column in heights.T], axis=1)
    positions = [
        np.exp(column) if log else column for column, log in zip((fine_x, fine_y), plane.logs, strict=True)
    ]
    draw = partial(plane.axes.contour, *positions, np.ma.masked_invalid(heights))
    colormaps.draw_contours(plane.axes, draw, heights, plane.norm, levels)


def _refine(column: Array) -> Array:
    """Positions from border to border, through the centres and equally spaced ones between them."""
    steps = np.linspace(0.0, len(column) - 1.0, (len(column) - 1) * CONTOUR_SUBDIVISIONS + 1)
    first, *_, last = cell_edges(column, log=False)
    return np.array([first, *np.interp(steps, np.arange(len(column)), column), last])


def _draw_points(plane: Plane, cmap: Any, categories: bool) -> Any:
    axes, (x, y), values = plane.axes, plane.columns, plane.values
    valid = np.isfinite(values)
    axes.plot(x[~valid], y[~valid], "x", color=style.GREY, ms=4, label=colormaps.NO_VALUE)
    surface = None if categories else _interpolate_points(plane)
    if surface is not None:
        axes.plot(x[valid], y[valid], ".", color="k", ms=2, zorder=3)
        return colormaps.draw_surface(axes, *surface, plane.norm, cmap)
    return axes.scatter(
        x[valid], y[valid], c=values[valid], s=30, edgecolors="k", linewidths=0.4, zorder=3,
        norm=plane.norm, cmap=cmap,
    )  # fmt: skip


def _interpolate_points(plane: Plane) -> tuple[Triangulation, Array] | None:
    valid = np.isfinite(plane.values)
    triangulation = colormaps.triangulate(*(column[valid] for column in plane.drawn_columns))
    if triangulation is None:
        return None
    return colormaps.refine_surface(triangulation, plane.values[valid], plane.norm, plane.logs)


def _draw_point_contours(plane: Plane, levels: Array) -> None:
    surface = _interpolate_points(plane)
    if surface is None:
        least = colormaps.MIN_SURFACE_POINTS
        raise InvalidInput("levels", levels.tolist(), f"need at least {least} points that are not on a line")
    draw = partial(plane.axes.tricontour, *surface)
    colormaps.draw_contours(plane.axes, draw, surface[1], plane.norm, levels)


def _draw_ratio_lines(axes: Axes, gamma_across: bool) -> None:
    """Add thin lines of equal γ/p, a decade apart."""
    ends = axes.get_xlim(), axes.get_ylim()
    grid_axes: list[AnyArray] = [np.geomspace(max(low, 1e-12), high, 60) for low, high in ends]
    across, up = np.meshgrid(*grid_axes)
    lines = axes.contour(
        *(across, up, across / up if gamma_across else up / across),
        levels=RATIO_LEVELS, colors="0.75", linewidths=0.7, linestyles="--",
    )  # fmt: skip
    labels = axes.clabel(
        lines,
        fmt=lambda level: rf"$\gamma/p=$ {style.format_number(level)}",
        fontsize=6,
        manual=_middles(axes, lines),
    )
    style.outline(labels)


def _middles(axes: Axes, lines: Any) -> list[tuple[float, float]]:
    """Positions in the middle of the lines, without those too short for a label."""
    to_axes = axes.transData + axes.transAxes.inverted()
    middles = []
    for path in lines.get_paths():
        vertices = path.vertices
        if len(vertices) > 1:
            positions = to_axes.transform(vertices)
            if np.hypot(*(positions[-1] - positions[0])) > MIN_LABELLED_LENGTH:
                distance = np.hypot(*(positions - 0.5 * (positions[0] + positions[-1])).T)
                middles.append(tuple(vertices[np.argmin(distance)]))
    return middles
