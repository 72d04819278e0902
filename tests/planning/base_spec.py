"""A base spec, and variations of it, for the tests of specs."""

from sweep_service.planning.grids import Grid
from sweep_service.planning.spec import SweepSpec

BASE = {
    "axes": {"d": [5, 20], "p": 4, "gamma": 0.1},
    "fixed": {"k": 2},
    "time": {"max": 10.0, "samples": 5},
}


def make_grid(**change):
    """Return the grid of the base spec with some fields replaced."""
    return Grid.of(SweepSpec.parse({**BASE, **change}))


def with_axes(**change):
    """Return the field `axes` of the base spec with some axes replaced."""
    return {"axes": {**BASE["axes"], **change}}
