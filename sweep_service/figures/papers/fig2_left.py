"""Figure 2, left: neurons first agree on the mean of the teachers, then split, half to each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sweep_service.figures.figure import Check, Datasets, Figure
from sweep_service.figures.panels import panels

if TYPE_CHECKING:
    import matplotlib.figure
    import xarray as xr

SCALE_AXIS = "init.scale"  # of the full form
SMALL_SCALE = 0.01
SYMMETRIC_COSINE = np.sqrt(0.5)  # both cosines of a neuron between two orthonormal teachers
THEORY = "classical"


def select_small_starts(dataset: xr.Dataset) -> xr.Dataset:
    """Select the starts that show the first plateau."""
    return dataset.sel({SCALE_AXIS: SMALL_SCALE}) if SCALE_AXIS in dataset.dims else dataset


def check(datasets: Datasets) -> list[Check]:
    """Check how near all neurons come to (√½, √½), how they split, and when."""
    dataset = select_small_starts(datasets[""])
    distance = abs(dataset.sweep.cosines("sgd") - SYMMETRIC_COSINE).max(["student", "teacher"]).min("time")
    labels, theory_labels = (dataset.sweep.labels(source)["label"] for source in ("sgd", THEORY))
    splits_evenly = np.logical_and(
        *((labels == teacher).sum("student") == dataset["p"] / 2 for teacher in (0, 1))
    )
    sgd_time, theory_time = (
        dataset.sweep.specialisation_time(source)["specialisation_time"] for source in ("sgd", THEORY)
    )
    return [
        Check.at_most("nearest that all neurons come to (√½, √½), largest over runs", distance.max(), 0.05),
        Check.at_least("share of runs that part five to five", splits_evenly.mean(), 0.9),
        Check.at_least(
            "share of neurons with the label of the theory", (labels == theory_labels).mean(), 0.95
        ),
        Check.at_most(
            "|t_SGD/t_ODE - 1| of specialisation, mean over repeats, largest over starts",
            abs(sgd_time.mean("repeat") / theory_time - 1.0).max(skipna=False),
            0.05,
        ),
    ]


def draw(datasets: Datasets) -> matplotlib.figure.Figure:
    """Draw the cosines of the neurons from one start, and the risk over time."""
    from sweep_service.analysis.plots.cosines import plot_cosine_plane
    from sweep_service.analysis.view_plots import plot_curves

    dataset = select_small_starts(datasets[""])
    first = dataset.isel(seed=[0])
    with panels(1, 1.1, height=3.5) as (figure, (plane, risk)):
        plot_cosine_plane(first.sweep.cosines("sgd"), first.sweep.cosines(THEORY), plane)
        plot_curves(dataset, "risk", ax=risk)
    return figure


FIGURE = Figure(
    name="fig2-left",
    title="Specialisation in three dimensions (Arnaboldi et al., figure 2, left)",
    presets=("fig2-left",),
    full_presets=("fig2-left-full",),
    assumptions=(),
    check=check,
    draw=draw,
)
