"""Figure 5b: at small d high-dimensional mean field learns too fast; with the law of overlaps it is right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sweep_service.figures.figure import Check, Figure, Parts
from sweep_service.figures.measures import mean_risk, only
from sweep_service.figures.panels import risk_curves

if TYPE_CHECKING:
    import matplotlib.figure

WIDE, TIME = 1000, 20.0


def check(parts: Parts) -> list[Check]:
    """At one time, of curves averaged over all runs; below p ≈ 500 what p adds hides the difference."""
    dataset = parts[""].sel(p=[WIDE]).sel(time=[TIME], method="nearest")
    sgd, field, wrong = (
        float(only(mean_risk(dataset, source)))
        for source in ("sgd", "mean_field", "mean_field_high_dimensional")
    )
    at = f"at p = {WIDE}, t = {TIME:g}"
    return [
        Check.within(f"SGD/MF {at}", sgd / field, 0.94, 1.03),
        Check.at_most(f"HDMF/MF {at}", wrong / field, 0.9),
    ]


def draw(parts: Parts) -> matplotlib.figure.Figure:
    return risk_curves(parts[""], time="1:")


FIGURE = Figure(
    name="fig5b",
    title="Which mean field at small d (Arnaboldi et al., figure 5b)",
    presets=("fig5b",),
    full=("fig5b-full",),
    assumptions=("erf, orthonormal teacher, Gaussian starts of scale 1, noiseless labels",),
    check=check,
    draw=draw,
)
