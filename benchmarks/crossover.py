"""Where one simulator becomes faster than another: the chosen one against the best other, per step."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from benchmarks.harness import Row, measure_seconds, time_interleaved
from benchmarks.simulators import Case
from sweep_service.simulators.blocked import Blocked
from sweep_service.simulators.chain import Chain, Simulator
from sweep_service.simulators.kernels.streams import chain_key
from sweep_service.simulators.overlap_processes.overlap_process import OverlapProcess
from sweep_service.simulators.overlap_processes.wide_overlap_process import WideOverlapProcess
from sweep_service.simulators.selection import choose_simulator
from sweep_service.simulators.simulate import stream_key
from sweep_service.simulators.step_loop import StepLoop, StepLoopOfChains

SHAPES = ((2, 1), (5, 2), (10, 5), (30, 5), (55, 5), (100, 5), (300, 5))  # p, k
RATIOS = (1.0, 1.25, 1.6, 2.0, 2.5, 3.0, 4.0, 6.0)  # d/(p + k)
LANES = {3: (2, 10, 50, 300), 10: (2, 10, 50, 300), 30: (2, 10, 50, 100), 100: (2, 10, 30)}  # d by p
FORMS = (StepLoop, Blocked, OverlapProcess, WideOverlapProcess)
MAX_COMPILED_NEURONS = 120  # p + k up to which compiled forms are timed; beyond, they are always slower
CALL_SECONDS = 0.02  # duration of a call, long compared with its overhead of 60 µs


def crossover(quick: bool) -> Iterator[Row]:
    shapes, ratios = (SHAPES[1:2], RATIOS[3:4]) if quick else (SHAPES, RATIOS)
    for p, k in shapes:
        for ratio in ratios:
            yield compare_forms(Case(p, k, max(p + k, round(ratio * (p + k)))), quick)
    for p, dimensions in {3: (2,)}.items() if quick else LANES.items():
        for d in dimensions:
            yield compare_lanes(Case(p, 2, d), quick)


def compare_forms(case: Case, quick: bool) -> Row:
    """One chain by every simulator; a ratio below one means that the rule chose badly."""
    chosen = choose_simulator(case.point).choose_form(1)
    small = case.p + case.k <= MAX_COMPILED_NEURONS
    forms = [form for form in FORMS if small or form in (Blocked, WideOverlapProcess, chosen)]
    simulators = [form([make_chain(case)]) for form in forms]
    seconds = dict(zip(forms, measure_steps(case, simulators, quick), strict=True))
    best = min((form for form in forms if form is not chosen), key=lambda form: seconds[form])
    costs = ", ".join(f"{form.__name__} {1e9 * value:.0f}" for form, value in seconds.items())
    return Row(
        f"crossover/{case.name}", f"{chosen.__name__}, chosen by the rule", seconds[chosen],
        best.__name__, seconds[best],
        note=f"d/(p + k) = {case.d / (case.p + case.k):.2f}; ns per step: {costs}.",
        ns_per_step=1e9 * seconds[chosen],
    )  # fmt: skip


def compare_lanes(case: Case, quick: bool) -> Row:
    """Chains in the lanes of a vector, against neurons."""
    chains = [make_chain(case, repeat) for repeat in range(StepLoopOfChains.max_chains)]
    together, alone = measure_steps(case, [StepLoopOfChains(chains), StepLoop(chains[:1])], quick)
    return Row(
        f"crossover/lanes-{case.name}", f"{len(chains)} chains by StepLoopOfChains", together / len(chains),
        "one by StepLoop", alone,
        note=f"p d = {case.p * case.d}; a full group costs {together / alone:.1f} chains alone.",
        ns_per_step=1e9 * together / len(chains),
    )  # fmt: skip


def measure_steps(case: Case, simulators: Sequence[Simulator], quick: bool) -> list[float]:
    """Seconds per step of each simulator, without setup or records."""
    steps = [choose_steps(simulator, 0.002 if quick else CALL_SECONDS) for simulator in simulators]
    calls = [partial(simulator.advance, 0, count) for simulator, count in zip(simulators, steps, strict=True)]
    timings = time_interleaved(*calls, repeats=1 if quick else 7)
    assert all(np.all(simulator.diverged < 0) for simulator in simulators), f"{case.name} diverged"
    return [timing.seconds / count for timing, count in zip(timings, steps, strict=True)]


def choose_steps(simulator: Simulator, target: float) -> int:
    """Number of steps, in whole blocks, that take about `target` seconds; also compiles the kernels."""
    blocks, elapsed = 1, 0.0
    simulator.advance(0, simulator.block_size)
    while elapsed < target / 4:
        blocks *= 4
        elapsed = measure_seconds(partial(simulator.advance, 0, blocks * simulator.block_size))
    return simulator.block_size * math.ceil(blocks * target / elapsed)


def make_chain(case: Case, repeat: int = 0) -> Chain:
    point = case.point
    students, teachers = point.start(0).coordinates(point.d)
    return Chain(
        students, teachers, point.d, point.p, point.gamma, point.noise,
        point.activation, point.teacher_activation, chain_key(stream_key(point, 0, repeat)),
    )  # fmt: skip
