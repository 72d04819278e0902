"""The covariance of one step of SGD for a square student and teacher, in closed form."""

import itertools

import numpy as np
import pytest
from scipy import special

from sweep_service.dynamics.fluctuations.diffusion import SampledDiffusion
from sweep_service.dynamics.fluctuations.square_diffusion import SquareDiffusion
from sweep_service.model.point import Point
from tests.physics.flows import make_flow

START = {"kind": "overlaps", "M": [[0.6], [0.2]], "Q": [[0.7, 0.1], [0.1, 0.5]], "P": [[1.1]]}
POINT = {"d": 50, "p": 2, "k": 1, "gamma": 1.0, "noise": 0.05, "activation": "square", "init": START}
LEARNED = {"second_layer": {"init": [1.2, -0.8]}, "second_layer_rate": 1.5}
CASES = {"noise": {}, "no noise": {"noise": 0.0}, "learned, batch": {**LEARNED, "batch": 3}}


def cubature(count):
    """Points and weights that are exact for polynomials of degree 15 in each of `count` normal variables."""
    x, w = special.roots_hermitenorm(8)
    points = np.array(list(itertools.product(x, repeat=count)))
    return points, np.prod(list(itertools.product(w / w.sum(), repeat=count)), axis=1)


def weighted_psi(flow, point, points):
    """ψ at given points in place of samples, from its definition, as columns of the state."""
    samples = SampledDiffusion(flow, point.activation, point.teacher_activation, 16)
    samples.Z = points
    g, half, teachers, second_layer, rate = samples.at(flow.y0, 0.0)
    rows, columns = np.tril_indices(flow.p)
    overlaps = g[:, rows] * half[:, columns] + half[:, rows] * g[:, columns]
    parts = [g[:, :, None] * teachers[:, None, :], overlaps]
    parts += [] if second_layer is None else [second_layer]
    return np.hstack([part.reshape(len(g), -1) for part in parts]), rate


@pytest.mark.parametrize("case", CASES)
def test_matrix_is_that_of_exact_cubature(case):
    """ψψᵀ has degree 12 in the fields."""
    point = Point.parse({**POINT, **CASES[case]})
    flow = make_flow("high_dimensional", point)
    points, weights = cubature(4)
    psi, rate = weighted_psi(flow, point, points)
    mean = weights @ psi
    expected = rate * ((psi * weights[:, None]).T @ psi - np.outer(mean, mean))
    found = SquareDiffusion(flow).at(flow.y0, 0.0).matrix()
    # rounding of sums of 4096 terms
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.max(np.abs(expected)))


@pytest.mark.parametrize("case", CASES)
def test_projection_is_that_of_matrix(case):
    flow = make_flow("high_dimensional", Point.parse({**POINT, **CASES[case]}))
    scatter = SquareDiffusion(flow).at(flow.y0, 0.0)
    rows = np.random.default_rng(0).standard_normal((5, flow.y0.size))
    expected = rows @ scatter.matrix() @ rows.T
    np.testing.assert_allclose(scatter.project(rows), expected, rtol=0, atol=1e-12 * np.max(np.abs(expected)))
