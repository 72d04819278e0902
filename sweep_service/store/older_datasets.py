"""Datasets of older versions, completed as they are opened."""

from __future__ import annotations

import numpy as np
import xarray as xr

from sweep_service.errors import InvalidInput
from sweep_service.model.labels import variable_attributes
from sweep_service.model.parameters import Scalar
from sweep_service.planning.fixed import INIT_KIND, fixed_values
from sweep_service.planning.outline import Outline
from sweep_service.planning.spec import SweepSpec

DIMENSIONLESS = "1"  # the unit that older versions stored


def fixed_coordinate(name: str, value: Scalar) -> xr.Variable:
    """Make a scalar coordinate; text has the type in which it is read, as Zarr 3 has none of fixed width."""
    text_type = np.dtypes.StringDType() if isinstance(value, str) else None
    return xr.Variable((), np.array(value, dtype=text_type), variable_attributes(name))


def complete_dataset(dataset: xr.Dataset) -> xr.Dataset:
    """Add the coordinates of fixed parameters from the spec, and drop the unit "1", which plots would show.

    A dataset whose spec cannot be read is returned without them.
    """
    for variable in dataset.variables.values():
        if variable.attrs.get("units") == DIMENSIONLESS:
            del variable.attrs["units"]
    if INIT_KIND in dataset.coords or "spec" not in dataset.attrs:
        return dataset
    try:
        outline = Outline.of(SweepSpec.read(dataset.attrs["spec"]))
    except InvalidInput:  # of an older version that allowed it
        return dataset
    values = fixed_values({str(name) for name in dataset.variables}, outline.fixed, outline.init)
    return dataset.assign_coords({name: fixed_coordinate(name, value) for name, value in values.items()})
