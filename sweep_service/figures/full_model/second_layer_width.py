"""Width and the second layer: with a = p the final risk rises with p, unless a is learned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sweep_service.figures.figure import Check, Datasets, Figure
from sweep_service.figures.measures import mean_risk, squeeze_except
from sweep_service.figures.panels import panels

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure
    import xarray as xr

THEORY = "high_dimensional"
CASES = {"fixed": "$a = p$, fixed", "learned": r"$a = p$, learned, $\rho = p^2$", "ones": "$a = 1$, fixed"}
# Risks of the theory at t = 1000 by (case, p), integrated independently.
GOLDEN = {
    ("fixed", 2): 4.019e-4, ("learned", 2): 3.871e-4, ("ones", 2): 2.424e-4,
    ("fixed", 4): 8.266e-4, ("learned", 4): 1.986e-4, ("ones", 4): 1.183e-4,
}  # fmt: skip
# Ratios of the mean risk of the theory from t = 500 on, p = 4 over p = 2, integrated independently.
GOLDEN_RATIOS = {"fixed": 2.152, "learned": 0.543}
GOLDEN_ERROR = 5e-4  # relative: the golden numbers have four digits
MAX_SGD_ERROR = 0.04  # 1 % is of finite d, the rest five standard errors
MAX_RATIO_ERROR = 0.06  # of two such risks


def select_case(dataset: xr.Dataset, case: str) -> xr.Dataset:
    """Select the point at which a is p and fixed, p and learned, or 1."""
    is_learned, is_one = dataset["second_layer_rate"] > 0.0, dataset["second_layer.scale"] == 1.0
    mask = {"fixed": ~is_learned & ~is_one, "learned": is_learned, "ones": is_one}[case]
    return dataset.isel(point=np.flatnonzero(mask.values))


def final_risks(datasets: Datasets, case: str, source: str) -> dict[int, tuple[float, float]]:
    """The final risk and its standard error by p."""
    result = {}
    for dataset in datasets.values():
        point = select_case(dataset, case)
        final = point.sweep.final_risk(source)
        result[int(point["p"].item())] = (final["final_risk"].item(), final["standard_error"].item())
    return dict(sorted(result.items()))


def check(datasets: Datasets) -> list[Check]:
    """Check the theory against independent numbers, SGD against the theory, and the effect of p in SGD."""
    risks = {
        (case, source): {p: risk for p, (risk, _) in final_risks(datasets, case, source).items()}
        for case in CASES
        for source in ("sgd", THEORY)
    }
    ends = {
        (case, int(dataset["p"].values[0])): mean_risk(select_case(dataset, case), THEORY)[..., -1].item()
        for case in CASES
        for dataset in datasets.values()
    }
    errors = [abs(ends[case] / golden - 1.0) for case, golden in GOLDEN.items()]
    distances = [
        abs(risk / risks[case, THEORY][p] - 1.0) for case in CASES for p, risk in risks[case, "sgd"].items()
    ]
    checks = [
        Check.at_most("R of SS at t = 1000, largest relative error", max(errors), GOLDEN_ERROR),
        Check.at_most("|SGD/SS - 1| of final risks, largest", max(distances), MAX_SGD_ERROR),
    ]
    for case, golden in GOLDEN_RATIOS.items():
        ratio = risks[case, "sgd"][4] / risks[case, "sgd"][2]
        low, high = (round(golden * (1.0 + sign * MAX_RATIO_ERROR), 3) for sign in (-1.0, 1.0))
        checks.append(Check.within(f"final risk of SGD at p = 4 over p = 2, a = p {case}", ratio, low, high))
    return checks


def draw(datasets: Datasets) -> matplotlib.figure.Figure:
    """Draw R(t) for fixed and for learned a, and the final risks against p."""
    from sweep_service.analysis.plots import style

    ordered = sorted(datasets.values(), key=lambda dataset: int(dataset["p"].values[0]))
    widths = [int(dataset["p"].values[0]) for dataset in ordered]
    with panels(1, 1, 1, height=3.4) as (figure, (fixed, learned, final)):
        for axes, case in ((fixed, "fixed"), (learned, "learned")):
            for colour, p, dataset in zip(
                style.sequential_colours(len(ordered)), widths, ordered, strict=True
            ):
                _draw_risk(axes, select_case(dataset, case), colour, f"$p$ = {p}")
            axes.set(xscale="log", yscale="log", xlabel=style.axis_label("time"), ylabel="excess risk $R$")
            axes.set_title(CASES[case], loc="left")
            style.legend_below(axes, axes.get_legend_handles_labels()[0], 3)
        limits = [*fixed.get_ylim(), *learned.get_ylim()]
        for axes in (fixed, learned):
            axes.set_ylim(min(limits), max(limits))
        for colour, case in zip(style.OKABE_ITO, CASES, strict=False):
            sgd, theory = (final_risks(datasets, case, source) for source in ("sgd", THEORY))
            risk, error = np.array([*sgd.values()]).T
            final.plot([*theory], [risk for risk, _ in theory.values()], color=colour)
            final.errorbar([*sgd], risk, error, fmt="o", color=colour, mfc="w", capsize=2, label=CASES[case])
        final.set(xscale="log", yscale="log", xlabel=style.axis_label("p"), ylabel="final excess risk $R$")
        final.set_title("final risks", loc="left")
        final.set_xlim(0.85 * widths[0], widths[-1] / 0.85)
        final.set_xticks(widths, [str(p) for p in widths])
        final.set_xticks([], minor=True)
        style.format_log_axis(final.yaxis)
        style.legend_below(final, final.get_legend_handles_labels()[0], 1)
    return figure


def _draw_risk(axes: matplotlib.axes.Axes, point: xr.Dataset, colour: object, label: str) -> None:
    """Draw SGD as points, and the theory as a line."""
    from sweep_service.analysis.plots.curves import thin_samples

    sgd, theory = (
        squeeze_except(mean_risk(point, source), "time").isel(time=slice(1, None))
        for source in ("sgd", THEORY)
    )
    time = sgd["time"].values
    indices = thin_samples(time, sgd.values, True)
    axes.plot(time[indices], sgd.values[indices], "o", mfc="none", mec=colour, mew=0.7)
    axes.plot(time, theory.values, color=colour, label=label)


FIGURE = Figure(
    name="second-layer-width",
    title="Width and the second layer",
    presets=("second-layer-width", "second-layer-width-four"),
    full_presets=("second-layer-width-full", "second-layer-width-full-four", "second-layer-width-full-eight"),
    assumptions=(
        "final risks of SGD may be 0.04 from those of SS: 0.01 is of finite d, the rest five errors",
    ),
    check=check,
    draw=draw,
)
