"""What second layers, batches, decay and schedules cost: a sample with them against one at the defaults.

In mean field, an evaluation of the flow with second layers against one with ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks.crossover import CALL_SECONDS, choose_steps
from benchmarks.harness import Row, time_interleaved
from benchmarks.mean_field import draw_start, make_system
from benchmarks.simulators import Case
from sweep_service.dynamics.regimes import cheapest_flow
from sweep_service.model.activations import ACTIVATIONS
from sweep_service.model.point import Point
from sweep_service.model.second_layer import Readout
from sweep_service.numerics.blas import one_blas_thread
from sweep_service.simulators.chain import Simulator
from sweep_service.simulators.selection import choose_simulator
from sweep_service.simulators.simulate import Chains

FULL = (
    Case(10, 2, 3, seeds=8, engine="S1"),
    Case(10, 2, 3, engine="S1"),
    Case(40, 5, 60, engine="S2"),
    Case(300, 5, 300, engine="S2"),
    Case(2, 1, 1000, engine="S3"),
    Case(10, 5, 1000, engine="S3"),
    Case(100, 5, 1000, engine="S3"),
    Case(10, 5, 1000, engine="S3-factored"),
)
QUICK = (Case(5, 2, 3, engine="S1"),)
MEAN_FIELD_ACTIVATIONS = ("erf", "tanh", "relu")
MEAN_FIELD_SHAPES = ((10, 2), (100, 2), (1000, 2), (5000, 1))  # p, k: sums over pairs, then nodes of λ*
MEAN_FIELD_DIMENSIONS = 3  # d - k
BATCH = 16
FIXED_FLOOR, LEARNED_FLOOR = 1 / 1.1, 1 / 1.25  # lowest speeds with second layers, relative to ones
# Parameters and the lowest speed relative to the defaults, per sample; None without a bar. A batch saves time
# in every form: its samples do not see each other, so that they share loads, vectors and products.
VARIANTS: dict[str, tuple[dict[str, Any], float | None]] = {
    "second-layer": ({"second_layer": {"init": "gaussian"}}, FIXED_FLOOR),
    "learned": ({"second_layer_rate": 1.0}, LEARNED_FLOOR),
    "batch": ({"batch": BATCH}, 1.0),
    "decay": ({"weight_decay": 1.0}, None),
    "schedule": ({"schedule": {"power": {"t0": 10.0, "alpha": 0.5}}}, None),
}


def full_model(quick: bool) -> Iterator[Row]:
    for case in QUICK if quick else FULL:
        yield from compare_variants(case, quick)
    for name in MEAN_FIELD_ACTIVATIONS:
        for p, k in MEAN_FIELD_SHAPES[:1] if quick else MEAN_FIELD_SHAPES:
            yield from compare_mean_field(name, p, k, quick)


def compare_variants(case: Case, quick: bool) -> Iterator[Row]:
    points = {
        name: Point.parse({**describe(case), **change})
        for name, (change, _) in {"default": ({}, None), **VARIANTS}.items()
    }
    simulators = [make_simulator(case, point) for point in points.values()]
    with one_blas_thread():
        steps = [choose_steps(simulator, 0.002 if quick else CALL_SECONDS) for simulator in simulators]
        calls = [partial(simulator.advance, 0, n) for simulator, n in zip(simulators, steps, strict=True)]
        timings = time_interleaved(*calls, repeats=1 if quick else 15)
    assert all(np.all(simulator.diverged < 0) for simulator in simulators), f"{case.name} diverged"
    samples = [n * point.batch * case.seeds for n, point in zip(steps, points.values(), strict=True)]
    default, *others = (timing.seconds / count for timing, count in zip(timings, samples, strict=True))
    for seconds, simulator, (name, (_, floor)) in zip(others, simulators[1:], VARIANTS.items(), strict=True):
        yield Row(
            f"full_model/{case.name}-{name}", f"{type(simulator).__name__} with {name}", seconds,
            f"{type(simulators[0]).__name__} at the defaults", default, floor=None if quick else floor,
            note="Seconds per sample of a chain.", ns_per_step=1e9 * seconds,
        )  # fmt: skip


def compare_mean_field(name: str, p: int, k: int, quick: bool) -> Iterator[Row]:
    """Fixed and learned second layers against ones, in the form that `integrate` would choose."""
    M, q = draw_start(p, k, MEAN_FIELD_DIMENSIONS)
    ones = make_system(ACTIVATIONS[name], k, MEAN_FIELD_DIMENSIONS)
    fixed = replace(ones, readout=Readout(np.random.default_rng(2).standard_normal(p), np.ones(k)))
    flows = [cheapest_flow(s, M, q) for s in (ones, fixed, replace(fixed, second_layer_rate=1.0))]
    calls = [partial(flow, flow.y0) for flow in flows]
    for call in calls:  # compile
        call()
    base, *others = time_interleaved(*calls, repeats=1 if quick else 15, budget=2.0)
    floors = {"second-layer": FIXED_FLOOR, "learned": LEARNED_FLOOR}
    for timing, (variant, floor) in zip(others, floors.items(), strict=True):
        yield Row(
            f"full_model/mean_field-{name}-p{p}-k{k}-{variant}", f"{type(flows[0]).__name__} with {variant}",
            timing.seconds, "second layers of ones", base.seconds, floor=None if quick else floor,
            note="Seconds of an evaluation of the flow.",
        )  # fmt: skip


def describe(case: Case) -> dict[str, Any]:
    """The point of a case as a mapping."""
    point = case.point
    names = ("d", "p", "k", "gamma", "noise", "activation")
    return {**{name: point[name] for name in names}, "init": {"kind": "gaussian", "teacher": "orthonormal"}}


def make_simulator(case: Case, point: Point) -> Simulator:
    choice = choose_simulator(point, case.engine)
    chains = Chains(point, [0], range(case.seeds), choice)
    return choice.choose_form(case.seeds)([chains(index)[0] for index in range(case.seeds)])
