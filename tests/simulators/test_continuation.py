"""Chains that continue from their last state have the bits of one long run, in every form."""

import numpy as np
import pytest

import sweep_service as ss
from sweep_service.model.observables import OBSERVABLES
from sweep_service.model.point import Point
from sweep_service.simulators.run import Continuation
from sweep_service.simulators.simulate import run_chains
from tests.simulators.chains import (
    CASES,
    NARROW_CASES,
    MemoryCheckpoint,
    case_id,
    narrow_cases,
    point,
    stop_after,
    times_of,
)

STEPS = (0, 1, 13, 57, 130, 200)
FIRST = 4  # samples of the run that is continued; its last step is no multiple of a block

# Forms that only parameters of the full model reach, and one whose overlaps are often rank-deficient.
FULL_MODEL_POINTS = {
    "learned": point(6, 2, 12, second_layer_rate=1.0, second_layer={"init": "gaussian"}),
    "schedule and decay": point(
        6, 2, 60, weight_decay=0.1, schedule={"power": {"t0": 1.0, "alpha": 0.5}}, second_layer_rate=1.0
    ),
    "batch": point(6, 2, 10, batch=3, second_layer_rate=1.0),
    "large batch": point(6, 2, 100, batch=64),
    "wide large batch": point(90, 2, 300, batch=256),
    "large batch in pieces": point(10, 2, 200, batch=100),
    "rank-deficient": point(6, 2, 30, init={"kind": "symmetric"}),
}
ENGINES = {
    "learned": ("S1", "S2", "S3", "S3-factored"), "schedule and decay": ("S1", "S2", "S3", "S3-factored"),
    "batch": ("S1", "S2", "S3"), "large batch": ("S3", "S3-factored"), "wide large batch": ("S3",),
    "large batch in pieces": ("S2",), "rank-deficient": ("S3",),
}  # fmt: skip


def call(parameters, engine, steps, seeds, repeats=(0,), **rest):
    return run_chains(
        Point.parse(parameters), times=times_of(parameters, steps), seeds=seeds, repeats=repeats,
        observables=tuple(OBSERVABLES), overlaps=True, engine=engine, **rest,
    )  # fmt: skip


def assert_continues(parameters, engine, counts=(1, 2, 4, 8)):
    """Each number of chains is continued by every other one, as each may have a form of its own."""
    seeds = list(range(max(counts)))
    whole = call(parameters, engine, STEPS, seeds, keep_states=True)
    earlier = {
        count: call(parameters, engine, STEPS[:FIRST], seeds[:count], keep_states=True) for count in counts
    }
    for count in counts:
        for from_count in counts:
            before = earlier[from_count]
            chains = [chain for chain in range(min(count, from_count)) if chain in before.last_states]
            assert chains  # the others diverged
            continued = call(
                parameters, engine, STEPS, chains, keep_states=True,
                continuation=Continuation(FIRST, [before.last_states[chain] for chain in chains]),
            )  # fmt: skip
            for place, chain in enumerate(chains):
                for name, values in continued.values.items():
                    joined = np.concatenate([before.values[name][chain], values[place, FIRST:]])
                    np.testing.assert_array_equal(joined, whole.values[name][chain], err_msg=name)
                    assert np.isnan(values[place, :FIRST]).all()
                assert continued.outcomes.status[place] == whole.outcomes.status[chain]
                assert continued.outcomes.steps[place] == whole.outcomes.steps[chain]
                if chain in whole.last_states:
                    state = continued.last_states[place]
                    np.testing.assert_array_equal(state, whole.last_states[chain])


@narrow_cases
def test_continued_chain_has_the_bits_of_one_long_run(case):
    engine, *shape = case
    assert_continues(point(*shape), engine)


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in CASES if case not in NARROW_CASES], ids=case_id)
def test_continued_wide_chain_has_the_bits_of_one_long_run(case):
    engine, *shape = case
    assert_continues(point(*shape), engine, counts=(1, 5))


@pytest.mark.parametrize(
    ("name", "engine"), [(name, engine) for name, engines in ENGINES.items() for engine in engines]
)
def test_chains_of_the_full_model_continue(name, engine):
    assert_continues(FULL_MODEL_POINTS[name], engine, counts=(1, 5))


def test_samples_are_the_same_however_many_are_observed_at_once():
    """Observables are computed for up to 32 samples together; a continued run divides them differently."""
    parameters, steps = point(5, 2, 30), tuple(range(0, 210, 3))
    whole = call(parameters, "S1", steps, [0, 1])
    for first in (1, 31, 32, 50):
        states = call(parameters, "S1", steps[:first], [0, 1], keep_states=True)
        rest = call(
            parameters, "S1", steps, [0, 1],
            continuation=Continuation(first, [states.last_states[0], states.last_states[1]]),
        )  # fmt: skip
        for name, values in whole.values.items():
            joined = np.concatenate([states.values[name], rest.values[name][:, first:]], axis=1)
            np.testing.assert_array_equal(joined, values, err_msg=name)


@pytest.mark.parametrize("engine", ["S1", "S2", "S3", "S3-factored"])
def test_interrupted_continuation_has_the_same_bits(engine):
    """The last states of groups that have finished are in the checkpoint."""
    parameters, seeds = point(4, 2, 60), range(18)
    whole = call(parameters, engine, STEPS, seeds, keep_states=True)
    states = call(parameters, engine, STEPS[:FIRST], seeds, keep_states=True).last_states
    checkpoint, rng, stops = MemoryCheckpoint(), np.random.default_rng(0), 0
    continuation = Continuation(FIRST, [states[chain] for chain in range(len(seeds))])
    while True:
        try:
            result = call(
                parameters, engine, STEPS, seeds, keep_states=True, continuation=continuation,
                checkpoint=checkpoint, stopped=stop_after(int(rng.integers(0, 4))),
            )  # fmt: skip
            break
        except ss.Stopped:
            stops += 1
    assert stops >= 2
    np.testing.assert_array_equal(result.values["risk"][:, FIRST:], whole.values["risk"][:, FIRST:])
    assert result.last_states.keys() == whole.last_states.keys()
    for chain, state in whole.last_states.items():
        np.testing.assert_array_equal(result.last_states[chain], state)


def test_diverged_chains_keep_no_state():
    parameters = point(4, 2, 6, "square", gamma=0.5)
    result = call(parameters, "S1", (0, 10, 64, 100, 300), range(20), keep_states=True)
    diverged = set(np.flatnonzero(result.outcomes.diverged_quantity).tolist())
    assert 0 < len(diverged) < 20
    assert set(result.last_states) == set(range(20)) - diverged


def test_state_of_another_size_is_refused():
    parameters = point(4, 2, 6)
    with pytest.raises(ValueError, match="state of a chain"):
        call(parameters, "S1", STEPS, [0], continuation=Continuation(FIRST, [np.zeros(3)]))
