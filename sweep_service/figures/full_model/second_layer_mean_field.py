"""The mean-field limit with random second layers that are learned, for erf and relu."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sweep_service.figures.figure import Check, Datasets, Figure
from sweep_service.figures.measures import discrepancy_of_means, initial_risk, squeeze_except
from sweep_service.figures.panels import panels

if TYPE_CHECKING:
    import matplotlib.figure
    import xarray as xr

THEORY = "mean_field"
NARROW_P, WIDE_P = 10, 100
ACTIVATIONS = ("erf", "relu")


def relative_distance(dataset: xr.Dataset) -> xr.DataArray:
    """sup |SGD - MF|/R(0) by activation and p."""
    return squeeze_except(
        discrepancy_of_means(dataset, THEORY) / initial_risk(dataset, THEORY), "p", "activation"
    )


def check(datasets: Datasets) -> list[Check]:
    """Bound the distance at the largest p, and its ratio to that of narrow students."""
    checks = []
    distances = relative_distance(datasets[""])
    for activation in ACTIVATIONS:
        distance = distances.sel(activation=activation)
        wide, narrow = distance.sel(p=WIDE_P), distance.sel(p=NARROW_P)
        name = f"sup |SGD - MF|/R(0), {activation}"
        checks += [
            Check.at_most(f"{name}, p = {WIDE_P}", wide, 0.05),
            Check.at_most(f"{name}, p = {WIDE_P} over p = {NARROW_P}", wide / narrow, 0.5),
        ]
    return checks


def draw(datasets: Datasets) -> matplotlib.figure.Figure:
    """Draw R(t) of both activations, and the distances against p."""
    from sweep_service.analysis.plots import style
    from sweep_service.analysis.view_plots import plot_curves

    dataset = datasets[""]
    distances = relative_distance(dataset)
    with panels(1, 1, 1, height=3.2) as (figure, (erf, relu, distance)):
        for axes, activation in zip((erf, relu), ACTIVATIONS, strict=True):
            plot_curves(dataset.sel(activation=[activation]), "risk", ax=axes)
            axes.set_title(activation, loc="left")
        for colour, marker, activation in zip(style.OKABE_ITO, style.MARKERS, ACTIVATIONS, strict=False):
            values = distances.sel(activation=activation)
            distance.plot(values["p"], values, marker=marker, mfc="w", color=colour, label=activation)
        distance.set(
            xscale="log", yscale="log", xlabel=style.axis_label("p"), ylabel="sup |SGD $-$ MF|/$R(0)$"
        )
        distance.set_xticks(distances["p"].values, [str(p) for p in distances["p"].values])
        distance.set_xticks([], minor=True)
        style.format_log_axis(distance.yaxis)
        style.legend_below(distance, distance.get_legend_handles_labels()[0], 2)
    return figure


FIGURE = Figure(
    name="second-layer-mean-field",
    title="Mean field with second layers",
    presets=("second-layer-mean-field",),
    full_presets=("second-layer-mean-field-full",),
    assumptions=("sup |SGD - MF| is of means over the repeats from one start, then averaged over starts",),
    check=check,
    draw=draw,
)
