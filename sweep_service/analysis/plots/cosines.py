"""Where neurons point: paths in the plane of two teachers, and histograms over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from sweep_service.analysis.plots import style
from sweep_service.errors import InvalidInput
from sweep_service.numerics.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BINS, MANY = 64, 500  # bins, and the neurons that fill them
GATHERED = 5.0  # a density beyond which a linear scale would show nothing else
PANELS = 4  # histograms, unless times are named
MOST_PATHS = 400  # of SGD; more would only be a darker blot
TICKS = (-1.0, -0.5, 0.0, 0.5, 1.0)  # the same on both axes
INSIDE = ("time", "student", "teacher")


def plot_cosine_plane(
    cosines: xr.DataArray, theory: xr.DataArray | None = None, axes: Axes | None = None
) -> Figure:
    """Paths (c_j1, c_j2) of every neuron, k = 2: SGD thin, the theory bold; a ring where a path begins.

    Each array is (…, time, student, teacher).
    """
    for field, array in (("cosines", cosines), ("theory", theory)):
        if array is not None and (not set(INSIDE) <= set(array.dims) or array.sizes["teacher"] != 2):
            raise InvalidInput(
                field, dict(array.sizes), "must be (…, time, student, teacher) with two teachers"
            )
    from matplotlib.lines import Line2D
    from matplotlib.patches import Circle

    with style.canvas(axes, height=3.7) as (figure, axes):
        axes.add_patch(Circle((0.0, 0.0), 1.0, fc="none", ec="0.6", lw=0.8))
        axes.axhline(0.0, color="0.85", lw=0.6, zorder=0)
        axes.axvline(0.0, color="0.85", lw=0.6, zorder=0)
        axes.plot(np.sqrt(0.5), np.sqrt(0.5), "*", color=style.PURPLE, ms=9, mec="k", mew=0.4, zorder=6)
        looks = [(cosines, style.GREY, 0.5, 0.45, "SGD")]
        looks += [] if theory is None else [(theory, style.BLUE, 1.5, 0.9, "theory")]
        handles: list[Any] = []
        for array, colour, width, alpha, text in looks:
            paths = _paths(array)
            for path in paths:
                axes.plot(*path.T, color=colour, lw=width, alpha=alpha, zorder=2 + width)
            handles.append(Line2D([], [], color=colour, lw=width, label=text))
        ends = _paths(cosines if theory is None else theory)
        for at, text, fill in ((0, "start", "w"), (-1, "end", style.VERMILLION)):
            places = np.array([path[np.isfinite(path).all(axis=1)][at] for path in ends]).reshape(-1, 2)
            handles += axes.plot(*places.T, "o", ms=4, mec="k", mew=0.6, mfc=fill, zorder=5, label=text)
        star: dict[str, Any] = {
            "marker": "*",
            "color": style.PURPLE,
            "mec": "k",
            "mew": 0.4,
            "ms": 8,
            "ls": "none",
        }
        handles.append(Line2D([], [], **star, label="symmetric"))
        axes.set(aspect="equal", xlim=(-1.08, 1.08), ylim=(-1.08, 1.08), xticks=TICKS, yticks=TICKS)
        axes.set(xlabel="cosine with teacher 1", ylabel="cosine with teacher 2")
        style.legend_below(axes, handles, 3)
    return figure


def _paths(array: xr.DataArray) -> list[Array]:
    """(time, 2) of every neuron of every run that has a place at some time."""
    values = array.transpose(..., "student", "time", "teacher").values.reshape(-1, array.sizes["time"], 2)
    there = values[np.isfinite(values).all(axis=2).any(axis=1)]
    return list(there[:MOST_PATHS])


def plot_cosine_histograms(
    cosines: xr.DataArray,
    times: Sequence[float] | None = None,
    theory: xr.DataArray | None = None,
    axes: Sequence[Axes] | None = None,
) -> Figure:
    """The density of cosines at some times, one panel for each, a colour for each teacher, the theory black.

    From a stored `cosine_histogram` (…, time, teacher, cosine_bin), or from cosines (…, time, student,
    teacher); over every other dimension it is the mean. Logarithmic where neurons have gathered.
    """
    known = cosines["time"].values.astype(float)
    chosen = [int(np.argmin(np.abs(known - time))) for time in times or _spread(known)]
    density = _density(cosines.isel(time=chosen))
    line = None if theory is None else _density(theory.isel(time=chosen))
    teachers, log = density.shape[1], bool(density.max(initial=0.0) > GATHERED)
    numbers = cosines["teacher"].values if "teacher" in cosines.dims else np.zeros(1, int)  # among all
    with style.style():
        panels = axes
        if panels is None:
            width = min(style.DOUBLE, max(style.SINGLE, 1.75 * len(chosen)))
            panels = style.new_figure(width, 2.0).subplots(1, len(chosen), squeeze=False, sharey=log)[0]
        if len(panels) != len(chosen):
            raise InvalidInput("axes", len(panels), f"must be {len(chosen)}, one for each time")
        edges = np.linspace(-1.0, 1.0, density.shape[2] + 1)
        colours = (style.BLUE, style.VERMILLION, style.GREEN, style.PURPLE)
        for panel, at, row in zip(panels, chosen, range(len(chosen)), strict=True):
            panel.set_yscale("log" if log else "linear")
            for teacher, number in enumerate(numbers.tolist()):
                colour = colours[number % len(colours)]
                label = f"teacher {number + 1}" if teachers > 1 else "SGD" if line is not None else None
                panel.stairs(density[row, teacher], edges, color=colour, label=label)
                panel.stairs(density[row, teacher], edges, fill=True, alpha=0.2, color=colour)
                if line is not None:
                    panel.stairs(line[row, teacher], edges, color=style.BLACK, lw=0.8, label="theory")
            panel.set(title=style.text("time", known[at]), xlim=(-1.0, 1.0), xlabel="cosine")
            panel.set_xticks([-1.0, 0.0, 1.0], labels=["\N{MINUS SIGN}1", "0", "1"])
            if log:  # all of them alike
                panel.set_ylim(density[density > 0].min() / 2.0, 2.0 * density.max())
            else:
                panel.set_ylim(bottom=0.0)
        panels[0].set_ylabel("density of neurons")
        if line is not None or 1 < teachers <= len(colours):
            panels[0].legend(loc="best")
        return style.figure_of(panels[0])


def _density(array: xr.DataArray) -> Array:
    """(time, teacher, bin)."""
    shares = array if "cosine_bin" in array.dims else _counted(array)
    if "teacher" not in shares.dims:  # one of them was selected
        shares = shares.expand_dims("teacher")
    shares = shares.mean([dim for dim in shares.dims if dim not in ("time", "teacher", "cosine_bin")])
    values = shares.transpose("time", "teacher", "cosine_bin").values
    return np.nan_to_num(values) * values.shape[2] / 2.0


def _counted(cosines: xr.DataArray) -> xr.DataArray:
    """Shares of neurons in the bins, as the stored histograms have them."""
    bins = BINS if cosines.sizes["student"] >= MANY else BINS // 4
    sides = np.linspace(-1.0, 1.0, bins + 1)

    def shares(values: Array) -> Array:
        there = values[np.isfinite(values)]
        return np.histogram(np.clip(there, -1.0, 1.0), sides)[0] / max(len(there), 1)

    found = xr.apply_ufunc(
        shares, cosines, input_core_dims=[["student"]], output_core_dims=[["cosine_bin"]], vectorize=True
    )
    return found.assign_coords(cosine_bin=0.5 * (sides[1:] + sides[:-1]))


def _spread(times: Array) -> Array:
    """First, last, and some between, evenly on a logarithmic scale."""
    positive = times[times > 0]
    if len(times) <= PANELS or len(positive) < 2:
        return times[:PANELS]
    return np.array([times[0], *np.geomspace(positive[0], positive[-1], PANELS + 1)[2:]])
