"""Second layers, batches, decay and schedules in `simulate`: bits, checkpoints, choices and refusals."""

from dataclasses import replace

import numpy as np
import pytest

import sweep_service as ss
from sweep_service.errors import InvalidInput
from sweep_service.model.activate import activate
from sweep_service.model.activations import ACTIVATIONS
from sweep_service.model.point import Point
from sweep_service.model.schedule import Schedule
from sweep_service.simulators.selection import SIMULATORS, choose_simulator
from sweep_service.simulators.simulate import Chains
from tests.simulators.chains import (
    MemoryCheckpoint,
    assert_same_bits,
    run_with_interruptions,
    times_of,
)
from tests.simulators.users import evaluated_in_python

LEARNED = {"second_layer": {"init": "gaussian"}, "second_layer_rate": 2.0}
EVERYTHING = {**LEARNED, "weight_decay": 0.5, "schedule": {"exponential": {"tau": 3.0}}}
SQUARE = {"activation": "square", "second_layer": {"init": "rademacher"}, "weight_decay": 0.5}
# Engine, form, and a point of each form.
FORMS = {
    "StepLoop": ("S1", {"p": 5, "d": 9, **EVERYTHING}),
    "StepLoop, batch": ("S1", {"p": 5, "d": 9, **EVERYTHING, "batch": 3}),
    "Blocked": ("S2", {"p": 5, "d": 9, **EVERYTHING, "batch": 3}),
    "Blocked, large batch": ("S2", {"p": 5, "d": 9, **EVERYTHING, "batch": 70}),
    "OverlapProcess": ("S3", {"p": 5, "d": 40, **EVERYTHING, "batch": 3}),
    "LargeBatchProcess": ("S3", {"p": 5, "d": 40, **EVERYTHING, "batch": 20}),
    "WideOverlapProcess": ("S3", {"p": 90, "d": 200, **EVERYTHING, "batch": 3}),
    "WideLargeBatchProcess": ("S3", {"p": 90, "d": 200, **EVERYTHING, "batch": 70}),
    "FactoredOverlapProcess": ("S3-factored", {"p": 5, "d": 40, **EVERYTHING, "batch": 3}),
    "FactoredOverlapProcess, large batch": ("S3-factored", {"p": 5, "d": 40, **EVERYTHING, "batch": 70}),
    "StepLoop, collapsed": ("S4", {"p": 30, "d": 4, **SQUARE, "batch": 2}),
}
STEPS = (0, 1, 13, 60, 101)
OBSERVED = ["risk", "second_layer", "second_layer_overlap"]
FAST = "StepLoop, batch"
forms = pytest.mark.parametrize(
    "form", [form if form == FAST else pytest.param(form, marks=pytest.mark.slow) for form in FORMS]
)


def point_of(form):
    return {"k": 2, "gamma": 0.3, "noise": 1e-2, **FORMS[form][1]}


def run(form, **rest):
    point = point_of(form)
    settings = {"observables": OBSERVED, "engine": FORMS[form][0], **rest}
    return ss.simulate(point, times=times_of(point, STEPS), **settings)


@forms
def test_bits_do_not_depend_on_other_chains(form):
    alone = run(form, seed=1, repeat=5)
    assert alone.engine_form == form.partition(",")[0]
    assert_same_bits(run(form, seed=[3, 1, 2], repeat=[2, 5]).sel(seed=1, repeat=5), alone)


@forms
def test_interrupted_chains_resume_to_same_bits(form):
    rng = np.random.default_rng(0)
    settings = {"seed": [0, 1], "repeat": range(3)}
    result, stops = run_with_interruptions(
        lambda **rest: run(form, **settings, **rest), MemoryCheckpoint(), lambda: rng.integers(3)
    )
    assert stops >= 3
    assert_same_bits(result, run(form, **settings))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["S1", "S2", "S3", "S3-factored"])
def test_neutral_values_give_the_bits_of_the_defaults(engine):
    """a = 1, u = 1 and a decay of zero change no bit, so the variants of a kernel compute the same."""
    point = Point.parse({"d": 9, "p": 5, "k": 3, "gamma": 0.5, "noise": 0.1})
    choice = choose_simulator(point, engine)
    chain, _ = Chains(point, [0], [0], choice)(0)
    neutral = replace(
        chain,
        second_layer=np.ones(5),
        teacher_second_layer=np.ones(3),
        second_layer_rate=1e-300,
        weight_decay=1e-300,
        schedule=Schedule("steps", steps=((0.0, 1.0),)),
    )
    (M, Q), (same_M, same_Q) = (run_chain(choice.choose_form(1), start) for start in (chain, neutral))
    np.testing.assert_array_equal(same_M, M)
    np.testing.assert_array_equal(same_Q, Q)


def run_chain(form, chain, steps=200):
    simulator = form([chain])
    simulator.advance(0, steps)
    return simulator.overlaps()


def test_factors_are_computed_in_slices(monkeypatch):
    expected = run("Blocked")
    monkeypatch.setattr("sweep_service.simulators.chain.FACTORS_PER_SLICE", 50)
    assert_same_bits(run("Blocked"), expected)


def test_step_of_a_schedule_acts_on_the_step_at_its_time():
    """49 · (1/49) is less than one by rounding."""
    point = Point.parse({"d": 49, "p": 1, "k": 1, "gamma": 1.0, "schedule": {"steps": [[1.0, 0.25]]}})
    assert 49 * point.delta_t < 1.0
    chain, _ = Chains(point, [0], [0], choose_simulator(point))(0)
    np.testing.assert_array_equal(chain.step_factors(47, 51).rate, [1.0, 1.0, 0.25, 0.25])


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"second_layer": {"init": "rademacher"}, "p": 40}, "S4"),
        ({"second_layer": {"init": "rademacher"}, "p": 9}, "S1"),  # two groups of five rows: nothing saved
        ({"second_layer": {"init": "gaussian"}, "p": 40}, "S1"),
        ({"second_layer_rate": 1.0, "p": 40}, "S1"),
        ({"batch": 64, "weight_decay": 1.0, "schedule": {"warmup": {"until": 1.0}}, "p": 40}, "S4"),
        ({"second_layer": {"init": [1.0] * 20 + [2.0] * 20}, "p": 40}, "S4"),
    ],
)
def test_square_students_collapse_where_it_saves_rows(change, name):
    point = Point.parse({"d": 5, "k": 2, "gamma": 0.1, "activation": "square", **change})
    assert choose_simulator(point).name == name


def test_learned_second_layer_does_not_collapse():
    point = {"d": 5, "p": 40, "k": 2, "gamma": 0.1, "activation": "square", "second_layer_rate": 1.0}
    with pytest.raises(InvalidInput, match="not supported by the simulator S4") as refusal:
        ss.simulate(point, times=[1.0], engine="S4")
    assert refusal.value.field == "second_layer_rate"


@pytest.mark.parametrize("engine", SIMULATORS)
def test_every_simulator_supports_the_full_model(engine):
    missing = {"second_layer_rate"} if engine == "S4" else set()
    supports = set(SIMULATORS[engine].supports)
    wanted = {"second_layer", "teacher_second_layer", "schedule", "second_layer_rate", "batch"}
    assert (wanted | {"weight_decay"}) - supports == missing


def test_decay_that_changes_signs_is_refused():
    point = {"d": 5, "p": 2, "k": 1, "gamma": 1.0, "schedule": {"steps": [[1.0, 2.0]]}}
    assert ss.simulate({**point, "weight_decay": 4.9}, times=[2.0]).status == "done"
    with pytest.raises(InvalidInput, match="must be below 5") as refusal:
        ss.simulate({**point, "weight_decay": 5.0}, times=[2.0])
    assert refusal.value.field == "weight_decay"


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["S2", "S3", "S3-factored"])
def test_fast_decay_does_not_underflow_in_a_block(engine):
    """Blocks of 64 steps that keep 1e-6 of the weights each would need 1e-384."""
    point = {"d": 2000, "p": 2, "k": 1, "gamma": 0.5, "weight_decay": 4000 * 2 * (1 - 1e-6)}
    ds = ss.simulate(point, times=times_of(point, [0, 200]), engine=engine, observables=["mean_norm"])
    assert ds.status == "done"
    assert 0.0 < ds.mean_norm[-1] < 1e-3


def test_samples_of_all_steps_must_have_numbers():
    point = {"d": 10**6, "p": 1, "k": 1, "gamma": 1.0, "batch": 10**7}
    with pytest.raises(InvalidInput, match="10000000 samples each: too many"):
        ss.simulate(point, times=[1.0])


def test_second_layer_beyond_its_bound_is_named():
    """The first weights do not move where σ' = 0, while the second layer learns at a huge rate."""
    init = {"kind": "weights", "W": [[1e-9, 0.0]], "W_star": [[2.0, 0.0]]}
    point = {
        "d": 2, "p": 1, "k": 1, "gamma": 1e-3, "noise": 1.0, "init": init, "second_layer_rate": 1e12,
        "activation": "relu",
    }  # fmt: skip
    ds = ss.simulate(point, times=times_of(point, [0, 1, 2, 3, 40]), repeat=range(8), engine="S1")
    assert "second_layer" in ds.attrs["diverged_quantity"]


def test_unknown_code_of_an_activation_gives_nan():
    codes = [act.code for act in ACTIVATIONS.values() if act.code is not None]
    assert all(np.isnan(activate(max(codes) + 1, 0.5)))
    assert not any(np.isnan(activate(code, 0.5)[0]) for code in codes)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["S2", "S3", "S3-factored"])
@pytest.mark.parametrize("batch", [1, 3, 70])
def test_steps_in_python_follow_the_path_of_kernels(engine, batch, monkeypatch):
    """Without codes the steps run in Python; in S3 both draw the same numbers."""
    point = {"d": 200, "p": 5, "k": 3, "gamma": 0.3, "noise": 0.1, **EVERYTHING, "batch": batch}
    settings = {"times": times_of(point, STEPS), "engine": engine, "observables": OBSERVED}
    monkeypatch.setattr("sweep_service.simulators.selection.MAX_COMPILED_NEURONS", 0)
    compiled = ss.simulate(point, **settings)
    monkeypatch.setitem(ACTIVATIONS, "erf", evaluated_in_python(ACTIVATIONS["erf"]))
    slow = ss.simulate(point, **settings)
    assert "no compiled kernel" in slow.attrs["warnings"]
    for name in ("overlap_student", "second_layer"):
        np.testing.assert_allclose(slow[name], compiled[name], rtol=1e-9, atol=1e-12)
