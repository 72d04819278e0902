"""`ds.sweep`, the accessor of a dataset. Each method calls a function of this package on the dataset.

A result of `simulate` or `integrate` is read in the layout of a stored sweep, see `single_point`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

import xarray as xr

from sweep_service.analysis.error_bars.seeds import seeds_needed
from sweep_service.analysis.error_bars.target import target_estimates
from sweep_service.analysis.error_bars.validity import validity
from sweep_service.analysis.error_bars.z_score import z_score
from sweep_service.analysis.export import export
from sweep_service.analysis.phase_diagram import phase_diagram
from sweep_service.analysis.quantities.bounded import bounded
from sweep_service.analysis.quantities.classification import phase, scaling_phase
from sweep_service.analysis.quantities.collapse import collapse
from sweep_service.analysis.quantities.crossing import time_to
from sweep_service.analysis.quantities.discrepancy import discrepancy
from sweep_service.analysis.quantities.exponent import exponent
from sweep_service.analysis.quantities.final_risk import final_risk
from sweep_service.analysis.quantities.noise import noise_floor
from sweep_service.analysis.quantities.plateaus import plateaus
from sweep_service.analysis.quantities.specialisation import cosines, labels, specialisation_time
from sweep_service.analysis.runs import sort_dataset
from sweep_service.analysis.single_point import as_sweep, merge
from sweep_service.analysis.triangle import triangle
from sweep_service.analysis.view_plots import PLOTS

METHODS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        phase_diagram, triangle, discrepancy, exponent, final_risk, plateaus, specialisation_time, cosines,
        labels, noise_floor, collapse, phase, scaling_phase, bounded, time_to, z_score,
        validity, seeds_needed, target_estimates,
    )
} | {function.__name__: function for function in PLOTS.values()}  # fmt: skip
UNSORTED_METHODS: dict[str, Callable[..., Any]] = {"export": export, "merge": merge}  # these keep the order
METHODS |= UNSORTED_METHODS
SOURCE = "source"


class SweepAccessor:
    """The analyses of one dataset.

    The dataset is a sweep, or a result of `ss.simulate` or `ss.integrate`. A `source` is `sgd`, the name of a
    regime, or `ode` for all regimes; by default `sgd`, or `ode` if the dataset has no SGD. Methods use all
    that the dataset contains, so select first: `ds.sel(gamma=0.1).sweep.final_risk()`. Samples may be in any
    order of time, seed and repeat; results are in ascending order. Definitions and results are described in
    docs/analysis.md.
    """

    def __init__(self, dataset: xr.Dataset) -> None:
        self._dataset = as_sweep(dataset)

    def __repr__(self) -> str:
        return f"<sweep: {', '.join(METHODS)}>"


def _make_method(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(function)
    has_default_source = SOURCE in signature.parameters and signature.parameters[SOURCE].default == "sgd"

    @wraps(function)
    def method(self: SweepAccessor, *args: Any, **options: Any) -> Any:
        dataset = self._dataset if name in UNSORTED_METHODS else sort_dataset(self._dataset)
        if has_default_source and "sgd_risk" not in dataset and "ode_risk" in dataset:
            given = signature.bind_partial(dataset, *args, **options).arguments
            options = options if SOURCE in given else {**options, SOURCE: "ode"}
        return function(dataset, *args, **options)

    dataset, *others = signature.parameters.values()
    this = dataset.replace(name="self", annotation=inspect.Parameter.empty)
    method.__signature__ = inspect.Signature([this, *others])  # type: ignore[attr-defined]
    return method


for _name, _function in METHODS.items():
    setattr(SweepAccessor, _name, _make_method(_name, _function))
