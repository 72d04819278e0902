"""Rates of convergence: SGD to its equations in the step, mean field to gradient flow, large d to any d."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sweep_service.figures.figure import Check, Figure, Parts
from sweep_service.figures.measures import only
from sweep_service.figures.panels import panels

if TYPE_CHECKING:
    import matplotlib.figure
    import xarray as xr

THEORY = "high_dimensional"
# By part: along what, between which sources, and what it is called.
SERIES = {
    "": ("delta_t", "sgd", THEORY, "SGD against SS, along $d$"),
    "gamma": ("delta_t", "sgd", THEORY, "SGD against SS, along $γ$"),
    "width": ("p", "classical", "mean_field", "MF against GF"),
    "dimension": ("d", "mean_field", "mean_field_high_dimensional", "HDMF against MF"),
}
PLACES = {"": 0, "gamma": 0, "width": 1, "dimension": 2}  # panels
GOLDEN = (0.52, 0.55)  # of D/(√δt R(0)), as an independent implementation measured it


def check(parts: Parts) -> list[Check]:
    """Theorems give √δt, 1/√p and 1/√d; mean field is nearer, about 1/p and 1/(d - k) for erf."""
    found = []
    for part, dataset in parts.items():
        along, a, b, name = SERIES[part]
        exponent = dataset.sweep.exponent("discrepancy", along=along, a=a, b=b)["exponent"].item()
        name = f"exponent in {along}: {name.replace('$', '')}"
        if along == "delta_t":
            found.append(Check.within(name, exponent, 0.45, 0.55))
        else:
            found.append(Check.at_most(name, exponent, -0.5))
    away = _errors_away(parts[""])
    return [*found, Check.at_most("D/(√δt R(0)), standard errors from 0.52-0.55, largest", away, 3.0)]


def _errors_away(dataset: xr.Dataset) -> float:
    """How far from the golden interval, where inside is zero."""
    found = dataset.sweep.discrepancy(b=THEORY)
    unit = found["over_initial_risk"] / found["discrepancy"] / dataset["delta_t"] ** 0.5
    low, high = GOLDEN
    value, error = found["discrepancy"] * unit, found["standard_error"] * unit
    return float((np.maximum(np.maximum(low - value, value - high), 0.0) / error).max())


def draw(parts: Parts) -> matplotlib.figure.Figure:
    """Discrepancies in units of R(0) on logarithmic axes, with their exponents and what theorems say."""
    from sweep_service.analysis.plots import style
    from sweep_service.analysis.plots.rates import plot_rates

    with panels(*[1.0] * (1 + max(PLACES[part] for part in parts)), height=3.4) as (figure, several):
        for colour, (part, dataset) in zip(style.OKABE_ITO, parts.items(), strict=False):
            along, a, b, name = SERIES[part]
            found = dataset.sweep.discrepancy(a=a, b=b)
            scale = found["over_initial_risk"] / found["discrepancy"]
            fit = dataset.sweep.exponent("discrepancy", along=along, a=a, b=b).squeeze()
            x = dataset[along].broadcast_like(scale)
            y, error = found["discrepancy"] * scale, found["standard_error"] * scale
            x, y, error = (only(one) for one in (x, y, error))
            # the line through the same points in units of R(0)
            fit["prefactor"] = fit["prefactor"] * float(scale.mean())
            slopes = () if part == "gamma" else (0.5 if along == "delta_t" else -0.5,)
            plot_rates(
                x, y, error, fit, slopes, several[PLACES[part]],
                xlabel=along, ylabel="discrepancy $D/R(0)$", name=name, colour=colour,
            )  # fmt: skip
        for axes in several:
            style.legend_below(axes, axes.get_legend_handles_labels()[0], 1)
    return figure


FIGURE = Figure(
    name="rates",
    title="Rates of convergence",
    presets=("rates",),
    full=("rates-full", "rates-full-gamma", "rates-full-width", "rates-full-dimension"),
    assumptions=(
        "noiseless labels; informed starts, shared by all d",
        "D/(√δt R(0)) may be three standard errors from the golden 0.52-0.55",
    ),
    check=check,
    draw=draw,
)
