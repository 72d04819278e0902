"""`python -m benchmarks.chart`: draw the cost of one SGD step beside that of a NumPy loop."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from benchmarks.simulators import Case, Cost, measure_cost

OUTPUT = Path("bench-output") / "sgd-cost.png"  # ignored by git
# Okabe and Ito's colours, which colour-blind readers can distinguish
COLOURS = ("#0072B2", "#D55E00")
MARKERS = {"S1": "o", "S2": "s", "S3": "^", "S4": "D"}


@dataclass(frozen=True)
class Curve:
    """Cost as a function of one field of a case."""

    label: str
    case: Case
    along: str
    values: tuple[int, ...]

    def measure(self, quick: bool) -> Iterator[tuple[int, Cost]]:
        for value in self.values[:2] if quick else self.values:
            yield value, measure_cost(replace(self.case, **{self.along: value}), quick)


DIMENSIONS = (3, 10, 20, 30, 60, 100, 200, 300, 600, 1000, 3000, 10_000)
WIDTHS = (3, 10, 30, 60, 100, 200, 300, 600, 1000)
PANELS: dict[str, tuple[Curve, ...]] = {
    "input dimension d": (
        Curve("p = 10", Case(10, 2, 1), "d", DIMENSIONS),
        Curve("p = 100", Case(100, 2, 1), "d", DIMENSIONS[:-1]),
    ),
    "student width p": (
        Curve("d = 10", Case(1, 2, 10), "p", WIDTHS),
        Curve("d = 1000", Case(1, 2, 1000), "p", WIDTHS),
    ),
    "seeds in one call": (Curve("p = 10, d = 3", Case(10, 2, 3), "seeds", (1, 2, 4, 5, 8, 16, 32, 64, 128)),),
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chart", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two points of each curve")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="image file (%(default)s)")
    options = parser.parse_args(arguments)
    with threadpool_limits(1):
        figure = draw_chart(options.quick)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(options.output, dpi=150)
    print(options.output)
    return 0


def draw_chart(quick: bool) -> Any:
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.ticker import StrMethodFormatter

    figure = Figure(figsize=(13.0, 4.6), layout="constrained")
    axes = figure.subplots(1, len(PANELS), sharey=True)
    engines_used: set[str] = set()
    for axis, (title, curves) in zip(axes, PANELS.items(), strict=True):
        for curve, colour in zip(curves, COLOURS, strict=False):
            points = list(curve.measure(quick))
            at = [value for value, _ in points]
            axis.plot(at, [1e9 * cost.numpy for _, cost in points], "--", color=colour, linewidth=1.3)
            axis.plot(at, [1e9 * cost.ours for _, cost in points], "-", color=colour, label=curve.label)
            for value, cost in points:
                engine = cost.dataset.attrs["engine"]
                engines_used.add(engine)
                axis.plot(
                    value,
                    1e9 * cost.ours,
                    MARKERS[engine],
                    color=colour,
                    markersize=7,
                    markeredgecolor="white",
                )
        axis.set(xscale="log", yscale="log", xlabel=title)
        axis.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axis.grid(which="major", color="0.9")
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False, loc="upper left")
    axes[0].set_ylabel("nanoseconds per step of a chain")
    keys = [Line2D([], [], color="0.3", linestyle="--", label="NumPy loop")]
    keys += [
        Line2D([], [], color="0.3", marker=MARKERS[name], label=f"simulate, engine {name}")
        for name in sorted(engines_used)
    ]
    figure.legend(handles=keys, loc="outside lower center", ncols=len(keys), frameon=False)
    figure.suptitle("Cost of one SGD step (erf, k = 2, one thread)")
    return figure


if __name__ == "__main__":
    sys.exit(main())
