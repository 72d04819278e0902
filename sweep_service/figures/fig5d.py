"""Figure 5d: thousands of neurons align with the one teacher, half of them against it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sweep_service.figures.figure import Check, Figure, Parts
from sweep_service.figures.measures import only
from sweep_service.figures.panels import panels

if TYPE_CHECKING:
    import matplotlib.figure
    import xarray as xr

ABOUT = 0.02  # how near shares must come


def check(parts: Parts) -> list[Check]:
    """From histograms of all starts together: Kolmogorov and Smirnov's distance is that at edges of bins."""
    dataset = parts[""]
    shares = only(dataset["sgd_cosine_histogram"].mean(["seed", "repeat"]))
    first, last = shares.isel(time=0), shares.isel(time=-1)
    neurons = int(dataset["p"].max()) * dataset.sizes["seed"] * dataset.sizes["repeat"]
    lower = edges(last)[:-1]
    outermost = float(lower[-1])
    return [
        Check.at_least("cosines uniform at t = 0, p of Kolmogorov-Smirnov", uniform(first, neurons), 0.01),
        Check.within("share |cos| > 0.9 at the end", beyond(last, 0.9), 0.98 - ABOUT, 0.98 + ABOUT),
        Check.within(
            # .94 were measured beyond .99 and .98 beyond .9, and it is between
            f"share |cos| > {outermost:.3g} at the end",
            beyond(last, outermost),
            0.94 - ABOUT,
            0.98 + ABOUT,
        ),
        Check.within("share cos > 0 at the end", last[lower >= 0.0].sum(), 0.5 - ABOUT, 0.5 + ABOUT),
    ]


def edges(shares: xr.DataArray) -> np.ndarray:
    """Of the bins, from -1 to 1."""
    return np.linspace(-1.0, 1.0, shares.sizes["cosine_bin"] + 1)


def beyond(shares: xr.DataArray, cosine: float) -> float:
    """Share of neurons in the bins that lie beyond ±cosine as a whole."""
    lower = edges(shares)[:-1]
    outer = lower >= cosine - 1e-9
    return float(shares[outer | outer[::-1]].sum())


def uniform(shares: xr.DataArray, neurons: int) -> float:
    """The p-value of the largest distance from a uniform law."""
    from scipy import special

    distance = np.abs(np.cumsum(shares.values) - (edges(shares)[1:] + 1.0) / 2.0).max()
    return float(special.kolmogorov(distance * np.sqrt(neurons)))


def draw(parts: Parts) -> matplotlib.figure.Figure:
    """Histograms of cosines at four times, SGD filled and the theory as a line."""
    from sweep_service.analysis.plots import style

    dataset = parts[""]
    sgd, theory = (
        only(dataset[f"{kind}_cosine_histogram"].mean([dim for dim in ("seed", "repeat") if dim in dims]))
        for kind in ("sgd", "ode")
        for dims in [dataset[f"{kind}_cosine_histogram"].dims]
    )
    last = float(dataset["time"].max())
    times = (0.0, last / 100.0, last / 10.0, last)
    with panels(*(1.0 for _ in times), height=2.3, sharey=True) as (figure, several):
        for axes, time in zip(several, times, strict=True):
            one, other = (shares.sel(time=time, method="nearest") for shares in (sgd, theory))
            density = one.sizes["cosine_bin"] / 2.0
            axes.stairs(one.values * density, edges(one), fill=True, color=style.SKY, label="SGD")
            axes.stairs(other.values * density, edges(other), color="k", lw=0.8, label="mean field")
            axes.set(yscale="log", xlim=(-1, 1), xticks=(-1, 0, 1), xlabel=r"cosine with $w^*$")
            axes.set_title(f"$t$ = {style.number(one['time'])}")
        several[0].set_ylabel("density of neurons")
        several[0].legend(loc="upper left")
    return figure


FIGURE = Figure(
    name="fig5d",
    title="Alignment of many neurons (Arnaboldi et al., figure 5d)",
    presets=("fig5d",),
    full=("fig5d-full",),
    assumptions=(
        "Gaussian starts of scale 1, noiseless labels",
        "shares may differ by 0.02 from the golden ones; bins are too wide to see |cos| > 0.99",
    ),
    check=check,
    draw=draw,
)
