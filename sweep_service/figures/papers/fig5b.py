"""Figure 5b: at small d high-dimensional mean field learns too fast; with the law of overlaps it is right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sweep_service.figures.figure import Check, Figure, Parts
from sweep_service.figures.measures import mean_risk, only
from sweep_service.figures.panels import panels

if TYPE_CHECKING:
    import matplotlib.figure

WIDE, TIME = 1000, 20.0
FIRST = 1.0  # time that is drawn: before, all agree
SOURCES = ("sgd", "mean_field", "mean_field_high_dimensional")


def check(parts: Parts) -> list[Check]:
    """At one time, of curves averaged over all runs; below p ≈ 500 what p adds hides the difference."""
    dataset = parts[""].sel(p=[WIDE]).sel(time=[TIME], method="nearest")
    sgd, field, wrong = (float(only(mean_risk(dataset, source))) for source in SOURCES)
    at = f"at p = {WIDE}, t = {TIME:g}"
    return [
        Check.within(f"SGD/MF {at}", sgd / field, 0.94, 1.03),
        Check.at_most(f"HDMF/MF {at}", wrong / field, 0.9),
    ]


def draw(parts: Parts) -> matplotlib.figure.Figure:
    """The risk, and everything in units of mean field, which shows by how much the other one errs."""
    from sweep_service.analysis.plots import style
    from sweep_service.analysis.plots.curves import plot_curves, thinned

    dataset = parts[""].sel(time=slice(FIRST, None))
    sgd, field, wrong = (only(mean_risk(dataset, source), "p") for source in SOURCES)
    time = dataset["time"].values
    with panels(1, 1, height=3.2) as (figure, (risk, ratio)):
        plot_curves(dataset, "risk", risk)
        ratio.axhline(1.0, color="0.6", lw=0.8, ls=style.regime_style(SOURCES[1])[1])
        for place, (colour, p) in enumerate(
            zip(style.sequence(sgd.sizes["p"]), sgd["p"].values, strict=True)
        ):
            measured, theory = (one.sel(p=p).values / field.sel(p=p).values for one in (sgd, wrong))
            at = thinned(time, measured, True, shift=place / sgd.sizes["p"])
            ratio.plot(time[at], measured[at], "o", mfc="none", mec=colour, mew=0.7)
            ratio.plot(time, theory, color=colour, ls=style.regime_style(SOURCES[2])[1])
        ratio.set(xscale="log", xlabel=style.label("time"), ylabel="mean $R$ / mean field")
        style.log_ticks(ratio)
    return figure


FIGURE = Figure(
    name="fig5b",
    title="Which mean field at small d (Arnaboldi et al., figure 5b)",
    presets=("fig5b",),
    full=("fig5b-full",),
    assumptions=("erf, orthonormal teacher, Gaussian starts of scale 1, noiseless labels",),
    check=check,
    draw=draw,
)
