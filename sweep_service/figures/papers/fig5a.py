"""Figure 5a: a student that starts in the teacher's span stays there, and mean field of M is enough."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sweep_service.figures.figure import Check, Figure, Parts
from sweep_service.figures.measures import from_one_start, initial_risk
from sweep_service.figures.panels import panels

if TYPE_CHECKING:
    import matplotlib.figure

THEORY = "mean_field_projected"


def check(parts: Parts) -> list[Check]:
    """Of means over the repeats from each start, in units of R(0); and of the share outside the span."""
    dataset = parts[""]
    share = from_one_start(dataset, THEORY) / initial_risk(dataset)
    outside = (dataset["sgd_mean_orthogonal_norm"] / dataset["sgd_mean_norm"]).mean(["seed", "repeat"])
    return [
        Check.at_most("sup |SGD - MF|/R(0), largest over p", share.max(), 0.03),
        Check.at_most("tr Q⊥/tr Q, mean over runs, largest over p and t", outside.max(), 6e-3),
    ]


def draw(parts: Parts) -> matplotlib.figure.Figure:
    """The risk, and what little of the weights leaves the span."""
    from sweep_service.analysis.plots.curves import plot_curves

    with panels(1, 1, height=3.1) as (figure, (risk, outside)):
        plot_curves(parts[""], "risk", risk)
        plot_curves(parts[""].drop_vars("ode_mean_orthogonal_norm"), "mean_orthogonal_norm", outside)
    return figure


FIGURE = Figure(
    name="fig5a",
    title="Mean field in the teacher's span (Arnaboldi et al., figure 5a)",
    presets=("fig5a",),
    full=("fig5a-full",),
    assumptions=("erf, orthonormal teacher, noiseless labels",),
    check=check,
    draw=draw,
)
