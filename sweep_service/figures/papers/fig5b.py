"""Figure 5b: at small d high-dimensional mean field learns too fast, and mean field is right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sweep_service.figures.figure import Check, Datasets, Figure
from sweep_service.figures.measures import mean_risk, squeeze_except
from sweep_service.figures.panels import panels

if TYPE_CHECKING:
    import matplotlib.figure

WIDE_P, CHECK_TIME = 1000, 20.0
FIRST_TIME = 1.0  # of the drawing: earlier, all agree
SOURCES = ("sgd", "mean_field", "mean_field_high_dimensional")


def check(datasets: Datasets) -> list[Check]:
    """Compare the means over all runs at one time; below p ≈ 500 the effect of p hides the difference."""
    dataset = datasets[""].sel(p=[WIDE_P]).sel(time=[CHECK_TIME], method="nearest")
    sgd, mean_field, high_dimensional = (
        float(squeeze_except(mean_risk(dataset, source))) for source in SOURCES
    )
    at = f"at p = {WIDE_P}, t = {CHECK_TIME:g}"
    return [
        Check.within(f"SGD/MF {at}", sgd / mean_field, 0.94, 1.03),
        Check.at_most(f"HDMF/MF {at}", high_dimensional / mean_field, 0.9),
    ]


def draw(datasets: Datasets) -> matplotlib.figure.Figure:
    """Draw the risk, and its ratio to mean field, which shows the error of high-dimensional mean field."""
    from sweep_service.analysis.plots import style
    from sweep_service.analysis.plots.curves import thin_samples
    from sweep_service.analysis.view_plots import plot_curves

    dataset = datasets[""].sel(time=slice(FIRST_TIME, None))
    sgd, mean_field, high_dimensional = (
        squeeze_except(mean_risk(dataset, source), "p") for source in SOURCES
    )
    time = dataset["time"].values
    with panels(1, 1, height=3.2) as (figure, (risk, ratio)):
        plot_curves(dataset, "risk", ax=risk)
        ratio.axhline(1.0, color="0.6", lw=0.8, ls=style.regime_style(SOURCES[1])[1])
        for position, (colour, p) in enumerate(
            zip(style.sequential_colours(sgd.sizes["p"]), sgd["p"].values, strict=True)
        ):
            sgd_ratio, theory_ratio = (
                risks.sel(p=p).values / mean_field.sel(p=p).values for risks in (sgd, high_dimensional)
            )
            indices = thin_samples(time, sgd_ratio, True, shift=position / sgd.sizes["p"])
            ratio.plot(time[indices], sgd_ratio[indices], "o", mfc="none", mec=colour, mew=0.7)
            ratio.plot(time, theory_ratio, color=colour, ls=style.regime_style(SOURCES[2])[1])
        ratio.set(xscale="log", xlabel=style.axis_label("time"), ylabel="mean $R$ / mean field")
        style.format_log_ticks(ratio)
    return figure


FIGURE = Figure(
    name="fig5b",
    title="Which mean field at small d (Arnaboldi et al., figure 5b)",
    presets=("fig5b",),
    full_presets=("fig5b-full",),
    assumptions=(),
    check=check,
    draw=draw,
)
