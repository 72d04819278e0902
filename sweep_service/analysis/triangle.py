"""The triangle of limits: points of one step δt = γ/(p d), by how far each is towards each limit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import xarray as xr

from sweep_service.analysis.auto_regime import auto_regimes
from sweep_service.analysis.curves import DERIVED, plain_value
from sweep_service.analysis.phase_diagram import BESIDE, chosen_for, reduced, rows
from sweep_service.analysis.runs import DRAWN, parameter, spec_of
from sweep_service.analysis.selection import listed
from sweep_service.errors import InvalidInput
from sweep_service.planning.designs import smallest
from sweep_service.planning.grids import CORE, POINT
from sweep_service.planning.spec import Triangle

# The coordinates and what is meant by 1 of each: corners of the triangle.
CORNERS = {
    "u_d": "towards the high-dimensional limit: ln(d/d_min)/L",
    "u_p": "towards the mean-field limit: ln(p/p_min)/L",
    "u_gamma": "towards the classical limit: ln(γ_max/γ)/L",
}


def triangle(dataset: xr.Dataset, /, value: str = "sgd_risk", **where: Any) -> xr.DataArray:
    """A value, as in a phase diagram, on the points of a `triangle` sweep.

    Coordinates `u_d`, `u_p` and `u_gamma`, which sum to one, say where each point is, `auto_regime`
    which theory would be chosen there; `standard_error` and `runs` stand beside the value.
    """
    asked = spec_of(dataset).get("triangle")
    if not asked or dataset["d"].dims != (POINT,):
        raise InvalidInput("triangle", None, "must be a sweep over a triangle: {delta_t, resolution}")
    wanted, chosen = chosen_for(dataset, value, where)
    dims = wanted.dims(chosen)
    at = _the_rest(chosen, dims)
    found = reduced(wanted, chosen).isel({dim: 0 for dim in dims if dim not in (POINT, *DRAWN)}, drop=True)
    found = found.assign_coords({name: chosen[name] for name in (*CORE, *DERIVED)})
    found = found.assign_coords(coordinates(chosen, Triangle(**asked)))
    found = found.assign_coords(auto_regime=(POINT, auto_regimes(chosen).transpose(POINT).values))
    return found.rename(value).assign_attrs(value=value, at=at, delta_t=asked["delta_t"])


def as_plain(found: xr.DataArray) -> dict[str, Any]:
    """A triangle for JSON, point by point."""
    about = found.attrs
    columns = {name: found[name] for name in (*CORE, *CORNERS, "auto_regime")} | {"value": found}
    columns |= {name: found[name] for name in BESIDE if name in found.coords}
    value = {"name": about["value"], "long_name": about["long_name"], "units": about["units"]}
    said = {name: about[name] for name in ("at", "reduced", "delta_t")}
    return {"form": "triangle", "value": value, **said, "points": rows(columns)}


def coordinates(dataset: xr.Dataset, asked: Triangle) -> dict[str, xr.DataArray]:
    """u = [ln(d/d_min), ln(p/p_min), ln(γ_max/γ)]/L of the points; L = ln(γ_max/(δt p_min d_min))."""
    d_min, p_min = smallest(asked, int(parameter(dataset, "k").max()))
    whole = math.log(asked.gamma_max / (asked.delta_t * p_min * d_min))
    d, p, gamma = (dataset[name].values for name in CORE)
    parts = (np.log(d / d_min), np.log(p / p_min), np.log(asked.gamma_max / gamma))
    return {
        name: xr.DataArray(part / whole, dims=POINT, attrs={"long_name": text, "units": "1"})
        for (name, text), part in zip(CORNERS.items(), parts, strict=True)
    }


def _the_rest(dataset: xr.Dataset, dims: tuple[str, ...]) -> dict[str, Any]:
    """What else there is must have one value."""
    along = [str(name) for name in dataset.coords if dataset[name].dims == (POINT,)]
    names = [dim for dim in dims if dim not in (POINT, *DRAWN)]
    at: dict[str, Any] = {}
    for name in [*names, *(name for name in along if name not in (*CORE, *DERIVED))]:
        found = dataset[name].values
        if len(set(found.tolist())) > 1:
            raise InvalidInput(name, None, f"must be selected: one of {listed(found)}")
        at[name] = plain_value(found[0])
    return at
