"""Ψ_Var of erf by tilted two-point sums and quasi-Monte Carlo, against the plain four-point sum."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.baselines import four_point_variance
from benchmarks.harness import Row, error_relative_to_largest, time_interleaved
from sweep_service.dynamics.sampling.variance import QuasiMonteCarlo, erf_variance
from sweep_service.model.activations import ERF
from sweep_service.model.overlaps import Overlaps
from sweep_service.model.point import Point

MIN_RATIO, MOST_ERROR = 5.0, 1e-12


def sampling(quick: bool) -> Iterator[Row]:
    for p, floor in ((10, None), (20, None) if quick else (50, MIN_RATIO)):
        o = start_overlaps(p)
        sampled = QuasiMonteCarlo(ERF, ERF, p + 2)
        exact, tilted = four_point_variance(o.M, o.Q, o.P), erf_variance(o.M, o.Q, o.P)
        qmc, ours, plain = time_interleaved(
            lambda o=o, sampled=sampled: sampled(o.M, o.Q, o.P),
            lambda o=o: erf_variance(o.M, o.Q, o.P),
            lambda o=o: four_point_variance(o.M, o.Q, o.P),
            repeats=2 if quick else 10,
        )
        baseline = "four-point sum, p² n²/2 terms"
        yield Row(
            f"sampling/exact-p{p}", "erf_variance", ours.seconds, baseline, plain.seconds,
            error_relative_to_largest(tilted, exact), None, floor, MOST_ERROR,
            note="The error is the difference of the two.",
        )  # fmt: skip
        yield Row(
            f"sampling/qmc-p{p}", f"{sampled.points} Sobol points", qmc.seconds, baseline, plain.seconds,
            error_relative_to_largest(qmc.value, exact), note="The error is that of the worst entry.",
        )  # fmt: skip


def start_overlaps(p: int, k: int = 2) -> Overlaps:
    init = {"kind": "gaussian", "teacher": "orthonormal"}
    return Point.parse({"d": 100, "p": p, "k": k, "gamma": 1.0, "init": init}).start(0).overlaps
