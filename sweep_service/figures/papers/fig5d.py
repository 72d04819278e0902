"""Figure 5d: thousands of neurons align with the one teacher, half of them against it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sweep_service.figures.figure import Check, Datasets, Figure
from sweep_service.figures.panels import panels

if TYPE_CHECKING:
    import matplotlib.figure

GOLDEN_SHARES = {
    0.9: 0.98,
    0.99: 0.94,
}  # of neurons beyond a cosine, measured by an independent implementation
SHARE_TOLERANCE = 0.02


def check(datasets: Datasets) -> list[Check]:
    """Check the distribution of the cosines of all neurons of all starts, at the start and at the end."""
    from scipy import stats

    cosines = datasets[""].sweep.cosines("sgd")
    first, last = (cosines.isel(time=at).values.ravel() for at in (0, -1))
    shares = {cosine: float(np.mean(np.abs(last) > cosine)) for cosine in GOLDEN_SHARES}
    return [
        Check.at_least(
            "cosines uniform at t = 0, p of Kolmogorov-Smirnov",
            stats.kstest(first, stats.uniform(-1.0, 2.0).cdf).pvalue,
            0.01,
        ),
        *(
            Check.within(
                f"share |cos| > {cosine:g} at the end",
                shares[cosine],
                golden - SHARE_TOLERANCE,
                golden + SHARE_TOLERANCE,
            )
            for cosine, golden in GOLDEN_SHARES.items()
        ),
        Check.within(
            "share cos > 0 at the end", np.mean(last > 0.0), 0.5 - SHARE_TOLERANCE, 0.5 + SHARE_TOLERANCE
        ),
    ]


def draw(datasets: Datasets) -> matplotlib.figure.Figure:
    """Draw histograms of cosines at four times, SGD filled and the theory as a line."""
    from sweep_service.analysis.plots.cosines import plot_cosine_histograms

    sgd, theory = (datasets[""].sweep.cosines(source) for source in ("sgd", "mean_field"))
    last = float(sgd["time"].max())
    times = (0.0, last / 100.0, last / 10.0, last)
    with panels(*(1.0 for _ in times), height=2.3, sharey=True) as (figure, panel_axes):
        plot_cosine_histograms(sgd, times, theory, panel_axes)
    return figure


FIGURE = Figure(
    name="fig5d",
    title="Alignment of many neurons (Arnaboldi et al., figure 5d)",
    presets=("fig5d",),
    full_presets=("fig5d-full",),
    assumptions=("shares may differ by 0.02 from the golden ones",),
    check=check,
    draw=draw,
)
