"""Estimates: their cost for a million points, and predicted against measured cost of sweeps."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.cluster import MEMORY_LIMIT_MEGABYTES, make_cheap_spec
from benchmarks.harness import Row
from benchmarks.store import peak_megabytes
from sweep_service.doctor.calibration import measure
from sweep_service.dynamics.auto import collect_regime_warnings
from sweep_service.execution.conductor import Conductor
from sweep_service.execution.executors import SerialExecutor
from sweep_service.execution.submission import Submission
from sweep_service.identity import Key
from sweep_service.planning.costs import Calibration, ode_seconds
from sweep_service.planning.estimate import Limits
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.spec import SweepSpec
from sweep_service.presets import PRESETS, read_preset
from sweep_service.store.folder import DataFolder

MILLION = 1_000_000
ESTIMATE_LIMIT_SECONDS, SUBMIT_LIMIT_SECONDS = 5.0, 20.0  # processor time, for a million points
REGIMES = ("classical", "classical_noise", "high_dimensional", "mean_field")
RANDOM_SPECS = 5
SAMPLED_POINTS = 1_000  # of which the time point by point is measured


def estimates(quick: bool) -> Iterator[Row]:
    yield from measure_planning(2_000 if quick else MILLION)
    yield from compare_predictions(quick)


def measure_planning(points: int) -> Iterator[Row]:
    """The processor time to estimate a sweep and to create it, against that of the same point by point."""
    spec, limits = make_cheap_spec(points), Limits(points=points)
    with tempfile.TemporaryDirectory() as root:
        folder = DataFolder(root)
        with Conductor(folder, SerialExecutor(), limits) as conductor:
            began = time.process_time()
            submission = Submission(SweepSpec.parse(spec), limits)
            submission.prepare(folder, conductor.ledger, limits)
            estimated = time.process_time() - began
            conductor.submit(submission)
            submitted = time.process_time() - began
        sample = range(0, points, max(1, points // SAMPLED_POINTS))
        began = time.process_time()
        for index in sample:
            _plan_point(submission.plan, index)
        alone = (time.process_time() - began) / len(sample) * points
    megabytes, is_full = peak_megabytes(), points == MILLION
    if is_full:
        assert megabytes < MEMORY_LIMIT_MEGABYTES, f"the process held {megabytes:.0f} MB"
    yield Row(
        f"estimates/points-{points}", f"an estimate of {points} points", estimated,
        "parsing, keys and costs point by point", alone,
        limit=ESTIMATE_LIMIT_SECONDS if is_full else None, note=f"The process held {megabytes:.0f} MB.",
    )  # fmt: skip
    yield Row(
        f"estimates/submit-{points}", f"an estimate and the submission of {points} points", submitted,
        "parsing, keys and costs point by point", alone, limit=SUBMIT_LIMIT_SECONDS if is_full else None,
    )  # fmt: skip


def _plan_point(plan: SweepPlan, index: int) -> None:
    """Work out what the estimate needs of one point, as for a grid of this point alone."""
    grid = plan.grid
    point = grid.point(index)
    Key.of(**point.content)
    point.init.key(point.shape, 0)
    for regime in grid.regimes:
        collect_regime_warnings(point, regime)
        ode_seconds(point, regime, float(grid.times[-1]), len(grid.times), Calibration())


def compare_predictions(quick: bool) -> Iterator[Row]:
    """Predicted against measured seconds of presets and of random specs, after a calibration."""
    random = {f"random-{seed}": random_spec(seed, 0.02 if quick else 1.0) for seed in range(RANDOM_SPECS)}
    specs = {name: read_preset(name) for name in PRESETS} | random
    if quick:
        specs = {"random-0": random["random-0"]}
    with tempfile.TemporaryDirectory() as root:
        folder = DataFolder(root)
        measure(folder)
        calibration = folder.calibration()
        for name, spec in specs.items():
            folder.put_calibration(calibration)  # discards what was learned from the sweeps before
            note = "" if name in PRESETS else spec.model_dump_json(exclude_defaults=True)
            yield compare_with_estimate(folder, f"estimates/{name}", spec, has_bar=not quick, note=note)


def compare_with_estimate(
    folder: DataFolder, name: str, spec: SweepSpec, has_bar: bool, note: str = ""
) -> Row:
    """Compute a spec and compare its seconds with those predicted; the bar is a factor of 2 either way."""
    predicted = Submission(spec).prepare(folder, None, Limits()).core_seconds
    with Conductor(folder, SerialExecutor()) as conductor:
        sweep, _ = conductor.submit(spec)
        conductor.run(sweep.id)
        seconds = conductor.ledger.totals(sweep.id)["seconds"]
        conductor.remove(sweep.id)
    bar: dict[str, Any] = {}
    if has_bar:
        bar = {"floor": 0.5, "most_error": 1.0, "ours_error": abs(math.log2(predicted / seconds))}
    return Row(name, "what it took", seconds, "what was predicted", predicted, **bar, note=note)


def random_spec(seed: int, size: float) -> SweepSpec:
    """A spec that mixes features of sweeps and takes a few seconds to a minute."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(1, 4))
    widths = sorted({k * int(width) for width in 2 ** rng.uniform(1, 4.5, 2)})
    dimensions = sorted({int(d) + k for d in 10 ** rng.uniform(0.7, 2.5, 2)})
    rates = {"log": [float(10 ** rng.uniform(-1.5, -0.5)), float(10 ** rng.uniform(-0.3, 0.3)), 3]}
    return SweepSpec.parse(
        {
            "axes": {
                "d": dimensions,
                "p": widths,
                "gamma": rates,
                "regime": [str(name) for name in rng.choice(REGIMES, 2, replace=False)],
            },
            "fixed": {"k": k, "noise": 1e-3, "activation": ("erf", "relu", "square")[seed % 3]},
            "seeds": int(rng.integers(1, 9)),
            "time": {"max": size * float(10 ** rng.uniform(0.5, 2.0)), "samples": 60},
        }
    )
