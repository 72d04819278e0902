"""Overlap matrices: their relation to weights, and which explicit ones are refused."""

import numpy as np
import pytest

from sweep_service.errors import InvalidInput
from sweep_service.model.overlaps import (
    RANK_TOLERANCE,
    Overlaps,
    gram_rank,
    invert_gram,
    orthogonal_part,
    parse_overlaps,
)

P_, K_, D_ = 4, 2, 9


@pytest.fixture
def weights():
    rng = np.random.default_rng(1)
    return rng.standard_normal((P_, D_)), rng.standard_normal((K_, D_))


def of(W, W_star):
    d = W.shape[1]
    return Overlaps.of(W / np.sqrt(d), W_star / np.sqrt(d))


def test_overlaps_are_covariance_of_fields(weights):
    W, W_star = weights
    both = np.vstack([W, W_star])
    np.testing.assert_allclose(of(W, W_star).omega, both @ both.T / D_, rtol=1e-13)


def test_overlaps_do_not_depend_on_basis(weights):
    rotation = np.linalg.qr(np.random.default_rng(2).standard_normal((D_, D_)))[0]
    W, W_star = weights
    turned = of(W @ rotation, W_star @ rotation)
    np.testing.assert_allclose(turned.omega, of(W, W_star).omega, atol=1e-14)  # sums of nine products


@pytest.mark.parametrize("d", [3, 5, 6, 9])
def test_rank_is_smallest_dimension(weights, d):
    W, W_star = weights
    assert of(W[:, :d], W_star[:, :d]).rank == min(d, P_ + K_)


def test_rank_ignores_rounding():
    M = np.random.default_rng(3).standard_normal((P_, K_))
    overlaps = Overlaps(M, M @ M.T, np.eye(K_))
    assert overlaps.rank == K_
    lifted = Overlaps(M, M @ M.T + 1e3 * RANK_TOLERANCE * np.eye(P_), np.eye(K_))
    assert lifted.rank == K_ + P_


def test_orthogonal_part_agrees_with_weights(weights):
    """Q⊥ = W⊥ W⊥ᵀ/d, W⊥ the part of W outside the span of W*; leading axes are a batch."""
    W, W_star = weights
    span = np.linalg.qr(W_star.T)[0]
    outside = W - W @ span @ span.T
    o = of(W, W_star)
    expected = outside @ outside.T / D_
    np.testing.assert_allclose(orthogonal_part(o.M, o.Q, o.P), expected, atol=1e-14)
    np.testing.assert_allclose(o.orthogonal_norms, np.diag(expected), atol=1e-14)
    stacked = orthogonal_part(*(np.stack([x, 2 * x]) for x in (o.M, o.Q, o.P)))
    np.testing.assert_allclose(stacked, [expected, 2 * expected], atol=1e-13)


def test_orthogonal_norms_are_never_negative():
    """Q = M P⁻¹ Mᵀ leaves only rounding, of either sign: its root must exist."""
    rng = np.random.default_rng(4)
    P = np.array([[1.0, 0.3], [0.3, 2.0]])
    for _ in range(50):
        M = rng.standard_normal((P_, K_))
        norms = Overlaps(M, M @ np.linalg.solve(P, M.T), P).orthogonal_norms
        assert np.all(norms >= 0)
        assert np.all(norms < 1e-13)


def test_parse_overlaps_keeps_numbers(weights):
    o = of(*weights)
    same = parse_overlaps(o.M, o.Q, o.P)
    for name in "MQP":
        np.testing.assert_array_equal(getattr(same, name), getattr(o, name))


def test_parse_overlaps_accepts_ten_digits():
    """A boundary case, Q = M Mᵀ exactly, is slightly indefinite once rounded."""
    M = np.random.default_rng(5).standard_normal((P_, K_))
    o = parse_overlaps(M.round(10), (M @ M.T).round(10), np.eye(K_))
    np.testing.assert_array_equal(o.Q, o.Q.T)
    assert o.rank == K_


def test_parse_overlaps_symmetrises():
    Q = np.eye(P_)
    Q[0, 1] = 1e-13
    o = parse_overlaps(np.zeros((P_, K_)), Q, np.eye(K_))
    np.testing.assert_array_equal(o.Q, o.Q.T)


@pytest.mark.parametrize(
    ("change", "field", "allowed"),
    [
        ({"Q": np.eye(3)}, "init.Q", "shape (4, 4)"),
        ({"P": np.eye(3)}, "init.P", "shape (2, 2)"),
        ({"Q": np.triu(np.ones((4, 4)))}, "init.Q", "symmetric"),
        ({"P": np.array([[1.0, 0.1], [0.0, 1.0]])}, "init.P", "symmetric"),
        ({"P": 2.0 - np.eye(2)}, "init.P", "positive semi-definite"),
        ({"P": -np.eye(2)}, "init.P", "not zero"),
        ({"P": np.zeros((2, 2))}, "init.P", "not zero"),
        ({"Q": np.diag([1.0, 1.0, 1.0, -1e-6])}, "init.Q", "positive semi-definite"),
        ({"M": np.full((4, 2), 0.8)}, "init.Q", "positive semi-definite"),
    ],
)
def test_parse_overlaps_refuses_invalid_matrices(change, field, allowed):
    arrays = {"M": np.zeros((4, 2)), "Q": np.eye(4), "P": np.eye(2), **change}
    with pytest.raises(InvalidInput) as info:
        parse_overlaps(**arrays)
    assert info.value.field == field
    assert allowed in info.value.allowed


@pytest.mark.parametrize(("smallest", "rank"), [(1e-9, 2), (1e-11, 1), (0.0, 1)])
def test_rank_of_a_teacher_has_a_tolerance(smallest, rank):
    P = np.diag([1.0, smallest])
    assert gram_rank(P) == rank
    np.testing.assert_allclose(invert_gram(P)[1, 1], 1.0 / smallest if rank == 2 else 0.0)
