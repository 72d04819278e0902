"""Which theory `auto` would choose at the points of a sweep, whether or not it was computed."""

from __future__ import annotations

from typing import Any

import xarray as xr

from sweep_service.analysis.stored import at_points, spec_of
from sweep_service.dynamics.auto import choose
from sweep_service.grids import FIELDS, INIT
from sweep_service.point import Point


def auto_regimes(dataset: xr.Dataset) -> xr.DataArray:
    """Its name at each point, for the first of the starts."""
    init = spec_of(dataset).get("init", {"kind": "gaussian"})
    numbers = [str(name) for name in dataset.coords if str(name).startswith(INIT)]
    seed = int(dataset["seed"].values[0]) if "seed" in dataset.coords else 0

    def chosen(**values: Any) -> Any:
        given = {name.removeprefix(INIT): values.pop(name) for name in numbers}
        point = Point.parse({**values, "init": {**init, **given}})
        return choose(point, point.start(seed)).regime

    return at_points(dataset, [*FIELDS, *numbers], chosen)
