"""Figure 4: label noise ends learning on a plateau that gradient flow with the noise term knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sweep_service.figures.figure import Check, Figure, Parts
from sweep_service.figures.measures import mean_risk, only
from sweep_service.figures.panels import panels

if TYPE_CHECKING:
    import matplotlib.figure
    import xarray as xr

LOUD = 1e-2
GOLDEN, ERROR = 0.094, 0.004  # R∞/(γΔ/p), as an independent implementation measured it


def end(dataset: xr.Dataset, source: str) -> float:
    """R over the last tenth of the time: in the last half some runs of the quick form still come down."""
    late = dataset["time"] >= 0.9 * float(dataset["time"].max())
    return float(only(mean_risk(dataset.isel(time=late), source)).mean("time"))


def check(parts: Parts) -> list[Check]:
    dataset = parts[""].sel(noise=[LOUD])
    sgd, noisy, flow = (end(dataset, source) for source in ("sgd", "classical_noise", "classical"))
    coefficient = sgd / (float(dataset["gamma_over_p"].squeeze()) * LOUD)
    at = f"at noise {LOUD:g}"
    return [
        Check.within(f"R∞/(γΔ/p) {at}", coefficient, GOLDEN - 3 * ERROR, GOLDEN + 3 * ERROR),
        Check.within(f"SGD/GF-NOISE {at}", sgd / noisy, 0.85, 1.1),
        Check.at_least(f"SGD/GF {at}", sgd / flow, 8.0),
    ]


def draw(parts: Parts) -> matplotlib.figure.Figure:
    """Gradient flow does not know the noise, and without noise both theories are one: each is drawn once."""
    from sweep_service.analysis.curves import curves
    from sweep_service.analysis.plots.curves import draw_curves

    found = curves(parts[""], "risk", time="1:")
    found["curves"] = [
        one
        for one in found["curves"]
        if "regime" not in one or (one["regime"] == "classical") == (one["at"]["noise"] == 0.0)
    ]
    with panels(1, height=3.2) as (figure, (axes,)):
        draw_curves(found, axes)
    return figure


FIGURE = Figure(
    name="fig4-noise",
    title="Plateaus of label noise (Arnaboldi et al., figure 4)",
    presets=("fig4-noise",),
    full=("fig4-noise-full",),
    assumptions=(
        "Gaussian starts of scale 1",
        "the end is the last tenth of the time: in the last half of the quick form runs still come down, "
        "which makes R∞/(γΔ/p) 0.121, SGD/GF-NOISE 1.104 and SGD/GF 6.6",
        "the bound of R∞/(γΔ/p) is three errors of the golden 0.094(4), and ours",
    ),
    check=check,
    draw=draw,
)
