"""PCHIP of many curves at once: like SciPy, but each at its own positions, and with NaN."""

import numpy as np
import pytest
from scipy.interpolate import PchipInterpolator

from sweep_service.analysis.quantities.interpolation import interpolate


@pytest.mark.parametrize("knots", [2, 3, 4, 30])
def test_agrees_with_scipy(knots):
    random = np.random.default_rng(knots)
    x = np.sort(random.uniform(0, 5, knots))
    y = np.round(random.standard_normal((4, 3, knots)), 1)  # rounded, so that there are flat pieces
    at = random.uniform(x[0], x[-1], 50)
    wanted = PchipInterpolator(x, y, axis=-1)(at) if knots > 2 else [
        [np.interp(at, x, curve) for curve in curves] for curves in y
    ]  # fmt: skip
    np.testing.assert_allclose(interpolate(x, y, at), wanted, atol=1e-13)  # rounding of sums of order one


def test_each_curve_has_its_own_positions():
    x, random = np.linspace(0, 1, 9), np.random.default_rng(0)
    y, at = random.standard_normal((2, 1, 9)), random.uniform(0, 1, (2, 3, 5))
    result = interpolate(x, y, at)
    assert result.shape == (2, 3, 5)
    for row in range(2):
        for column in range(3):
            wanted = PchipInterpolator(x, y[row, 0])(at[row, column])
            np.testing.assert_allclose(result[row, column], wanted, atol=1e-13)


def test_nan_does_not_affect_earlier_values():
    x = np.linspace(0, 1, 11)
    y = np.stack([np.exp(x), np.where(x > 0.55, np.nan, np.exp(x))])
    at = np.linspace(0, 1, 41)
    whole, cut = interpolate(x, y, at)
    early = at < 0.39  # the slope at the last knot depends on the next knot
    np.testing.assert_array_equal(whole[early], cut[early])
    assert np.isnan(cut[at > 0.6]).all()
    assert np.isfinite(whole).all()
