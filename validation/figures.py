"""Rows of the figures: the numbers of their checks beside those of another implementation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sweep_service.figures import FIGURES, Datasets, Figure
from validation.row import Row

# Measured by another implementation with seeds of its own, for the quick forms; the bounds are the figure's.
GOLDEN: dict[str, dict[str, float]] = {
    "fig1-triangle": {
        "SS discrepancy/(√δt R(0)), smallest": 0.50,
        "SS discrepancy/(√δt R(0)), largest": 0.74,
    },
    "fig2-left": {
        "nearest that all neurons come to (√½, √½), largest over runs": 0.018,
        "share of runs that part five to five": 0.99,
    },
    "fig2-right": {"spread over d, largest in time": 0.005, "sup |log10 SGD/ODE|": 0.004},
    "fig3-left": {"sup |SGD - MF| at p = 1000": 0.0056},
    "fig3-right": {"sup |SGD - HDMF|/R(0) at p = 200": 0.059, "slope of sup |SGD - HDMF|/R(0) in p": -1.07},
    "fig4-noise": {"R∞/(γΔ/p) at noise 0.01": 0.094},
    "fig5a": {"sup |SGD - MF|/R(0), largest over p": 0.019},
    "fig5c": {"R_MF - R_HDMF at t = 0, p = 1000": 0.12},
    "fig5d": {
        "share |cos| > 0.9 at the end": 0.98,
        "share |cos| > 0.99 at the end": 0.94,
        "share cos > 0 at the end": 0.50,
    },
    "veiga-phase-plane": {"exponent of the floors in d, farthest from -(κ+δ)": 0.003},
    "second-layer-width": {
        "final risk of SGD at p = 4 over p = 2, a = p fixed": 2.152,
        "final risk of SGD at p = 4 over p = 2, a = p learned": 0.543,
    },
    "second-layer-mean-field": {
        "sup |SGD - MF|/R(0), erf, p = 100": 0.015,
        "sup |SGD - MF|/R(0), erf, p = 100 over p = 10": 0.21,
        "sup |SGD - MF|/R(0), relu, p = 100": 0.019,
        "sup |SGD - MF|/R(0), relu, p = 100 over p = 10": 0.32,
    },
    "giant-steps": {"SGD/SS after 6 steps": 1.19},
    "best-schedule": {"SS, best constant rate": 0.007027, "SS, falling rate": 0.006067},
    "weight-decay": {
        "share of bounded runs, gamma = 1, decay 0: SGD": 0.07,
        "share of bounded runs, gamma = 1, decay 0.5: SGD": 0.80,
    },
    "error-bars": {"E sup |∇R·ξ|/R(0), predicted": 0.524},
}


def figure_rows(folder: Path) -> Iterator[Row]:
    import sweep_service as ss

    for figure in FIGURES.values():
        datasets = {
            figure.dataset_name(preset): ss.run(preset, data=folder, progress=False)
            for preset in figure.presets
        }
        yield from rows_of_figure(figure, datasets)
        for dataset in datasets.values():
            dataset.close()


def rows_of_figure(figure: Figure, datasets: Datasets) -> Iterator[Row]:
    golden = GOLDEN.get(figure.name, {})
    for check in figure.check(datasets):
        expected = golden.get(check.name)
        error = None if expected is None else abs(check.value - expected)
        method = "" if expected is None else "another implementation"
        quantity = f"{figure.name}: {check.name}"
        yield Row(quantity, method, check.value, expected, error, check.bound, check.passed)
