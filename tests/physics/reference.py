"""References of the physics tests: plain quadrature and Monte Carlo, without formulas of the package."""

from functools import cache
from itertools import product

import numpy as np
from scipy import special
from scipy.stats import qmc

from sweep_service.dynamics.overlap_flow import System
from sweep_service.dynamics.sampling.variance import choose_variance
from sweep_service.model.activations import ACTIVATIONS
from sweep_service.model.averages.two_point import make_pairs
from sweep_service.model.overlaps import Overlaps

# Every ordered pair (student, teacher), equal ones included; MIXED without them.
ALL_PAIRS = list(product(ACTIVATIONS.values(), repeat=2))
MIXED = [(f, g) for f, g in ALL_PAIRS if f is not g]


def name(value):
    """Test id of a parameter: the name of an activation, and pytest's default for others."""
    return getattr(value, "name", None)


def panels(edges, order=12):
    """Composite Gauss-Legendre: nodes and weights (..., panels·order) for edges (..., panels+1)."""
    x, w = np.polynomial.legendre.leggauss(order)
    low, high = edges[..., :-1, None], edges[..., 1:, None]
    nodes, weights = (low + high) / 2 + (high - low) / 2 * x, (high - low) / 2 * w
    return nodes.reshape(*edges.shape[:-1], -1), weights.reshape(*edges.shape[:-1], -1)


def normal_rule(breaks):
    """Nodes and weights of N(0, 1) from panels of length one, broken at the given points (..., n) as well."""
    breaks = np.asarray(breaks)
    unit = np.broadcast_to(np.linspace(-10.0, 10.0, 21), (*breaks.shape[:-1], 21))  # the tails weigh 1e-23
    x, w = panels(np.sort(np.concatenate([unit, np.clip(breaks, -10.0, 10.0)], axis=-1)))
    return x, w * np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi)


# The kink at zero, and where the average of a kink in the other field bends: within √(1-ρ²) of it.
AROUND_ZERO = np.concatenate([-np.logspace(-0.5, -3, 6), [0.0], np.logspace(-3, -0.5, 6)])


def conditional(g, mu, s):
    """E[g(mu + s y)] over y ~ N(0, 1), with the kink of g at zero on the edge of a panel."""
    y, w = normal_rule(-mu[..., None] / s)
    return np.sum(w * g(mu[..., None] + s * y), axis=-1)


def random_weights(seed, p, k, d, scale=1.0):
    """W (p, d) and W* (k, d), iid normal: overlaps in general position, P ≠ I."""
    rng = np.random.default_rng(seed)
    return scale * rng.standard_normal((p, d)), rng.standard_normal((k, d))


def overlaps_of(W, W_star):
    root = np.sqrt(W.shape[1])
    return Overlaps.of(W / root, W_star / root)


def random_overlaps(seed, p, k, d, scale=1.0):
    return overlaps_of(*random_weights(seed, p, k, d, scale))


def system_of(student, teacher, P, **settings):
    settings = {"gamma_over_p": 0.3, "noise": 0.2} | settings
    return System(P=P, pairs=make_pairs(student, teacher), **settings)


def system_at(student, teacher, W, W_star, rate, noise):
    """Overlaps of actual weights, and all terms there with ‖x‖²; sampled on more points than tests draw."""
    o, (p, d), k = overlaps_of(W, W_star), W.shape, len(W_star)
    average, _ = choose_variance(student, teacher, p, k, points=1 << 16)
    return o, system_of(student, teacher, o.P, gamma_over_p=rate, noise=noise, variance=average, finite_d=d)


def inputs(seed, n, d):
    """x ~ N(0, I_d/d), n rows."""
    return np.random.default_rng(seed).standard_normal((n, d)) / np.sqrt(d)


def z_scores(samples, claimed):
    """Distance between the mean over the first axis and the claimed value, in standard errors."""
    error = samples.std(axis=0, ddof=1) / np.sqrt(len(samples))
    return np.abs(samples.mean(axis=0) - claimed) / np.maximum(error, 1e-13)  # rounding, where nothing varies


@cache
def sobol_normals(seed, points, n):
    """Scrambled Sobol points mapped to N(0, I_n), with other scrambles than the package uses."""
    return special.ndtri(qmc.Sobol(n, scramble=True, rng=seed).random(points))
