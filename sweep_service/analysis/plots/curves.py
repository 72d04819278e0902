"""An observable against time: SGD as points with a band, theories as lines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from sweep_service.analysis.curves import curves
from sweep_service.analysis.plots import style
from sweep_service.numerics.types import AnyArray, Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKS, FEWEST_MARKS = 30, 12  # of SGD along a curve: alone, and among others
LETTER, HANDLE = 3.6, 30.0  # points that a letter of a legend takes, and what stands before it
MOST_NAMED = 6  # values that a legend names; more of them are read off a colour bar


def plot_curves(
    dataset: xr.Dataset, observable: str = "risk", axes: Axes | None = None, **where: Any
) -> Figure:
    """Mean over runs of what `where` selects, with the band from the 16th to the 84th percentile of SGD."""
    return draw_curves(curves(dataset, observable, **where), axes)


def draw_curves(found: dict[str, Any], axes: Axes | None = None) -> Figure:
    """Curves as `curves` finds them.

    Colours follow the axis that varies, lines the regime; with one point only, colours follow the regime.
    """
    observable = found["observable"]
    time, drawn = np.array(found["time"], dtype=float), found["curves"]
    key, same = _varying(drawn)
    values = sorted({curve["at"][key] for curve in drawn}) if key else []
    regimes = list(dict.fromkeys(curve["regime"] for curve in drawn if "regime" in curve))
    colours = dict(zip(values, style.sequence(len(values)), strict=True))
    many = len(values) > MOST_NAMED
    most = min(MARKS, max(FEWEST_MARKS, 2 * MARKS // max(len(values), 1)))
    everything = np.concatenate([np.asarray(curve["mean"], dtype=float) for curve in drawn])
    log_y = style.is_log(observable, everything[everything > 0])
    log_x = style.is_log("time", time[time > 0])

    sources = _handles(regimes, any("regime" not in curve for curve in drawn), bool(key))
    named = [] if many else [style.swatch(style.text(key, value), colours[value]) for value in values]
    room = 72.0 * (style.SINGLE if axes is None else style.width_of(axes))
    handles, columns = _in_columns(sources, named, room)

    with style.canvas(axes, height=2.4 + 0.14 * len(handles) / columns) as (figure, axes):
        for curve in drawn:
            regime = curve.get("regime")
            plain, line = style.regime_style(regime) if regime else (style.BLACK, "none")
            colour = colours[curve["at"][key]] if key else plain
            mean, low, high = (_shown(curve[of], time, log_x, log_y) for of in ("mean", "low", "high"))
            if regime is None:
                at = thinned(
                    time, mean, log_x, most, values.index(curve["at"][key]) / len(values) if key else 0.0
                )
                size = 2.0 if many else 3.5
                axes.plot(time[at], mean[at], "o", ms=size, mfc="none", mec=colour, mew=0.7, zorder=2)
                if curve["runs"] > 1 and not many:  # many bands hide each other
                    axes.fill_between(time, low, high, color=colour, alpha=0.2, lw=0, zorder=1)
            else:
                axes.plot(time, mean, color=colour, ls=line, lw=0.8 if many else 1.3, zorder=3)
        axes.set_xscale("log" if log_x else "linear")
        axes.set_yscale("log" if log_y else "linear")
        style.log_ticks(axes)
        axes.set(xlabel=style.label("time"), ylabel=style.label(observable, found["units"]))
        axes.set_title(style.title(same), wrap=True)
        if many:
            style.ranked_bar(axes, key, values)
        style.legend_below(axes, handles, columns)
    return figure


def _varying(drawn: list[dict[str, Any]]) -> tuple[str, dict[str, Any]]:
    """The axis by which curves are told apart, and what there is to say of the others.

    It is the first one that differs between any two points, else the one with most values.
    """
    places = [curve["at"] for curve in drawn]
    there = {name: sorted({place[name] for place in places}) for name in places[0]}
    distinct = len({tuple(place.values()) for place in places})
    several = [name for name, values in there.items() if len(values) > 1]
    if not several:
        return "", {name: values[0] for name, values in there.items()}
    key = next((name for name in several if len(there[name]) == distinct), None)
    key = key or max(several, key=lambda name: len(there[name]))
    return key, {
        name: values if len(values) > 1 else values[0] for name, values in there.items() if name != key
    }


def _shown(values: list[float], time: Array, log_x: bool, log_y: bool) -> Array:
    """NaN where a logarithmic axis has no place."""
    numbers = np.array(values, dtype=float)
    numbers[((time <= 0) & log_x) | ((numbers <= 0) & log_y)] = np.nan
    return numbers


def thinned(time: Array, values: Array, log: bool, most: int = MARKS, shift: float = 0.0) -> AnyArray:
    """Indices of samples that are evenly spaced on the axis as it is drawn.

    A `shift`, in units of the spacing, lets curves that lie on each other have their marks side by side.
    """
    there = np.flatnonzero(np.isfinite(values))
    if len(there) <= most:
        return there
    place = np.log(time[there]) if log else time[there]
    wanted = np.linspace(place[0], place[-1], most) + shift * (place[-1] - place[0]) / most
    return there[np.unique([np.argmin(np.abs(place - at)) for at in wanted])]


def _handles(regimes: list[str], sgd: bool, coloured: bool) -> list[Any]:
    from matplotlib.lines import Line2D

    found = []
    if sgd:
        found.append(Line2D([], [], marker="o", ls="none", mfc="none", mec=style.BLACK, mew=0.7, label="SGD"))
    for regime in regimes:
        colour, line = style.regime_style(regime)
        colour = "0.35" if coloured else colour
        found.append(Line2D([], [], color=colour, ls=line, label=style.words(regime)))
    return found


def _in_columns(sources: list[Any], named: list[Any], room: float) -> tuple[list[Any], int]:
    """Sources in a column of their own, the values beside them, in as few rows as the width allows."""

    def wide(entries: list[Any]) -> float:
        seen = [re.sub(r"\\[A-Za-z]+|[${}]", "", str(one.get_label())) for one in entries]
        return HANDLE + LETTER * max(map(len, seen), default=0)

    if not named:
        sources += style.blanks(-len(sources) % 2)
        return sources, 2 if 2 * wide(sources) < room else 1
    if wide(sources) + wide(named) > room:
        return sources + named, 1
    fewest, most = max(len(sources), -(-len(named) // 2)), max(len(sources), len(named))
    for rows in range(fewest, most + 1):
        columns = -(-len(named) // rows)
        if rows == most or wide(sources) + columns * wide(named) < room:
            break
    filled = [*sources, *style.blanks(rows - len(sources)), *named]
    return filled + style.blanks(rows * (1 + columns) - len(filled)), 1 + columns
