"""Where one simulator overtakes another: the rule's choice against the best of the rest, per step."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from benchmarks.harness import Row, interleaved, seconds
from benchmarks.simulators import Case
from sweep_service.simulators.blocked import Blocked
from sweep_service.simulators.chain import Chain, Simulator
from sweep_service.simulators.overlap_process import OverlapProcess
from sweep_service.simulators.selection import choose_engine
from sweep_service.simulators.simulate import stream_key
from sweep_service.simulators.step_loop import StepLoop, StepLoopOfChains
from sweep_service.simulators.streams import chain_key
from sweep_service.simulators.wide_overlap_process import WideOverlapProcess

SHAPES = ((2, 1), (5, 2), (10, 5), (30, 5), (55, 5), (100, 5), (300, 5))  # p, k
RATIOS = (1.0, 1.25, 1.6, 2.0, 2.5, 3.0, 4.0, 6.0)  # d/(p + k)
LANES = {3: (2, 10, 50, 300), 10: (2, 10, 50, 300), 30: (2, 10, 50, 100), 100: (2, 10, 30)}  # d by p
FORMS = (StepLoop, Blocked, OverlapProcess, WideOverlapProcess)
WIDEST_COMPILED = 120  # p + k up to which the compiled forms are tried: beyond they lose for certain
STRETCH = 0.02  # seconds of one call: beside its steps, beginning one costs 60 µs


def crossover(quick: bool) -> Iterator[Row]:
    shapes, ratios = (SHAPES[1:2], RATIOS[3:4]) if quick else (SHAPES, RATIOS)
    for p, k in shapes:
        for ratio in ratios:
            yield engines(Case(p, k, max(p + k, round(ratio * (p + k)))), quick)
    for p, dimensions in {3: (2,)}.items() if quick else LANES.items():
        for d in dimensions:
            yield lanes(Case(p, 2, d), quick)


def engines(case: Case, quick: bool) -> Row:
    """One chain by every engine; a ratio below one says that the rule chose badly."""
    chosen = choose_engine(case.point).simulator(1)
    small = case.p + case.k <= WIDEST_COMPILED
    forms = [form for form in FORMS if small or form in (Blocked, WideOverlapProcess, chosen)]
    found = dict(zip(forms, per_step(case, [form([chain(case)]) for form in forms], quick), strict=True))
    best = min((form for form in forms if form is not chosen), key=lambda form: found[form])
    listed = ", ".join(f"{form.__name__} {1e9 * value:.0f}" for form, value in found.items())
    return Row(
        f"crossover/{case.name}", f"{chosen.__name__} of the rule", found[chosen],
        best.__name__, found[best],
        note=f"d/(p + k) = {case.d / (case.p + case.k):.2f}; ns per step: {listed}.",
        ns_per_step=1e9 * found[chosen],
    )  # fmt: skip


def lanes(case: Case, quick: bool) -> Row:
    """Chains in the lanes of a vector against neurons in them."""
    chains = [chain(case, repeat) for repeat in range(StepLoopOfChains.most_chains)]
    together, alone = per_step(case, [StepLoopOfChains(chains), StepLoop(chains[:1])], quick)
    return Row(
        f"crossover/lanes-{case.name}", f"{len(chains)} chains by StepLoopOfChains", together / len(chains),
        "one by StepLoop", alone,
        note=f"p d = {case.p * case.d}; a full group costs {together / alone:.1f} chains alone.",
        ns_per_step=1e9 * together / len(chains),
    )  # fmt: skip


def per_step(case: Case, simulators: Sequence[Simulator], quick: bool) -> list[float]:
    """Seconds per step of each simulator, without setup or records."""
    steps = [enough_steps(simulator, 0.002 if quick else STRETCH) for simulator in simulators]
    calls = [partial(one.advance, 0, count) for one, count in zip(simulators, steps, strict=True)]
    found = interleaved(*calls, repeats=1 if quick else 7)
    assert all(np.all(simulator.diverged < 0) for simulator in simulators), f"{case.name} diverged"
    return [timed.seconds / count for timed, count in zip(found, steps, strict=True)]


def enough_steps(simulator: Simulator, target: float) -> int:
    """Whole blocks that take about so many seconds; compiles by the way."""
    blocks, took = 1, 0.0
    simulator.advance(0, simulator.grain)
    while took < target / 4:
        blocks *= 4
        took = seconds(partial(simulator.advance, 0, blocks * simulator.grain))
    return simulator.grain * math.ceil(blocks * target / took)


def chain(case: Case, repeat: int = 0) -> Chain:
    point = case.point
    students, teachers = point.start(0).coordinates(point.d)
    return Chain(
        students, teachers, point.d, point.p, point.gamma, point.noise,
        point.activation, point.teacher_activation, chain_key(stream_key(point, 0, repeat)),
    )  # fmt: skip
