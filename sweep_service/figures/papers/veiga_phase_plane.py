"""The phase plane of Veiga et al.: p = p0 d^κ, γ = γ0 d^-δ, and how the final risk depends on d."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sweep_service.figures.figure import Check, Datasets, Figure
from sweep_service.figures.measures import fit_log_slope
from sweep_service.figures.panels import panels

if TYPE_CHECKING:
    import matplotlib.figure
    import xarray as xr

MAX_EXPONENT_ERROR = 0.03  # deviation of the exponent of a floor from the law
MAX_SERIES = 8  # in the legend
MAX_FLAT_EXPONENT = 0.05  # the golden exponent on the blue line is 0.02(3)


def predict_exponents(dataset: xr.Dataset, cases: xr.Dataset) -> xr.DataArray:
    """Exponents of γ/p in d: -(κ + δ), except for the rounding of p to multiples of k."""
    exponents = []
    for kappa, delta in zip(cases["kappa"].values, cases["delta"].values, strict=True):
        points = select_case(dataset, kappa, delta)
        exponents.append(fit_log_slope(points["d"], points["gamma"] / points["p"]))
    return cases["theory"].copy(data=np.array(exponents))


def select_case(dataset: xr.Dataset, kappa: float, delta: float) -> xr.Dataset:
    """Select the points of one (κ, δ)."""
    mask = (dataset["kappa"] == kappa) & (dataset["delta"] == delta)
    return dataset.isel(point=np.flatnonzero(mask.values))


def check(datasets: Datasets) -> list[Check]:
    """Check that floors fall as γ/p, and that the risk is flat on the blue line and rises with d below it."""
    floors, labels = (datasets[name].sweep.scaling_phase("sgd") for name in ("", "labels"))
    deviation = abs(floors["slope"] - predict_exponents(datasets[""], floors))
    labels = labels.isel(case=np.flatnonzero(labels["kappa"].values == 0.0))  # there, all d share one start
    total = labels["kappa"] + labels["delta"]
    blue, orange = abs(total) < 1e-9, (total < -1e-9) & (total > -0.5)
    rise = (labels["slope"] - 2.0 * labels["slope_error"]).where(orange)
    return [
        Check.at_most(
            "exponent of the floors in d, farthest from -(κ+δ)", deviation.max(), MAX_EXPONENT_ERROR
        ),
        Check.at_most(
            "|exponent| on the blue line, largest", abs(labels["slope"]).where(blue).max(), MAX_FLAT_EXPONENT
        ),
        Check.at_least(
            "exponent in the orange region less 2 errors, smallest", rise.min(), MAX_FLAT_EXPONENT
        ),
    ]


def draw(datasets: Datasets) -> matplotlib.figure.Figure:
    """Draw the plane with the measured phases, and final risks against d at κ = 0."""
    import xarray as xr

    from sweep_service.analysis.plots import style
    from sweep_service.analysis.plots.scaling_plane import plot_plane

    cases = {name: datasets[name].sweep.scaling_phase("sgd") for name in ("", "labels")}
    variables = ["phase", "slope"]
    with panels(1.0, 1.0, height=3.8) as (figure, (plane, risks)):
        phases = [_drop_fixed(phases[variables]) for phases in cases.values()]
        plot_plane(xr.concat(phases, "case"), plane)
        series = [
            (name, delta)
            for name, phases in cases.items()
            for delta in phases["delta"].values[phases["kappa"].values == 0.0]
        ]
        series = sorted(series, key=lambda item: -item[1])[:: -(-len(series) // MAX_SERIES)]
        for colour, (name, delta) in zip(style.sequential_colours(len(series)), series, strict=True):
            final = select_case(datasets[name], 0.0, delta).sweep.final_risk("sgd")
            d, mean, error = final["d"], final["final_risk"], final["standard_error"]
            label = rf"$\delta$ = {style.format_number(delta)}, {'planted' if name == '' else 'informed'}"
            marker = "o" if name == "" else "s"
            risks.errorbar(d, mean, error, fmt=marker, ls="-", color=colour, mfc="w", capsize=2, label=label)
        risks.set(xscale="log", yscale="log", xlabel=style.axis_label("d"), ylabel="final excess risk $R$")
        risks.set_title(r"$\kappa$ = 0")
        style.legend_below(risks, risks.get_legend_handles_labels()[0], 2)
    return figure


def _drop_fixed(dataset: xr.Dataset) -> xr.Dataset:
    """Drop the fixed parameters, in which the sweeps of the figure differ."""
    return dataset.drop_vars([name for name, values in dataset.coords.items() if values.ndim == 0])


FIGURE = Figure(
    name="veiga-phase-plane",
    title="Phase plane of learning rate and width (Veiga et al.)",
    presets=("veiga-phase-plane", "veiga-phase-plane-labels"),
    full_presets=("veiga-phase-plane-full", "veiga-phase-plane-full-labels"),
    assumptions=(),
    check=check,
    draw=draw,
)
