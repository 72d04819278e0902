"""`integrate(…, fluctuations=True)`."""

import numpy as np
import pytest

import sweep_service as ss
from sweep_service.errors import InvalidInput, Stopped

POINT = {"d": 40, "p": 3, "k": 2, "gamma": 1.0, "noise": 0.01}
TIMES = [0.0, 0.5, 2.0]
NAMES = ("risk_std", "risk_shift", "nonlinearity")


def integrate(point=POINT, **settings):
    settings = {"times": TIMES, "regime": "high_dimensional", "fluctuations": True, **settings}
    return ss.integrate(point, **settings)


def test_variables_are_labelled_and_leave_others_alone():
    with_them, without = integrate(seed=[0, 1]), integrate(seed=[0, 1], fluctuations=False)
    for name in NAMES:
        assert with_them[name].dims == ("seed", "time")
        assert with_them[name].attrs["long_name"]
        assert name not in without
    np.testing.assert_array_equal(with_them.risk, without.risk)
    assert np.all(with_them.risk_std[:, 0] == 0.0)
    assert np.all(with_them.risk_std[:, 1:] > 0.0)
    ratio = abs(with_them.risk_shift) / with_them.risk_std
    assert np.all(with_them.nonlinearity[:, 1:] >= ratio[:, 1:])


def test_numbers_do_not_depend_on_d():
    start = {"init": {"kind": "informed", "shared": True}}
    near, far = integrate({**POINT, **start}), integrate({**POINT, **start, "d": 4000})
    for name in NAMES:
        np.testing.assert_array_equal(near[name], far[name])


def test_wide_students_have_no_shift():
    """n = 350 components are above the bound of Σ; times at which little is to be computed."""
    ds = integrate({**POINT, "p": 24}, times=[0.0, 0.01])
    assert ds.risk_std[1] > 0.0
    assert np.isnan(ds.risk_shift).all()
    assert np.isnan(ds.nonlinearity[1:]).all()


@pytest.mark.parametrize(
    ("point", "settings"),
    [(POINT, {"regime": "classical"}), (POINT, {"regime": "auto"}), ({**POINT, "p": 320}, {})],
)
def test_refusals(point, settings):
    with pytest.raises(InvalidInput, match="fluctuations"):
        integrate(point, **settings)


def test_kinks_limit_width():
    """Without σ'' the adjoint needs J as a matrix."""
    with pytest.raises(InvalidInput, match=r"at most 800 components .* for the kink of the activation relu"):
        integrate({**POINT, "p": 40, "activation": "relu"})


def test_stop():
    """The callback is also asked while fluctuations are computed, after the trajectory."""

    def count(fluctuations):
        asked = []
        integrate(fluctuations=fluctuations, stopped=lambda: bool(asked.append(None)))
        return len(asked)

    alone, together = count(False), count(True)
    assert together > alone + 5
    calls = iter([False] * (together - 2))
    with pytest.raises(Stopped):
        integrate(stopped=lambda: next(calls, True))
