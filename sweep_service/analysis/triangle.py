"""The triangle of limits: points with one step δt = γ/(p d), by their position between the three limits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import xarray as xr

from sweep_service.analysis.auto_regime import find_auto_regimes
from sweep_service.analysis.curves import DERIVED_COORDINATES, plain_value
from sweep_service.analysis.phase_diagram import STATISTICS, columns_to_rows, reduce_runs, select_for_value
from sweep_service.analysis.runs import DRAW_DIMS, fixed_parameters, parameter, read_spec
from sweep_service.analysis.selection import format_values
from sweep_service.errors import InvalidInput
from sweep_service.planning.axes import CORE_AXES, POINT
from sweep_service.planning.designs import smallest_d_and_p
from sweep_service.planning.spec import Triangle

# Barycentric coordinates with their long names; each is 1 in its corner.
BARYCENTRIC = {
    "u_d": "towards the high-dimensional limit: ln(d/d_min)/L",
    "u_p": "towards the mean-field limit: ln(p/p_min)/L",
    "u_gamma": "towards the classical limit: ln(γ_max/γ)/L",
}


def triangle(dataset: xr.Dataset, /, value: str = "sgd_risk", **where: Any) -> xr.DataArray:
    """Evaluate a value on the points of a `triangle` sweep.

    Parameters
    ----------
    value
        A value as for `phase_diagram`.
    **where
        Selections along coordinates, as for `phase_diagram`. The regime must have one value if the value
        depends on it.

    Returns
    -------
    xr.DataArray
        (point,), with the coordinates `u_d`, `u_p` and `u_gamma`, which sum to one, `auto_regime`, the
        regime that `auto` would choose, and `standard_error` and `runs` of the value.

    Raises
    ------
    InvalidInput
        If the sweep has no `triangle` design, a name is unknown, or another axis has several values.
    """
    design = read_spec(dataset).get("triangle")
    if not design or dataset["d"].dims != (POINT,):
        raise InvalidInput("triangle", None, "must be a sweep over a triangle: {delta_t, resolution}")
    entry, selected = select_for_value(dataset, value, where)
    dims = entry.dims(selected)
    at = _find_constants(selected, dims)
    result = reduce_runs(entry, selected)
    result = result.isel({dim: 0 for dim in dims if dim not in (POINT, *DRAW_DIMS)}, drop=True)
    result = result.assign_coords({name: selected[name] for name in (*CORE_AXES, *DERIVED_COORDINATES)})
    result = result.assign_coords(barycentric_coordinates(selected, Triangle(**design)))
    result = result.assign_coords(auto_regime=(POINT, find_auto_regimes(selected).transpose(POINT).values))
    return result.rename(value).assign_attrs(
        value=value, at=at, fixed=fixed_parameters(selected), delta_t=design["delta_t"]
    )


def triangle_to_json(result: xr.DataArray) -> dict[str, Any]:
    """A triangle as plain data, point by point."""
    attributes = result.attrs
    columns = {name: result[name] for name in (*CORE_AXES, *BARYCENTRIC, "auto_regime")} | {"value": result}
    columns |= {name: result[name] for name in STATISTICS if name in result.coords}
    value = {
        "name": attributes["value"],
        "long_name": attributes["long_name"],
        "units": attributes.get("units", "1"),
    }
    context = {name: attributes[name] for name in ("at", "fixed", "reduced", "delta_t")}
    return {"form": "triangle", "value": value, **context, "points": columns_to_rows(columns)}


def barycentric_coordinates(dataset: xr.Dataset, design: Triangle) -> dict[str, xr.DataArray]:
    """u = [ln(d/d_min), ln(p/p_min), ln(γ_max/γ)]/L of the points; L = ln(γ_max/(δt p_min d_min))."""
    d_min, p_min = smallest_d_and_p(design, int(parameter(dataset, "k").max()))
    total = math.log(design.gamma_max / (design.delta_t * p_min * d_min))
    d, p, gamma = (dataset[name].values for name in CORE_AXES)
    logarithms = (np.log(d / d_min), np.log(p / p_min), np.log(design.gamma_max / gamma))
    return {
        name: xr.DataArray(logarithm / total, dims=POINT, attrs={"long_name": long_name})
        for (name, long_name), logarithm in zip(BARYCENTRIC.items(), logarithms, strict=True)
    }


def _find_constants(dataset: xr.Dataset, dims: tuple[str, ...]) -> dict[str, Any]:
    """Values of all other coordinates, which must have one value each."""
    on_points = [str(name) for name in dataset.coords if dataset[name].dims == (POINT,)]
    names = [dim for dim in dims if dim not in (POINT, *DRAW_DIMS)]
    names += [name for name in on_points if name not in (*CORE_AXES, *DERIVED_COORDINATES)]
    constants: dict[str, Any] = {}
    for name in names:
        values = dataset[name].values
        if len(set(values.tolist())) > 1:
            raise InvalidInput(name, None, f"must be selected: one of {format_values(values)}")
        constants[name] = plain_value(values[0])
    return constants
