"""Predicted against measured cost of sweeps: presets and random specs, after a calibration."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.harness import Row
from sweep_service.doctor.calibration import measure
from sweep_service.execution.conductor import Conductor
from sweep_service.execution.executors import SerialExecutor
from sweep_service.execution.submission import Submission
from sweep_service.planning.estimate import Limits
from sweep_service.planning.spec import SweepSpec
from sweep_service.presets import PRESETS, read_preset
from sweep_service.store.folder import DataFolder

REGIMES = ("classical", "classical_noise", "high_dimensional", "mean_field")
RANDOM_SPECS = 5


def estimates(quick: bool) -> Iterator[Row]:
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
