"""Prices of regimes: seconds of an integration on the machine where they were measured."""

from __future__ import annotations

from sweep_service.dynamics.compiled_overlap_flow import MAX_COMPILED_WIDTH
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.dynamics.variance import MAX_EXACT_ERF_WIDTH, QMC_POINTS
from sweep_service.model.point import Point
from sweep_service.model.two_point import has_closed_forms

# Factor for sums and quadrature instead of closed forms.
NUMERICAL_SLOWDOWN = 20.0


def flow_class(point: Point, regime: str) -> str:
    """Return the class of work of a regime at a point, which is that of its flow."""
    entry = REGIMES[regime]
    if entry.mean_field:
        square = point.activation.name == point.teacher_activation.name == "square"
        return f"ode/{'square' if square else 'pairs' if point.k > 2 else 'nodes'}"
    size = "small" if point.p <= MAX_COMPILED_WIDTH else "wide"
    return f"ode/{size}{'-sampling' if entry.sampled else ''}"


def seconds_to_ten(point: Point, regime: str, qmc_points: int = QMC_POINTS) -> tuple[float, float]:
    """Return the seconds of an integration to t = 10, and their growth per decade of time."""
    p, k, entry = point.p, point.k, REGIMES[regime]
    is_simple = k == 1 or entry.infinite_d
    mean_field = 0.007 + 2.2e-6 * p * min(p, 300) if is_simple else 0.015 + 8e-6 * p * min(p, 300)
    if point.activation.name == "erf" and p <= MAX_EXACT_ERF_WIDTH:
        sampled = 4e-5 * p * p + 2e-7 * p * p * (p + k) ** 2
    elif point.activation.name == "square":
        sampled = 0.025 + 4e-5 * p * p
    else:
        sampled = (0.5 + 0.024 * p) * qmc_points / QMC_POINTS
    kind = flow_class(point, regime)
    to_ten, growth = {
        "ode/small": (1.6e-3 + 7e-6 * p * p, 1.6 + 2.5e-3 * p * p),
        "ode/small-sampling": (0.005 + sampled, 2.2),
        "ode/wide": (0.012 + 6e-6 * p * p, 2.5),
        "ode/wide-sampling": (0.012 + 1.8e-5 * p * p + sampled, 2.2),
        "ode/nodes": (mean_field, 2.5),
        "ode/pairs": (mean_field, 2.0),
        "ode/square": (0.018 + 4e-5 * p, 4.5),
    }[kind]
    closed = kind == "ode/square" or has_closed_forms(point.activation, point.teacher_activation)
    return to_ten * (1.0 if closed else NUMERICAL_SLOWDOWN), growth
