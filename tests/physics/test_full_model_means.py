"""SGD of the full model against theory: the mean of one step, and golden numbers of trajectories."""

import numpy as np
import pytest

import sweep_service as ss
from tests.physics.sgd_reference import entries, run

Z_LINE = 5.5
IDENTITY = np.eye(2).tolist()


def point_of(M, q, **parameters):
    """A start with P = I and Q = M Mᵀ + diag q."""
    M = np.array(M)
    init = {"kind": "overlaps", "M": M.tolist(), "Q": (M @ M.T + np.diag(q)).tolist(), "P": IDENTITY}
    return {"d": 400, "p": len(M), "k": 2, "init": init, **parameters}


THREE = ([[0.5, 0.1], [0.15, -0.4], [0.2, 0.3]], (0.3, 0.2, 0.25))
EVERYTHING = {
    "d": 7, "gamma": 4.0, "noise": 0.3, "second_layer": {"init": [1.0, -1.2, 0.5]},
    "teacher": {"second_layer": {"init": [1.5, 0.7]}}, "second_layer_rate": 3.0, "weight_decay": 1.5,
    "schedule": {"steps": [[0.0, 1.3]]},
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 3, 20])
@pytest.mark.parametrize("act", ["erf", "relu", "square", "tanh"])
@pytest.mark.parametrize("engine", ["S1", "S3", "S3-factored"])
def test_mean_of_one_step_is_that_of_the_map(engine, act, batch):
    """Everything switched on at d = 7. The map has the exact mean; its sampling term has errors near 1e-3."""
    point = point_of(*THREE, **{**EVERYTHING, "activation": act, "batch": batch})
    if act == "square":
        point["gamma"] = 1.0
    settings = {"observables": ["risk", "second_layer"], "overlaps": True}
    ds = run(point, [0, 1], repeat=range(6000), engine=engine, **settings)
    theory = ss.integrate(point, regime="high_dimensional_map", times=ds.time.values, **settings)
    measured = np.hstack([entries(ds), ds.second_layer.values[:, -1]])
    expected = np.hstack([entries(theory.expand_dims("repeat")), theory.second_layer.values[None, -1]])
    moved = np.abs(expected - np.hstack([entries(first(ds)), ds.second_layer.values[:1, 0]]))
    error = measured.std(axis=0) / np.sqrt(len(measured)) + 2e-3 * moved / Z_LINE
    assert np.max(np.abs(measured.mean(axis=0) - expected) / error) < Z_LINE


def first(ds):
    return ds.isel(time=slice(0, 1), repeat=slice(0, 1))


# Points, times or steps, and risks by an independent integration, with the error of an SGD of 40 chains.
GOLDEN = {
    "G1": (
        point_of(
            [[0.6, 0.1], [0.15, 0.5]], (0.3, 0.2), gamma=2.0, noise=0.01, second_layer_rate=1.0,
            second_layer={"init": [1.2, 0.8]},
        ),
        [1, 5, 20], [0.02180, 0.00558, 0.00334], [12e-5, 5e-5, 2e-5],
    ),
    "G2": (
        point_of(
            *THREE, gamma=1.5, noise=0.1, weight_decay=0.1, second_layer={"init": [1, -1, 0.5]},
            teacher={"second_layer": {"init": [1.5, 0.7]}},
        ),
        [1, 5, 20], [0.04666, 0.01833, 0.01498], [18e-5, 9e-5, 9e-5],
    ),
    "G3": (
        point_of(
            [[0.5, 0.1], [0.15, 0.5], [0.4, 0.0], [0.1, 0.45]], (0.3, 0.2, 0.25, 0.2), gamma=4.0, noise=0.1,
            second_layer_rate=16.0, schedule={"power": {"t0": 5.0, "alpha": 0.5}},
        ),
        [1, 5, 20], [0.02198, 0.01299, 0.00656], [18e-5, 13e-5, 5e-5],
    ),
    "G4": (
        point_of(
            [[0.5, 0.1], [0.15, 0.5], [0.2, 0.3]], (0.3, 0.2, 0.25), gamma=1800.0, noise=0.01, batch=800
        ),
        [1.5, 3.0, 4.5, 6.0, 7.5, 9.0],
        [0.01359, 0.00785, 0.00582, 0.00509, 0.00475, 0.00455], [18e-5, 10e-5, 7e-5, 5e-5, 4e-5, 3e-5],
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["S2", "S3", "S3-factored"])
@pytest.mark.parametrize("case", GOLDEN)
def test_trajectories_agree_with_golden_numbers(case, engine):
    """Both sides have standard errors; |z| < 4 for some sixty of them."""
    point, times, expected, errors = GOLDEN[case]
    risk = ss.simulate(point, times=times, repeat=range(40), engine=engine).risk.values
    own = risk.std(axis=0, ddof=1) / np.sqrt(len(risk))
    assert np.all(np.abs(risk.mean(axis=0) - expected) < 4.0 * np.hypot(own, errors))
