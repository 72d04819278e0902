"""Figure 3, left: wide students with square activation at small d follow mean field."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sweep_service.figures.figure import Check, Figure, Parts
from sweep_service.figures.measures import from_one_start, only
from sweep_service.figures.panels import risk_curves

if TYPE_CHECKING:
    import matplotlib.figure

NARROWEST, WIDE = 50, 1000  # below, some runs diverge


def check(parts: Parts) -> list[Check]:
    """Of means over the repeats from each start: this convention gives the golden .027, .013, .0056."""
    dataset = parts[""]
    apart = only(from_one_start(dataset, "mean_field"), "p").sel(p=slice(NARROWEST, WIDE))
    falling = (apart / apart.shift(p=1)).max()
    return [
        Check.at_most("sup |SGD - MF|, largest ratio from one p to the next", falling, 1.0),
        Check.at_most(f"sup |SGD - MF| at p = {WIDE}", apart.sel(p=WIDE), 0.01),
    ]


def draw(parts: Parts) -> matplotlib.figure.Figure:
    return risk_curves(parts[""])


FIGURE = Figure(
    name="fig3-left",
    title="Mean field at small d (Arnaboldi et al., figure 3, left)",
    presets=("fig3-left",),
    full=("fig3-left-full",),
    assumptions=(
        "orthonormal teacher, Gaussian starts of scale 1, noiseless labels",
        "sup |SGD - MF| is of means over the repeats from one start, then averaged over starts",
    ),
    check=check,
    draw=draw,
)
