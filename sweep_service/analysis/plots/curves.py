"""An observable against time: SGD as points with a band, theories as lines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from sweep_service.analysis.curves import compute_curves
from sweep_service.analysis.plots import style
from sweep_service.numerics.types import AnyArray, Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_MARKERS, MIN_MARKERS = 30, 12  # of SGD along one curve: alone, and among many
LETTER_POINTS, HANDLE_POINTS = 3.6, 30.0  # widths in a legend, in points
MAX_LEGEND_ENTRIES = 6  # with more values there is a colour bar instead


def plot_curves(
    dataset: xr.Dataset, observable: str = "risk", axes: Axes | None = None, **where: Any
) -> Figure:
    """Draw the mean over the selected runs, with the band from the 16th to the 84th percentile of SGD."""
    return draw_curves(compute_curves(dataset, observable, **where), axes)


def draw_curves(result: dict[str, Any], axes: Axes | None = None) -> Figure:
    """Draw the result of `compute_curves`.

    Colours show the axis that varies and line styles the regime; with one point, colours show the regime.
    """
    observable = result["observable"]
    time, curve_list = np.array(result["time"], dtype=float), result["curves"]
    key, constants = _find_varying_axis(curve_list)
    values = sorted({curve["at"][key] for curve in curve_list}) if key else []
    regimes = list(dict.fromkeys(curve["regime"] for curve in curve_list if "regime" in curve))
    colours = dict(zip(values, style.sequential_colours(len(values)), strict=True))
    has_colour_bar = len(values) > MAX_LEGEND_ENTRIES
    max_markers = min(MAX_MARKERS, max(MIN_MARKERS, 2 * MAX_MARKERS // max(len(values), 1)))
    all_means = np.concatenate([np.asarray(curve["mean"], dtype=float) for curve in curve_list])
    log_y = style.is_log(observable, all_means[all_means > 0])
    log_x = style.is_log("time", time[time > 0])

    sources = _source_entries(regimes, any("regime" not in curve for curve in curve_list), bool(key))
    value_entries = (
        []
        if has_colour_bar
        else [style.colour_swatch(style.format_parameter(key, value), colours[value]) for value in values]
    )
    width_points = 72.0 * (style.SINGLE_COLUMN_INCHES if axes is None else style.get_width(axes))
    handles, columns = _arrange_legend(sources, value_entries, width_points)

    with style.canvas(axes, height=2.4 + 0.14 * len(handles) / columns) as (figure, axes):
        for curve in curve_list:
            regime = curve.get("regime")
            regime_colour, line = style.regime_style(regime) if regime else (style.BLACK, "none")
            colour = colours[curve["at"][key]] if key else regime_colour
            mean, low, high = (
                _mask_invisible(curve[statistic], time, log_x, log_y) for statistic in ("mean", "low", "high")
            )
            if regime is None:
                at = thin_samples(
                    time,
                    mean,
                    log_x,
                    max_markers,
                    values.index(curve["at"][key]) / len(values) if key else 0.0,
                )
                size = 2.0 if has_colour_bar else 3.5
                axes.plot(time[at], mean[at], "o", ms=size, mfc="none", mec=colour, mew=0.7, zorder=2)
                if curve["runs"] > 1 and not has_colour_bar:  # many bands would hide each other
                    axes.fill_between(time, low, high, color=colour, alpha=0.2, lw=0, zorder=1)
            else:
                axes.plot(time, mean, color=colour, ls=line, lw=0.8 if has_colour_bar else 1.3, zorder=3)
        axes.set_xscale("log" if log_x else "linear")
        axes.set_yscale("log" if log_y else "linear")
        style.format_log_ticks(axes)
        axes.set(xlabel=style.axis_label("time"), ylabel=style.axis_label(observable, result["units"]))
        axes.set_title(style.format_title(constants, result.get("fixed")), wrap=True)
        if has_colour_bar:
            style.add_ranked_bar(axes, key, values)
        style.legend_below(axes, handles, columns)
    return figure


def _find_varying_axis(curve_list: list[dict[str, Any]]) -> tuple[str, dict[str, Any]]:
    """The axis that distinguishes the curves, and the values of the others.

    It is the first axis that differs between any two points, else the one with most values.
    """
    coordinates = [curve["at"] for curve in curve_list]
    axis_values = {name: sorted({point[name] for point in coordinates}) for name in coordinates[0]}
    combinations = len({tuple(point.values()) for point in coordinates})
    varying = [name for name, values in axis_values.items() if len(values) > 1]
    if not varying:
        return "", {name: values[0] for name, values in axis_values.items()}
    key = next((name for name in varying if len(axis_values[name]) == combinations), None)
    key = key or max(varying, key=lambda name: len(axis_values[name]))
    return key, {
        name: values if len(values) > 1 else values[0] for name, values in axis_values.items() if name != key
    }


def _mask_invisible(values: list[float], time: Array, log_x: bool, log_y: bool) -> Array:
    """The values, NaN where a logarithmic axis cannot show them."""
    numbers = np.array(values, dtype=float)
    numbers[((time <= 0) & log_x) | ((numbers <= 0) & log_y)] = np.nan
    return numbers


def thin_samples(
    time: Array, values: Array, log: bool, max_markers: int = MAX_MARKERS, shift: float = 0.0
) -> AnyArray:
    """Indices of at most `max_markers` samples, evenly spaced on the axis as it is drawn.

    `shift`, in units of the spacing, separates the markers of curves on top of each other.
    """
    valid = np.flatnonzero(np.isfinite(values))
    if len(valid) <= max_markers:
        return valid
    position = np.log(time[valid]) if log else time[valid]
    targets = (
        np.linspace(position[0], position[-1], max_markers)
        + shift * (position[-1] - position[0]) / max_markers
    )
    return valid[np.unique([np.argmin(np.abs(position - target)) for target in targets])]


def _source_entries(regimes: list[str], sgd: bool, coloured: bool) -> list[Any]:
    from matplotlib.lines import Line2D

    entries = []
    if sgd:
        entries.append(
            Line2D([], [], marker="o", ls="none", mfc="none", mec=style.BLACK, mew=0.7, label="SGD")
        )
    for regime in regimes:
        colour, line = style.regime_style(regime)
        colour = "0.35" if coloured else colour
        entries.append(Line2D([], [], color=colour, ls=line, label=style.name_to_text(regime)))
    return entries


def _arrange_legend(
    sources: list[Any], value_entries: list[Any], width_points: float
) -> tuple[list[Any], int]:
    """Legend entries and columns: the sources in their own column, then the values, in as few rows as fit."""

    def column_width(entries: list[Any]) -> float:
        texts = [re.sub(r"\\[A-Za-z]+|[${}]", "", str(entry.get_label())) for entry in entries]
        return HANDLE_POINTS + LETTER_POINTS * max(map(len, texts), default=0)

    if not value_entries:
        sources += style.blank_entries(-len(sources) % 2)
        return sources, 2 if 2 * column_width(sources) < width_points else 1
    if column_width(sources) + column_width(value_entries) > width_points:
        return sources + value_entries, 1
    min_rows, max_rows = max(len(sources), -(-len(value_entries) // 2)), max(len(sources), len(value_entries))
    for rows in range(min_rows, max_rows + 1):
        columns = -(-len(value_entries) // rows)
        if rows == max_rows or column_width(sources) + columns * column_width(value_entries) < width_points:
            break
    filled = [*sources, *style.blank_entries(rows - len(sources)), *value_entries]
    return filled + style.blank_entries(rows * (1 + columns) - len(filled)), 1 + columns
