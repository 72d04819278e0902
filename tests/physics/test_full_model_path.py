"""Second layers, batches, decay and schedules in the simulators on weights, against the definition."""

from dataclasses import replace

import numpy as np
import pytest

from sweep_service.model.activations import ACTIVATIONS
from sweep_service.model.point import Point
from sweep_service.simulators import selection
from sweep_service.simulators.simulate import Chains
from tests.physics.reference import name
from tests.physics.sgd_reference import GAUSSIAN, full_sgd, run

ACTS = list(ACTIVATIONS.values())
STEPS = (0, 1, 5, 40)
POWER = {"power": {"t0": 0.3, "alpha": 0.7}}
# Each new parameter alone, then all at once. Neither p = 5 nor k = 3 fills a vector of four.
SIGNED = {"second_layer": {"init": [1.2, -0.8, 0.5, 1.0, -1.5]}}
CHANGES = {
    "second layers": {**SIGNED, "teacher": {"second_layer": {"init": [1.5, 0.7, -1.0]}}},
    "learned from ones": {"second_layer_rate": 3.0},
    "batch of 3": {"batch": 3},
    "batch of 16": {"batch": 16},
    "batch beyond a block": {"batch": 70},
    "decay": {"weight_decay": 2.0},
    "fast decay": {"weight_decay": 12.0},
    "schedule": {"schedule": POWER},
    "steps of a schedule": {"schedule": {"steps": [[0.3, 2.0], [0.6, 0.0], [1.0, 1.0]]}},
    "everything": {
        **SIGNED,
        "teacher": {"second_layer": {"init": "gaussian"}},
        "second_layer_rate": 2.0,
        "batch": 4,
        "weight_decay": 1.0,
        "schedule": POWER,
    },
    "everything, large batch": {
        **SIGNED,
        "second_layer_rate": 2.0,
        "batch": 67,
        "weight_decay": 1.0,
        "schedule": POWER,
    },
}


def point_of(change, act="erf", d=6, **rest):
    gamma = 0.4 if act == "square" else 1.5
    base = {"d": d, "p": 5, "k": 3, "gamma": gamma, "noise": 0.3, "activation": act, "init": GAUSSIAN}
    return {**base, **CHANGES[change], **rest}


def assert_same_path(ds, expected):
    """Roundings of 1e-16 add up over some steps of hundreds of samples."""
    M, Q, a = expected
    size = np.max(np.abs(Q), axis=(-1, -2), keepdims=True)
    for result, wanted in ((ds.overlap_student_teacher.values, M), (ds.overlap_student.values, Q)):
        assert np.all(np.abs(result - wanted) < 1e-11 * size)
    np.testing.assert_allclose(ds.second_layer, a, rtol=1e-11, atol=1e-11)


def compiled(point):
    return selection.choose_simulator(Point.parse(point)).compiled


def engines(point):
    return ["S1", "S2"] if compiled(point) else ["S2"]


def slow_except(cases, fast):
    return [case if case in fast else pytest.param(case, marks=pytest.mark.slow) for case in cases]


@pytest.mark.parametrize("act", slow_except(ACTS, [ACTIVATIONS["erf"]]), ids=name)
@pytest.mark.parametrize("change", slow_except(CHANGES, ["learned from ones", "everything"]))
def test_simulators_follow_the_definition(change, act):
    point = point_of(change, act.name)
    expected = full_sgd(point, STEPS, seed=1, repeat=2)
    for engine in engines(point):
        ds = run(point, STEPS, engine=engine, seed=1, repeat=2, observables=["risk", "second_layer"])
        assert_same_path(ds, expected)


@pytest.mark.slow
@pytest.mark.parametrize("change", ["everything", "everything, large batch"])
@pytest.mark.parametrize("d", [3, 20])
def test_wide_students_follow_the_definition(change, d):
    """Stretches of a block, and inputs of a batch that are drawn in several parts."""
    point = point_of(change, d=d, p=90) | {"second_layer": {"init": "gaussian"}, "gamma": 20.0}
    expected = full_sgd(point, STEPS, seed=1, repeat=2)
    for engine in ("S1", "S2"):
        ds = run(point, STEPS, engine=engine, seed=1, repeat=2, observables=["risk", "second_layer"])
        assert_same_path(ds, expected)


@pytest.mark.parametrize("change", slow_except(CHANGES, ["everything"]))
def test_forms_of_step_loop_give_same_bits(change):
    point = point_of(change, d=9)
    settings = {"seed": 3, "engine": "S1", "observables": ["risk", "second_layer"]}
    alone = run(point, STEPS, repeat=6, **settings)
    among = run(point, STEPS, repeat=range(8), **settings)
    assert (alone.engine_form, among.engine_form) == ("StepLoop", "StepLoopOfChains")
    for variable in ("risk", "overlap_student", "overlap_student_teacher", "second_layer"):
        np.testing.assert_array_equal(alone[variable], among[variable].sel(repeat=6))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("second_layer", "p"),
    [("ones", 30), ("rademacher", 30), ("rademacher", 9), ("gaussian", 7), ([2.0] * 11 + [-1.0], 12)],
    ids=str,
)
def test_collapsed_students_follow_the_definition(second_layer, p):
    """One matrix per value of a; with p = 9 and d = 4 groups may be smaller than d."""
    point = {
        "d": 4, "p": p, "k": 2, "gamma": 1.0, "noise": 0.1, "activation": "square", "init": GAUSSIAN,
        "second_layer": {"init": second_layer}, "teacher": {"second_layer": {"init": [1.0, -0.5]}},
        "batch": 3, "weight_decay": 0.5, "schedule": POWER,
    }  # fmt: skip
    for seed in range(3):
        ds = run(point, STEPS, engine="S4", seed=seed, observables=["risk", "second_layer"])
        assert_same_path(ds, full_sgd(point, STEPS, seed=seed))
        reference = run(point, STEPS, engine="S1", seed=seed)
        np.testing.assert_allclose(ds.risk, reference.risk, rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("act", ["erf", "tanh"])
@pytest.mark.parametrize("engine", ["S1", "S2"])
def test_sign_of_a_neuron_with_odd_activation_does_not_matter(act, engine):
    """(a_i, w_i) → (-a_i, -w_i) leaves f unchanged, so both students follow one path."""
    students = np.array([[0.6, 0.1, 0.3, -0.2], [0.2, -0.5, 0.1, 0.4], [0.1, 0.4, 0.6, 0.1]])
    signs = np.array([1.0, -1.0, -1.0])
    teachers = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]]
    results = []
    for flips in (np.ones(3), signs):
        init = {"kind": "weights", "W": (2.0 * flips[:, None] * students).tolist(), "W_star": teachers}
        point = Point.parse(
            {
                "d": 4, "p": 3, "k": 2, "gamma": 1.0, "activation": act, "init": init, "batch": 2,
                "second_layer": {"init": (flips * [1.2, 0.8, -0.5]).tolist()}, "second_layer_rate": 4.0,
            }
        )  # fmt: skip
        results.append(final_state(point, engine))
    (Q, a), (Q_flipped, a_flipped) = results
    # signs are exact, and the order of sums is the same
    np.testing.assert_array_equal(a_flipped, signs * a)
    np.testing.assert_array_equal(Q_flipped, signs[:, None] * Q * signs)


def final_state(point, engine, steps=30):
    """Q and a by the streams of one key, which do not depend on the point."""
    choice = selection.choose_simulator(point, engine)
    chain, _ = Chains(point, [0], [0], choice)(0)
    simulator = choice.choose_form(1)([replace(chain, key=np.arange(3, dtype=np.uint64))])
    simulator.advance(0, steps)
    return simulator.overlaps()[1][0], simulator.second_layers()[0]
