"""A falling learning rate that beats every constant one after equal numbers of samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sweep_service.figures.figure import Check, Datasets, Figure
from sweep_service.figures.measures import squeeze_except
from sweep_service.figures.panels import panels

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure
    import xarray as xr

    from sweep_service.numerics.types import Array

THEORY = "high_dimensional"
TIME_OVER_GAMMA = 10.0  # at the end of every run, ν/(pd): all have used the same number of samples
BEST_RATE = 0.513
GOLDEN_CONSTANT, GOLDEN_SCHEDULE = 0.00703, 0.00607  # of the theory, integrated independently
GOLDEN_ROUNDING = 6e-6  # half a unit of the last digit, and rounding of our own


def risks_at_end(dataset: xr.Dataset, source: str) -> Array:
    """R of the runs (point, run) when all have used the same number of samples."""
    from sweep_service.analysis.quantities.interpolation import interpolate
    from sweep_service.analysis.runs import read_runs

    runs = read_runs(dataset, source).isel(time=slice(1, None))
    runs = squeeze_except(runs, "point", "repeat", "time").transpose("point", ..., "time")
    end = np.log(TIME_OVER_GAMMA * dataset["gamma"].values)[(slice(None), *[None] * (runs.ndim - 1))]
    values = interpolate(np.log(runs["time"].values), np.log(runs.values), end)
    return np.asarray(np.exp(values[..., 0]).reshape(runs.sizes["point"], -1))


def is_constant(dataset: xr.Dataset) -> npt.NDArray[np.bool_]:
    return np.asarray(dataset["schedule.alpha"].values == 0.0)


def check(datasets: Datasets) -> list[Check]:
    """Check the theory against independent numbers, and that SGD with the schedule beats constant rates."""
    dataset = datasets[""]
    constant, gamma = is_constant(dataset), dataset["gamma"].values
    theory, sgd = (risks_at_end(dataset, source) for source in (THEORY, "sgd"))
    best, schedule = theory[constant & (gamma == BEST_RATE), 0].item(), theory[~constant, 0].item()
    mean, error = sgd.mean(axis=1), sgd.std(axis=1, ddof=1) / np.sqrt(sgd.shape[1])
    lead = (mean[constant] - mean[~constant]) / np.hypot(error[constant], error[~constant])
    return [
        Check.within("SS, best constant rate", best, *_around(GOLDEN_CONSTANT)),
        Check.at_most(
            f"R at gamma = {BEST_RATE} over the smallest at a constant rate, SS",
            best / theory[constant, 0].min(),
            1.0,
        ),
        Check.within("SS, falling rate", schedule, *_around(GOLDEN_SCHEDULE)),
        Check.at_least("lead of SGD with the falling rate, smallest in standard errors", lead.min(), 4.0),
        Check.at_most("|SGD/SS - 1|, largest", abs(mean / theory[:, 0] - 1.0).max(), 0.06),
    ]


def _around(golden: float) -> tuple[float, float]:
    return golden - GOLDEN_ROUNDING, golden + GOLDEN_ROUNDING


def draw(datasets: Datasets) -> matplotlib.figure.Figure:
    """Draw R against the number of samples, and at the end against the constant rate."""
    from sweep_service.analysis.plots import style

    dataset = datasets[""]
    constant, gamma = is_constant(dataset), dataset["gamma"].values
    theory, sgd = (risks_at_end(dataset, source) for source in (THEORY, "sgd"))
    mean, error = sgd.mean(axis=1), sgd.std(axis=1, ddof=1) / np.sqrt(sgd.shape[1])
    shown = [gamma[constant].min(), BEST_RATE, gamma[constant].max()]
    with panels(1, 1, height=3.4) as (figure, (risk, end)):
        colours = style.sequential_colours(len(shown))
        for colour, rate in zip(colours, shown, strict=True):
            point = dataset.isel(point=np.flatnonzero(constant & (gamma == rate)))
            _draw_risk(risk, point, colour, rf"$\gamma$ = {rate:g}")
        label = rf"$\gamma$ = {gamma[~constant].item():g}/(1 + $t$/{dataset['schedule.t0'].item():g})"
        _draw_risk(risk, dataset.isel(point=np.flatnonzero(~constant)), style.VERMILLION, label)
        risk.set(xscale="log", yscale="log", xlabel="samples/$d$", ylabel="excess risk $R$")
        end.plot(gamma[constant], theory[constant, 0], color="k", label="constant rate, SS")
        end.errorbar(
            gamma[constant], mean[constant], error[constant],
            fmt="o", color="k", mfc="w", capsize=2, label="constant rate, SGD",
        )  # fmt: skip
        end.axhline(theory[~constant, 0].item(), color=style.VERMILLION, label="falling rate, SS")
        end.errorbar(
            gamma[~constant], mean[~constant], error[~constant],
            fmt="s", color=style.VERMILLION, mfc="w", capsize=2, label="falling rate, SGD",
        )  # fmt: skip
        end.set(xscale="log", yscale="log", xlabel=style.axis_label("gamma"))
        end.set_ylabel(f"$R$ after {TIME_OVER_GAMMA * dataset['p'].values.flat[0]:g}$\\,d$ samples")
        style.format_log_ticks(end)
        for axes in (risk, end):
            style.legend_below(axes, axes.get_legend_handles_labels()[0], 2)
    return figure


def _draw_risk(axes: matplotlib.axes.Axes, point: xr.Dataset, colour: object, label: str) -> None:
    """Draw R up to the end, SGD as points and the theory as a line."""
    from sweep_service.analysis.plots.curves import thin_samples
    from sweep_service.figures.measures import mean_risk

    gamma, p = point["gamma"].item(), int(point["p"].item())
    point = point.sel(time=slice(None, TIME_OVER_GAMMA * gamma)).isel(time=slice(1, None))
    sgd, theory = (squeeze_except(mean_risk(point, source), "time") for source in ("sgd", THEORY))
    samples = sgd["time"].values * p / gamma
    indices = thin_samples(samples, sgd.values, True)
    axes.plot(samples[indices], sgd.values[indices], "o", mfc="none", mec=colour, mew=0.7)
    axes.plot(samples, theory.values, color=colour, label=label)


FIGURE = Figure(
    name="best-schedule",
    title="A schedule that beats every constant rate",
    presets=("best-schedule",),
    full_presets=("best-schedule-full",),
    assumptions=(),
    check=check,
    draw=draw,
)
