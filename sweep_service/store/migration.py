"""Datasets of older versions: what they lack is added when they are opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sweep_service.errors import InvalidInput

if TYPE_CHECKING:
    import xarray as xr

DIMENSIONLESS = "1"  # the unit that older versions stored


def complete_dataset(dataset: xr.Dataset) -> xr.Dataset:
    """Add the coordinates of fixed parameters from the spec, and drop the unit "1", which plots would show.

    A dataset whose spec cannot be read is returned without them.
    """
    from sweep_service.model.fixed import INIT_KIND, fixed_values
    from sweep_service.planning.outline import Outline
    from sweep_service.planning.spec import SweepSpec
    from sweep_service.store.labels import fixed_coordinate

    for variable in dataset.variables.values():
        if variable.attrs.get("units") == DIMENSIONLESS:
            del variable.attrs["units"]
    if INIT_KIND in dataset.coords or "spec" not in dataset.attrs:
        return dataset
    try:
        outline = Outline.of(SweepSpec.read(dataset.attrs["spec"]))
    except InvalidInput:  # of an older version that allowed it
        return dataset
    values = fixed_values({str(name) for name in dataset.variables}, outline.fixed, outline.structures)
    return dataset.assign_coords({name: fixed_coordinate(name, value) for name, value in values.items()})
