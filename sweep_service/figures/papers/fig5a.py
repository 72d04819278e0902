"""Figure 5a: a student that starts in the teacher's span stays there, and mean field of M alone suffices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sweep_service.figures.figure import Check, Datasets, Figure
from sweep_service.figures.measures import discrepancy_of_means, initial_risk
from sweep_service.figures.panels import panels

if TYPE_CHECKING:
    import matplotlib.figure

THEORY = "mean_field_projected"


def check(datasets: Datasets) -> list[Check]:
    """Bound the distance of the means over repeats, in units of R(0), and the share outside the span."""
    dataset = datasets[""]
    relative = discrepancy_of_means(dataset, THEORY) / initial_risk(dataset)
    outside = (dataset["sgd_mean_orthogonal_norm"] / dataset["sgd_mean_norm"]).mean(["seed", "repeat"])
    return [
        Check.at_most("sup |SGD - MF|/R(0), largest over p", relative.max(), 0.03),
        Check.at_most("tr Q⊥/tr Q, mean over runs, largest over p and t", outside.max(), 6e-3),
    ]


def draw(datasets: Datasets) -> matplotlib.figure.Figure:
    """Draw the risk, and the small part of the weights outside the span."""
    from sweep_service.analysis.view_plots import plot_curves

    with panels(1, 1, height=3.1) as (figure, (risk, outside)):
        plot_curves(datasets[""], "risk", ax=risk)
        plot_curves(datasets[""].drop_vars("ode_mean_orthogonal_norm"), "mean_orthogonal_norm", ax=outside)
    return figure


FIGURE = Figure(
    name="fig5a",
    title="Mean field in the teacher's span (Arnaboldi et al., figure 5a)",
    presets=("fig5a",),
    full_presets=("fig5a-full",),
    assumptions=(),
    check=check,
    draw=draw,
)
