"""Chains of every simulator, shared by the tests of bits and of checkpoints."""

import hashlib
import io
from functools import cache

import numpy as np
import pytest

import sweep_service as ss

SEED, REPEAT = 3, 5
STEPS = (0, 1, 13, 200, 333)
# (engine, p, k, d, activation): every form of every simulator, with and without padding of the last vector
CASES = (
    ("S1", 10, 2, 3, "erf"),
    ("S1", 7, 3, 20, "relu"),
    ("S1", 3, 1, 9, "tanh"),
    ("S1", 130, 3, 50, "erf"),  # too large for chains in lanes
    ("S2", 10, 2, 20, "square"),
    ("S2", 50, 3, 60, "tanh"),
    ("S2", 310, 4, 300, "erf"),
    ("S3", 10, 2, 100, "erf"),
    ("S3", 4, 4, 5, "relu"),  # fewer dimensions than neurons
    ("S3", 30, 4, 100, "tanh"),
    ("S3", 120, 3, 300, "square"),  # by matrix products
    ("S3", 210, 2, 500, "erf"),
    ("S3-factored", 10, 2, 100, "erf"),
    ("S3-factored", 5, 2, 6, "tanh"),
    ("S3-factored", 160, 2, 400, "relu"),
    ("S4", 40, 2, 5, "square"),
    ("S4", 120, 2, 60, "square"),
    ("S4", 4, 2, 9, "square"),
)
NARROW_CASES = tuple(case for case in CASES if case[1] <= 60)


def case_id(case):
    return "-".join(map(str, case))


cases = pytest.mark.parametrize("case", CASES, ids=case_id)
narrow_cases = pytest.mark.parametrize("case", NARROW_CASES, ids=case_id)


def point(p, k, d, activation="erf", gamma=0.3, **change):
    return {"d": d, "p": p, "k": k, "gamma": gamma, "noise": 1e-3, "activation": activation, **change}


def times_of(point, steps):
    return np.asarray(steps) * (point["gamma"] / (point["p"] * point["d"]))


def run(case, steps=STEPS, **rest):
    engine, *shape = case
    return ss.simulate(point(*shape), times=times_of(point(*shape), steps), engine=engine, **rest)


@cache
def run_alone(case, steps=STEPS):
    return run(case, steps, seed=SEED, repeat=REPEAT)


def assert_same_bits(result, expected):
    assert set(result.data_vars) == set(expected.data_vars)
    for name, values in expected.data_vars.items():
        np.testing.assert_array_equal(result[name].values, values.values, err_msg=name)


def digest(dataset):
    content = b"".join(np.ascontiguousarray(dataset[name]).tobytes() for name in sorted(dataset.data_vars))
    return hashlib.sha256(content).hexdigest()


class MemoryCheckpoint:
    """A checkpoint in memory that records the positions of all saves."""

    def __init__(self):
        self.content, self.positions, self.cleared = None, [], 0

    def load(self):
        return self.content

    def save(self, content):
        self.content = content
        self.positions.append(read_position(content))

    def clear(self):
        self.content = None
        self.cleared += 1


def read_position(content):
    """First chain of the current group, next record, steps taken."""
    with np.load(io.BytesIO(content)) as archive:
        return archive["position"].tolist()


def stop_after(calls):
    """A hook `stopped` that returns true from the call after `calls` on."""
    made = []
    return lambda: bool(made.append(None)) or len(made) > calls


def run_with_interruptions(call, checkpoint, choose_calls, max_stops=2000):
    """Repeat `call` until it ends, each time stopped after `choose_calls()` calls of the hook.

    Returns the result and the number of stops.
    """
    for stops in range(max_stops):
        try:
            return call(checkpoint=checkpoint, stopped=stop_after(choose_calls())), stops
        except ss.Stopped:
            pass
    raise AssertionError(f"not finished after {max_stops} interruptions: {checkpoint.positions[-1]}")
