"""Figure 5d: thousands of neurons align with the one teacher, half of them against it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sweep_service.figures.figure import Check, Figure, Parts
from sweep_service.figures.panels import panels

if TYPE_CHECKING:
    import matplotlib.figure

GOLDEN = {0.9: 0.98, 0.99: 0.94}  # shares of neurons beyond a cosine, as measured independently
ABOUT = 0.02  # how near shares must come


def check(parts: Parts) -> list[Check]:
    """All neurons of all starts together."""
    from scipy import stats

    cosines = parts[""].sweep.cosines("sgd")
    first, last = (cosines.isel(time=at).values.ravel() for at in (0, -1))
    far = {cosine: float(np.mean(np.abs(last) > cosine)) for cosine in GOLDEN}
    return [
        Check.at_least(
            "cosines uniform at t = 0, p of Kolmogorov-Smirnov",
            stats.kstest(first, stats.uniform(-1.0, 2.0).cdf).pvalue,
            0.01,
        ),
        *(
            Check.within(f"share |cos| > {cosine:g} at the end", far[cosine], golden - ABOUT, golden + ABOUT)
            for cosine, golden in GOLDEN.items()
        ),
        Check.within("share cos > 0 at the end", np.mean(last > 0.0), 0.5 - ABOUT, 0.5 + ABOUT),
    ]


def draw(parts: Parts) -> matplotlib.figure.Figure:
    """Histograms of cosines at four times, SGD filled and the theory as a line."""
    from sweep_service.analysis.plots.cosines import plot_cosine_histograms

    sgd, theory = (parts[""].sweep.cosines(source) for source in ("sgd", "mean_field"))
    last = float(sgd["time"].max())
    times = (0.0, last / 100.0, last / 10.0, last)
    with panels(*(1.0 for _ in times), height=2.3, sharey=True) as (figure, several):
        plot_cosine_histograms(sgd, times, theory, several)
    return figure


FIGURE = Figure(
    name="fig5d",
    title="Alignment of many neurons (Arnaboldi et al., figure 5d)",
    presets=("fig5d",),
    full=("fig5d-full",),
    assumptions=(
        "Gaussian starts of scale 1, noiseless labels",
        "shares may differ by 0.02 from the golden ones",
    ),
    check=check,
    draw=draw,
)
