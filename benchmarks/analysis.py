"""Analyses of 100,000 points in memory, against the plain mean with which each begins."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import xarray as xr

from benchmarks.harness import Row, time_interleaved
from sweep_service.analysis.accessor import METHODS
from sweep_service.planning.grids import Grid
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.spec import SweepSpec
from sweep_service.status import Status
from sweep_service.store.labels import make_coordinates

DIAGRAM_LIMIT_SECONDS = 1.0
DIAGRAMS = ("sgd_risk", "discrepancy", "sgd_over_ode", "sgd_over_floor", "sgd_phase", "auto_regime")
DEFINITIONS = ("final_risk", "noise_floor", "phase", "bounded", "specialisation_time", "plateaus")


def analysis(quick: bool) -> Iterator[Row]:
    dataset = make_dataset(20 if quick else 1000, 10 if quick else 100)
    points = dataset.sizes["d"] * dataset.sizes["gamma"]
    late = dataset["time"].values >= dataset["time"].values[-1] / 2

    def compute_plain_mean() -> xr.DataArray:
        return dataset["sgd_risk"].isel(time=late).mean(["time", "seed", "repeat"])

    for value in DIAGRAMS:
        ours, plain = time_interleaved(
            lambda value=value: METHODS["phase_diagram"](dataset, "gamma", "d", value), compute_plain_mean,
            repeats=2 if quick else 3,
        )  # fmt: skip
        yield Row(
            f"analysis/diagram-{value}", f"phase diagram of {value} over {points} points", ours.seconds,
            "the mean of the last half by xarray", plain.seconds,
            limit=None if quick else DIAGRAM_LIMIT_SECONDS,
        )  # fmt: skip
    for name in DEFINITIONS:
        ours, plain = time_interleaved(
            lambda name=name: METHODS[name](dataset), compute_plain_mean, repeats=2 if quick else 3
        )
        yield Row(
            f"analysis/{name.replace('_', '-')}", f"{name} of {points} points", ours.seconds,
            "the mean of the last half by xarray", plain.seconds,
        )  # fmt: skip


def make_dataset(d: int, gamma: int) -> xr.Dataset:
    """A dataset as a sweep stores it, with curves that fall to a floor."""
    spec = SweepSpec.parse({
        "axes": {
            "d": {"lin": [10, 9 + d, d]}, "p": 4, "gamma": {"log": [0.01, 1.0, gamma]},
            "regime": "high_dimensional",
        },
        "fixed": {"k": 2, "noise": 1e-3}, "init": {"kind": "informed"},
        "time": {"max": 100.0, "samples": 60}, "observables": ["risk", "specialisation", "largest_norm"],
    })  # fmt: skip
    plan = SweepPlan(Grid.of(spec, validate=False))
    dataset = make_coordinates(plan.schema).assign_attrs(spec=spec.model_dump_json())
    random, times = np.random.default_rng(0), dataset["time"].values
    for variables in plan.schema.variables.values():
        for name, variable in variables.items():
            if name == "status":
                values = np.full(variable.shape, Status.DONE, variable.dtype)
            elif variable.trailing != ("time",):
                continue
            else:
                noise = 1.0 + 0.01 * random.standard_normal(variable.shape)
                values = (0.1 / (1.0 + times) ** 2 + 1e-5 if name == "risk" else times / 100.0) * noise
            dataset[variable.name] = variable.dims, values, dict(variable.attributes)
    return dataset
