"""A collapse: curves along one parameter, the same curves on their common scale, and their spread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from sweep_service.analysis.plots import style
from sweep_service.errors import InvalidInput

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_LEGEND_ENTRIES = 6
SCALED = "scaled"  # the coordinate of a scaled array that replaces time


def plot_collapse(
    curves: xr.DataArray,
    collapsed: xr.DataArray | None = None,
    spread: xr.DataArray | None = None,
    axes: Sequence[Axes] | None = None,
    *,
    note: str = "",
) -> Figure:
    """Draw curves (along, time), scaled ones with a coordinate `scaled` (along, time), and their spread.

    The result, as a `note`, is the title of the last panel with curves.
    The spread has the axis of the panel above it. `axes` are one for each of the three that is not None.
    """
    if curves.ndim != 2 or curves.dims[1] != "time":
        raise InvalidInput("curves", curves.dims, "must be (parameter, time)")
    along = str(curves.dims[0])
    values = curves[along].values.tolist()
    arrays = [curves] if collapsed is None else [curves, collapsed]
    with style.use_style():
        panels = list(_add_panels(len(arrays), spread is not None) if axes is None else axes)
        if len(panels) != len(arrays) + (spread is not None):
            raise InvalidInput("axes", len(panels), f"must be {len(arrays) + (spread is not None)}")
        for panel, array in zip(panels, arrays, strict=False):
            _draw_curves(panel, array, values)
        last = panels[len(arrays) - 1]
        if note:
            last.set_title(note, fontsize="small")
        if spread is not None:
            _draw_spread(panels[-1], spread, last)
        if len(values) > MAX_LEGEND_ENTRIES:
            style.add_ranked_bar(panels[0], along, values)
        else:
            panels[0].legend(
                handles=[
                    style.colour_swatch(style.format_parameter(along, value), colour)
                    for value, colour in zip(values, style.sequential_colours(len(values)), strict=True)
                ],
                loc="best",
            )
        return style.get_figure(panels[0])


def _add_panels(columns: int, spread: bool) -> list[Any]:
    """One panel per column; the spread is beneath the last one, and lower."""
    figure = style.new_figure(
        style.DOUBLE_COLUMN_INCHES if columns > 1 else style.SINGLE_COLUMN_INCHES, 2.5 + 0.9 * spread
    )
    grid = figure.add_gridspec(2 if spread else 1, columns, height_ratios=[2.4, 1.0] if spread else [1.0])
    panels = [
        figure.add_subplot(grid[0 if column == columns - 1 else slice(None), column])
        for column in range(columns)
    ]
    if spread:
        panels.append(figure.add_subplot(grid[1, -1], sharex=panels[-1]))
    return panels


def _draw_curves(panel: Any, array: xr.DataArray, values: list[Any]) -> None:
    name = str(array.attrs.get("value", array.name or "risk")).removeprefix("sgd_").removeprefix("ode_")
    x = array[SCALED] if SCALED in array.coords else array["time"]
    x_values = np.broadcast_to(x.values, array.shape)
    y_values = np.asarray(array.values, dtype=float)
    log_x = style.is_log("time", x_values[x_values > 0]) and bool(np.nanmin(x_values, initial=0.0) >= 0.0)
    log_y = style.is_log(name, y_values[y_values > 0])
    widths = np.linspace(2.6, 0.8, len(values))  # so that curves on top of each other stay visible
    for x_row, y_row, colour, width in zip(
        x_values, y_values, style.sequential_colours(len(values)), widths, strict=True
    ):
        visible = np.where((y_row <= 0) & log_y | (x_row <= 0) & log_x, np.nan, y_row)
        panel.plot(x_row, visible, color=colour, lw=width)
    panel.set_xscale("log" if log_x else "linear")
    panel.set_yscale("log" if log_y else "linear")
    text = str(x.attrs.get("label", SCALED + " time")) if SCALED in array.coords else style.axis_label("time")
    panel.set(xlabel=text, ylabel=style.axis_label(name))


def _draw_spread(panel: Any, spread: xr.DataArray, above: Any) -> None:
    x = spread[str(spread.dims[0])].values.astype(float)
    if above.get_xscale() == "log":
        x = np.where(x > 0, x, np.nan)
    panel.plot(x, 100.0 * spread.values, color=style.BLACK)
    panel.set_xscale(above.get_xscale())
    panel.set(xlabel=above.get_xlabel(), ylabel="spread (%)")
    panel.set_ylim(bottom=0.0)
    above.set_xlabel("")
    above.tick_params(labelbottom=False)
