"""The activation gelu."""

import math

import numpy as np
from scipy import special

from sweep_service.model.activations import Activation

DENSITY_AT_ZERO = 1.0 / math.sqrt(2.0 * math.pi)


def value(x):
    """σ(x) = x Φ(x), with the distribution function Φ of a normal variable."""
    return x * special.ndtr(x)


def slope(x):
    """σ'(x) = Φ(x) + x φ(x)."""
    return special.ndtr(x) + x * DENSITY_AT_ZERO * np.exp(-0.5 * x * x)


def curvature(x):
    """σ''(x) = (2 - x²) φ(x)."""
    return (2.0 - x * x) * DENSITY_AT_ZERO * np.exp(-0.5 * x * x)


GELU = Activation(name="gelu", formula="x Φ(x)", value=value, slope=slope, curvature=curvature)
