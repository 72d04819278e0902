"""`ds.sweep.plot_*`: one function for each view, with its options as parameters.

Selections along coordinates (`gamma=0.5`) are open-ended, as any axis can be selected, and the only keywords
that are not parameters. The drawing options have the same names and values in URLs and on the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import xarray as xr

from sweep_service.analysis.plots.options import Levels, Limits, Scale
from sweep_service.analysis.views import VIEWS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure


def plot_curves(
    dataset: xr.Dataset,
    /,
    observable: str = "risk",
    *,
    time: Any = "t",
    scale: Scale | None = None,
    time_scale: Scale | None = None,
    cmap: str | Colormap | None = None,
    ax: Axes | None = None,
    **select: Any,
) -> Figure:
    """Draw an observable against time: SGD as points with a band, theories as lines.

    The band is from the 16th to the 84th percentile of the runs.

    Parameters
    ----------
    observable
        A stored observable that is one number at each time.
    time
        Unit of the time axis: `t`, `steps` of SGD, or `samples/d`, the samples per dimension. Any other value
        selects times, such as `"0.1:10"`.
    scale, time_scale
        `log` or `linear`, of the observable and of the time. By default logarithmic for observables that
        usually are, and for times, over a factor of 5 or more.
    cmap
        Colour map of matplotlib, or its name, for the values of the axis that varies.
    ax
        Matplotlib axes to draw on, by default those of a new figure. Curves that they show already stay, with
        their scales and their entries in the legend.
    **select
        Selections along coordinates: a number, a text, a sequence of them, or a string such as `0.1,0.2` or
        `0.01:1`.

    Returns
    -------
    matplotlib.figure.Figure
        The new figure, or the figure of `ax`.
    """
    drawing = {"scale": scale, "time_scale": time_scale, "cmap": cmap}
    return VIEWS["curves"].plot(dataset, {"observable": observable, "time": time, **drawing, **select}, ax)


def plot_phase_diagram(
    dataset: xr.Dataset,
    /,
    x: str,
    y: str,
    value: str = "sgd_risk",
    *,
    scale: Scale | None = None,
    levels: Levels | None = None,
    cmap: str | Colormap | None = None,
    limits: Limits | None = None,
    ratio_lines: bool = False,
    ax: Axes | None = None,
    **select: Any,
) -> Figure:
    """Draw a value on two axes of a sweep: cells of a product, or a surface through points.

    Parameters
    ----------
    x, y
        Names of the two axes.
    value
        A value as for `phase_diagram`.
    scale
        `log` or `linear` colours. By default logarithmic for positive values over a factor of 3 or more,
        except those that are between 0 and 1 by definition. On a logarithmic scale, values that are not
        positive have the colour of the smallest that is.
    levels
        Labelled contour lines: their values, or about how many to draw at round values. By default
        there are none.
    cmap
        Colour map of matplotlib, or its name. By default `viridis`, and `RdBu_r` for ratios.
    limits
        Values at the two ends of the colours, which make two diagrams comparable.
    ratio_lines
        Whether to draw lines of equal γ/p, if the axes are gamma and p.
    ax
        Matplotlib axes to draw on, by default those of a new figure.
    **select
        Selections along coordinates, or reductions over an axis, as for `phase_diagram`.

    Returns
    -------
    matplotlib.figure.Figure
        The new figure, or the figure of `ax`.
    """
    drawing = {"scale": scale, "levels": levels, "cmap": cmap, "limits": limits, "ratio_lines": ratio_lines}
    options = {"x": x, "y": y, "value": value, **drawing, **select}
    return VIEWS["phase-diagram"].plot(dataset, options, ax)


def plot_triangle(
    dataset: xr.Dataset,
    /,
    value: str = "sgd_risk",
    *,
    scale: Scale | None = None,
    levels: Levels | None = None,
    cmap: str | Colormap | None = None,
    limits: Limits | None = None,
    ax: Axes | None = None,
    **select: Any,
) -> Figure:
    """Draw a value on the triangle of limits, with lines of equal γ/p and the choice of `auto` as markers.

    Parameters
    ----------
    value
        A value as for `phase_diagram` that is a number.
    scale, cmap, limits
        Scale, colour map and ends of the colours, as for `plot_phase_diagram`.
    levels
        Contour lines: their values, or about how many to draw at round values. By default five, evenly
        spaced in colour. The colour bar shows their values.
    ax
        Matplotlib axes to draw on, by default those of a new figure.
    **select
        Selections along coordinates.

    Returns
    -------
    matplotlib.figure.Figure
        The new figure, or the figure of `ax`.
    """
    drawing = {"scale": scale, "levels": levels, "cmap": cmap, "limits": limits}
    return VIEWS["triangle"].plot(dataset, {"value": value, **drawing, **select}, ax)


def plot_plane(
    dataset: xr.Dataset, /, source: str = "sgd", *, ax: Axes | None = None, **select: Any
) -> Figure:
    """Draw the (κ, δ) plane of a scaling sweep: measured phases on the predicted regions.

    Parameters
    ----------
    source
        `sgd` or the name of a regime.
    ax
        Matplotlib axes to draw on, by default those of a new figure.
    **select
        Selections along coordinates.

    Returns
    -------
    matplotlib.figure.Figure
        The new figure, or the figure of `ax`.
    """
    return VIEWS["plane"].plot(dataset, {"source": source, **select}, ax)


def plot_rates(
    dataset: xr.Dataset,
    /,
    of: str = "discrepancy",
    along: str = "delta_t",
    *,
    a: str | None = None,
    b: str | None = None,
    source: str | None = None,
    ax: Axes | None = None,
    **select: Any,
) -> Figure:
    """Draw a quantity against a parameter on logarithmic axes, with the fitted exponents.

    Parameters
    ----------
    of
        `discrepancy`, `overlap_discrepancy` or `final_risk`.
    along
        The parameter.
    a, b
        Sources of a discrepancy, by default `sgd` and `ode`.
    source
        Source of a final risk, by default `sgd`.
    ax
        Matplotlib axes to draw on, by default those of a new figure.
    **select
        Selections along coordinates.

    Returns
    -------
    matplotlib.figure.Figure
        The new figure, or the figure of `ax`.
    """
    options = {"of": of, "along": along, "a": a, "b": b, "source": source, **select}
    return VIEWS["rates"].plot(dataset, options, ax)


def plot_collapse(
    dataset: xr.Dataset,
    /,
    kind: str = "overlay",
    along: str = "d",
    source: str = "sgd",
    *,
    ax: Sequence[Axes] | None = None,
    **select: Any,
) -> Figure:
    """Draw curves at all values of an axis, and the same curves on their common scale or their spread.

    Parameters
    ----------
    kind
        `overlay`, `power` or `logshift`, as for `collapse`.
    along
        The axis. Every other axis must have one value.
    source
        `sgd`, the name of a regime, or `ode`.
    ax
        Two matplotlib axes to draw on, or one if a fit failed; by default those of a new figure.
    **select
        Selections along coordinates.

    Returns
    -------
    matplotlib.figure.Figure
        The new figure, or the figure of `ax`.
    """
    return VIEWS["collapse"].plot(dataset, {"kind": kind, "along": along, "source": source, **select}, ax)


def plot_cosines(
    dataset: xr.Dataset, /, regime: str | None = None, *, ax: Axes | None = None, **select: Any
) -> Figure:
    """Draw the paths of the neurons between two teacher neurons: their cosines with both.

    Parameters
    ----------
    regime
        The theory beside SGD; required if there are several.
    ax
        Matplotlib axes to draw on, by default those of a new figure.
    **select
        Selections along coordinates and of neurons (`student`); one point must remain.

    Returns
    -------
    matplotlib.figure.Figure
        The new figure, or the figure of `ax`.
    """
    return VIEWS["cosines"].plot(dataset, {"regime": regime, **select}, ax)


def plot_histograms(
    dataset: xr.Dataset,
    /,
    source: str = "sgd",
    *,
    time: Any = None,
    ax: Sequence[Axes] | None = None,
    **select: Any,
) -> Figure:
    """Draw histograms of the cosines of neurons with each teacher neuron, one panel for each time.

    Parameters
    ----------
    source
        `sgd`, the name of a regime, or `ode`.
    time
        Times, such as `[0, 10, 1000]`; by default four.
    ax
        Matplotlib axes to draw on, one for each time; by default those of a new figure.
    **select
        Selections along coordinates and of neurons (`student`, `teacher`).

    Returns
    -------
    matplotlib.figure.Figure
        The new figure, or the figure of `ax`.
    """
    return VIEWS["histograms"].plot(dataset, {"source": source, "time": time, **select}, ax)


def plot_seeds(
    dataset: xr.Dataset,
    /,
    value: str = "risk",
    relative_error: float = 0.05,
    *,
    scale: Scale | None = None,
    time_scale: Scale | None = None,
    cmap: str | Colormap | None = None,
    ax: Axes | None = None,
    **select: Any,
) -> Figure:
    """Draw over time how many seeds make the standard error of a mean a given share of it.

    The numbers measured from the runs are points with a band, their 95 % interval, those predicted a line.

    Parameters
    ----------
    value
        `risk`, `final_risk`, or another stored observable of SGD, as for `seeds_needed`.
    relative_error
        Standard error of the mean over the mean.
    scale, time_scale
        `log` or `linear`, of the numbers and of the time. By default logarithmic over a factor of 5 or more.
    cmap
        Colour map of matplotlib, or its name, for the values of the axis that varies.
    ax
        Matplotlib axes to draw on, by default those of a new figure.
    **select
        Selections along coordinates.

    Returns
    -------
    matplotlib.figure.Figure
        The new figure, or the figure of `ax`.
    """
    drawing = {"scale": scale, "time_scale": time_scale, "cmap": cmap}
    options = {"value": value, "relative_error": relative_error, **drawing, **select}
    return VIEWS["seeds"].plot(dataset, options, ax)


PLOTS: dict[str, Callable[..., Figure]] = {
    "curves": plot_curves,
    "phase-diagram": plot_phase_diagram,
    "triangle": plot_triangle,
    "plane": plot_plane,
    "rates": plot_rates,
    "collapse": plot_collapse,
    "cosines": plot_cosines,
    "histograms": plot_histograms,
    "seeds": plot_seeds,
}
