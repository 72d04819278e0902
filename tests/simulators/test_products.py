"""Compiled sums of rows that share loads keep the bits of the plain ones."""

import numpy as np
import pytest

from sweep_service.simulators.kernels.vector_rows import add_inside_batches, add_product, add_rows

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
