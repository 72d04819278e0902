"""Figure 2, right: from one shared start the risk does not depend on d."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sweep_service.figures.figure import Check, Datasets, Figure
from sweep_service.figures.measures import mean_risk, squeeze_except
from sweep_service.figures.panels import panels

if TYPE_CHECKING:
    import matplotlib.figure

THEORY = "classical_noise"
MAX_LOG_RATIO, LAST_TIME = 0.02, 300.0


def check(datasets: Datasets) -> list[Check]:
    """Bound the distance of the mean curves from each other and from the theory.

    The bounds hold for t <= 300; later, in the full form, single runs scatter as much.
    """
    dataset = datasets[""].sel(time=slice(None, LAST_TIME))
    sgd, theory = (mean_risk(dataset, source) for source in ("sgd", THEORY))
    overlay = dataset.sweep.collapse("overlay", along="d")
    return [
        Check.at_most("spread over d, largest in time", overlay["largest_spread"], MAX_LOG_RATIO),
        Check.at_most("chi-square of one curve for all d, median over time", overlay["median_chi2"], 2.0),
        Check.at_most("sup |log10 SGD/ODE|", abs(np.log10(sgd / theory)).max(), MAX_LOG_RATIO),
    ]


def draw(datasets: Datasets) -> matplotlib.figure.Figure:
    """Draw the curves of every d with the theory, and their ratios to it."""
    from sweep_service.analysis.plots import style
    from sweep_service.analysis.view_plots import plot_curves

    dataset = datasets[""]
    sgd, theory = (
        squeeze_except(mean_risk(dataset, source), "d").isel(time=slice(1, None))
        for source in ("sgd", THEORY)
    )
    with panels(1, 1, height=3.2) as (figure, (risk, ratios)):
        plot_curves(dataset, "risk", ax=risk)
        for colour, d in zip(style.sequential_colours(sgd.sizes["d"]), sgd["d"].values, strict=True):
            ratio = (sgd.sel(d=d) / theory.sel(d=d)).where(sgd["time"] > 0.0)
            ratios.plot(sgd["time"], ratio, color=colour, lw=0.9)
        ratios.axhspan(10**-MAX_LOG_RATIO, 10**MAX_LOG_RATIO, color="0.9", lw=0, zorder=0)
        text = rf"$|\log_{{10}}|$ of the ratio below {MAX_LOG_RATIO:g}"
        ratios.annotate(
            text,
            (0.02, 10**MAX_LOG_RATIO),
            (0, -3),
            ratios.get_yaxis_transform(),
            "offset points",
            va="top",
            fontsize=7,
        )
        ratios.set(xscale="log", xlabel=style.axis_label("time"), ylabel="mean $R$ of SGD / theory")
    return figure


FIGURE = Figure(
    name="fig2-right",
    title="Dimension independence (Arnaboldi et al., figure 2, right)",
    presets=("fig2-right",),
    full_presets=("fig2-right-full",),
    assumptions=(),
    check=check,
    draw=draw,
)
