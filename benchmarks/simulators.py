"""Exact SGD by `simulate` against a NumPy loop over steps, both per step of one chain."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from subprocess import PIPE
from typing import Any

import numpy as np

import sweep_service as ss
from benchmarks.harness import Row, measure_seconds, time_interleaved
from benchmarks.jax_scan import STEPS_PER_BLOCK
from benchmarks.sgd_baselines import draw_inputs, numpy_sgd, start_weights
from sweep_service.model.point import Point

INIT = {"kind": "gaussian", "teacher": "orthonormal"}
GAMMA, NOISE = 0.1, 1e-3  # stable for every activation
SETUP_SHARE = 1 / 40  # of a run's time: start and record, which do not depend on the number of steps
MIN_RUN_SECONDS, MAX_RUN_SECONDS = 0.3, 2.5
BASELINE_SECONDS = 0.1  # duration of a timed NumPy loop
BASELINE_REPEATS = 3  # in each turn, because the time of the loop varies more
GEMM_SIZE = 1000  # rows and columns of the matrix product that measures the speed of the machine


@dataclass(frozen=True)
class Case:
    """The point, seeds and simulator of a run; `gemm` also measures the speed of a matrix product."""

    p: int
    k: int
    d: int
    activation: str = "erf"
    seeds: int = 1
    engine: str = "auto"
    floor: float | None = None
    gemm: bool = False

    @property
    def name(self) -> str:
        special = [part for part in (self.activation, self.engine) if part not in ("erf", "auto")]
        seeds = [f"x{self.seeds}"] if self.seeds > 1 else []
        return "-".join((f"p{self.p}", f"k{self.k}", f"d{self.d}", *special, *seeds))

    @property
    def point(self) -> Point:
        return Point.parse(
            {
                "d": self.d, "p": self.p, "k": self.k, "gamma": GAMMA, "noise": NOISE,
                "activation": self.activation, "init": INIT,
            }
        )  # fmt: skip


FULL = (
    Case(10, 2, 3, seeds=128, floor=200.0),
    Case(8, 4, 10, seeds=128, floor=140.0),
    Case(10, 5, 1000, floor=50.0),
    Case(100, 5, 1000, floor=18.0),
    Case(1000, 5, 1000, floor=9.0, gemm=True),
    Case(5000, 1, 3, "square", floor=1000.0),
    Case(10, 2, 3),
    *(Case(10, 2, 3, activation, seeds=128) for activation in ("relu", "tanh", "square")),
    Case(30, 5, 1000),
    Case(300, 5, 1000),
    *(Case(10, 2, 60, engine=engine) for engine in ("S1", "S2", "S3", "S3-factored")),
)
# A case, the number of chains to which it is compared, and the lowest speed per chain relative to those.
TOGETHER: tuple[tuple[Case, int, float | None], ...] = (
    *((Case(p, 5, 1000, seeds=8, engine="S3"), 1, 2.0) for p in (10, 20, 30)),
    # without a bar: the steps of a chain wait for each other, and few chains do not fill that time
    *(
        (Case(p, k, d, seeds=chains, engine="S1"), 8, None)
        for p, k, d in ((8, 4, 10), (10, 2, 3), (20, 4, 20))
        for chains in (1, 2, 4)
    ),
)
# Cases that a scan of JAX computes too, if `JAX_PYTHON` names a Python that has JAX.
JAX_CASES = (Case(10, 2, 3, seeds=128), Case(8, 4, 10, seeds=128), Case(10, 5, 1000), Case(100, 5, 1000))
JAX_PYTHON = "SWEEP_BENCHMARK_JAX_PYTHON"
JAX_SECONDS = 0.5  # of processor time in each turn
QUICK = (
    Case(10, 2, 3, seeds=8),
    Case(40, 2, 40, engine="S2", gemm=True),
    Case(40, 2, 3, "square"),
    *(Case(5, 2, 20, engine=engine) for engine in ("S1", "S3", "S3-factored")),
)


def sgd(quick: bool) -> Iterator[Row]:
    for case in QUICK if quick else FULL:
        yield make_row(case, quick)
    for case, chains, floor in TOGETHER[:1] if quick else TOGETHER:
        yield compare_chains(case, replace(case, seeds=chains), None if quick else floor, quick)
    if not quick:
        yield from compare_with_jax()


def compare_with_jax() -> Iterator[Row]:
    """The cost of a step per chain against a scan of JAX, or nothing, with the reason on stderr."""
    python = os.environ.get(JAX_PYTHON)
    if python is None:
        print(f"sgd/jax: left out, because {JAX_PYTHON} names no Python with JAX", file=sys.stderr)
        return
    script = Path(__file__).with_name("jax_scan.py")
    with subprocess.Popen([python, script], stdin=PIPE, stdout=PIPE, text=True) as process:
        for case in JAX_CASES:
            yield compare_case_with_jax(case, process)


def compare_case_with_jax(case: Case, process: subprocess.Popen[str]) -> Row:
    sizes = {"p": case.p, "k": case.k, "d": case.d, "gamma": GAMMA, "noise": NOISE, "chains": case.seeds}

    def scan(blocks: int) -> float:
        """Seconds per step of a chain."""
        assert process.stdin is not None
        assert process.stdout is not None
        print(json.dumps({**sizes, "blocks": blocks}), file=process.stdin, flush=True)
        answer = json.loads(process.stdout.readline())
        assert math.isfinite(answer["power"])
        return float(answer["seconds"]) / (blocks * STEPS_PER_BLOCK * case.seeds)

    blocks = math.ceil(JAX_SECONDS / (scan(1) * STEPS_PER_BLOCK * case.seeds))
    steps, theirs, ours = choose_steps(case, False), math.inf, math.inf
    for _ in range(5):
        theirs = min(theirs, scan(blocks))
        ours = min(ours, measure_seconds(partial(run, case, steps)) / (steps * case.seeds))
    return Row(
        f"sgd/{case.name}-jax", f"simulate ({case.seeds} chains)", ours, "a scan of JAX", theirs,
        note="Processor time per step of a chain.", ns_per_step=1e9 * ours,
    )  # fmt: skip


def compare_chains(case: Case, other: Case, floor: float | None, quick: bool) -> Row:
    """The cost of a step per chain, for two numbers of chains of the same point."""
    cases = (case, other)
    steps = [choose_steps(one, quick) for one in cases]
    calls = [partial(run, one, count) for one, count in zip(cases, steps, strict=True)]
    timings = time_interleaved(*calls, repeats=1 if quick else 9)
    ours, theirs = (
        timing.seconds / (count * one.seeds) for timing, count, one in zip(timings, steps, cases, strict=True)
    )
    form, other_form = (timing.value.attrs["engine_form"] for timing in timings)
    return Row(
        f"sgd/{case.name}-against-x{other.seeds}", f"{case.seeds} chains together ({form})", ours,
        f"{other.seeds} ({other_form})", theirs, floor=floor, note="Seconds per step of a chain.",
        ns_per_step=1e9 * ours,
    )  # fmt: skip


def make_row(case: Case, quick: bool) -> Row:
    cost = measure_cost(case, quick)
    attrs, flops = cost.dataset.attrs, 4.0 * case.p * case.d
    fraction = flops / cost.ours * cost.gemm / (2.0 * GEMM_SIZE**3) if cost.gemm else None
    seeds = f"{case.seeds} seeds" if case.seeds > 1 else "one chain"
    return Row(
        f"sgd/{case.name}",
        f"simulate ({attrs['engine']}, {attrs['engine_form']}, blocks of {attrs['block']}, {seeds})",
        cost.ours,
        "a NumPy loop of one chain",
        cost.numpy,
        floor=case.floor,
        note=f"Seconds per step of a chain, over {cost.steps} steps.",
        ns_per_step=1e9 * cost.ours,
        gemm_fraction=fraction,
    )


@dataclass(frozen=True)
class Cost:
    """Seconds per step of a chain, by the package and by NumPy, and of a matrix product if requested."""

    ours: float
    numpy: float
    gemm: float | None
    steps: int
    dataset: Any


def measure_cost(case: Case, quick: bool) -> Cost:
    """Measure all costs of a case in turns, and check that the run did not diverge."""
    point = case.point
    steps = choose_steps(case, quick)
    W, W_star = start_weights(point)
    rng = np.random.default_rng(1)

    def loop(count: int) -> None:
        numpy_sgd(point, W, W_star, draw_inputs(point.d, count, rng))

    loop(2)
    short = math.ceil(
        (BASELINE_SECONDS / 10 if quick else BASELINE_SECONDS) / (measure_seconds(partial(loop, 8)) / 8)
    )
    square = rng.standard_normal((GEMM_SIZE, GEMM_SIZE))
    product = [partial(np.matmul, square, square, out=np.empty_like(square))] if case.gemm else []
    calls = [partial(run, case, steps), *product, *[partial(loop, short)] * BASELINE_REPEATS]
    ours, *others = time_interleaved(*calls, repeats=1 if quick else 5)
    assert np.all(np.isfinite(ours.value.risk)), f"{case.name} diverged"
    return Cost(
        ours.seconds / (steps * case.seeds),
        min(timing.seconds for timing in others[-BASELINE_REPEATS:]) / short,
        others[0].seconds if case.gemm else None,
        steps,
        ours.value,
    )


def run(case: Case, steps: int) -> Any:
    """Simulate `steps` steps with one record at the end, through the public function."""
    seed = range(case.seeds) if case.seeds > 1 else 0
    return ss.simulate(
        case.point, times=[steps * case.point.delta_t], seed=seed, engine=case.engine,
        observables=["risk"], overlaps=False,
    )  # fmt: skip


def choose_steps(case: Case, quick: bool) -> int:
    """Number of steps for which the time of the setup is negligible; also compiles the kernels."""
    steps = 64
    run(case, steps)
    setup = spent = measure_seconds(partial(run, case, steps))
    target = 0.02 if quick else min(max(setup / SETUP_SHARE, MIN_RUN_SECONDS), MAX_RUN_SECONDS)
    while spent < setup + target / 8:
        steps *= 4
        spent = measure_seconds(partial(run, case, steps))
    return math.ceil(steps * target / max(spent - setup, spent / 8))
