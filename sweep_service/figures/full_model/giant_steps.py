"""Giant steps of large batches: the map of the mean state describes SGD, the differential equation not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sweep_service.figures.figure import Check, Datasets, Figure
from sweep_service.figures.measures import squeeze_except
from sweep_service.figures.panels import panels

if TYPE_CHECKING:
    import matplotlib.figure
    import xarray as xr

    from sweep_service.numerics.types import Array

MAP, FLOW = "high_dimensional_map", "high_dimensional"
GOLDEN = (0.01372, 0.00800, 0.00589, 0.00508, 0.00474, 0.00458)  # of the map, computed independently
GOLDEN_ROUNDING = 6e-6  # half a unit of the last digit, and rounding of our own
LAST = len(GOLDEN)


def risks_by_step(dataset: xr.Dataset, source: str) -> Array:
    """R of the runs (run, step) after the steps 0, 1, …, of which several times may belong to one."""
    from sweep_service.analysis.runs import read_runs

    steps = np.rint(dataset["time"].values / dataset["delta_t"].item()).astype(int)
    _, first = np.unique(steps, return_index=True)
    values = squeeze_except(read_runs(dataset, source), "time", "repeat").transpose(..., "time").values
    return np.atleast_2d(values[..., first])


def flow_by_step(dataset: xr.Dataset) -> Array:
    """R of the differential equation at the times of the steps 1, 2, …, between its samples."""
    from sweep_service.analysis.quantities.interpolation import interpolate
    from sweep_service.analysis.runs import read_runs

    risk = squeeze_except(read_runs(dataset, FLOW), "time").isel(time=slice(1, None))
    time, delta_t = risk["time"].values, dataset["delta_t"].item()
    ends = delta_t * np.arange(1, round(time[-1] / delta_t) + 1)
    return np.exp(interpolate(np.log(time), np.log(risk.values), np.log(ends)))


def check(datasets: Datasets) -> list[Check]:
    """Check the map against independent numbers, and SGD against the map and the differential equation."""
    sgd, mapped = (risks_by_step(datasets[""], source)[:, 1 : LAST + 1] for source in ("sgd", MAP))
    mean, error = sgd.mean(axis=0), sgd.std(axis=0, ddof=1) / np.sqrt(len(sgd))
    # the mean of SGD differs from the map by its scatter of δt/√b, squared: 0.3 % here
    excess = (abs(mean - mapped[0]) - 0.003 * mapped[0]) / error
    return [
        Check.at_most(
            "|R of the map - golden|, largest of six steps", abs(mapped - GOLDEN).max(), GOLDEN_ROUNDING
        ),
        Check.at_most("|SGD - map| beyond 0.3 % in standard errors, largest", excess.max(), 4.0),
        Check.at_least(f"SGD/SS after {LAST} steps", mean[-1] / flow_by_step(datasets[""])[LAST - 1], 1.1),
    ]


def draw(datasets: Datasets) -> matplotlib.figure.Figure:
    """Draw R against the number of steps, and its ratio to the map."""
    from sweep_service.analysis.plots import style

    sgd, mapped = (risks_by_step(datasets[""], source) for source in ("sgd", MAP))
    mean, error = sgd.mean(axis=0), sgd.std(axis=0, ddof=1) / np.sqrt(len(sgd))
    flow = np.append(mapped[0, 0], flow_by_step(datasets[""]))
    steps = np.arange(len(mean))
    with panels(1, 1, height=3.0) as (figure, (risk, ratio)):
        for axes, unit in ((risk, np.ones(len(steps))), (ratio, mapped[0])):
            axes.plot(steps, mapped[0] / unit, color=style.VERMILLION, label="map")
            axes.plot(steps, flow / unit, color=style.BLUE, ls="--", label="SS")
            axes.errorbar(
                steps, mean / unit, error / unit, fmt="o", color="k", mfc="w", capsize=2, label="SGD"
            )
            axes.set(xlabel="steps of SGD")
        risk.set(yscale="log", ylabel="excess risk $R$")
        ratio.set(ylabel="mean $R$ / map")
        style.format_log_axis(risk.yaxis)
        style.legend_below(risk, risk.get_legend_handles_labels()[0], 3)
    return figure


FIGURE = Figure(
    name="giant-steps",
    title="Giant steps of large batches",
    presets=("giant-steps",),
    full_presets=("giant-steps-full",),
    assumptions=(),
    check=check,
    draw=draw,
)
