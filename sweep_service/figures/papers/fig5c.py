"""Figure 5c: with square activation at small d high-dimensional mean field is wrong from the start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sweep_service.figures.figure import Check, Datasets, Figure
from sweep_service.figures.measures import initial_risk, squeeze_except
from sweep_service.figures.panels import draw_risk_curves

if TYPE_CHECKING:
    import matplotlib.figure

WIDE_P = 1000


def check(datasets: Datasets) -> list[Check]:
    """Check R(0): dropping Ξ lowers it by (1 - 1/p)(d - k)/d², which is 0.12 here."""
    dataset = datasets[""].sel(p=[WIDE_P])
    mean_field, high_dimensional = (
        float(squeeze_except(initial_risk(dataset, regime)))
        for regime in ("mean_field", "mean_field_high_dimensional")
    )
    return [
        Check.within(
            f"R_MF - R_HDMF at t = 0, p = {WIDE_P}", mean_field - high_dimensional, 0.12 - 0.006, 0.12 + 0.006
        )
    ]


def draw(datasets: Datasets) -> matplotlib.figure.Figure:
    return draw_risk_curves(datasets[""])


FIGURE = Figure(
    name="fig5c",
    title="High-dimensional mean field at small d (Arnaboldi et al., figure 5c)",
    presets=("fig5c",),
    full_presets=("fig5c-full",),
    assumptions=(),
    check=check,
    draw=draw,
)
