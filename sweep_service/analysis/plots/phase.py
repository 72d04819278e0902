"""Phase diagrams: a value or a label over two parameters, on a grid or at scattered points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from sweep_service.analysis.plots import colormaps, style
from sweep_service.errors import InvalidInput
from sweep_service.numerics.types import AnyArray, Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_CELL_TICKS = 7
MAX_OUTLINED_CELLS = 200  # more cells have no lines between them
RATIO_LEVELS = 10.0 ** np.arange(-8, 9)


def plot_phase_diagram(
    diagram: xr.DataArray,
    axes: Axes | None = None,
    *,
    contours: bool = False,
    title: str | None = None,
    limits: tuple[float, float] | None = None,
) -> Figure:
    """Draw cells of a grid (y, x), or a surface through points with `attrs["x"]` and `attrs["y"]`.

    Numbers have a colour bar and labels a legend; missing values are hatched. `contours` adds lines of equal
    γ/p if the axes are gamma and p; `limits` are those of the colours.
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
    values = diagram.values
    category_colours: dict[str, str] = {}
    if colormaps.is_categorical(values):
        texts = colormaps.to_texts(values)
        category_colours = style.category_colours(set(texts.ravel()) - {""})
        present = list(category_colours)
        values = np.array([present.index(text) if text else np.nan for text in texts.ravel()]).reshape(
            texts.shape
        )
    values = np.asarray(values, dtype=float)

    with style.canvas(axes, height=2.7) as (figure, axes):
        from matplotlib.colors import ListedColormap, Normalize

        name = str(diagram.attrs.get("value", diagram.name or ""))
        if category_colours:
            norm, colours = (
                Normalize(-0.5, len(category_colours) - 0.5),
                ListedColormap(list(category_colours.values())),
            )
        else:
            norm, colours = colormaps.choose_scale(name, values if limits is None else limits)
            values = colormaps.clip(values, norm)
        axes.set_xscale("log" if logs[0] else "linear")
        axes.set_yscale("log" if logs[1] else "linear")
        draw_values = _draw_grid if diagram.ndim == 2 else _draw_points
        mappable = draw_values(
            axes, list(columns), logs, values, {"norm": norm, "cmap": colours}, bool(category_colours)
        )
        for axis, texts in zip((axes.xaxis, axes.yaxis), axis_texts, strict=True):
            if texts:
                axis.set_ticks(range(len(texts)), labels=[style.name_to_text(text) for text in texts])
        handles = [
            style.colour_swatch(style.name_to_text(name), colour) for name, colour in category_colours.items()
        ]
        if diagram.ndim == 2 and np.isnan(values).any():
            handles.append(colormaps.hatch_background(axes))
        if contours and {x, y} == {"gamma", "p"}:
            _draw_ratio_lines(axes, x == "gamma")
        if not category_colours:
            colormaps.add_colour_bar(axes, mappable, colormaps.value_label(diagram))
        if handles:
            style.legend_below(axes, handles, 3)
        axes.set(xlabel=style.axis_label(x), ylabel=style.axis_label(y))
        if title is None:
            title = style.format_title(diagram.attrs.get("at", {}), diagram.attrs.get("fixed"))
        axes.set_title(title, wrap=True)
    return figure


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


def _draw_grid(
    axes: Axes,
    columns: list[Array],
    logs: list[bool],
    values: Array,
    colour_options: dict[str, Any],
    categories: bool,
) -> Any:
    orders = [np.argsort(column) for column in columns]
    borders = [
        cell_edges(column[order], log) for column, order, log in zip(columns, orders, logs, strict=True)
    ]
    cells = values[np.ix_(orders[1], orders[0])]
    for axis, column, order in zip((axes.xaxis, axes.yaxis), columns, orders, strict=True):
        if len(column) <= MAX_CELL_TICKS:  # label each cell by its value
            axis.set_ticks(column[order], labels=[style.format_number(value, 2) for value in column[order]])
            axis.set_ticks([], minor=True)
    axes.spines[["top", "right"]].set_visible(True)
    return axes.pcolormesh(
        *borders,
        np.ma.masked_invalid(cells),
        **colour_options,
        edgecolors="w",
        lw=0.2 if cells.size <= MAX_OUTLINED_CELLS else 0.0,
    )


def _draw_points(
    axes: Axes,
    columns: list[Array],
    logs: list[bool],
    values: Array,
    colour_options: dict[str, Any],
    categories: bool,
) -> Any:
    x, y = columns
    valid = np.isfinite(values)
    drawn_columns = [np.log(column) if log else column for column, log in zip(columns, logs, strict=True)]
    axes.plot(x[~valid], y[~valid], "x", color=style.GREY, ms=4, label=colormaps.NO_VALUE)
    triangulation = (
        None if categories else colormaps.triangulate(*(column[valid] for column in drawn_columns))
    )
    if triangulation is not None:
        axes.plot(x[valid], y[valid], ".", color="k", ms=2, zorder=3)
        return colormaps.draw_surface(axes, triangulation, values[valid], **colour_options, logs=logs)
    return axes.scatter(
        x[valid], y[valid], c=values[valid], s=30, edgecolors="k", linewidths=0.4, zorder=3, **colour_options
    )


def _draw_ratio_lines(axes: Axes, gamma_across: bool) -> None:
    """Add thin lines of equal γ/p, a decade apart."""
    ends = axes.get_xlim(), axes.get_ylim()
    grid_axes: list[AnyArray] = [np.geomspace(max(low, 1e-12), high, 60) for low, high in ends]
    across, up = np.meshgrid(*grid_axes)
    lines = axes.contour(
        *(across, up, across / up if gamma_across else up / across),
        levels=RATIO_LEVELS, colors="0.75", linewidths=0.7, linestyles="--",
    )  # fmt: skip
    style.outline(
        axes.clabel(lines, fmt=lambda level: rf"$\gamma/p=$ {style.format_number(level)}", fontsize=6)
    )
