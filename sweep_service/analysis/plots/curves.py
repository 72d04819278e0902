"""An observable against time: SGD as points with a band, theories as lines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sweep_service.analysis.curves import DEFAULT_TIME_AXIS, TIME_AXES
from sweep_service.analysis.plots import style
from sweep_service.analysis.plots.options import Scale
from sweep_service.errors import InvalidInput
from sweep_service.numerics.types import AnyArray, Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

MAX_MARKERS, MIN_MARKERS = 30, 12  # of SGD along one curve: alone, and among many
LETTER_POINTS, HANDLE_POINTS = 3.6, 30.0  # widths in a legend, in points
SGD, PREDICTED = "sgd", "predicted"
PREDICTED_LINE = (0, (1, 1))  # dense dots
MAX_LEGEND_ENTRIES = 6  # with more values there is a colour bar instead


def draw_curves(
    result: dict[str, Any],
    axes: Axes | None = None,
    *,
    scale: Scale | None = None,
    time_scale: Scale | None = None,
    cmap: Colormap | None = None,
) -> Figure:
    """Draw the result of `compute_curves`.

    Colours, by default those of `style.sequential_colormap`, show the axis that varies and line styles the
    regime; with one point, colours show the regime. Axes that show something already keep their scales,
    unless others are given, and the entries of their legend.
    """
    observable, curve_list = result["observable"], result["curves"]
    x_values = [np.array(curve.get("x", result["time"]), dtype=float) for curve in curve_list]
    key, constants = _find_varying_axis(curve_list)
    values = sorted({curve["at"][key] for curve in curve_list}) if key else []
    regimes = list(dict.fromkeys(_regime_name(curve) for curve in curve_list if curve["source"] != SGD))
    colours = dict(zip(values, style.sequential_colours(len(values), cmap), strict=True))
    has_colour_bar = len(values) > MAX_LEGEND_ENTRIES
    log_x, log_y = _choose_log_axes(result, x_values, axes, time_scale, scale)

    sources = _source_entries(regimes, any(curve["source"] == SGD for curve in curve_list), bool(key))
    if not has_colour_bar and any(PREDICTED in curve for curve in curve_list):
        sources.append(_band_entry())
    value_entries = (
        []
        if has_colour_bar
        else [style.colour_swatch(style.format_parameter(key, value), colours[value]) for value in values]
    )
    if axes is not None:
        sources = _add_earlier_entries(axes, sources)
    width_points = 72.0 * (style.SINGLE_COLUMN_INCHES if axes is None else style.get_width(axes))
    handles, columns = _arrange_legend(sources, value_entries, width_points)

    with style.canvas(axes, height=2.4 + 0.14 * len(handles) / columns) as (figure, axes):
        look = Look(log_x, log_y, len(values), has_colour_bar)
        for curve, x in zip(curve_list, x_values, strict=True):
            position = values.index(curve["at"][key]) if key else 0
            _draw_curve(axes, curve, x, look, colours[values[position]] if key else None, position)
        axes.set_xscale("log" if log_x else "linear")
        axes.set_yscale("log" if log_y else "linear")
        for level in result.get("band", ()):
            axes.axhline(level, color="0.35", ls=PREDICTED_LINE, lw=0.7, zorder=0)
        if log_x:
            _start_at_first_step(axes, curve_list)
        style.format_log_ticks(axes)
        axes.set(xlabel=_time_label(result), ylabel=style.axis_label(observable, result["units"]))
        axes.set_title(style.format_title(constants, result.get("fixed")), wrap=True)
        if has_colour_bar:
            style.add_ranked_bar(axes, key, values, cmap=cmap)
        style.legend_below(axes, handles, columns)
    return figure


class Look(NamedTuple):
    """What the curves of a figure share: scales, the number of values with a colour, and thin lines."""

    log_x: bool
    log_y: bool
    values: int
    is_crowded: bool

    @property
    def max_markers(self) -> int:
        return min(MAX_MARKERS, max(MIN_MARKERS, 2 * MAX_MARKERS // max(self.values, 1)))


def _draw_curve(axes: Axes, curve: dict[str, Any], x: Array, look: Look, colour: Any, position: int) -> None:
    """Draw SGD as points with a band, or a theory as a line; `position` is that among the values."""
    mean, low, high = (
        _mask_invisible(curve[statistic], x, look.log_x, look.log_y) for statistic in ("mean", "low", "high")
    )
    if curve["source"] != SGD:
        regime_colour, line = style.regime_style(_regime_name(curve))
        width = 0.8 if look.is_crowded else 1.3
        axes.plot(x, mean, color=colour or regime_colour, ls=line, lw=width, zorder=3)
        if PREDICTED in curve and not look.is_crowded:
            _draw_predicted_band(axes, curve[PREDICTED], x, look, colour or regime_colour)
        return
    colour = colour or style.BLACK
    at = thin_samples(x, mean, look.log_x, look.max_markers, position / max(look.values, 1))
    size = 2.0 if look.is_crowded else 3.5
    axes.plot(x[at], mean[at], "o", ms=size, mfc="none", mec=colour, mew=0.7, zorder=2)
    if curve["runs"] > 1 and not look.is_crowded:  # many bands would hide each other
        axes.fill_between(x, low, high, color=colour, alpha=0.2, lw=0, zorder=1)


def _draw_predicted_band(axes: Axes, predicted: dict[str, Any], x: Array, look: Look, colour: Any) -> None:
    """Draw the ends of the predicted band as thin lines, and the predicted mean between them."""
    for statistic, width in (("low", 0.5), ("mean", 0.7), ("high", 0.5)):
        values = _mask_invisible(predicted[statistic], x, look.log_x, look.log_y)
        axes.plot(x, values, color=colour, ls=PREDICTED_LINE, lw=width, zorder=2)


def _start_at_first_step(axes: Axes, curve_list: list[dict[str, Any]]) -> None:
    """Leave out the times of theories before the first step of SGD, if times are counted in steps."""
    steps = [x for curve in curve_list if curve["source"] == SGD for x in curve.get("x", ()) if x > 0]
    if steps:
        axes.set_xlim(left=0.7 * min(steps))


def _regime_name(curve: dict[str, Any]) -> str:
    return curve.get("regime", "theory")


def _time_label(result: dict[str, Any]) -> str:
    axis = TIME_AXES[result["time_axis"]["name"] if "time_axis" in result else DEFAULT_TIME_AXIS]
    return f"{axis.title} {axis.latex}"


def _choose_log_axes(
    result: dict[str, Any],
    x_values: list[Array],
    axes: Axes | None,
    time_scale: Scale | None,
    scale: Scale | None,
) -> tuple[bool, bool]:
    """Whether time and values have logarithmic axes: as given, as they are, or by their range."""
    kept = ("", "") if axes is None or not axes.has_data() else (axes.get_xscale(), axes.get_yscale())
    means = np.concatenate([np.asarray(curve["mean"], dtype=float) for curve in result["curves"]])
    times = np.concatenate(x_values)
    for field, wanted, values in (("time_scale", time_scale, times), ("scale", scale, means)):
        if wanted == "log" and not np.any(values > 0):
            raise InvalidInput(field, wanted, "must be linear, as no value is positive")
    if not np.any(np.isfinite(means)):  # matplotlib refuses a logarithmic axis without a point
        return False, False
    log_x, log_y = (
        chosen == "log" if chosen else style.is_log(name, values[values > 0])
        for name, values, chosen in (
            ("time", times, time_scale or kept[0]),
            (result["observable"], means, scale or kept[1]),
        )
    )
    return log_x, log_y


def _add_earlier_entries(axes: Axes, entries: list[Any]) -> list[Any]:
    """The entries of the legend that the axes have, and then those that are new."""
    legend = axes.get_legend()
    if legend is None:
        return entries
    earlier = {}
    for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True):
        if handle is not None and text.get_text().strip():
            handle.set_label(text.get_text())
            earlier[text.get_text()] = handle
    return [*earlier.values(), *(entry for entry in entries if entry.get_label() not in earlier)]


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


def _band_entry() -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], color="0.35", ls=PREDICTED_LINE, lw=0.7, label="predicted 95 %")


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
