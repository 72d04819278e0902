"""The automatic choice of a regime: every branch of the rule with its reason, and the warnings."""

import numpy as np
import pytest

from sweep_service import integrate
from sweep_service.dynamics.auto import choose_regime, collect_regime_warnings
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.model.activations import ACTIVATIONS
from sweep_service.model.initial import INITS
from sweep_service.model.point import Point

INFORMED, SYMMETRIC = {"kind": "informed"}, {"kind": "symmetric"}
GAUSSIAN = {"kind": "gaussian", "orthonormal_teacher": True}


def identity_overlaps(p, outside=0.5):
    """Explicit overlaps, whose law is not known to be invariant."""
    return {"kind": "overlaps", "M": np.zeros((p, 2)), "Q": outside * np.eye(p), "P": np.eye(2)}


def point(**change):
    return Point.parse({"d": 100, "p": 10, "k": 2, "gamma": 0.1, "init": GAUSSIAN, **change})


# (change of the point, regime, parts of its reason)
RULE = [
    ({"p": 4, "d": 5, "gamma": 2.2}, "high_dimensional", ("δt = 0.11 > 0.1: no guarantee",)),
    ({"p": 100, "d": 5, "gamma": 60.0}, "high_dimensional", ("δt = 0.12 > 0.1: no guarantee",)),
    # δt = 0.1 is not above the limit
    ({"p": 4, "d": 5, "gamma": 2.0}, "high_dimensional", ("cheaper classical would err by 0.037 R(0)",)),
    ({"gamma": 2.6}, "classical", ("at most 0.02 R(0)", "0.019 R(0) at γ/p = 0.26", "high_dimensional")),
    ({"gamma": 2.7}, "high_dimensional", ("classical would err by 0.02 R(0)",)),
    ({"gamma": 2.6, "noise": 1e-3}, "classical_noise", ("0.019 R(0) at γ/p = 0.26",)),
    ({"init": SYMMETRIC}, "classical", ("γ/p = 0.01",)),
    ({"init": INFORMED}, "classical", ("γ/p = 0.01",)),
    # gradient flow costs p², so mean field is cheaper for wide students
    ({"p": 65, "init": INFORMED}, "mean_field_projected", ("0.00012 R(0)", "p = 65")),
    ({"p": 65, "init": {"kind": "planted"}}, "mean_field_projected", ("γ/p = 0.00154",)),
    ({"p": 65, "init": {"kind": "planted", "epsilon": 1.0}}, "mean_field_projected", ()),  # W = 0
    ({"p": 65, "d": 2}, "mean_field_projected", ()),  # d = k leaves no room for Q⊥
    ({"p": 65}, "mean_field_high_dimensional", ("0.018 R(0)", "high_dimensional, which leaves out nothing")),
    ({"p": 65, "d": 53}, "classical", ("mean_field_high_dimensional would err by 0.022 R(0)",)),
    ({"p": 120, "d": 30}, "mean_field", ("mean_field_high_dimensional would err by 0.025 R(0)",)),
    ({"p": 65, "init": SYMMETRIC}, "classical", ("not known to be orthogonally invariant",)),
    ({"p": 65, "init": identity_overlaps(65), "noise": 1e-3}, "classical_noise", ("not mean field",)),
    # where mean field without the sampling term errs by a quarter of R(0)
    ({"p": 80, "d": 200, "gamma": 240.0}, "high_dimensional", ("would err by 0.24 R(0)",)),
    ({"p": 80, "d": 200, "gamma": 80.0}, "high_dimensional", ("would err by 0.088 R(0)",)),
    ({"p": 80, "d": 30, "gamma": 160.0}, "high_dimensional", ("would err by 0.18 R(0)",)),
    ({"p": 80, "d": 30, "gamma": 4.0}, "mean_field", ("0.014 R(0)", "would err by 0.032 R(0)")),
    # a batch divides the sampling term by b, and a schedule multiplies it by u
    ({"gamma": 5.0}, "high_dimensional", ("classical would err by 0.037 R(0)",)),
    ({"gamma": 5.0, "batch": 4}, "classical", ("0.0094 R(0) at γ/(pb) = 0.125",)),
    (
        {"gamma": 1.0, "schedule": {"steps": [[5.0, 5.0]]}},
        "high_dimensional",
        ("at γu/p = 0.5", "classical would err by 0.037"),
    ),
    # random second layers, decay and learning exclude no regime
    ({"p": 65, "second_layer": {"init": "gaussian"}}, "mean_field_high_dimensional", ("0.018 R(0)",)),
    ({"p": 65, "second_layer_rate": 1.0, "weight_decay": 0.1}, "mean_field_high_dimensional", ()),
    # giant steps of large batches
    (
        {"p": 3, "d": 400, "gamma": 1800.0, "batch": 800},
        "high_dimensional_map",
        ("δt = 1.5 > 0.1 with a scatter of δt/√b = 0.053",),
    ),
    (
        {"p": 4, "d": 100, "gamma": 30.0, "schedule": {"steps": [[1.0, 2.0]]}},
        "high_dimensional",
        ("uδt = 0.15",),
    ),
    # too wide for the sampling term
    ({"p": 5000, "d": 1000, "gamma": 5e3}, "mean_field", ("that can be paid", "times as long")),
]


@pytest.mark.parametrize(("change", "regime", "parts"), RULE)
def test_rule(change, regime, parts):
    parameters = point(**change)
    choice = choose_regime(parameters, parameters.start(0))
    assert choice.regime == regime
    for part in parts:
        assert part in choice.reason


@pytest.mark.parametrize(
    "init", [{**SYMMETRIC, "q0": 0.0}, {**SYMMETRIC, "epsilon": 1.0}, identity_overlaps(66, 0.0)]
)
def test_chosen_regimes_exist(init):
    """Starts without an orthogonal part that are not invariant: the chosen regime must accept them."""
    dataset = integrate(
        {"d": 80, "p": 66, "k": 2, "gamma": 0.1, "activation": "square", "init": init}, times=[0.0, 0.01]
    )
    assert dataset.attrs["regime"] in REGIMES


@pytest.mark.parametrize("kind", INITS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_auto_records_regime_and_reason(kind, activation):
    parameters = {
        "d": 12,
        "p": 4,
        "k": 2,
        "gamma": 0.01,
        "noise": 1e-3,
        "activation": activation,
        "init": {"kind": kind},
    }
    result = integrate(parameters, times=[0.0, 0.5], seed=3)
    parsed = Point.parse(parameters)
    choice = choose_regime(parsed, parsed.start(3))
    assert (result.attrs["regime"], result.attrs["regime_reason"]) == (choice.regime, choice.reason)
    requested = integrate(parameters, regime=choice.regime, times=[0.0, 0.5], seed=3)
    np.testing.assert_array_equal(result.risk, requested.risk)
    assert requested.attrs["regime_reason"] == "requested"


WARNINGS = [
    ({"p": 5}, "classical", "not a multiple of k = 2, so the teacher is not evenly realisable"),
    ({"p": 4, "d": 5, "gamma": 2.2}, "high_dimensional", "δt = 0.11 > 0.1: no guarantee"),
    ({"p": 100, "gamma": 10.1}, "mean_field", "γ/p = 0.101 > 0.1: mean field neglects the sampling term"),
    ({"p": 10}, "mean_field_high_dimensional", "mean field at p = 10"),
    ({"p": 10, "gamma": 1.5}, "classical", "γ/p = 0.15 > 0.14: gradient flow departs from SGD"),
    (
        {"p": 100, "noise": 1e-3},
        "mean_field_projected",
        "label noise moves neurons out of the teacher's span",
    ),
    ({"p": 10, "gamma": 6.0, "batch": 4}, "classical", "γ/(pb) = 0.15 > 0.14: gradient flow departs"),
    (
        {"p": 100, "gamma": 6.0, "schedule": {"steps": [[1.0, 2.0]]}},
        "mean_field",
        "γu/p = 0.12 > 0.1: mean field neglects the sampling term",
    ),
    ({"gamma": 10.0, "second_layer_rate": 9.9}, "high_dimensional", "(1 + ρ) δt = 0.109 > 0.1"),
    ({"second_layer_rate": 100.0}, "classical", "ρ/d = 1 > 0.1: the ODEs leave out the noise"),
    ({"second_layer": {"init": "gaussian"}}, "classical", "a gaussian second layer of the student"),
    ({"activation": "square"}, "classical", "square: unbounded slope"),
    ({"teacher_activation": "relu"}, "classical", "relu: not twice differentiable"),
]


@pytest.mark.parametrize(("change", "regime", "text"), WARNINGS)
def test_warnings_state_limits_of_regimes(change, regime, text):
    result = collect_regime_warnings(point(**change), regime)
    assert len(result) == 1
    assert text in result[0]


@pytest.mark.parametrize("regime", REGIMES)
def test_no_needless_warnings(regime):
    assert collect_regime_warnings(point(p=100), regime) == []
    full = {"second_layer": {"init": "gaussian"}, "second_layer_rate": 1.0, "weight_decay": 0.1}
    assert collect_regime_warnings(point(p=101, gamma=20.0, batch=4, **full), regime) == []


@pytest.mark.parametrize("act", ACTIVATIONS.values(), ids=lambda act: act.name)
def test_violated_assumption_is_warned_once(act):
    result = collect_regime_warnings(point(activation=act.name, teacher_activation=act.name), "classical")
    assert result == ([f"{act.name}: {act.assumptions}"] if act.assumptions else [])


def test_warnings_are_in_dataset():
    init = {**SYMMETRIC, "jitter": 0.0}
    parameters = {"d": 100, "p": 5, "k": 2, "gamma": 0.1, "init": init}
    warnings = integrate(parameters, regime="classical", times=[0.0, 0.1]).attrs["warnings"]
    first, second = warnings.split("\n")
    assert "round-off" in first
    assert "not evenly realisable" in second
