"""What is in a stored sweep: its axes and their values, and what can be looked at in it."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from sweep_service.analysis.curves import DERIVED, plain_value, single_observables
from sweep_service.analysis.point_values import values_of
from sweep_service.analysis.runs import DRAWN, spec_of
from sweep_service.analysis.selection import run_dims
from sweep_service.analysis.views import FEWEST, VIEWS, suggestion
from sweep_service.model.labels import about
from sweep_service.numerics.types import AnyArray
from sweep_service.planning.grids import POINT, axis_order
from sweep_service.planning.runs import KINDS

DESIGNS = ("triangle", "scaling", "zip", "points")
PRODUCT = "product"
MOST_POINTS = 20_000  # that are listed one by one


def contents(dataset: xr.Dataset) -> dict[str, Any]:
    """For people and programs that will ask for a part of it. `axes` are those of the points."""
    spec = spec_of(dataset)
    axes = axes_of(dataset)
    view, words = suggestion(dataset)
    return {
        "design": next((name for name in DESIGNS if spec.get(name)), PRODUCT),
        "axes": axes,
        "points": _points(dataset, axes),
        "sources": [kind for kind in KINDS if f"{kind}_risk" in dataset],
        "regimes": [str(name) for name in dataset["regime"].values] if "regime" in dataset.dims else [],
        "seeds": dataset.sizes.get("seed", 1),
        "repeats": dataset.sizes.get("repeat", 1),
        "times": [float(dataset["time"][at]) for at in (0, -1)],
        "observables": [
            {"name": name, "about": about(name)["long_name"]} for name in single_observables(dataset)
        ],
        "values": [
            {"name": name, "about": value.long_name, "needs_regime": "regime" in value.dims(dataset)}
            for name, value in values_of(dataset).items()
        ],
        "views": [name for name in VIEWS if _fits(name, dataset, axes)],
        "suggestion": {"view": view, "words": words},
        "provenance": {name: value for name, value in dataset.attrs.items() if name != "spec"},
    }


def axes_of(dataset: xr.Dataset) -> list[dict[str, Any]]:
    """Coordinates along the points, those with one value as well.

    An axis of a product has its values as they are stored, which is the order of its points.
    """
    kind = next(kind for kind in KINDS if f"{kind}_status" in dataset)
    dims = [dim for dim in run_dims(dataset[f"{kind}_status"]) if dim not in (*DRAWN, "regime")]
    names = [
        str(name)
        for name in dataset.coords
        if dataset[name].dims == (POINT,) and name not in DERIVED and POINT in dims
    ]
    names = sorted(names, key=axis_order) or [dim for dim in dims if dim in dataset.coords]
    return [
        {
            "name": name,
            "long_name": dataset[name].attrs.get("long_name", name),
            "units": dataset[name].attrs.get("units", "1"),
            "values": [plain_value(value) for value in _once(dataset[name])],
        }
        for name in names
    ]


def _once(coordinate: xr.DataArray) -> AnyArray:
    values: AnyArray = coordinate.values
    return np.unique(values) if coordinate.dims == (POINT,) else values


def _points(dataset: xr.Dataset, axes: list[dict[str, Any]]) -> list[list[Any]] | None:
    """The values of the axes at each point, where no product says them and they are not too many to tell."""
    if POINT not in dataset.dims or dataset.sizes[POINT] > MOST_POINTS:
        return None
    columns = [dataset[axis["name"]].values.tolist() for axis in axes]
    return [list(row) for row in zip(*columns, strict=True)]


def _fits(view: str, dataset: xr.Dataset, axes: list[dict[str, Any]]) -> bool:
    """Whether a view has something to show; it may still ask for a choice."""
    spec = spec_of(dataset)
    sizes = {axis["name"]: len(axis["values"]) for axis in axes}
    several = sum(size > 1 for size in sizes.values())
    has_cosines = any(f"{kind}_{name}" in dataset for kind in KINDS for name in COSINES)
    return {
        "phase-diagram": several > 1,
        "triangle": bool(spec.get("triangle")),
        "plane": bool(spec.get("scaling")) and sizes.get("d", 0) >= FEWEST,
        "rates": all(f"{kind}_risk" in dataset for kind in KINDS) and _differ(dataset["delta_t"]),
        "collapse": sizes.get("d", 0) > 1 and not spec.get("triangle"),
        "cosines": has_cosines and dataset.sizes.get("teacher") == 2,
        "histograms": has_cosines or any(f"{kind}_cosine_histogram" in dataset for kind in KINDS),
    }.get(view, True)


def _differ(array: xr.DataArray) -> bool:
    """More than by rounding."""
    return float(array.max()) > 1.01 * float(array.min())


COSINES = ("cosines", "overlap_student_teacher")
