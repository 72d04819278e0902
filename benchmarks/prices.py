"""Predicted against spent processor seconds of random specs, for each activation, simulator and regime.

A calibration as by `sweep doctor` comes first. A group may be off by a factor of 1.5 in total; the worst
single spec of each group is in its note.
"""

from __future__ import annotations

import math
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count as count_from
from itertools import product
from typing import Any

import numpy as np

from benchmarks.harness import Row
from sweep_service.doctor.calibration import all_cores_busy, measure
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.execution.conductor import Conductor
from sweep_service.execution.executors import SerialExecutor
from sweep_service.execution.submission import Submission
from sweep_service.model.activations import ACTIVATIONS
from sweep_service.model.point import Point
from sweep_service.planning.costs import Calibration
from sweep_service.planning.estimate import Limits
from sweep_service.planning.spec import SweepSpec
from sweep_service.simulators.selection import choose_simulator
from sweep_service.status import Status
from sweep_service.store.folder import DataFolder

SPECS, SEED = 60, 21
MAX_FACTOR = 1.5
FULL_MODEL_SHARE = 1 / 3  # of the specs, for each parameter
MAX_SPEC_SECONDS = 5.0  # predicted; a more expensive draw is replaced by the next one
PAIRS = tuple(product(ACTIVATIONS, ACTIVATIONS))
# Of p and d such that a simulator is chosen, that of S1 with and without chains that share vectors.
SIMULATED_SIZES = (
    ("S1", (2, 15), (5, 80)),
    ("S1", (20, 60), (5, 30)),
    ("S2", (40, 200), (60, 150)),
    ("S3", (2, 60), (300, 2000)),
    ("S4", (40, 200), (5, 20)),
)
# Of γ/p: x² diverges at larger ones, and relu is asked for at large ones.
LARGEST_RATES = {"erf": 3.0, "tanh": 3.0, "relu": 10.0, "square": 0.2}


@dataclass(frozen=True)
class Comparison:
    """A spec with the seconds that were predicted and spent."""

    name: str
    groups: tuple[str, ...]
    predicted: float
    spent: float

    @property
    def ratio(self) -> float:
        return self.predicted / self.spent


def prices(quick: bool) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as root:
        folder = DataFolder(root)
        measure(folder)
        with all_cores_busy():  # as in a sweep, and in the calibration
            comparisons = list(compare_specs(folder, 4 if quick else SPECS))
    yield from summarise_groups(comparisons, quick)


def summarise_groups(comparisons: list[Comparison], quick: bool) -> Iterator[Row]:
    """Yield a row for each activation, simulator and regime."""
    groups: dict[str, list[Comparison]] = defaultdict(list)
    for comparison in comparisons:
        for group in comparison.groups:
            groups[group].append(comparison)
    for group, members in sorted(groups.items()):
        predicted = sum(member.predicted for member in members)
        spent = sum(member.spent for member in members)
        worst = max(members, key=lambda member: abs(math.log(member.ratio)))
        bar: dict[str, Any] = {}
        if not quick:  # a factor in either direction
            error = abs(math.log(predicted / spent))
            bar = {"floor": 0.0, "most_error": math.log(MAX_FACTOR), "ours_error": error}
        yield Row(
            f"prices/{group}", "what it took", spent, "what was predicted", predicted, **bar,
            note=f"{len(members)} specs; the worst, {worst.name}, is off by a factor of {worst.ratio:.2f}",
        )  # fmt: skip


def compare_specs(folder: DataFolder, count: int) -> Iterator[Comparison]:
    """Compute random specs, a third of them SGD and the others a regime, and compare their costs."""
    calibration = folder.calibration()
    for number in range(count):
        for attempt in count_from(0):
            spec, groups = draw_spec(np.random.default_rng([SEED, number, attempt]), number)
            folder.put_calibration(Calibration())  # so that the same specs are drawn on all machines
            if Submission(spec).prepare(folder, None, Limits()).core_seconds > MAX_SPEC_SECONDS:
                continue
            folder.put_calibration(calibration)  # discards what was learned from the specs before
            predicted = Submission(spec).prepare(folder, None, Limits()).core_seconds
            spent = _run(folder, spec)
            if spent is not None:
                yield Comparison(spec.name, groups, predicted, spent)
                break


def _run(folder: DataFolder, spec: SweepSpec) -> float | None:
    """Return the processor seconds of the runs of a spec; None if one diverged, which ends it early."""
    with Conductor(folder, SerialExecutor()) as conductor:
        sweep, _ = conductor.submit(spec)
        conductor.run(sweep.id)
        totals = conductor.ledger.totals(sweep.id)
        conductor.remove(sweep.id)
    return float(totals["seconds"]) if set(totals["counts"]) == {Status.DONE} else None


def draw_spec(rng: np.random.Generator, number: int) -> tuple[SweepSpec, tuple[str, ...]]:
    """Draw the spec with a number, of SGD or of a regime, and return it with the groups that it belongs to.

    Pairs of activations, simulators and regimes take turns.
    """
    student, teacher = PAIRS[(7 * number + number // len(PAIRS)) % len(PAIRS)]
    is_sgd, k = number % 3 == 0, int(rng.integers(1, 5))
    turn = number // 3 if is_sgd else number - number // 3 - 1
    regime = list(REGIMES)[turn % len(REGIMES)]
    if is_sgd:
        name, widths, dimensions = SIMULATED_SIZES[turn % len(SIMULATED_SIZES)]
        student = "square" if name == "S4" else student
    else:
        widths, dimensions = (3, 200 if REGIMES[regime].mean_field else 60), (8, 1000)
        if regime == "mean_field_projected" and student == "relu":
            student = "tanh"  # relu neurons in the teacher's span reach kinks, at any number of steps
    p, d = _draw_log(rng, *widths), _draw_log(rng, *dimensions) + k
    rate = _round(10.0 ** rng.uniform(-2.0, math.log10(LARGEST_RATES[student])))
    point = {"d": d, "p": p, "k": k, "gamma": rate * p, "noise": float(rng.choice([0.0, 1e-3]))}
    point |= {"activation": student, "teacher_activation": teacher}
    scalars, structures = _draw_full_model(rng)
    point |= scalars
    # 3e4 to 1e6 steps of SGD
    last = rate / d * 10.0 ** rng.uniform(4.5, 6.0) if is_sgd else 10.0 ** rng.uniform(0.0, 2.7)
    engine = choose_simulator(Point.parse(point | structures)).name if is_sgd else regime
    spec = structures | {
        "name": f"{number}, {student}-{teacher} {engine} at p = {p}",
        "axes": {name: point.pop(name) for name in ("d", "p", "gamma")},
        "fixed": point,
        "init": _draw_start(rng, regime),
        "simulate": is_sgd,
        "seeds": int(rng.choice([1, 4, 8])) if is_sgd else 2,
        "time": {"max": _round(last), "samples": int(rng.choice([10, 40, 100]))},
    }
    if not is_sgd:
        spec["axes"] |= {"regime": regime, "gamma": [0.5 * rate * p, 2.0 * rate * p]}
    groups = [name for name in ("second_layer", "second_layer_rate", "batch", "weight_decay", "schedule")
              if name in scalars | structures]  # fmt: skip
    return SweepSpec.parse(spec), (f"student-{student}", f"teacher-{teacher}", engine, *groups)


def _draw_full_model(rng: np.random.Generator) -> tuple[dict[str, Any], dict[str, Any]]:
    """Draw parameters of the full model, each for about a third of the specs: numbers, and structures."""
    scalars = {"second_layer_rate": (1.0, 4.0), "batch": (4, 16), "weight_decay": (0.1, 1.0)}
    structures = {
        "second_layer": ({"init": "rademacher"}, {"init": "gaussian"}, {"init": "ones", "scale": 1.5}),
        "schedule": (
            {"power": {"t0": 5.0, "alpha": 0.5}}, {"exponential": {"tau": 20.0}},
            {"steps": [[1.0, 0.5], [10.0, 0.2]]},
        ),
    }  # fmt: skip
    return _draw_some(rng, scalars), _draw_some(rng, structures)


def _draw_some(rng: np.random.Generator, choices: dict[str, Any]) -> dict[str, Any]:
    drawn = {name: values[rng.integers(len(values))] for name, values in choices.items()}
    return {name: value for name, value in drawn.items() if rng.random() < FULL_MODEL_SHARE}


def _draw_start(rng: np.random.Generator, regime: str) -> dict[str, Any]:
    if regime == "mean_field_projected":  # is defined for neurons in the span of the teacher
        return {"kind": "informed"}
    return {"kind": str(rng.choice(["gaussian", "spherical"])), "orthonormal_teacher": True}


def _draw_log(rng: np.random.Generator, low: int, high: int) -> int:
    return round(math.exp(rng.uniform(math.log(low), math.log(high))))


def _round(value: float) -> float:
    return float(f"{value:.2g}")
