"""Particles of the p = ∞ law: the law of the second layer is one more dimension."""

import numpy as np
import pytest

from sweep_service.dynamics.options import RegimeOptions
from sweep_service.dynamics.regimes import Setup, draw_particles
from sweep_service.model.point import Point

GAUSSIAN = {"kind": "gaussian", "orthonormal_teacher": True}


def particles(layer, init=GAUSSIAN, seed=0, count=512, p=6, **change):
    mapping = {"d": 12, "p": p, "k": 2, "gamma": 0.1, "init": init, "second_layer": layer, **change}
    point = Point.parse(mapping)
    return draw_particles(Setup(point, point.start(seed), seed, RegimeOptions(particles=count)))


def test_gaussian_law():
    M, q, readout = particles({"init": "gaussian", "scale": 2.0})
    a = readout.student
    assert len(M) == len(q) == len(a) == 512
    np.testing.assert_allclose([a.mean(), a.var(), (a**4).mean() / 48.0], [0.0, 4.0, 1.0], atol=0.05)
    for values in (*M.T, q):  # independent of a, to the error of Sobol points
        assert abs(np.corrcoef(a, values)[0, 1]) < 0.02
        assert abs(np.corrcoef(a**2, values**2)[0, 1]) < 0.05


def test_signs_and_given_numbers_are_equally_probable():
    for init, values in (("rademacher", [-1.0, 1.0]), ([1.0, 2.0, 5.0], [1.0, 2.0, 5.0])):
        a = particles({"init": init}, p=3)[2].student
        distinct, counts = np.unique(a, return_counts=True)
        np.testing.assert_array_equal(distinct, values)
        np.testing.assert_allclose(counts, 512 / len(values), atol=1.0)


def test_law_does_not_depend_on_width_or_seed():
    init = {**GAUSSIAN, "shared": {"d0": 12}}
    first = particles({"init": "gaussian"}, init, seed=0, p=6)
    other = particles({"init": "gaussian"}, init, seed=5, p=10)
    for expected, actual in zip((*first[:2], first[2].student), (*other[:2], other[2].student), strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_ones_keep_the_points_of_the_law():
    M, q, readout = particles({"init": "ones"})
    learned = particles({"init": "ones", "scale": 3.0}, second_layer_rate=1.0)
    assert readout is None
    np.testing.assert_array_equal(learned[0], M)
    np.testing.assert_array_equal(learned[1], q)
    np.testing.assert_array_equal(learned[2].student, 3.0)


@pytest.mark.parametrize("kind", ["planted", "overlaps"])
def test_neurons_that_are_the_law_keep_their_numbers(kind):
    init = {"kind": kind}
    if kind == "overlaps":
        M = np.arange(12.0).reshape(6, 2) / 12.0
        init |= {"M": M, "Q": M @ M.T + 0.5 * np.eye(6), "P": np.eye(2)}
    numbers = [1.0, -2.0, 3.0, -4.0, 5.0, -6.0]
    M, _, readout = particles({"init": numbers}, init)
    np.testing.assert_array_equal(readout.student, numbers)
    many, _, random = particles({"init": "rademacher"}, init)
    pairs, counts = np.unique(np.column_stack([many, random.student]), axis=0, return_counts=True)
    assert len(pairs) == 2 * len(np.unique(M, axis=0))  # each neuron with each sign
    np.testing.assert_allclose(counts, counts.mean(), atol=3.0)
