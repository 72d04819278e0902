"""The error bars of a theory: their seconds, against the SGD that measures them, over d, and as estimated."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

import sweep_service as ss
from benchmarks.crossover import CALL_SECONDS, choose_steps
from benchmarks.estimates import compare_with_estimate
from benchmarks.full_model import make_simulator
from benchmarks.harness import Row, time_interleaved
from benchmarks.simulators import Case
from sweep_service.doctor.calibration import measure
from sweep_service.model.point import Point
from sweep_service.numerics.blas import one_blas_thread
from sweep_service.planning.grids import Grid
from sweep_service.planning.keys import CopyGroups
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.spec import SweepSpec
from sweep_service.store.folder import DataFolder

REGIME = "high_dimensional"
MAX_SECONDS = 2.0  # at p = 10, k = 2 to t = 100
STD_ERROR = 0.03  # of an ensemble of N runs: 1/√(2N)
ENSEMBLE_DIMENSION = 1000
DIMENSIONS = (10, 100, 1000, 3000)
FIRST_TIME, SAMPLES = 1e-2, 60
WIDE_P, WIDE_END = 30, 10.0  # sd R by the adjoint


def fluctuations(quick: bool) -> Iterator[Row]:
    p, end = (3, 2.0) if quick else (10, 100.0)
    yield from compare_with_ensemble(p, end, quick)
    yield from compare_dimensions(p, end, quick)
    yield from compare_estimate(6 if quick else WIDE_P, 1.0 if quick else WIDE_END, quick)


def point_of(p: int, d: int) -> dict[str, Any]:
    """A point whose start is the same for all d."""
    return {"d": d, "p": p, "k": 2, "gamma": 1.0, "noise": 1e-2, "init": {"kind": "informed", "shared": True}}


def spec_of(p: int, dimensions: Sequence[int], end: float) -> SweepSpec:
    """The theory of the same point in several dimensions, without SGD."""
    point = point_of(p, dimensions[0])
    return SweepSpec.parse(
        {
            "axes": {"d": list(dimensions), "p": p, "gamma": point["gamma"], "regime": REGIME},
            "fixed": {name: point[name] for name in ("k", "noise")},
            "init": point["init"],
            "simulate": False,
            "fluctuations": True,
            "time": {"max": end, "min": FIRST_TIME, "samples": SAMPLES},
        }
    )


def integrate(p: int, d: int, end: float, fluctuations: bool = True) -> Any:
    """The theory without overlaps."""
    times = np.append(0.0, np.geomspace(FIRST_TIME, end, SAMPLES))
    return ss.integrate(point_of(p, d), times=times, regime=REGIME, fluctuations=fluctuations, overlaps=False)


def compare_with_ensemble(p: int, end: float, quick: bool) -> Iterator[Row]:
    """Compare with the trajectory alone, and with as many runs of SGD as give sd R within 3 %."""
    point = Point.parse(point_of(p, ENSEMBLE_DIMENSION))
    simulator = make_simulator(Case(p, 2, ENSEMBLE_DIMENSION), point)
    integrate(p, ENSEMBLE_DIMENSION, end)  # compiles the kernels
    with one_blas_thread():
        steps = choose_steps(simulator, 0.002 if quick else CALL_SECONDS)
        ours, alone, chain = time_interleaved(
            lambda: integrate(p, ENSEMBLE_DIMENSION, end),
            lambda: integrate(p, ENSEMBLE_DIMENSION, end, fluctuations=False),
            partial(simulator.advance, 0, steps),
            repeats=1 if quick else 5,
        )
    runs = math.ceil(0.5 / STD_ERROR**2)
    ensemble = chain.seconds / steps * runs * end / point.delta_t
    name = f"integrate with fluctuations, p = {p}, to t = {end:g}"
    yield Row(
        f"fluctuations/p{p}", name, ours.seconds, "integrate without them", alone.seconds,
        limit=None if quick else MAX_SECONDS,
    )  # fmt: skip
    yield Row(
        f"fluctuations/ensemble-p{p}", name, ours.seconds,
        f"{runs} runs of SGD at d = {ENSEMBLE_DIMENSION}", ensemble, baseline_error=STD_ERROR,
        floor=None if quick else 1.0,
        note="The measured time of a step of one chain, times the numbers of steps and runs.",
    )  # fmt: skip


def compare_dimensions(p: int, end: float, quick: bool) -> Iterator[Row]:
    """Compare the largest d with the smallest; a sweep over d integrates once."""
    first, last = DIMENSIONS[0], DIMENSIONS[-1]
    small, large = time_interleaved(
        lambda: integrate(p, first, end), lambda: integrate(p, last, end), repeats=1 if quick else 5
    )
    plan = SweepPlan(Grid.of(spec_of(p, DIMENSIONS, end)))
    integrations = len(CopyGroups(plan.keys["ode"]).first_runs())
    yield Row(
        f"fluctuations/d{last}", f"d = {last}", large.seconds, f"d = {first}", small.seconds,
        floor=None if quick else 0.8,  # equal but for noise
        most_error=0.0, ours_error=float(integrations - 1),
        note=f"A sweep over {len(DIMENSIONS)} dimensions integrates {integrations} time(s); "
        "the error counts those beyond the first.",
    )  # fmt: skip


def compare_estimate(p: int, end: float, quick: bool) -> Iterator[Row]:
    """Compare the estimate of a wide student with what is spent."""
    with tempfile.TemporaryDirectory() as root:
        folder = DataFolder(root)
        measure(folder)
        yield compare_with_estimate(
            folder, f"fluctuations/estimate-p{p}", spec_of(p, (ENSEMBLE_DIMENSION,), end), has_bar=not quick
        )
