"""Phase diagrams: a value or a phase over two parameters, on a grid or at scattered points."""

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

MOST_TICKS = 7
CELLS = 200  # more of them have no lines between them
CONTOURS = 10.0 ** np.arange(-8, 9)


def plot_phase_diagram(
    diagram: xr.DataArray,
    axes: Axes | None = None,
    *,
    contours: bool = False,
    title: str | None = None,
    limits: tuple[float, float] | None = None,
) -> Figure:
    """Colours over (y, x): cells of a grid, or a surface through points with `attrs["x"]`, `attrs["y"]`.

    Numbers have a colour bar, texts a legend, and what has no value is hatched. `contours` adds lines of
    equal γ/p where the two axes are gamma and p; `limits` are those of the colours.
    """
    if diagram.ndim == 2:
        y, x = (str(dim) for dim in diagram.dims)
    elif diagram.ndim == 1 and {"x", "y"} <= set(diagram.attrs):
        x, y = str(diagram.attrs["x"]), str(diagram.attrs["y"])
    else:
        raise InvalidInput("diagram", diagram.dims, "must be a grid (y, x), or points with attrs x and y")
    columns, words = zip(*(_column(diagram[name].values) for name in (x, y)), strict=True)
    logs = [
        not texts and style.is_log(name, column)
        for name, column, texts in zip((x, y), columns, words, strict=True)
    ]
    values = diagram.values
    names: dict[str, str] = {}
    if colormaps.is_categorical(values):
        texts = colormaps.named(values)
        names = style.category_colours(set(texts.ravel()) - {""})
        there = list(names)
        values = np.array([there.index(one) if one else np.nan for one in texts.ravel()]).reshape(texts.shape)
    values = np.asarray(values, dtype=float)

    with style.canvas(axes, height=2.7) as (figure, axes):
        from matplotlib.colors import ListedColormap, Normalize

        name = str(diagram.attrs.get("value", diagram.name or ""))
        if names:
            norm, colours = Normalize(-0.5, len(names) - 0.5), ListedColormap(list(names.values()))
        else:
            norm, colours = colormaps.scale(name, values if limits is None else limits)
            values = colormaps.clipped(values, norm)
        axes.set_xscale("log" if logs[0] else "linear")
        axes.set_yscale("log" if logs[1] else "linear")
        draw = _grid if diagram.ndim == 2 else _points
        drawn = draw(axes, list(columns), logs, values, {"norm": norm, "cmap": colours}, bool(names))
        for axis, texts in zip((axes.xaxis, axes.yaxis), words, strict=True):
            if texts:
                axis.set_ticks(range(len(texts)), labels=[style.words(text) for text in texts])
        handles = [style.swatch(style.words(name), colour) for name, colour in names.items()]
        if diagram.ndim == 2 and np.isnan(values).any():
            handles.append(colormaps.blank(axes))
        if contours and {x, y} == {"gamma", "p"}:
            _equal_ratio(axes, x == "gamma")
        if not names:
            colormaps.bar(axes, drawn, colormaps.value_label(diagram))
        if handles:
            style.legend_below(axes, handles, 3)
        axes.set(xlabel=style.label(x), ylabel=style.label(y))
        axes.set_title(style.title(diagram.attrs.get("at", {})) if title is None else title, wrap=True)
    return figure


def _column(values: AnyArray) -> tuple[Array, list[str]]:
    """Where values stand on an axis: words one after the other, and which they are."""
    if values.dtype.kind in "iuf":
        return values.astype(float), []
    texts = [str(value) for value in values]
    known = list(dict.fromkeys(texts))
    return np.array([known.index(text) for text in texts], dtype=float), known


def edges(values: Array, log: bool) -> Array:
    """Of cells around these values, half-way to the neighbours as the axis is drawn."""
    at = np.log(values) if log else values
    if len(at) == 1:
        around = at[0] + np.array([-0.5, 0.5]) * (1.0 if log else abs(at[0]) or 1.0)
    else:
        middle = 0.5 * (at[1:] + at[:-1])
        around = np.concatenate([[2 * at[0] - middle[0]], middle, [2 * at[-1] - middle[-1]]])
    return np.exp(around) if log else around


def _grid(
    axes: Axes, columns: list[Array], logs: list[bool], values: Array, look: dict[str, Any], categories: bool
) -> Any:
    orders = [np.argsort(column) for column in columns]
    sides = [edges(column[order], log) for column, order, log in zip(columns, orders, logs, strict=True)]
    cells = values[np.ix_(orders[1], orders[0])]
    for axis, column, order in zip((axes.xaxis, axes.yaxis), columns, orders, strict=True):
        if len(column) <= MOST_TICKS:  # a cell for each: it is named after its value
            axis.set_ticks(column[order], labels=[style.number(value, 2) for value in column[order]])
            axis.set_ticks([], minor=True)
    axes.spines[["top", "right"]].set_visible(True)
    return axes.pcolormesh(
        *sides, np.ma.masked_invalid(cells), **look, edgecolors="w", lw=0.2 if cells.size <= CELLS else 0.0
    )


def _points(
    axes: Axes, columns: list[Array], logs: list[bool], values: Array, look: dict[str, Any], categories: bool
) -> Any:
    x, y = columns
    there = np.isfinite(values)
    drawn = [np.log(column) if log else column for column, log in zip(columns, logs, strict=True)]
    axes.plot(x[~there], y[~there], "x", color=style.GREY, ms=4, label=colormaps.BLANK)
    net = None if categories else colormaps.net_of(*(column[there] for column in drawn))
    if net is not None:
        axes.plot(x[there], y[there], ".", color="k", ms=2, zorder=3)
        return colormaps.surface(axes, net, values[there], **look, logs=logs)
    return axes.scatter(
        x[there], y[there], c=values[there], s=30, edgecolors="k", linewidths=0.4, zorder=3, **look
    )


def _equal_ratio(axes: Axes, gamma_across: bool) -> None:
    """Thin lines of γ/p, a decade apart, over what is drawn."""
    ends = axes.get_xlim(), axes.get_ylim()
    fine: list[AnyArray] = [np.geomspace(max(low, 1e-12), high, 60) for low, high in ends]
    across, up = np.meshgrid(*fine)
    lines = axes.contour(
        *(across, up, across / up if gamma_across else up / across),
        levels=CONTOURS, colors="0.75", linewidths=0.7, linestyles="--",
    )  # fmt: skip
    style.outlined(axes.clabel(lines, fmt=lambda level: rf"$\gamma/p=$ {style.number(level)}", fontsize=6))
