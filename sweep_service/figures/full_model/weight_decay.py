"""Weight decay keeps students with square activation bounded at rates where they diverge without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sweep_service.figures.figure import Check, Datasets, Figure
from sweep_service.figures.measures import squeeze_except
from sweep_service.figures.panels import panels

if TYPE_CHECKING:
    import matplotlib.figure
    import xarray as xr

THEORY = "high_dimensional"
# (gamma, decay, interval) and (gamma, decay, share). Another implementation measured shares of 0.07 and 0.80
# of 128 runs of SGD, and followed the theory from other starts.
SGD_SHARES = ((1.0, 0.0, 0.0, 0.25), (1.0, 0.5, 0.6, 1.0))
THEORY_SHARES = ((2.0, 0.0, 0.0), (2.0, 2.0, 1.0))
MAX_LINES = 5


def bounded_share(dataset: xr.Dataset, source: str) -> xr.DataArray:
    """Share of runs with max_i Q_ii <= 10, by gamma and weight decay."""
    return squeeze_except(dataset.sweep.bounded(source=source)["share"], "gamma", "weight_decay")


def check(datasets: Datasets) -> list[Check]:
    """Check shares of bounded runs of SGD and of the theory with and without decay."""
    sgd, theory = (bounded_share(datasets[""], source) for source in ("sgd", THEORY))
    name = "share of bounded runs, gamma = {:g}, decay {:g}: {}"
    checks = []
    for rate, decay, low, high in SGD_SHARES:
        share = sgd.sel(gamma=rate, weight_decay=decay)
        checks.append(Check.within(name.format(rate, decay, "SGD"), share, low, high))
    for rate, decay, golden in THEORY_SHARES:
        share = theory.sel(gamma=rate, weight_decay=decay)
        checks.append(Check.within(name.format(rate, decay, "SS"), share, golden, golden))
    return checks


def draw(datasets: Datasets) -> matplotlib.figure.Figure:
    """Draw the share of bounded runs against the decay, and the final risk of the runs that reach the end."""
    from sweep_service.analysis.plots import style

    dataset = datasets[""]
    shares, finals = {}, {}
    for source in ("sgd", THEORY):
        shares[source] = bounded_share(dataset, source)
        final = dataset.sweep.final_risk(source)["final_risk"]
        finals[source] = squeeze_except(final, "gamma", "weight_decay")
    rates = shares["sgd"]["gamma"].values
    rates = rates[:: -(-(len(rates) - 1) // (MAX_LINES - 1))]  # with the first and the last of 5 and 9
    with panels(1, 1, height=3.3) as (figure, (share, risk)):
        for axes, values in ((share, shares), (risk, finals)):
            for colour, rate in zip(style.sequential_colours(len(rates)), rates, strict=True):
                sgd, theory = (values[source].sel(gamma=rate) for source in ("sgd", THEORY))
                x, label = sgd["weight_decay"], rf"$\gamma$ = {style.format_number(rate)}"
                axes.plot(x, sgd, "o-", mfc="w", lw=0.8, color=colour, label=label)
                axes.plot(x, theory, "--", color=colour)
            axes.plot([], [], "--", color="k", label="SS")
            axes.set(xlabel=style.axis_label("weight_decay"))
            style.legend_below(axes, axes.get_legend_handles_labels()[0], 3)
        share.set(ylabel="share of bounded runs")
        risk.set(ylabel="final excess risk $R$")
    return figure


FIGURE = Figure(
    name="weight-decay",
    title="Weight decay and divergence",
    presets=("weight-decay",),
    full_presets=("weight-decay-full",),
    assumptions=("a run is bounded if max_i Q_ii stays at most 10",),
    check=check,
    draw=draw,
)
