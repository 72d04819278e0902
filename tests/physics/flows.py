"""Flows as the regimes build them."""

from sweep_service.dynamics.options import RegimeOptions
from sweep_service.dynamics.regimes import REGIMES, Setup
from sweep_service.model.point import Point


def make_flow(regime, point, seed=0, **options):
    """The flow that `integrate` would follow from this point."""
    point = Point.parse(point)
    return REGIMES[regime].make_flow(Setup(point, point.start(seed), seed, RegimeOptions.parse(options)))
