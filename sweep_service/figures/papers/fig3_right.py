"""Figure 3, right: wide students with square activation at large d follow high-dimensional mean field."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sweep_service.figures.figure import Check, Figure, Parts
from sweep_service.figures.measures import from_one_start, initial_risk, only, slope
from sweep_service.figures.panels import risk_curves

if TYPE_CHECKING:
    import matplotlib.figure

THEORY = "mean_field_high_dimensional"
WIDE = 200  # up to here the sampling term, of order γ/p, is what mean field lacks


def check(parts: Parts) -> list[Check]:
    """Of means over the repeats from each start, in units of R(0)."""
    dataset = parts[""]
    share = from_one_start(dataset, THEORY) / initial_risk(dataset)
    share = only(share, "p").sel(p=slice(None, WIDE))
    return [
        Check.at_most(f"sup |SGD - HDMF|/R(0) at p = {WIDE}", share.sel(p=WIDE), 0.08),
        Check.within("slope of sup |SGD - HDMF|/R(0) in p", slope(share["p"], share), -1.4, -0.7),
    ]


def draw(parts: Parts) -> matplotlib.figure.Figure:
    return risk_curves(parts[""])


FIGURE = Figure(
    name="fig3-right",
    title="Mean field at large d (Arnaboldi et al., figure 3, right)",
    presets=("fig3-right",),
    full=("fig3-right-full",),
    assumptions=("orthonormal teacher, Gaussian starts of scale 1, noiseless labels",),
    check=check,
    draw=draw,
)
