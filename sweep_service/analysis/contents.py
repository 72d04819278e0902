"""What is in a stored sweep: its axes and their values, and what can be looked at in it."""

from __future__ import annotations

from typing import Any

import xarray as xr

from sweep_service.analysis.axes import point_axes
from sweep_service.analysis.curves import plain_value, single_observables
from sweep_service.analysis.point_values import values_of
from sweep_service.analysis.runs import spec_of
from sweep_service.analysis.views import VIEWS, suggestion
from sweep_service.model.labels import about
from sweep_service.planning.grids import POINT
from sweep_service.planning.runs import KINDS

DESIGNS = ("triangle", "scaling", "zip", "points")
PRODUCT = "product"
MOST_POINTS = 20_000  # that are listed one by one


def contents(dataset: xr.Dataset) -> dict[str, Any]:
    """For people and programs that will ask for a part of it. `axes` are those of the points."""
    spec = spec_of(dataset)
    axes = axes_of(dataset)
    views = {name: view for name, view in VIEWS.items() if view.fits(dataset)}
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
        "views": list(views),
        "forms": {name: view.form.describe(dataset) for name, view in views.items()},
        "suggestion": {"view": view, "words": words},
        "provenance": {name: value for name, value in dataset.attrs.items() if name != "spec"},
    }


def axes_of(dataset: xr.Dataset) -> list[dict[str, Any]]:
    """Coordinates along the points, those with one value as well.

    An axis of a product has its values as they are stored, which is the order of its points.
    """
    return [
        {
            "name": name,
            "long_name": dataset[name].attrs.get("long_name", name),
            "units": dataset[name].attrs.get("units", "1"),
            "values": [plain_value(value) for value in values],
        }
        for name, values in point_axes(dataset).items()
    ]


def _points(dataset: xr.Dataset, axes: list[dict[str, Any]]) -> list[list[Any]] | None:
    """The values of the axes at each point, where no product says them and they are not too many to tell."""
    if POINT not in dataset.dims or dataset.sizes[POINT] > MOST_POINTS:
        return None
    columns = [dataset[axis["name"]].values.tolist() for axis in axes]
    return [list(row) for row in zip(*columns, strict=True)]
