"""Figure 3, right: wide students with square activation at large d follow high-dimensional mean field."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sweep_service.figures.figure import Check, Datasets, Figure
from sweep_service.figures.measures import discrepancy_of_means, fit_log_slope, initial_risk, squeeze_except
from sweep_service.figures.panels import draw_risk_curves

if TYPE_CHECKING:
    import matplotlib.figure

THEORY = "mean_field_high_dimensional"
WIDE_P = 200  # up to this p the error of mean field is the missing sampling term, of order γ/p


def check(datasets: Datasets) -> list[Check]:
    """Bound the distance of the means over repeats, in units of R(0)."""
    dataset = datasets[""]
    relative = discrepancy_of_means(dataset, THEORY) / initial_risk(dataset)
    relative = squeeze_except(relative, "p").sel(p=slice(None, WIDE_P))
    return [
        Check.at_most(f"sup |SGD - HDMF|/R(0) at p = {WIDE_P}", relative.sel(p=WIDE_P), 0.08),
        Check.within(
            "slope of sup |SGD - HDMF|/R(0) in p", fit_log_slope(relative["p"], relative), -1.4, -0.7
        ),
    ]


def draw(datasets: Datasets) -> matplotlib.figure.Figure:
    return draw_risk_curves(datasets[""])


FIGURE = Figure(
    name="fig3-right",
    title="Mean field at large d (Arnaboldi et al., figure 3, right)",
    presets=("fig3-right",),
    full_presets=("fig3-right-full",),
    assumptions=(),
    check=check,
    draw=draw,
)
