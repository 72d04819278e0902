"""Figure 2, left: neurons agree on the mean of the teachers first, then part, half to each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sweep_service.figures.figure import Check, Figure, Parts
from sweep_service.figures.panels import panels

if TYPE_CHECKING:
    import matplotlib.figure
    import xarray as xr

SCALE = "init.scale"  # an axis of the full form
SMALL = 0.01
HALF = np.sqrt(0.5)  # both cosines of a neuron between two orthonormal teachers
THEORY = "classical"


def small_start(dataset: xr.Dataset) -> xr.Dataset:
    """The starts that show the first plateau."""
    return dataset.sel({SCALE: SMALL}) if SCALE in dataset.dims else dataset


def check(parts: Parts) -> list[Check]:
    """How near all neurons come to (√½, √½), in the larger of the two differences; then who goes where."""
    dataset = small_start(parts[""])
    apart = abs(dataset.sweep.cosines("sgd") - HALF).max(["student", "teacher"]).min("time")
    found, theory = (dataset.sweep.labels(source)["label"] for source in ("sgd", THEORY))
    even = np.logical_and(*((found == teacher).sum("student") == dataset["p"] / 2 for teacher in (0, 1)))
    when, then = (
        dataset.sweep.specialisation_time(source)["specialisation_time"] for source in ("sgd", THEORY)
    )
    return [
        Check.at_most("nearest that all neurons come to (√½, √½), largest over runs", apart.max(), 0.05),
        Check.at_least("share of runs that part five to five", even.mean(), 0.9),
        Check.at_least("share of neurons with the label of the theory", (found == theory).mean(), 0.95),
        Check.at_most(
            "|t_SGD/t_ODE - 1| of specialisation, mean over repeats, largest over starts",
            abs(when.mean("repeat") / then - 1.0).max(skipna=False),
            0.05,
        ),
    ]


def draw(parts: Parts) -> matplotlib.figure.Figure:
    """Directions of the neurons from one start in the teachers' plane, and the risk along the way."""
    from sweep_service.analysis.plots.cosines import plot_cosine_plane
    from sweep_service.analysis.plots.curves import plot_curves

    dataset = small_start(parts[""])
    first = dataset.isel(seed=[0])
    with panels(1, 1.1, height=3.5) as (figure, (plane, risk)):
        plot_cosine_plane(first.sweep.cosines("sgd"), first.sweep.cosines(THEORY), plane)
        plot_curves(dataset, "risk", risk)
    return figure


FIGURE = Figure(
    name="fig2-left",
    title="Specialisation in three dimensions (Arnaboldi et al., figure 2, left)",
    presets=("fig2-left",),
    full=("fig2-left-full",),
    assumptions=(
        "Gaussian starts of scale 0.01, which show the first plateau; the full form has scale 1 too",
    ),
    check=check,
    draw=draw,
)
