"""A description of a stored sweep: its axes with their values, and the views and values that it offers."""

from __future__ import annotations

from typing import Any

import xarray as xr

from sweep_service.analysis.axes import point_axes
from sweep_service.analysis.curves import plain_value, scalar_observables
from sweep_service.analysis.error_bars.prediction import add_prediction
from sweep_service.analysis.point_values import available_values
from sweep_service.analysis.runs import fixed_parameters, read_spec
from sweep_service.analysis.views import VIEWS, suggest_view
from sweep_service.model.labels import variable_attributes
from sweep_service.planning.axes import POINT
from sweep_service.planning.runs import KINDS

DESIGNS = ("triangle", "scaling", "zip", "points")
PRODUCT = "product"
MAX_LISTED_POINTS = 20_000


def describe_contents(dataset: xr.Dataset) -> dict[str, Any]:
    """Everything that a selection or a view of the dataset can name. `axes` are those of the points."""
    spec = read_spec(dataset)
    axes = describe_axes(dataset)
    views = {name: view for name, view in VIEWS.items() if view.fits(dataset)}
    view, options = suggest_view(dataset)
    predicted = add_prediction(dataset)
    return {
        "design": next((name for name in DESIGNS if spec.get(name)), PRODUCT),
        "axes": axes,
        "fixed": fixed_parameters(dataset),
        "points": _list_points(dataset, axes),
        "sources": [kind for kind in KINDS if f"{kind}_risk" in dataset],
        "regimes": [str(name) for name in dataset["regime"].values] if "regime" in dataset.dims else [],
        "seeds": dataset.sizes.get("seed", 1),
        "repeats": dataset.sizes.get("repeat", 1),
        "times": [float(dataset["time"][at]) for at in (0, -1)],
        "observables": [
            {"name": name, "about": variable_attributes(name)["long_name"]}
            for name in scalar_observables(dataset)
        ],
        "values": [
            {"name": name, "about": value.long_name, "needs_regime": "regime" in value.dims(predicted)}
            for name, value in available_values(predicted).items()
        ],
        "views": list(views),
        "forms": {name: view.form.describe(dataset) for name, view in views.items()},
        "suggestion": {"view": view, "words": options},
        "provenance": {name: value for name, value in dataset.attrs.items() if name != "spec"},
    }


def describe_axes(dataset: xr.Dataset) -> list[dict[str, Any]]:
    """Name, long name, units and values of each of the `point_axes`."""
    return [
        {
            "name": name,
            "long_name": dataset[name].attrs.get("long_name", name),
            "units": dataset[name].attrs.get("units", "1"),
            "values": [plain_value(value) for value in values],
        }
        for name, values in point_axes(dataset).items()
    ]


def _list_points(dataset: xr.Dataset, axes: list[dict[str, Any]]) -> list[list[Any]] | None:
    """Values of the axes at each point; None for a product, and for too many points."""
    if POINT not in dataset.dims or dataset.sizes[POINT] > MAX_LISTED_POINTS:
        return None
    columns = [dataset[axis["name"]].values.tolist() for axis in axes]
    return [list(row) for row in zip(*columns, strict=True)]
