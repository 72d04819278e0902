"""Figure 5c: with square activation at small d high-dimensional mean field is wrong from the start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sweep_service.figures.figure import Check, Figure, Parts
from sweep_service.figures.measures import initial_risk, only
from sweep_service.figures.panels import risk_curves

if TYPE_CHECKING:
    import matplotlib.figure

WIDE = 1000


def check(parts: Parts) -> list[Check]:
    """Dropping Ξ lowers R(0) by (1 - 1/p)(d - k)/d², which is 0.12 here."""
    dataset = parts[""].sel(p=[WIDE])
    field, wrong = (
        float(only(initial_risk(dataset, regime))) for regime in ("mean_field", "mean_field_high_dimensional")
    )
    return [Check.within(f"R_MF - R_HDMF at t = 0, p = {WIDE}", field - wrong, 0.12 - 0.006, 0.12 + 0.006)]


def draw(parts: Parts) -> matplotlib.figure.Figure:
    return risk_curves(parts[""])


FIGURE = Figure(
    name="fig5c",
    title="High-dimensional mean field at small d (Arnaboldi et al., figure 5c)",
    presets=("fig5c",),
    full=("fig5c-full",),
    assumptions=("as figure 3, left: orthonormal teacher, Gaussian starts of scale 1, noiseless labels",),
    check=check,
    draw=draw,
)
