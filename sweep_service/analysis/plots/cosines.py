"""Cosines of neurons: paths in the plane of two teachers, and histograms at several times."""

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

BINS, MANY_NEURONS = 64, 500  # of a histogram; with fewer neurons, a quarter of the bins
MAX_LINEAR_DENSITY = 5.0  # above it, a linear scale would hide everything else
DEFAULT_PANELS = 4  # histograms, unless times are given
MAX_PATHS = 400  # of SGD; more are not distinguishable
TICKS = (-1.0, -0.5, 0.0, 0.5, 1.0)  # the same on both axes
REQUIRED_DIMS = ("time", "student", "teacher")


def plot_cosine_plane(
    cosines: xr.DataArray, theory: xr.DataArray | None = None, axes: Axes | None = None
) -> Figure:
    """Draw the paths (c_j1, c_j2) of every neuron for k = 2: SGD thin, the theory bold, with start and end.

    Each array is (…, time, student, teacher).
    """
    for field, array in (("cosines", cosines), ("theory", theory)):
        if array is not None and (not set(REQUIRED_DIMS) <= set(array.dims) or array.sizes["teacher"] != 2):
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
        series = [(cosines, style.GREY, 0.5, 0.45, "SGD")]
        series += [] if theory is None else [(theory, style.BLUE, 1.5, 0.9, "theory")]
        handles: list[Any] = []
        for array, colour, width, alpha, text in series:
            paths = _paths(array)
            for path in paths:
                axes.plot(*path.T, color=colour, lw=width, alpha=alpha, zorder=2 + width)
            handles.append(Line2D([], [], color=colour, lw=width, label=text))
        ends = _paths(cosines if theory is None else theory)
        for at, text, fill in ((0, "start", "w"), (-1, "end", style.VERMILLION)):
            positions = np.array([path[np.isfinite(path).all(axis=1)][at] for path in ends]).reshape(-1, 2)
            handles += axes.plot(*positions.T, "o", ms=4, mec="k", mew=0.6, mfc=fill, zorder=5, label=text)
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
    """Paths (time, 2) of the neurons of all runs, without those that are always NaN."""
    values = array.transpose(..., "student", "time", "teacher").values.reshape(-1, array.sizes["time"], 2)
    finite = values[np.isfinite(values).all(axis=2).any(axis=1)]
    return list(finite[:MAX_PATHS])


def plot_cosine_histograms(
    cosines: xr.DataArray,
    times: Sequence[float] | None = None,
    theory: xr.DataArray | None = None,
    axes: Sequence[Axes] | None = None,
) -> Figure:
    """Draw the density of cosines: one panel per time, one colour per teacher, the theory black.

    `cosines` is a stored `cosine_histogram` (…, time, teacher, cosine_bin) or cosines (…, time, student,
    teacher); the density is averaged over all other dimensions. Its scale is logarithmic if it is large.
    """
    all_times = cosines["time"].values.astype(float)
    indices = [int(np.argmin(np.abs(all_times - time))) for time in times or _choose_times(all_times)]
    density = _compute_density(cosines.isel(time=indices))
    theory_density = None if theory is None else _compute_density(theory.isel(time=indices))
    teachers, log = density.shape[1], bool(density.max(initial=0.0) > MAX_LINEAR_DENSITY)
    numbers = cosines["teacher"].values if "teacher" in cosines.dims else np.zeros(1, int)  # their labels
    with style.use_style():
        panels = axes
        if panels is None:
            width = min(style.DOUBLE_COLUMN_INCHES, max(style.SINGLE_COLUMN_INCHES, 1.75 * len(indices)))
            panels = style.new_figure(width, 2.0).subplots(1, len(indices), squeeze=False, sharey=log)[0]
        if len(panels) != len(indices):
            raise InvalidInput("axes", len(panels), f"must be {len(indices)}, one for each time")
        edges = np.linspace(-1.0, 1.0, density.shape[2] + 1)
        colours = (style.BLUE, style.VERMILLION, style.GREEN, style.PURPLE)
        for panel, at, row in zip(panels, indices, range(len(indices)), strict=True):
            panel.set_yscale("log" if log else "linear")
            for teacher, number in enumerate(numbers.tolist()):
                colour = colours[number % len(colours)]
                label = (
                    f"teacher {number + 1}" if teachers > 1 else "SGD" if theory_density is not None else None
                )
                panel.stairs(density[row, teacher], edges, color=colour, label=label)
                panel.stairs(density[row, teacher], edges, fill=True, alpha=0.2, color=colour)
                if theory_density is not None:
                    panel.stairs(
                        theory_density[row, teacher], edges, color=style.BLACK, lw=0.8, label="theory"
                    )
            panel.set(title=style.format_parameter("time", all_times[at]), xlim=(-1.0, 1.0), xlabel="cosine")
            panel.set_xticks([-1.0, 0.0, 1.0], labels=["\N{MINUS SIGN}1", "0", "1"])
            if log:  # the same range in all panels
                panel.set_ylim(density[density > 0].min() / 2.0, 2.0 * density.max())
            else:
                panel.set_ylim(bottom=0.0)
        panels[0].set_ylabel("density of neurons")
        if theory_density is not None or 1 < teachers <= len(colours):
            panels[0].legend(loc="best")
        return style.get_figure(panels[0])


def _compute_density(array: xr.DataArray) -> Array:
    """Density (time, teacher, bin)."""
    shares = array if "cosine_bin" in array.dims else _histogram_cosines(array)
    if "teacher" not in shares.dims:  # a single teacher was selected
        shares = shares.expand_dims("teacher")
    shares = shares.mean([dim for dim in shares.dims if dim not in ("time", "teacher", "cosine_bin")])
    values = shares.transpose("time", "teacher", "cosine_bin").values
    return np.nan_to_num(values) * values.shape[2] / 2.0


def _histogram_cosines(cosines: xr.DataArray) -> xr.DataArray:
    """Shares of neurons in the bins, as in stored histograms."""
    bins = BINS if cosines.sizes["student"] >= MANY_NEURONS else BINS // 4
    edges = np.linspace(-1.0, 1.0, bins + 1)

    def shares(values: Array) -> Array:
        finite = values[np.isfinite(values)]
        return np.histogram(np.clip(finite, -1.0, 1.0), edges)[0] / max(len(finite), 1)

    histogram = xr.apply_ufunc(
        shares, cosines, input_core_dims=[["student"]], output_core_dims=[["cosine_bin"]], vectorize=True
    )
    return histogram.assign_coords(cosine_bin=0.5 * (edges[1:] + edges[:-1]))


def _choose_times(times: Array) -> Array:
    """The first and last time, and some between them, evenly on a logarithmic scale."""
    positive = times[times > 0]
    if len(times) <= DEFAULT_PANELS or len(positive) < 2:
        return times[:DEFAULT_PANELS]
    return np.array([times[0], *np.geomspace(positive[0], positive[-1], DEFAULT_PANELS + 1)[2:]])
