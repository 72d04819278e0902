"""A collapse: curves along one parameter, the same curves on their common scale, and how far they spread."""

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

MOST_NAMED = 6
SCALED = "scaled"  # the coordinate of a rescaled array that takes the place of time


def plot_collapse(
    curves: xr.DataArray,
    collapsed: xr.DataArray | None = None,
    spread: xr.DataArray | None = None,
    axes: Sequence[Axes] | None = None,
) -> Figure:
    """Curves (along, time); rescaled ones with a coordinate `scaled` (along, time); their relative spread.

    Without rescaled ones the curves themselves should lie on each other. The spread is along the axis of
    the panel above it. `axes`: one for each of the three that is given.
    """
    if curves.ndim != 2 or curves.dims[1] != "time":
        raise InvalidInput("curves", curves.dims, "must be (parameter, time)")
    along = str(curves.dims[0])
    values = curves[along].values.tolist()
    several = [curves] if collapsed is None else [curves, collapsed]
    with style.style():
        panels = list(_panels(len(several), spread is not None) if axes is None else axes)
        if len(panels) != len(several) + (spread is not None):
            raise InvalidInput("axes", len(panels), f"must be {len(several) + (spread is not None)}")
        for panel, array in zip(panels, several, strict=False):
            _curves(panel, array, values)
        last = panels[len(several) - 1]
        if spread is not None:
            _spread(panels[-1], spread, last)
        if len(values) > MOST_NAMED:
            style.ranked_bar(panels[0], along, values)
        else:
            panels[0].legend(
                handles=[
                    style.swatch(style.text(along, value), colour)
                    for value, colour in zip(values, style.sequence(len(values)), strict=True)
                ],
                loc="best",
            )
        return style.figure_of(panels[0])


def _panels(columns: int, spread: bool) -> list[Any]:
    """The spread is beneath the last column, half as high."""
    figure = style.new_figure(style.DOUBLE if columns > 1 else style.SINGLE, 2.5 + 0.9 * spread)
    grid = figure.add_gridspec(2 if spread else 1, columns, height_ratios=[2.4, 1.0] if spread else [1.0])
    panels = [
        figure.add_subplot(grid[0 if column == columns - 1 else slice(None), column])
        for column in range(columns)
    ]
    if spread:
        panels.append(figure.add_subplot(grid[1, -1], sharex=panels[-1]))
    return panels


def _curves(panel: Any, array: xr.DataArray, values: list[Any]) -> None:
    name = str(array.attrs.get("value", array.name or "risk")).removeprefix("sgd_").removeprefix("ode_")
    x = array[SCALED] if SCALED in array.coords else array["time"]
    across = np.broadcast_to(x.values, array.shape)
    numbers = np.asarray(array.values, dtype=float)
    log_x = style.is_log("time", across[across > 0]) and bool(np.nanmin(across, initial=0.0) >= 0.0)
    log_y = style.is_log(name, numbers[numbers > 0])
    widths = np.linspace(2.6, 0.8, len(values))  # of curves that lie on each other, all are seen
    for at, line, colour, width in zip(across, numbers, style.sequence(len(values)), widths, strict=True):
        shown = np.where((line <= 0) & log_y | (at <= 0) & log_x, np.nan, line)
        panel.plot(at, shown, color=colour, lw=width)
    panel.set_xscale("log" if log_x else "linear")
    panel.set_yscale("log" if log_y else "linear")
    text = str(x.attrs.get("label", SCALED + " time")) if SCALED in array.coords else style.label("time")
    panel.set(xlabel=text, ylabel=style.label(name))


def _spread(panel: Any, spread: xr.DataArray, above: Any) -> None:
    x = spread[str(spread.dims[0])].values.astype(float)
    if above.get_xscale() == "log":
        x = np.where(x > 0, x, np.nan)
    panel.plot(x, 100.0 * spread.values, color=style.BLACK)
    panel.set_xscale(above.get_xscale())
    panel.set(xlabel=above.get_xlabel(), ylabel="spread (%)")
    panel.set_ylim(bottom=0.0)
    above.set_xlabel("")
    above.tick_params(labelbottom=False)
