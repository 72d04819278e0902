"""Figure 2, right: from one shared start the risk does not depend on d."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sweep_service.figures.figure import Check, Figure, Parts
from sweep_service.figures.measures import mean_risk, only
from sweep_service.figures.panels import panels

if TYPE_CHECKING:
    import matplotlib.figure

THEORY = "classical_noise"
MOST, LAST = 0.02, 300.0


def check(parts: Parts) -> list[Check]:
    """Of the curves averaged over repeats: how far they are from each other and from the theory.

    Bounds are those of t <= 300; later, in the full form, single runs scatter by as much.
    """
    dataset = parts[""].sel(time=slice(None, LAST))
    sgd, theory = (mean_risk(dataset, source) for source in ("sgd", THEORY))
    found = dataset.sweep.collapse("overlay", along="d")
    return [
        Check.at_most("spread over d, largest in time", found["largest_spread"], MOST),
        Check.at_most("chi-square of one curve for all d, median over time", found["median_chi2"], 2.0),
        Check.at_most("sup |log10 SGD/ODE|", abs(np.log10(sgd / theory)).max(), MOST),
    ]


def draw(parts: Parts) -> matplotlib.figure.Figure:
    """Curves of every d on one theory, and how far each is from it."""
    from sweep_service.analysis.plots import style
    from sweep_service.analysis.plots.curves import plot_curves

    dataset = parts[""]
    sgd, theory = (
        only(mean_risk(dataset, source), "d").isel(time=slice(1, None)) for source in ("sgd", THEORY)
    )
    with panels(1, 1, height=3.2) as (figure, (risk, apart)):
        plot_curves(dataset, "risk", risk)
        for colour, d in zip(style.sequence(sgd.sizes["d"]), sgd["d"].values, strict=True):
            ratio = (sgd.sel(d=d) / theory.sel(d=d)).where(sgd["time"] > 0.0)
            apart.plot(sgd["time"], ratio, color=colour, lw=0.9)
        apart.axhspan(10**-MOST, 10**MOST, color="0.9", lw=0, zorder=0)
        text = rf"$|\log_{{10}}|$ of the ratio below {MOST:g}"
        apart.annotate(
            text,
            (0.02, 10**MOST),
            (0, -3),
            apart.get_yaxis_transform(),
            "offset points",
            va="top",
            fontsize=7,
        )
        apart.set(xscale="log", xlabel=style.label("time"), ylabel="mean $R$ of SGD / theory")
    return figure


FIGURE = Figure(
    name="fig2-right",
    title="Dimension independence (Arnaboldi et al., figure 2, right)",
    presets=("fig2-right",),
    full=("fig2-right-full",),
    assumptions=("p = 2k; one informed start, shared by all d",),
    check=check,
    draw=draw,
)
