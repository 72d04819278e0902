"""Rates of convergence: of SGD in δt, of mean field in p, of high-dimensional mean field in d."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sweep_service.figures.figure import Check, Datasets, Figure
from sweep_service.figures.panels import panels

if TYPE_CHECKING:
    import matplotlib.figure
    import xarray as xr

THEORY = "high_dimensional"
# By name of the dataset: the parameter, the two sources, and the title.
SERIES = {
    "": ("delta_t", "sgd", THEORY, "SGD against SS, along $d$"),
    "gamma": ("delta_t", "sgd", THEORY, "SGD against SS, along $γ$"),
    "width": ("p", "classical", "mean_field", "MF against GF"),
    "dimension": ("d", "mean_field", "mean_field_high_dimensional", "HDMF against MF"),
}
PANELS = {"": 0, "gamma": 0, "width": 1, "dimension": 2}
GOLDEN_RATIO = (0.52, 0.55)  # D/(√δt R(0)), measured by an independent implementation


def check(datasets: Datasets) -> list[Check]:
    """Check exponents: theorems bound by √δt, 1/√p and 1/√d; for erf, mean field has 1/p and 1/(d - k)."""
    result = []
    for name, dataset in datasets.items():
        along, a, b, title = SERIES[name]
        exponent = dataset.sweep.exponent("discrepancy", along=along, a=a, b=b)["exponent"].item()
        check_name = f"exponent in {along}: {title.replace('$', '')}"
        if along == "delta_t":
            result.append(Check.within(check_name, exponent, 0.45, 0.55))
        else:
            result.append(Check.at_most(check_name, exponent, -0.5))
    errors = _errors_from_golden(datasets[""])
    return [*result, Check.at_most("D/(√δt R(0)), standard errors from 0.52-0.55, largest", errors, 3.0)]


def _errors_from_golden(dataset: xr.Dataset) -> float:
    """The largest distance from the golden interval in standard errors, 0 inside it."""
    result = dataset.sweep.discrepancy(b=THEORY)
    unit = result["over_initial_risk"] / result["discrepancy"] / dataset["delta_t"] ** 0.5
    low, high = GOLDEN_RATIO
    value, error = result["discrepancy"] * unit, result["standard_error"] * unit
    return float((np.maximum(np.maximum(low - value, value - high), 0.0) / error).max())


def draw(datasets: Datasets) -> matplotlib.figure.Figure:
    """Draw discrepancies in units of R(0), with fitted exponents and those of the theorems."""
    from sweep_service.analysis.plots import style
    from sweep_service.analysis.plots.rates import plot_rates

    with panels(*[1.0] * (1 + max(PANELS[name] for name in datasets)), height=3.4) as (figure, panel_axes):
        for colour, (name, dataset) in zip(style.OKABE_ITO, datasets.items(), strict=False):
            along, a, b, title = SERIES[name]
            result = dataset.sweep.discrepancy(a=a, b=b)
            scale = result["over_initial_risk"] / result["discrepancy"]
            fit = dataset.sweep.exponent("discrepancy", along=along, a=a, b=b).squeeze()
            # Points and the fitted line in units of R(0); the line goes through the geometric means.
            x, unit = fit[along], float(scale.mean())
            y, error = fit["geometric_mean"] * unit, fit["geometric_error"] * unit
            fit["prefactor"] = fit["prefactor"] * unit
            slopes = () if name == "gamma" else (0.5 if along == "delta_t" else -0.5,)
            plot_rates(
                x, y, error, fit, slopes, panel_axes[PANELS[name]],
                xlabel=along, ylabel="discrepancy $D/R(0)$", name=title, colour=colour,
            )  # fmt: skip
        for axes in panel_axes:
            style.legend_below(axes, axes.get_legend_handles_labels()[0], 1)
    return figure


FIGURE = Figure(
    name="rates",
    title="Rates of convergence",
    presets=("rates",),
    full_presets=("rates-full", "rates-full-gamma", "rates-full-width", "rates-full-dimension"),
    assumptions=("D/(√δt R(0)) may be three standard errors from the golden 0.52-0.55",),
    check=check,
    draw=draw,
)
