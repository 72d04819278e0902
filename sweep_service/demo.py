"""`make demo`: one-pass SGD beside its limiting ODEs, at the three corners of the d-p-gamma triangle.

SGD here is a plain NumPy loop, step by step as it is defined: slow, and nothing to argue about.
"""

from __future__ import annotations

import time as clock
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import sweep_service as ss
from sweep_service.arrays import Array
from sweep_service.model.overlaps import Overlaps
from sweep_service.model.risk import risk
from sweep_service.model.two_point import pairs
from sweep_service.point import Point

OUTPUT = Path("demo-output")
SEEDS = range(8)
START = {"kind": "gaussian", "orthonormal_teacher": True}
# title, point, last time, regimes drawn
CORNERS: tuple[tuple[str, dict[str, Any], float, tuple[str, ...]], ...] = (
    (
        "high-dimensional: γ/p = O(1)",
        {"d": 200, "p": 4, "k": 2, "gamma": 4.0, "noise": 1e-2, "init": START},
        50.0,
        ("high_dimensional", "classical_noise", "classical"),
    ),
    (
        "classical: γ → 0",
        {"d": 10, "p": 4, "k": 2, "gamma": 0.08, "noise": 1e-2, "init": START},
        200.0,
        ("high_dimensional", "classical_noise", "classical"),
    ),
    (
        "mean field: p → ∞",
        {"d": 5, "p": 200, "k": 2, "gamma": 1.0, "noise": 0.0, "activation": "square", "init": START},
        30.0,
        ("mean_field", "mean_field_high_dimensional"),
    ),
)
STYLES = {
    "high_dimensional": ("#0072B2", "-"),
    "classical_noise": ("#D55E00", "--"),
    "classical": ("#009E73", ":"),
    "mean_field": ("#0072B2", "-"),
    "mean_field_high_dimensional": ("#CC79A7", "--"),
}


def plain_sgd(spec: Mapping[str, Any], times: Array, seeds: range) -> tuple[Array, int]:
    """Mean risk of SGD over the seeds at round(t/δt) steps, and the number of steps; seeds in one batch."""
    point = Point.parse(spec)
    rng = np.random.default_rng(20230212)
    d, p, k = point.d, point.p, point.k
    W, W_star = np.zeros((len(seeds), p, d)), np.zeros((len(seeds), k, d))
    for row, seed in enumerate(seeds):
        students, teachers = point.start(seed).coordinates(d)
        W[row, :, : students.shape[1]] = np.sqrt(d) * students
        W_star[row, :, : teachers.shape[1]] = np.sqrt(d) * teachers
    act, target, averages = (
        point.activation,
        point.teacher_activation,
        pairs(point.activation, point.teacher_activation),
    )
    steps = np.rint(times / point.delta_t).astype(int)
    found, done = [], 0
    for step in steps:
        for _ in range(step - done):
            x = rng.standard_normal((len(seeds), d, 1)) / np.sqrt(d)
            z = rng.standard_normal(len(seeds))
            lam = (W @ x)[:, :, 0]
            error = (
                target.value((W_star @ x)[:, :, 0]).mean(1)
                + np.sqrt(point.noise) * z
                - act.value(lam).mean(1)
            )
            W += (point.gamma / p * act.slope(lam) * error[:, None])[:, :, None] * x[:, None, :, 0]
        done = step
        scale = np.sqrt(d)
        found.append(
            np.mean(
                [risk(Overlaps.of(w / scale, s / scale), averages) for w, s in zip(W, W_star, strict=True)]
            )
        )
    return np.array(found), int(steps[-1])


def main() -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = plt.subplots(1, 3, figsize=(11.0, 3.6), layout="constrained")
    for axis, (title, spec, last, regimes) in zip(axes, CORNERS, strict=True):
        times = np.geomspace(5e-2, last, 40)
        began = clock.perf_counter()
        sgd, steps = plain_sgd(spec, times, SEEDS)
        print(f"{title}\n  SGD, {len(SEEDS)} seeds, {steps} steps each: {clock.perf_counter() - began:.1f} s")
        for name in regimes:
            began = clock.perf_counter()
            ode = ss.integrate(spec, regime=name, times=times, seed=SEEDS)
            mean = ode["risk"].mean("seed")
            apart = float(np.max(np.abs(np.log10(sgd / mean.values))))
            print(f"  {name}: {clock.perf_counter() - began:.2f} s, at most {apart:.3f} decades from SGD")
            colour, line = STYLES[name]
            axis.loglog(times, mean, line, color=colour, lw=1.6, label=name.replace("_", " "))
        axis.loglog(times, sgd, "o", ms=3.2, mfc="none", mec="0.15", mew=0.7, label="SGD", zorder=3)
        parameters = ", ".join(
            f"{s} = {spec[n]:g}"
            for s, n in (("k", "k"), ("d", "d"), ("p", "p"), ("γ", "gamma"), ("Δ", "noise"))
        )
        axis.set_title(f"{title}\n{spec.get('activation', 'erf')}, {parameters}", fontsize=9)
        axis.set_xlabel("time  t = ν γ/(p d)")
        axis.legend(frameon=False, fontsize=8, loc="lower left")
    axes[0].set_ylabel("excess risk  R")
    OUTPUT.mkdir(exist_ok=True)
    path = OUTPUT / "three-corners.png"
    figure.savefig(path, dpi=160, metadata={"Software": f"sweep-service {ss.__version__}"})
    print(f"figure: {path}")


if __name__ == "__main__":
    main()
