"""The law of the noise floor with second layers: its constants, and SGD and SS from planted starts."""

import numpy as np
import pytest

import sweep_service as ss
from sweep_service.analysis.floor_law.coefficient import (
    NO_LAYER,
    NO_NORMS,
    explain_missing_law,
    noise_coefficient,
)
from sweep_service.model.activations import ACTIVATIONS

PLANTED = {
    "axes": {"d": 20, "p": 2, "gamma": 0.04, "regime": "high_dimensional"},
    "fixed": {"k": 2, "noise": 0.01},
    "init": {"kind": "planted", "epsilon": 0.0},
    "seeds": {"init": 1, "repeat": 16},
    "time": {"max": 200, "samples": 10, "tail": 48},
}
UNEQUAL = {"second_layer": {"init": [1.6, 0.5]}, "teacher": {"second_layer": {"init": [1.6, 0.5]}}}
WIDE = {"second_layer": {"init": [1.6, 0.5, 0.8, 1.1]}, "teacher": {"second_layer": {"init": [1.2, 0.8]}}}


def run(path, change=None, time=PLANTED["time"], seeds=PLANTED["seeds"]):
    change = dict(change or {})
    merged = {name: {**PLANTED[name], **change.pop(name, {})} for name in ("axes", "fixed")}
    return ss.run({**PLANTED, "time": time, "seeds": seeds, **merged, **change}, data=path, workers=0).load()


def start(path, change=None):
    """A sweep of which only the starts are of interest."""
    return run(path, change, time={"max": 1e-3, "samples": 2}, seeds=1)


def sample_coefficient(a, d, norms, rate=0.0, activation="erf", teacher=1.0):
    """(1/4p) Σ_i [a_i² σ'(λ_i)² ‖x‖² + (ρ/d) σ(λ_i)²] by Monte Carlo, and its standard error."""
    act = ACTIVATIONS[activation]
    x = np.random.default_rng(1).standard_normal((100_000, d)) / np.sqrt(d)
    squares = np.sum(x**2, axis=1)[:, None]
    fields = np.sqrt(np.asarray(norms) * d) * x[:, : len(norms)]
    samples = np.square(a) * act.slope(fields) ** 2 * squares + rate / d * act.value(fields) ** 2
    means = 0.25 * np.mean(samples, axis=1)
    return np.mean(means), np.std(means) / np.sqrt(len(means))


@pytest.mark.parametrize(
    ("change", "a", "norms", "rate"),
    [
        (UNEQUAL, (1.6, 0.5), (1.0, 1.0), 0.0),
        ({**WIDE, "axes": {"p": 4}}, (1.6, 0.5, 0.8, 1.1), (1.0,) * 4, 0.0),
        ({**UNEQUAL, "fixed": {"second_layer_rate": 20.0}}, (1.6, 0.5), (1.0, 1.0), 20.0),
        # not stored, but each neuron learns one teacher
        (
            {**UNEQUAL, "fixed": {"second_layer_rate": 5.0}, "observables": ["risk"],
             "teacher": {"norms": [2.0, 0.5], **UNEQUAL["teacher"]}},
            (1.6, 0.5), (4.0, 0.25), 5.0,
        ),
        # lengths of 2 and 0.5; the norms of the students are in the stored overlaps
        ({**UNEQUAL, "teacher": {"norms": [2.0, 0.5], **UNEQUAL["teacher"]}}, (1.6, 0.5), (4.0, 0.25), 0.0),
        (
            {**WIDE, "axes": {"p": 4}, "fixed": {"second_layer_rate": 20.0},
             "observables": ["risk", "second_layer"]},
            (1.6, 0.5, 0.8, 1.1), (1.0,) * 4, 20.0,
        ),
        (
            {**WIDE, "axes": {"p": 4}, "fixed": {"second_layer_rate": 20.0},
             "observables": ["risk", "mean_norm", "second_layer_mean", "second_layer_spread"]},
            (1.6, 0.5, 0.8, 1.1), (1.0,) * 4, 20.0,
        ),
    ],
)  # fmt: skip
def test_coefficient_agrees_with_monte_carlo(tmp_path, change, a, norms, rate):
    dataset = start(tmp_path, change)
    expected, error = sample_coefficient(a, 20, norms, rate)
    for source in ("sgd", "high_dimensional"):
        # five standard errors; the state has moved by δt = 1e-3 times numbers of order one
        assert abs(noise_coefficient(dataset, source).item() - expected) < 5 * error + 1e-3


def test_batch_and_schedule_scale_the_law(tmp_path):
    unequal = noise_coefficient(start(tmp_path, UNEQUAL)).item()
    schedule = {"steps": [[5e-4, 0.5]]}
    slow = start(tmp_path, {**UNEQUAL, "fixed": {"batch": 4}, "schedule": schedule})
    np.testing.assert_allclose(noise_coefficient(slow).item(), 0.5 / 4 * unequal, rtol=1e-3)  # of a step


@pytest.mark.parametrize("activation", ["relu", "square"])
def test_random_second_layers_without_odd_activation(tmp_path, activation):
    """The weights of each seed are drawn again; x² needs the norms too, which are stored."""
    dataset = run(
        tmp_path,
        {"axes": {"p": 8, "gamma": 1e-4}, "fixed": {"activation": activation, "k": 1},
         "second_layer": {"init": "gaussian"}, "init": {"kind": "gaussian"},
         "observables": ["risk", "second_layer", "overlaps"]},
        time={"max": 1e-3, "samples": 2}, seeds=3,
    )  # fmt: skip
    a = dataset.sgd_second_layer.isel(time=-1).squeeze().values
    Q = dataset.sgd_overlap_student.isel(time=-1).squeeze().values
    slopes = 0.5 if activation == "relu" else 4 * np.diagonal(Q, axis1=1, axis2=2) * (1 + 2 / 20)
    np.testing.assert_allclose(noise_coefficient(dataset).mean(), np.mean(0.25 * a**2 * slopes), rtol=1e-3)


def test_reasons_why_there_is_no_law(tmp_path):
    learned = {"fixed": {"second_layer_rate": 1.0}, "axes": {"p": 4}}
    some = {"observables": ["risk"]}
    cases = {
        "weight decay": {**UNEQUAL, "fixed": {"weight_decay": 0.1}},
        "different activations": {"fixed": {"activation": "erf", "teacher_activation": "tanh"}},
        "sum to": {**WIDE, "second_layer": {"init": [1.6, 0.5, 0.9, 1.1]}, "axes": {"p": 4}},
        NO_LAYER: learned,
        NO_NORMS: {
            **WIDE, **some, "axes": {"p": 4}, "teacher": {"norms": [2.0, 0.5], **WIDE["teacher"]},
        },
    }  # fmt: skip
    for reason, change in cases.items():
        dataset = start(tmp_path, change)
        assert reason in explain_missing_law(dataset).item()
        assert np.isnan(noise_coefficient(dataset)).all()
        result = dataset.sweep.noise_floor()
        assert reason in result.reason.item()
        assert np.isnan(result.law).all()


def test_points_with_and_without_a_law(tmp_path):
    dataset = start(tmp_path, {"axes": {"second_layer_rate": [0.0, 1.0], "weight_decay": [0.0, 0.1]}})
    c = noise_coefficient(dataset).squeeze().transpose("second_layer_rate", "weight_decay").values
    assert np.isnan(c).tolist() == [[False, True], [False, True]]
    np.testing.assert_allclose(c[1, 0] - c[0, 0], 0.25 * (1 / 20) * (1 / 3), rtol=1e-6)  # E[σ²] = 1/3


MEASURED = {
    "ones": {},
    "unequal": UNEQUAL,
    "four unequal": {**WIDE, "axes": {"p": 4, "gamma": 0.08}},
    "learned": {"fixed": {"second_layer_rate": 1.0}},
    "learned as fast as d": {"fixed": {"second_layer_rate": 20.0}},
    "batch": {"fixed": {"batch": 4}},
    "learned, wide": {
        "fixed": {"second_layer_rate": 4.0}, "axes": {"p": 4, "gamma": 0.08},
        "observables": ["risk", "second_layer"],
    },
}  # fmt: skip


def check_floor(dataset, allowed_error):
    sgd, ode = dataset.sweep.noise_floor().squeeze(), dataset.sweep.noise_floor("ode").squeeze()
    assert sgd.ratio_error < allowed_error
    # 0.03: the next order in γ/p = 0.02, and in δt
    assert abs(sgd.ratio - 1.0) < 4 * sgd.ratio_error + 0.03
    return ode.ratio


@pytest.mark.parametrize("name", ["unequal", "learned as fast as d"])
def test_sgd_follows_the_law(tmp_path, name):
    ratio = check_floor(run(tmp_path, MEASURED[name]), 0.04)
    if name == "unequal":
        np.testing.assert_allclose(ratio, 1 / (1 - 2 / (3 * 20)), rtol=0.03)  # its ‖x‖² is one
    else:
        assert ratio < 0.6  # theories have no noise of the second layer, which is half of the floor


@pytest.mark.slow
@pytest.mark.parametrize("name", MEASURED)
def test_sgd_follows_the_law_closely(tmp_path, name):
    check_floor(run(tmp_path, MEASURED[name], seeds={"init": 1, "repeat": 96}), 0.015)
