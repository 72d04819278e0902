"""Where fluctuations can be predicted."""

from __future__ import annotations

from collections.abc import Iterable

from sweep_service.dynamics.fluctuations.adjoint.transposed_jacobian import has_smooth_slope
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.errors import InvalidInput
from sweep_service.model.point import Point

MAX_COVARIANCE_SIZE = 300  # components of the state up to which Σ is integrated
MAX_MATRIX_SIZE = 800  # and up to which J is computed as a matrix, where the adjoint needs it
MAX_SIZE = 50_000  # and up to which the adjoint does without J, p about 310: some minutes, 1 GB
NEEDED_REGIME = f"needs the regime {' or '.join(r.name for r in REGIMES.values() if r.has_fluctuations)}"


def any_with_fluctuations(regimes: Iterable[str]) -> bool:
    """Whether SGD's fluctuations about one of these regimes can be predicted; about auto they cannot."""
    return any(name in REGIMES and REGIMES[name].has_fluctuations for name in regimes)


def require_fluctuations(point: Point, regimes: Iterable[str]) -> None:
    """Raise `InvalidInput` if none of the regimes has fluctuations, or a state is too large for them."""
    if not any_with_fluctuations(regimes):
        raise InvalidInput("fluctuations", True, NEEDED_REGIME)
    size, most = count_components(point), max_components(point)
    if size > most:
        has_kink = not has_smooth_slope(point.activation)
        reason = f" for the kink of the activation {point.activation.name}" if has_kink else ""
        allowed = f"needs at most {most} components of (M, Q, a){reason}, which are {size} at p = {point.p}"
        raise InvalidInput("fluctuations", True, allowed)


def max_components(point: Point) -> int:
    """The size of the state up to which fluctuations are predicted: a kink needs J as a matrix."""
    return MAX_SIZE if has_smooth_slope(point.activation) else MAX_MATRIX_SIZE


def count_components(point: Point) -> int:
    """Count the components of (M, Q), and of a if it is learned."""
    learned = point.p if point.second_layer_rate > 0.0 else 0
    return point.p * point.k + point.p * (point.p + 1) // 2 + learned
