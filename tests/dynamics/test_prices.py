"""Prices of regimes: which form they are for, and how they compare with the work of an integration."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import special

from sweep_service.dynamics.integrate import integrate
from sweep_service.dynamics.prices import price_regime
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.model.activations import ACTIVATIONS, TANH, Activation
from sweep_service.model.averages.closed_forms import PAIR_CODES
from sweep_service.model.averages.pair_prices import CLOSED_FORMS, MEHLER_SUM, TABLES, pair_price
from sweep_service.model.point import Point

FORMS = {
    "SquareFlow": "square", "PairwiseFlow": "pairs", "MixtureNodeFlow": "mixture", "AnyNodeFlow": "nodes",
}  # fmt: skip


def point(activation="erf", teacher=None, **change):
    values = {"d": 100, "p": 8, "k": 2, "gamma": 1.6, "noise": 1e-3, **change}
    return Point.parse({**values, "activation": activation, "teacher_activation": teacher or activation})


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize(("p", "k"), [(8, 2), (40, 1), pytest.param(70, 3, marks=pytest.mark.slow)])
def test_class_of_work_is_the_form_that_is_integrated(activation, regime, p, k):
    init = {"kind": "informed" if regime == "mean_field_projected" else "gaussian"}
    parameters = point(activation, p=p, k=k, gamma=0.1 * p, init=init)
    price = price_regime(parameters, regime)
    result = integrate(
        parameters, times=[0.0, 1e-3], regime=regime, regime_options={"particles": 16, "qmc_points": 16}
    )
    form = price.work_class.split("/")[1]
    if REGIMES[regime].mean_field:
        if not REGIMES[regime].particles:  # these are fewer here
            assert form == FORMS[result.attrs["flow"]]
        return
    assert form.startswith("small" if result.attrs["flow"] == "SmallFlow" else "wide")
    assert ("qmc" in form) == ("quasi" in result.attrs["sampling_term"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("activation", "regime", "change"),
    [
        ("erf", "classical_noise", {"p": 20}), ("tanh", "classical_noise", {"p": 20}),
        ("relu", "classical", {"p": 40}), ("square", "high_dimensional", {"p": 12}),
        ("erf", "high_dimensional", {"p": 24}), ("tanh", "high_dimensional", {"p": 12}),
        ("relu", "high_dimensional", {"gamma": 0.8}), ("relu", "high_dimensional", {"gamma": 16.0}),
        ("erf", "mean_field", {"p": 60}), ("tanh", "mean_field", {"p": 30}),
    ],
)  # fmt: skip
def test_number_of_evaluations_is_predicted(activation, regime, change):
    parameters = point(activation, init={"kind": "gaussian", "orthonormal_teacher": True}, **change)
    times = [0.0, *np.geomspace(0.1, 10.0, 10)]
    spent = integrate(parameters, times=times, regime=regime).attrs["evaluations"]
    evaluations, _ = price_regime(parameters, regime).effort(10.0)
    assert 0.5 < evaluations / spent < 2.0  # single trajectories scatter by this much around the fits


FULL_MODEL = {
    "second layer": {"second_layer": {"init": "rademacher"}},
    "learned": {"second_layer_rate": 10.0},
    "decay": {"weight_decay": 1.0},
    "power": {"schedule": {"power": {"t0": 5.0, "alpha": 0.5}}},
    "steps": {"schedule": {"steps": [[1.0, 0.5], [3.0, 0.2], [6.0, 0.1]]}},
    "batch": {"batch": 16},
}


@pytest.mark.parametrize("change", FULL_MODEL.values(), ids=FULL_MODEL)
@pytest.mark.parametrize(
    ("activation", "regime", "p"),
    [
        ("erf", "classical_noise", 8),
        ("erf", "mean_field", 60),
        pytest.param("erf", "classical_noise", 40, marks=pytest.mark.slow),
        pytest.param("square", "high_dimensional", 8, marks=pytest.mark.slow),
        pytest.param("relu", "high_dimensional", 4, marks=pytest.mark.slow),
    ],
)
def test_number_of_evaluations_of_the_full_model_is_predicted(change, activation, regime, p):
    init = {"kind": "gaussian", "orthonormal_teacher": True}
    parameters = point(activation, p=p, gamma=0.1 * p, init=init, **change)
    spent = integrate(parameters, times=[0.0, *np.geomspace(0.1, 10.0, 10)], regime=regime)
    evaluations, _ = price_regime(parameters, regime).effort(10.0)
    # as for the defaults; learned and decaying layers scatter more, as their rates relative to others count
    assert 0.4 < evaluations / spent.attrs["evaluations"] < 2.5


def test_full_model_has_a_price():
    default = price_regime(point(), "high_dimensional")
    prices = {name: price_regime(point(**change), "high_dimensional") for name, change in FULL_MODEL.items()}
    assert default.evaluation < prices["second layer"].evaluation < prices["learned"].evaluation
    assert prices["learned"].size == default.size + 8
    for name in ("learned", "decay"):
        assert prices[name].effort(100.0)[0] > default.effort(100.0)[0]
    assert prices["power"].effort(100.0)[0] < default.effort(100.0)[0]
    assert prices["batch"].seconds(100.0, 10) == default.seconds(100.0, 10)
    wide = price_regime(point(p=40, weight_decay=1.0), "classical")  # by explicit steps
    assert wide.effort(100.0)[0] > 1.5 * price_regime(point(p=40), "classical").effort(100.0)[0]


def test_batch_makes_the_sampling_term_of_relu_smoother():
    alone, together = (
        price_regime(point("relu", gamma=4.0, batch=batch), "high_dimensional").effort(10.0)[0]
        for batch in (1, 16)
    )
    assert together < 0.4 * alone


def test_sampled_term_of_tanh_does_not_cost_more_than_that_of_erf():
    """A factor for activations without closed forms once multiplied it by twenty."""
    wide = {"p": 100, "gamma": 20.0}
    ratio = [price_regime(point(name, **wide), "high_dimensional").evaluation for name in ("tanh", "erf")]
    assert 0.3 < ratio[0] / ratio[1] < 1.0


def test_rough_sampling_term_takes_more_steps_at_larger_rates():
    slow, middle, fast = (
        price_regime(point("relu", gamma=8 * rate), "high_dimensional").effort(10.0)[0]
        for rate in (0.01, 0.1, 1.0)
    )
    assert slow < 0.5 * middle < 0.25 * fast


def test_every_closed_form_has_a_price():
    assert set(CLOSED_FORMS) == set(PAIR_CODES.values())


def test_activation_of_a_user_has_a_price():
    softplus = Activation(
        name="softplus", formula="ln(1 + eˣ)", value=lambda x: np.logaddexp(0.0, x), slope=special.expit,
        curvature=lambda x: special.expit(x) * special.expit(-x),
    )  # fmt: skip
    own_tanh = replace(TANH, name="own tanh", code=None)
    assert pair_price(softplus, softplus) is MEHLER_SUM
    assert pair_price(own_tanh, own_tanh) is TABLES  # Mehler's formula converges too slowly
    own = price_regime(replace(point("tanh"), activation=own_tanh), "classical")
    assert own.work_class == "ode/numerical/own tanh"
    assert own.seconds(10.0, 10) > price_regime(point("tanh"), "classical").seconds(10.0, 10)
