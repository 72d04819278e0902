"""Figure 3, left: wide students with square activation at small d follow mean field."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sweep_service.figures.figure import Check, Datasets, Figure
from sweep_service.figures.measures import discrepancy_of_means, squeeze_except
from sweep_service.figures.panels import draw_risk_curves

if TYPE_CHECKING:
    import matplotlib.figure

MIN_P, WIDE_P = 50, 1000  # below MIN_P, some runs diverge


def check(datasets: Datasets) -> list[Check]:
    """Bound the distance of the means over repeats, whose golden values are 0.027, 0.013 and 0.0056."""
    dataset = datasets[""]
    distance = squeeze_except(discrepancy_of_means(dataset, "mean_field"), "p").sel(p=slice(MIN_P, WIDE_P))
    ratio = (distance / distance.shift(p=1)).max()
    return [
        Check.at_most("sup |SGD - MF|, largest ratio from one p to the next", ratio, 1.0),
        Check.at_most(f"sup |SGD - MF| at p = {WIDE_P}", distance.sel(p=WIDE_P), 0.01),
    ]


def draw(datasets: Datasets) -> matplotlib.figure.Figure:
    return draw_risk_curves(datasets[""])


FIGURE = Figure(
    name="fig3-left",
    title="Mean field at small d (Arnaboldi et al., figure 3, left)",
    presets=("fig3-left",),
    full_presets=("fig3-left-full",),
    assumptions=("sup |SGD - MF| is of means over the repeats from one start, then averaged over starts",),
    check=check,
    draw=draw,
)
