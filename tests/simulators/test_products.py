"""Compiled sums of rows that share loads or vectors keep the bits of the plain ones."""

import numpy as np
import pytest

from sweep_service.numerics.jit import kernel
from sweep_service.simulators.kernels.coefficients import CONSTANT_STEPS, Coefficients, make_moving
from sweep_service.simulators.kernels.vector_rows import (
    add_inside_batches,
    add_product,
    add_rows,
    push_batch,
    push_sample,
)
from sweep_service.simulators.overlap_processes.factored import fill_earlier_gram
from sweep_service.simulators.overlap_processes.wide_overlap_process import complete_fields

COUNT = 9


@pytest.mark.parametrize("wide", [4, 12, 16, 40])
@pytest.mark.parametrize("rows", [3, 4, 11])
def test_product_has_the_bits_of_single_rows(wide, rows):
    rng = np.random.default_rng(wide + rows)
    X, c = rng.standard_normal((COUNT + 1, wide)), rng.standard_normal((rows, COUNT + 2))
    product = rng.standard_normal((rows + 1, wide))
    single = product.copy()
    add_product(
        X.reshape(-1), wide, wide, COUNT, c.reshape(-1), 1, COUNT + 2, rows, product.reshape(-1), wide
    )
    for i in range(rows):
        at, to = i * (COUNT + 2) + 1, (i + 1) * wide
        add_rows(X.reshape(-1), wide, wide, COUNT, c.reshape(-1), at, 1, 1.0, 0, single.reshape(-1), to)
    np.testing.assert_array_equal(product, single)


@pytest.mark.parametrize("batch", [3, 4, 7])
def test_samples_of_a_batch_add_to_later_ones_in_order(batch):
    rng = np.random.default_rng(batch)
    samples, wide = 2 * batch, 8
    L, C = rng.standard_normal((samples, wide)), rng.standard_normal((samples, wide))
    G = rng.standard_normal((samples, samples))
    expected = L.copy()
    for b in range(samples):
        begin = b - b % batch
        add_rows(
            C.reshape(-1), begin * wide, wide, b - begin, G.reshape(-1), b * samples + begin, 1, 1.0, 0,
            expected.reshape(-1), b * wide,
        )  # fmt: skip
    add_inside_batches(L.reshape(-1), G.reshape(-1), C.reshape(-1), batch, samples, wide, samples)
    np.testing.assert_array_equal(L, expected)


@kernel()
def push_at_once(L, T, z, C, tall, mask, coefficients, moving, work):
    push_batch(L, T, z, C, 0, z.size, tall, mask, None, 0.9, coefficients, moving, work)


@kernel()
def push_one_by_one(L, T, z, C, tall, mask, coefficients, moving, work):
    for b in range(z.size):
        push_sample(L, T, z, C, b, tall, mask, None, 0.9, coefficients, moving, work)


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("samples", [1, 2, 5])
def test_pairs_of_samples_have_the_bits_of_single_samples(samples, learned):
    rng = np.random.default_rng(samples)
    p, wide, tall = 6, 8, 4
    L, T, z = (rng.standard_normal(samples * size) for size in (wide, tall, 1))
    mask = np.repeat([1.0, 0.0], [p, wide - p])
    weights = rng.standard_normal(wide) * mask if learned else None
    coefficients = Coefficients(
        0.3, 0.1, np.array([1 / p, 1 / tall]), np.array([0, 0]), None, 0.2 if learned else None, samples
    )
    results = []
    for push in (push_at_once, push_one_by_one):
        C, moving = np.empty(samples * wide), make_moving(weights, learned, True)
        moving.scale[0] = 0.7
        push(
            L, T, z, C, tall, mask, coefficients, moving._replace(factors=CONSTANT_STEPS), np.empty(2 * tall)
        )
        results.append((C, moving.change if learned else np.zeros(1)))
    for together, alone in zip(*results, strict=True):
        np.testing.assert_array_equal(together, alone)
    assert np.all(results[0][0].reshape(samples, wide)[:, :p] != 0.0)
    assert np.all(results[0][0].reshape(samples, wide)[:, p:] == 0.0)


@pytest.mark.parametrize(("batch", "samples"), [(2, 16), (3, 48), (8, 64), (16, 64), (24, 48)])
def test_gram_matrix_between_batches(batch, samples):
    rng = np.random.default_rng(samples)
    D, rest = 6, samples - 3  # as for few dimensions, where the triangle has fewer rows than samples
    X = np.vstack([rng.standard_normal((D, samples)), np.triu(rng.standard_normal((rest, samples)))])
    G = np.zeros(samples * samples)
    fill_earlier_gram(X.reshape(-1), D, samples, rest, batch, G)
    number = np.arange(samples) // batch
    needed = number[:, None] > number
    # the rounding of a sum of up to D + samples products of numbers of a few units
    np.testing.assert_allclose(G.reshape(samples, samples)[needed], (X.T @ X)[needed], rtol=0, atol=1e-12)


def test_fields_of_a_batch_are_completed_as_for_single_samples():
    rng = np.random.default_rng(1)
    batch, samples, wide, d = 3, 6, 8, 50
    L, C = rng.standard_normal((samples, wide)), rng.standard_normal((samples, wide))
    G = rng.standard_normal((samples, samples))
    expected, divided = L + C * (0.5 * np.diag(G)[:, None]), C / d
    add_inside_batches(expected.reshape(-1), G.reshape(-1), C.reshape(-1), batch, samples, wide, samples)
    complete_fields(L.reshape(-1), G.reshape(-1), C.reshape(-1), batch, samples, wide, d)
    np.testing.assert_array_equal(L, expected)
    np.testing.assert_array_equal(C, divided)
