"""A chain's bits: they know nothing of company, process, threads, interruptions or who was looking."""

import hashlib
import io
import json
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from functools import cache

import numpy as np
import pytest

import sweep_service as ss
from sweep_service.model.observables import OBSERVABLES
from sweep_service.model.point import Point
from sweep_service.simulators.selection import SIMULATORS

SEED, REPEAT = 3, 5
STEPS = (0, 1, 13, 200, 333)
# (engine, p, k, d, activation): every form of every engine, with and without room in the last vector
CASES = (
    ("S1", 10, 2, 3, "erf"),
    ("S1", 7, 3, 20, "relu"),
    ("S1", 3, 1, 9, "tanh"),
    ("S1", 130, 3, 50, "erf"),  # too large for eight chains side by side
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
LIGHT = tuple(case for case in CASES if case[1] <= 60)


def named(case):
    return "-".join(map(str, case))


cases = pytest.mark.parametrize("case", CASES, ids=named)
light_cases = pytest.mark.parametrize("case", LIGHT, ids=named)


def point(p, k, d, activation="erf", gamma=0.3, **change):
    return {"d": d, "p": p, "k": k, "gamma": gamma, "noise": 1e-3, "activation": activation, **change}


def times_of(point, steps):
    return np.asarray(steps) * (point["gamma"] / (point["p"] * point["d"]))


def run(case, steps=STEPS, **rest):
    engine, *shape = case
    return ss.simulate(point(*shape), times=times_of(point(*shape), steps), engine=engine, **rest)


@cache
def alone(case, steps=STEPS):
    return run(case, steps, seed=SEED, repeat=REPEAT)


def assert_same_bits(found, expected):
    assert set(found.data_vars) == set(expected.data_vars)
    for name, values in expected.data_vars.items():
        np.testing.assert_array_equal(found[name].values, values.values, err_msg=name)


def digest(dataset):
    content = b"".join(np.ascontiguousarray(dataset[name]).tobytes() for name in sorted(dataset.data_vars))
    return hashlib.sha256(content).hexdigest()


class Memory:
    """A checkpoint that is not a file, and remembers all that it was told."""

    def __init__(self):
        self.content, self.positions, self.cleared = None, [], 0

    def load(self):
        return self.content

    def save(self, content):
        self.content = content
        self.positions.append(position(content))

    def clear(self):
        self.content = None
        self.cleared += 1


def position(content):
    """First chain of the group on its way, next record, steps done."""
    with np.load(io.BytesIO(content)) as archive:
        return archive["position"].tolist()


def after(asks):
    """A hook that answers true from the question after so many on."""
    asked = []
    return lambda: bool(asked.append(None)) or len(asked) > asks


def finish(call, memory, asks, most=2000):
    """Call until it is done, each time stopped after `asks()` questions; the result and how many stops."""
    for stops in range(most):
        try:
            return call(checkpoint=memory, stopped=after(asks())), stops
        except ss.Stopped:
            pass
    raise AssertionError(f"not done after {most} interruptions: {memory.positions[-1]}")


def test_every_engine_is_among_the_cases():
    assert {case[0] for case in CASES} == set(SIMULATORS)
    forms = {alone(case).attrs["engine_form"] for case in CASES}
    forms |= {run(case, seed=range(8)).attrs["engine_form"] for case in CASES[:1]}
    assert forms == {
        "StepLoop",
        "StepLoopOfChains",
        "Blocked",
        "OverlapProcess",
        "WideOverlapProcess",
        "FactoredOverlapProcess",
    }


@cases
def test_running_again_gives_the_same_bits(case):
    assert_same_bits(run(case, seed=SEED, repeat=REPEAT), alone(case))


@cases
@pytest.mark.parametrize(
    "company",
    [
        {"seed": [SEED, 8, 1], "repeat": REPEAT},
        {"seed": SEED, "repeat": [0, 1, REPEAT]},
        {"seed": [0, SEED], "repeat": [REPEAT, 0, 9, 2, 1]},
        {"seed": [7, 8, 9, 1, SEED], "repeat": [11, REPEAT]},
    ],
    ids=["first of three", "last of three", "sixth of ten", "last of ten"],
)
def test_company_and_place_leave_no_trace(case, company):
    together = run(case, **company)
    chosen = {
        name: value
        for name, value in (("seed", SEED), ("repeat", REPEAT))
        if not isinstance(company[name], int)
    }
    assert_same_bits(together.sel(chosen), alone(case))


@light_cases
@pytest.mark.parametrize("along", ["seed", "repeat"])
def test_a_hundred_others_leave_no_trace(case, along):
    chains = {"seed": SEED, "repeat": REPEAT, along: range(128)}
    together = run(case, **chains)
    assert_same_bits(together.sel({along: SEED if along == "seed" else REPEAT}), alone(case))
    assert len(np.unique(together.risk.sel(time=together.time[STEPS.index(13)]))) == 128


ELSEWHERE = """
import hashlib, json, sys
import numpy as np
import sweep_service as ss
for engine, point, times, seed, repeat in json.loads(sys.stdin.read()):
    found = ss.simulate(point, times=times, engine=engine, seed=seed, repeat=repeat)
    content = b"".join(np.ascontiguousarray(found[name]).tobytes() for name in sorted(found.data_vars))
    print(hashlib.sha256(content).hexdigest())
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_another_process_with_other_blas_threads_gives_the_same_bits(threads):
    orders = []
    for engine, *shape in CASES:
        here = point(*shape)
        orders.append((engine, here, times_of(here, STEPS).tolist(), SEED, REPEAT))
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE],
        input=json.dumps(orders),
        capture_output=True,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)},
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    expected = {case: digest(alone(case)) for case in CASES}
    assert dict(zip(CASES, done.stdout.split(), strict=True)) == expected


@cases
def test_a_chain_interrupted_once_goes_on_to_the_same_bits(case, tmp_path):
    file = tmp_path / "checkpoint"
    with pytest.raises(ss.Stopped):
        run(case, seed=SEED, repeat=REPEAT, checkpoint=file, stopped=after(2))
    assert 0 < position(file.read_bytes())[2] < STEPS[-1]
    assert [one.name for one in tmp_path.iterdir()] == ["checkpoint"]
    assert_same_bits(run(case, seed=SEED, repeat=REPEAT, checkpoint=str(file)), alone(case))
    assert list(tmp_path.iterdir()) == []


@light_cases
def test_twenty_chains_interrupted_at_random_go_on_to_the_same_bits(case):
    """Finished groups, one on its way and later ones: each interruption finds another mixture."""
    memory, rng = Memory(), np.random.default_rng(len(named(case)))
    found, stops = finish(
        lambda **rest: run(case, seed=range(2, 6), repeat=range(2, 7), **rest),
        memory,
        lambda: int(rng.integers(0, 8)),
    )
    assert stops >= 2
    assert memory.cleared == 1
    assert any(0 < first < 20 for first, _, _ in memory.positions)
    assert_same_bits(found.sel(seed=SEED, repeat=REPEAT), alone(case))
    assert_same_bits(found, run(case, seed=range(2, 6), repeat=range(2, 7)))


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in CASES if case not in LIGHT], ids=named)
def test_twenty_wide_chains_interrupted_at_random_go_on_to_the_same_bits(case):
    test_twenty_chains_interrupted_at_random_go_on_to_the_same_bits(case)


@pytest.mark.parametrize(
    ("case", "gamma"),
    [(("S1", 4, 2, 6, "square"), 0.5), (("S2", 4, 2, 6, "square"), 0.5), (("S3", 4, 2, 20, "square"), 1.0)],
    ids=["S1", "S2", "S3"],
)
def test_an_interruption_remembers_which_chains_have_diverged(case, gamma):
    """At these rates a few of twenty chains diverge, early or late."""
    engine, *shape = case
    here = point(*shape, gamma=gamma)
    order = {
        "times": times_of(here, [0, 10, 64, 100, 300]),
        "engine": engine,
        "repeat": range(20),
        "observables": list(OBSERVABLES),
    }
    expected = ss.simulate(here, **order)
    assert 0 < expected.attrs["status"].count("diverged") < 20
    rng = np.random.default_rng(0)
    found, stops = finish(
        lambda **rest: ss.simulate(here, **order, **rest), Memory(), lambda: rng.integers(9)
    )
    assert stops >= 3
    assert_same_bits(found, expected)
    for name in ("status", "steps"):
        assert found.attrs[name] == expected.attrs[name]


@pytest.mark.parametrize(
    "case", [case for case in CASES if case[0] == "S1" or case == ("S4", 40, 2, 5, "square")], ids=named
)
def test_the_path_of_the_step_loop_does_not_depend_on_when_one_looks(case):
    often = run(case, sorted({*range(0, 333, 7), *STEPS}), seed=SEED, repeat=REPEAT)
    places = np.searchsorted(often.step, STEPS)
    assert_same_bits(often.isel(time=places), alone(case))


LONG = {
    "S1": point(10, 2, 20),
    "S2": point(300, 2, 300),
    "S3": point(10, 2, 1000),
    "S3-factored": point(10, 2, 1000),
}
long_runs = pytest.mark.parametrize("engine", LONG)


def long_run(engine, **rest):
    """A billion steps: minutes to days, whichever the engine."""
    here = LONG[engine]
    return ss.simulate(here, times=times_of(here, [0, 1e9]), engine=engine, **rest)


class Clock:
    """A hook that notes when it was asked, and turns true after some seconds."""

    def __init__(self, seconds):
        self.asked, self.until = [], time.perf_counter() + seconds

    def __call__(self):
        self.asked.append(time.perf_counter())
        return self.asked[-1] > self.until


def warm(engine):
    """Compile what a run needs, outside the measurement."""
    here = LONG[engine]
    ss.simulate(here, times=times_of(here, [0, 300]), engine=engine)


@long_runs
def test_a_billion_steps_stop_at_once_and_go_on_where_they_were(engine, tmp_path):
    warm(engine)
    file, reached = tmp_path / "checkpoint", []
    for seconds in (1.0, 0.5, 0.5):
        hook = Clock(seconds)
        with pytest.raises(ss.Stopped):
            long_run(engine, stopped=hook, checkpoint=file)
        assert time.perf_counter() - hook.asked[-1] < 5.0
        # slices aim at 0.1 s, and all steps would take minutes; the rest is for a busy machine
        assert max(np.diff(hook.asked)) < 5.0
        reached.append(position(file.read_bytes())[2])
        assert [one.name for one in tmp_path.iterdir()] == ["checkpoint"]
    assert 0 < reached[0] < reached[1] < reached[2] < 1e9


@pytest.mark.parametrize("engine", ["S1", "S3"])
def test_python_threads_run_while_a_kernel_does(engine):
    """In the middle of a slice, where a kernel that held the GIL would let nobody in."""
    warm(engine)
    beats, done = [], threading.Event()

    def heart():
        while not done.wait(0.001):
            beats.append(time.perf_counter())

    thread = threading.Thread(target=heart)
    thread.start()
    hook = Clock(1.5)
    try:
        with pytest.raises(ss.Stopped):
            long_run(engine, stopped=hook)
    finally:
        done.set()
        thread.join()
    slices = [(a, b) for a, b in zip(hook.asked[:-1], hook.asked[1:], strict=True) if b - a > 0.03]
    assert len(slices) >= 3
    heard = [
        np.searchsorted(beats, b - (b - a) / 4) - np.searchsorted(beats, a + (b - a) / 4) for a, b in slices
    ]
    assert np.median(heard) >= 3  # of about 15 to 50


@pytest.mark.parametrize(("activation", "chains"), [("erf", 8), ("tanh", 1)])
def test_many_records_do_not_keep_a_run_from_stopping(activation, chains):
    """Observables of thousands of samples are work too: the hook is asked meanwhile."""
    here = point(10, 2, 20, activation)
    order = {"engine": "S1", "repeat": range(chains)}
    ss.simulate(here, times=times_of(here, [0, 10]), **order)
    hook = Clock(5.0)
    with suppress(ss.Stopped):
        ss.simulate(here, times=times_of(here, np.arange(9000)), stopped=hook, **order)
    assert max(np.diff([*hook.asked, time.perf_counter()])) < 0.5


SMALL = ("S1", 5, 2, 12, "erf")


def stopped_run(checkpoint, case=SMALL, **change):
    with pytest.raises(ss.Stopped):
        run(case, checkpoint=checkpoint, stopped=after(3), **change)


@pytest.mark.parametrize(
    "other",
    [
        {"seed": 1},
        {"repeat": 1},
        {"seed": [0]},
        {"case": ("S2", *SMALL[1:])},
        {"case": ("S1", 5, 2, 13, "erf")},
        {"case": ("S1", 5, 2, 12, "relu")},
        {"steps": (0, 1, 13, 200, 334)},
        {"steps": STEPS[:-1]},
        {"overlaps": False},
        {"observables": ["cosine_histogram", "cosines", "mean_norm"]},
        {"repeat": range(8)},
    ],
    ids=str,
)
def test_the_checkpoint_of_another_run_is_refused(other):
    memory = Memory()
    stopped_run(memory)
    kept = memory.content
    if other == {"seed": [0]}:  # the same chain, whether it is asked for alone or as a list of one
        assert_same_bits(run(SMALL, checkpoint=memory, **other).isel(seed=0), run(SMALL))
        return
    case = other.pop("case", SMALL)
    with pytest.raises(ss.InvalidInput, match="another run") as info:
        run(case, checkpoint=memory, **other)
    assert info.value.field == "checkpoint"
    assert memory.content == kept
    assert memory.cleared == 0


@pytest.mark.parametrize("engine", ["S1", "S2", "S3", "S3-factored"])
def test_a_checkpoint_knows_the_basis_of_given_weights(engine):
    """The same overlaps in other coordinates: half of one state and half of another would be no chain."""
    rng = np.random.default_rng(0)
    W, W_star = rng.standard_normal((5, 12)), rng.standard_normal((2, 12))
    weights = point(5, 2, 12, init={"kind": "weights", "W": W, "W_star": W_star})
    start = Point.parse(weights).start(0).overlaps
    overlaps = point(5, 2, 12, init={"kind": "overlaps", "M": start.M, "Q": start.Q, "P": start.P})
    order = {"times": times_of(weights, STEPS), "engine": engine}
    memory = Memory()
    with pytest.raises(ss.Stopped):
        ss.simulate(weights, **order, checkpoint=memory, stopped=after(3))
    try:
        found = ss.simulate(overlaps, **order, checkpoint=memory)
    except ss.InvalidInput as error:
        assert error.field == "checkpoint"  # noqa: PT017
    else:
        assert_same_bits(found, ss.simulate(overlaps, **order))


def written(save, *arrays, **named_arrays):
    file = io.BytesIO()
    save(file, *arrays, **named_arrays)
    return file.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"garbage",
        b"PK\x03\x04 and garbage",
        b"\x80\x05K\x01.",
        written(np.save, np.arange(3)),
        written(np.savez, x=np.arange(3)),
    ],
    ids=["empty", "text", "head of an archive", "pickle", "one array", "other arrays"],
)
def test_a_file_that_is_no_checkpoint_is_refused(content, tmp_path):
    file = tmp_path / "checkpoint"
    file.write_bytes(content)
    with pytest.raises(ss.InvalidInput) as info:
        run(SMALL, checkpoint=file)
    assert info.value.field == "checkpoint"
    assert file.read_bytes() == content


def test_a_damaged_checkpoint_is_refused_or_harmless():
    memory = Memory()
    stopped_run(memory)
    whole, expected = memory.content, run(SMALL)
    rng = np.random.default_rng(0)
    damaged = [whole[:cut] for cut in rng.integers(0, len(whole), 50)]
    # archives end with a directory, the part whose damage has most ways to show
    for place in (*rng.integers(0, len(whole), 200), *range(len(whole) - 1500, len(whole), 3)):
        changed = bytearray(whole)
        changed[place] ^= 1 << int(rng.integers(8))
        damaged.append(bytes(changed))
    refused = 0
    for content in damaged:
        memory = Memory()
        memory.content = content
        try:
            assert_same_bits(run(SMALL, checkpoint=memory), expected)
        except ss.InvalidInput as error:
            assert error.field == "checkpoint"  # noqa: PT017
            refused += 1
    assert refused > len(damaged) / 2


@pytest.mark.parametrize("value", [3, ["x"], object(), True])
def test_what_cannot_be_a_checkpoint_is_refused(value):
    with pytest.raises(ss.InvalidInput) as info:
        run(SMALL, checkpoint=value)
    assert info.value.field == "checkpoint"


def test_a_failed_save_leaves_the_old_checkpoint(tmp_path, monkeypatch):
    file = tmp_path / "checkpoint"
    stopped_run(file)
    before = file.read_bytes()

    def full(*_):
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="no space"):
            run(SMALL, checkpoint=file, stopped=after(3))
    assert file.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["checkpoint"]
    assert_same_bits(run(SMALL, checkpoint=file), run(SMALL))


def test_a_run_that_takes_long_is_saved_without_being_asked(monkeypatch):
    from sweep_service.simulators import run as loop

    monkeypatch.setattr(loop, "SAVE_EVERY", 0.0)
    memory = Memory()
    assert_same_bits(run(SMALL, checkpoint=memory), run(SMALL))
    assert len(memory.positions) >= 5
    assert memory.positions == sorted(memory.positions)
    assert memory.cleared == 1


def test_a_stop_without_a_checkpoint_is_a_stop():
    stopped_run(None)
