"""The phase plane of Veiga et al.: p = p0 d^κ, γ = γ0 d^-δ, and how the final risk goes with d."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sweep_service.figures.figure import Check, Figure, Parts
from sweep_service.figures.measures import slope
from sweep_service.figures.panels import panels

if TYPE_CHECKING:
    import matplotlib.figure
    import xarray as xr

MOST = 0.03  # of a floor's exponent from the law's
MOST_SERIES = 8  # that a legend names
FLAT = 0.05  # an exponent that is none: the golden one of the blue line is 0.02(3)


def law(dataset: xr.Dataset, cases: xr.Dataset) -> xr.DataArray:
    """Exponents of γ/p in d: -(κ + δ), but for the rounding of p to multiples of k."""
    found = []
    for kappa, delta in zip(cases["kappa"].values, cases["delta"].values, strict=True):
        one = at(dataset, kappa, delta)
        found.append(slope(one["d"], one["gamma"] / one["p"]))
    return cases["theory"].copy(data=np.array(found))


def at(dataset: xr.Dataset, kappa: float, delta: float) -> xr.Dataset:
    """The points of one (κ, δ)."""
    there = (dataset["kappa"] == kappa) & (dataset["delta"] == delta)
    return dataset.isel(point=np.flatnonzero(there.values))


def check(parts: Parts) -> list[Check]:
    """Noise floors fall as γ/p; on the blue line the risk stays, in the orange region it rises with d."""
    floors, labels = (parts[part].sweep.scaling_phase("sgd") for part in ("", "labels"))
    away = abs(floors["slope"] - law(parts[""], floors))
    labels = labels.isel(case=np.flatnonzero(labels["kappa"].values == 0.0))  # where all d share one start
    total = labels["kappa"] + labels["delta"]
    blue, orange = abs(total) < 1e-9, (total < -1e-9) & (total > -0.5)
    rise = (labels["slope"] - 2.0 * labels["slope_error"]).where(orange)
    return [
        Check.at_most("exponent of the floors in d, farthest from -(κ+δ)", away.max(), MOST),
        Check.at_most("|exponent| on the blue line, largest", abs(labels["slope"]).where(blue).max(), FLAT),
        Check.at_least("exponent in the orange region less 2 errors, smallest", rise.min(), FLAT),
    ]


def draw(parts: Parts) -> matplotlib.figure.Figure:
    """The plane with what was measured in it, and final risks against d at κ = 0."""
    import xarray as xr

    from sweep_service.analysis.plots import style
    from sweep_service.analysis.plots.scaling_plane import plot_plane

    cases = {part: parts[part].sweep.scaling_phase("sgd") for part in ("", "labels")}
    shown = ["phase", "slope"]
    with panels(1.0, 1.0, height=3.8) as (figure, (plane, risks)):
        plot_plane(xr.concat([one[shown] for one in cases.values()], "case"), plane)
        series = [
            (part, delta)
            for part, one in cases.items()
            for delta in one["delta"].values[one["kappa"].values == 0.0]
        ]
        series = sorted(series, key=lambda one: -one[1])[:: -(-len(series) // MOST_SERIES)]
        for colour, (part, delta) in zip(style.sequence(len(series)), series, strict=True):
            final = at(parts[part], 0.0, delta).sweep.final_risk("sgd")
            d, mean, error = final["d"], final["final_risk"], final["standard_error"]
            name = rf"$\delta$ = {style.number(delta)}, {'planted' if part == '' else 'informed'}"
            marker = "o" if part == "" else "s"
            risks.errorbar(d, mean, error, fmt=marker, ls="-", color=colour, mfc="w", capsize=2, label=name)
        risks.set(xscale="log", yscale="log", xlabel=style.label("d"), ylabel="final excess risk $R$")
        risks.set_title(r"$\kappa$ = 0")
        style.legend_below(risks, risks.get_legend_handles_labels()[0], 2)
    return figure


FIGURE = Figure(
    name="veiga-phase-plane",
    title="Phase plane of learning rate and width (Veiga et al.)",
    presets=("veiga-phase-plane", "veiga-phase-plane-labels"),
    full=("veiga-phase-plane-full", "veiga-phase-plane-full-labels"),
    assumptions=(
        "floors from starts planted 1% off the solution, which reach them by t = 100",
        "labels from one informed start, shared by all d",
    ),
    check=check,
    draw=draw,
)
