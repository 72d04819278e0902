"""`make demo`: one-pass SGD beside its limiting ODEs, at the three corners of the d-p-gamma triangle."""

from __future__ import annotations

import time as clock
from pathlib import Path
from typing import Any

import numpy as np

import sweep_service as ss

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


def main() -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = plt.subplots(1, 3, figsize=(11.0, 3.6), layout="constrained")
    for axis, (title, spec, last, regimes) in zip(axes, CORNERS, strict=True):
        times = np.geomspace(5e-2, last, 40)
        began = clock.perf_counter()
        run = ss.simulate(spec, times=times, seed=SEEDS)
        sgd, how = run["risk"].mean("seed").values, run.attrs
        print(
            f"{title}\n  SGD, {len(SEEDS)} seeds, {how['steps'][0]} steps each by {how['engine']}: "
            f"{clock.perf_counter() - began:.2f} s"
        )
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
