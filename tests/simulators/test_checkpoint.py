"""Stopping and resuming simulations: checkpoints, and calls of the hook `stopped`."""

import io
import os
import threading
import time
from contextlib import suppress

import numpy as np
import pytest

import sweep_service as ss
from sweep_service.model.observables import OBSERVABLES
from sweep_service.model.point import Point
from tests.simulators.chains import (
    CASES,
    NARROW_CASES,
    REPEAT,
    SEED,
    STEPS,
    MemoryCheckpoint,
    assert_same_bits,
    case_id,
    cases,
    narrow_cases,
    point,
    read_position,
    run,
    run_alone,
    run_with_interruptions,
    stop_after,
    times_of,
)


@cases
def test_interrupted_chain_resumes_to_same_bits(case, tmp_path):
    file = tmp_path / "checkpoint"
    with pytest.raises(ss.Stopped):
        run(case, seed=SEED, repeat=REPEAT, checkpoint=file, stopped=stop_after(2))
    assert 0 < read_position(file.read_bytes())[2] < STEPS[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]
    assert_same_bits(run(case, seed=SEED, repeat=REPEAT, checkpoint=str(file)), run_alone(case))
    assert list(tmp_path.iterdir()) == []


@narrow_cases
def test_randomly_interrupted_chains_resume_to_same_bits(case):
    """Interruptions find finished groups, a current one and later ones in different mixtures."""
    checkpoint, rng = MemoryCheckpoint(), np.random.default_rng(len(case_id(case)))
    result, stops = run_with_interruptions(
        lambda **rest: run(case, seed=range(2, 6), repeat=range(2, 7), **rest),
        checkpoint,
        lambda: int(rng.integers(0, 8)),
    )
    assert stops >= 2
    assert checkpoint.cleared == 1
    assert any(0 < first < 20 for first, _, _ in checkpoint.positions)
    assert_same_bits(result.sel(seed=SEED, repeat=REPEAT), run_alone(case))
    assert_same_bits(result, run(case, seed=range(2, 6), repeat=range(2, 7)))


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in CASES if case not in NARROW_CASES], ids=case_id)
def test_randomly_interrupted_wide_chains_resume_to_same_bits(case):
    test_randomly_interrupted_chains_resume_to_same_bits(case)


@pytest.mark.parametrize(
    ("case", "gamma"),
    [(("S1", 4, 2, 6, "square"), 0.5), (("S2", 4, 2, 6, "square"), 0.5), (("S3", 4, 2, 20, "square"), 1.0)],
    ids=["S1", "S2", "S3"],
)
def test_checkpoint_keeps_diverged_chains(case, gamma):
    """At these learning rates a few of twenty chains diverge, early or late."""
    engine, *shape = case
    parameters = point(*shape, gamma=gamma)
    arguments = {
        "times": times_of(parameters, [0, 10, 64, 100, 300]),
        "engine": engine,
        "repeat": range(20),
        "observables": list(OBSERVABLES),
    }
    expected = ss.simulate(parameters, **arguments)
    assert 0 < expected.attrs["status"].count("diverged") < 20
    rng = np.random.default_rng(0)
    result, stops = run_with_interruptions(
        lambda **rest: ss.simulate(parameters, **arguments, **rest),
        MemoryCheckpoint(),
        lambda: rng.integers(9),
    )
    assert stops >= 3
    assert_same_bits(result, expected)
    for name in ("status", "steps"):
        assert result.attrs[name] == expected.attrs[name]


LONG_POINTS = {
    "S1": point(10, 2, 20),
    "S2": point(300, 2, 300),
    "S3": point(10, 2, 1000),
    "S3-factored": point(10, 2, 1000),
}
long_runs = pytest.mark.parametrize("engine", LONG_POINTS)


def long_run(engine, **rest):
    """Simulate a billion steps, which would take minutes to days."""
    parameters = LONG_POINTS[engine]
    return ss.simulate(parameters, times=times_of(parameters, [0, 1e9]), engine=engine, **rest)


class StopAfterSeconds:
    """A hook `stopped` that records the times of its calls and returns true after some seconds."""

    def __init__(self, seconds):
        self.calls, self.end = [], time.perf_counter() + seconds

    def __call__(self):
        self.calls.append(time.perf_counter())
        return self.calls[-1] > self.end


def compile_kernels(engine):
    """Compile the kernels outside the measurement."""
    parameters = LONG_POINTS[engine]
    ss.simulate(parameters, times=times_of(parameters, [0, 300]), engine=engine)


@long_runs
def test_billion_steps_stop_promptly_and_resume(engine, tmp_path):
    compile_kernels(engine)
    file, reached = tmp_path / "checkpoint", []
    for seconds in (1.0, 0.5, 0.5):
        hook = StopAfterSeconds(seconds)
        with pytest.raises(ss.Stopped):
            long_run(engine, stopped=hook, checkpoint=file)
        assert time.perf_counter() - hook.calls[-1] < 5.0
        # slices aim at 0.1 s, and all steps would take minutes; the margin is for a busy machine
        assert max(np.diff(hook.calls)) < 5.0
        reached.append(read_position(file.read_bytes())[2])
        assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]
    assert 0 < reached[0] < reached[1] < reached[2] < 1e9


@pytest.mark.parametrize("engine", ["S1", "S3"])
def test_python_threads_run_during_kernel(engine):
    """In the middle of a slice, where a kernel that held the GIL would block other threads."""
    compile_kernels(engine)
    wake_times, done = [], threading.Event()

    def record_times():
        while not done.wait(0.001):
            wake_times.append(time.perf_counter())

    thread = threading.Thread(target=record_times)
    thread.start()
    hook = StopAfterSeconds(1.5)
    try:
        with pytest.raises(ss.Stopped):
            long_run(engine, stopped=hook)
    finally:
        done.set()
        thread.join()
    slices = [(a, b) for a, b in zip(hook.calls[:-1], hook.calls[1:], strict=True) if b - a > 0.03]
    assert len(slices) >= 3
    wakes_per_slice = [
        np.searchsorted(wake_times, b - (b - a) / 4) - np.searchsorted(wake_times, a + (b - a) / 4)
        for a, b in slices
    ]
    assert np.median(wakes_per_slice) >= 3  # of about 15 to 50


@pytest.mark.parametrize(("activation", "chains"), [("erf", 8), ("tanh", 1)])
def test_many_records_do_not_delay_stopping(activation, chains):
    """The hook is also called while observables of thousands of samples are computed."""
    parameters = point(10, 2, 20, activation)
    arguments = {"engine": "S1", "repeat": range(chains)}
    ss.simulate(parameters, times=times_of(parameters, [0, 10]), **arguments)
    hook = StopAfterSeconds(5.0)
    with suppress(ss.Stopped):
        ss.simulate(parameters, times=times_of(parameters, np.arange(9000)), stopped=hook, **arguments)
    assert max(np.diff([*hook.calls, time.perf_counter()])) < 0.5


SMALL = ("S1", 5, 2, 12, "erf")


def run_until_stopped(checkpoint, case=SMALL, **change):
    with pytest.raises(ss.Stopped):
        run(case, checkpoint=checkpoint, stopped=stop_after(3), **change)


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
def test_checkpoint_of_other_simulation_is_refused(other):
    checkpoint = MemoryCheckpoint()
    run_until_stopped(checkpoint)
    kept = checkpoint.content
    if other == {"seed": [0]}:  # the same chain, whether requested by number or as a list of one
        assert_same_bits(run(SMALL, checkpoint=checkpoint, **other).isel(seed=0), run(SMALL))
        return
    case = other.pop("case", SMALL)
    with pytest.raises(ss.InvalidInput, match="another simulation") as info:
        run(case, checkpoint=checkpoint, **other)
    assert info.value.field == "checkpoint"
    assert checkpoint.content == kept
    assert checkpoint.cleared == 0


@pytest.mark.parametrize("engine", ["S1", "S2", "S3", "S3-factored"])
def test_checkpoint_depends_on_basis_of_weights(engine):
    """With equal overlaps in other coordinates, a mixture of both states would not be a valid chain."""
    rng = np.random.default_rng(0)
    W, W_star = rng.standard_normal((5, 12)), rng.standard_normal((2, 12))
    weights = point(5, 2, 12, init={"kind": "weights", "W": W, "W_star": W_star})
    start = Point.parse(weights).start(0).overlaps
    overlaps = point(5, 2, 12, init={"kind": "overlaps", "M": start.M, "Q": start.Q, "P": start.P})
    arguments = {"times": times_of(weights, STEPS), "engine": engine}
    checkpoint = MemoryCheckpoint()
    with pytest.raises(ss.Stopped):
        ss.simulate(weights, **arguments, checkpoint=checkpoint, stopped=stop_after(3))
    try:
        result = ss.simulate(overlaps, **arguments, checkpoint=checkpoint)
    except ss.InvalidInput as error:
        assert error.field == "checkpoint"  # noqa: PT017
    else:
        assert_same_bits(result, ss.simulate(overlaps, **arguments))


def write_arrays(save, *arrays, **named_arrays):
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
        write_arrays(np.save, np.arange(3)),
        write_arrays(np.savez, x=np.arange(3)),
    ],
    ids=["empty", "text", "head of an archive", "pickle", "one array", "other arrays"],
)
def test_file_that_is_no_checkpoint_is_refused(content, tmp_path):
    file = tmp_path / "checkpoint"
    file.write_bytes(content)
    with pytest.raises(ss.InvalidInput) as info:
        run(SMALL, checkpoint=file)
    assert info.value.field == "checkpoint"
    assert file.read_bytes() == content


def test_damaged_checkpoint_is_refused_or_harmless():
    checkpoint = MemoryCheckpoint()
    run_until_stopped(checkpoint)
    intact, expected = checkpoint.content, run(SMALL)
    rng = np.random.default_rng(0)
    damaged = [intact[:cut] for cut in rng.integers(0, len(intact), 50)]
    # archives end with a directory, where damage has the most varied effects
    for index in (*rng.integers(0, len(intact), 200), *range(len(intact) - 1500, len(intact), 3)):
        changed = bytearray(intact)
        changed[index] ^= 1 << int(rng.integers(8))
        damaged.append(bytes(changed))
    refused = 0
    for content in damaged:
        checkpoint = MemoryCheckpoint()
        checkpoint.content = content
        try:
            assert_same_bits(run(SMALL, checkpoint=checkpoint), expected)
        except ss.InvalidInput as error:
            assert error.field == "checkpoint"  # noqa: PT017
            refused += 1
    assert refused > len(damaged) / 2


@pytest.mark.parametrize("value", [3, ["x"], object(), True])
def test_invalid_checkpoint_argument_is_refused(value):
    with pytest.raises(ss.InvalidInput) as info:
        run(SMALL, checkpoint=value)
    assert info.value.field == "checkpoint"


def test_failed_save_keeps_old_checkpoint(tmp_path, monkeypatch):
    file = tmp_path / "checkpoint"
    run_until_stopped(file)
    before = file.read_bytes()

    def fail(*_):
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="no space"):
            run(SMALL, checkpoint=file, stopped=stop_after(3))
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]
    assert_same_bits(run(SMALL, checkpoint=file), run(SMALL))


def test_long_simulation_is_saved_periodically(monkeypatch):
    from sweep_service.simulators import run as loop

    monkeypatch.setattr(loop, "CHECKPOINT_INTERVAL_SECONDS", 0.0)
    checkpoint = MemoryCheckpoint()
    assert_same_bits(run(SMALL, checkpoint=checkpoint), run(SMALL))
    assert len(checkpoint.positions) >= 5
    assert checkpoint.positions == sorted(checkpoint.positions)
    assert checkpoint.cleared == 1


def test_stop_without_checkpoint():
    run_until_stopped(None)
