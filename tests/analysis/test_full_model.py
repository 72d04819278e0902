"""Sweeps over the parameters of the full model: what is stored, and laws that know them."""

import numpy as np
import pytest

import sweep_service as ss
from sweep_service.analysis.runs import null_risk

SPEC = {
    "axes": {
        "d": 20, "p": 2, "gamma": 0.4, "regime": "high_dimensional",
        "batch": [1, 4], "schedule.alpha": [0.5, 1.0],
    },
    "fixed": {"k": 2, "noise": 0.1, "second_layer_rate": 1.0},
    "second_layer": {"init": "rademacher"},
    "teacher": {"rho": 0.1, "second_layer": {"init": [1.5, -0.5]}},
    "schedule": {"power": {"t0": 5}},
    "init": {"kind": "informed", "shared": True},
    "seeds": {"init": 2, "repeat": 2},
    "time": {"max": 4, "samples": 6},
    "observables": ["risk", "second_layer"],
}  # fmt: skip


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    return ss.run(SPEC, data=tmp_path_factory.mktemp("full"), workers=0).load()


def test_every_run_equals_a_call_of_its_own(swept):
    point = {
        "d": 20, "p": 2, "k": 2, "gamma": 0.4, "noise": 0.1, "second_layer_rate": 1.0, "batch": 4,
        "second_layer": SPEC["second_layer"], "teacher": SPEC["teacher"], "init": SPEC["init"],
        "schedule": {"power": {"t0": 5, "alpha": 1.0}},
    }  # fmt: skip
    at = {"batch": 4, "schedule.alpha": 1.0, "seed": 1}
    options = {"times": swept.time.values, "seed": 1, "observables": ["risk", "second_layer"]}
    sgd, ode = (
        ss.simulate(point, repeat=1, **options),
        ss.integrate(point, regime="high_dimensional", **options),
    )
    stored = swept.sel(at).squeeze(("d", "p", "gamma"))
    for name in ("risk", "second_layer"):
        np.testing.assert_array_equal(stored[f"sgd_{name}"].sel(repeat=1), sgd[name])
        np.testing.assert_array_equal(stored[f"ode_{name}"].isel(regime=0), ode[name])
    np.testing.assert_array_equal(stored.schedule_factor, sgd.schedule_factor)


def test_parameters_are_in_the_data(swept):
    np.testing.assert_allclose(
        swept.schedule_factor, (1 + swept.time.values / 5) ** -swept["schedule.alpha"].values[:, None]
    )
    assert swept["second_layer.init"] == "rademacher"
    assert (swept.second_layer_rate, swept["schedule.t0"]) == (1.0, 5.0)
    assert swept["teacher.second_layer.init"] == "[1.5, -0.5]"
    # the starts and the streams of the batches are others, but the second layers begin alike
    first = swept.sgd_second_layer.isel(time=0)
    assert (first == first.isel(batch=0)).all()


def test_null_risk_counts_the_second_layer_of_the_teacher(swept):
    value = null_risk(swept)
    F = lambda c: 2 / np.pi * np.arcsin(c / 2)  # noqa: E731
    expected = 0.5 * (1.5**2 * F(1.0) + 0.5**2 * F(1.0) - 2 * 1.5 * 0.5 * F(0.1)) / 4
    np.testing.assert_allclose(value, expected)


def test_time_to_counts_the_samples_of_a_batch(swept):
    result = swept.sweep.time_to(0.2)
    steps, samples = result.steps_to, result.samples_over_d
    np.testing.assert_allclose(samples, steps * swept.batch / 20)
