"""The document: its sections, and how its text is written and read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from validation import figures, fluctuations, formulas, full_model, intervals, laws
from validation.row import Row, read_rows, render_table

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "validation.md"

INTRODUCTION = """\
Each number below stands beside an independent value: an integral over the definition, a linear stability \
analysis, a theorem, plain NumPy, or another implementation. The independent computations take \
nothing from the package but σ, σ' and σ''; they are in `tests/physics/independent.py` and in the tests that \
the sections name. An error is absolute unless its bound says relative, rounded up to one digit, and \
`< 1e-12` where only rounding is left. A row without values gives the largest error of many numbers.

`make validation` writes this page and fails if a number is outside its bound. `make test-all` computes all \
rows again."""


@dataclass(frozen=True)
class Section:
    """A table: `make_rows` computes its rows, and may store sweeps in the folder that it is given."""

    title: str
    text: str
    make_rows: Callable[[Path], Iterator[Row]]


SECTIONS = {
    "two-point": Section(
        "Two-point averages",
        "E[f(u) g(v)], E[f'(u) g'(v)] and E[f''(u) g(v)] for variances from 1e-6 to 1e4 and correlations up "
        "to 1, relative to the largest average at the same variances. "
        "`tests/physics/test_two_point_range.py` walks a finer grid.",
        formulas.two_point_rows,
    ),
    "flows": Section(
        "Gradient flow",
        "Every entry of dM/dt and dQ/dt at p = 3, k = 2, of norms about one "
        "(`tests/physics/test_independent_flows.py`).",
        formulas.flow_rows,
    ),
    "mean-field": Section(
        "Mean field",
        "Every entry of dM/dt and dq/dt at p = 3 (`tests/physics/test_independent_flows.py`).",
        formulas.mean_field_rows,
    ),
    "sampling": Section(
        "Sampling term",
        "E[σ'(λ_i) σ'(λ_j) 𝓔²]. Where it has no closed form it is an average over 4096 Sobol points: "
        "`qmc_points` chooses more of them.",
        formulas.sampling_rows,
    ),
    "fixed-points": Section(
        "Fixed points",
        "The unspecialised plateau of the gradient flow with erf and orthonormal teachers "
        "(`tests/physics/test_fixed_points.py`).",
        formulas.fixed_point_rows,
    ),
    "critical-rates": Section(
        "Critical learning rates",
        "The γ/p at which `high_dimensional` no longer returns to W = W*, with p = k erf students and no "
        "noise: the zero of its growth rate (`tests/physics/test_questions.py`).",
        formulas.critical_rate_rows,
    ),
    "noise-floors": Section(
        "Noise floors",
        "The final risk in units of γΔ/p, and its exponent in p at fixed γ.",
        laws.noise_floor_rows,
    ),
    "convergence": Section(
        "Rates of convergence",
        "Exponents of the largest difference of R(t) between SGD and theories. The theorems on mean field "
        "are bounds, and differences may fall faster.",
        laws.convergence_rows,
    ),
    "phase-retrieval": Section(
        "Phase retrieval",
        "p = k = 1 with the square activation: the escape from M = 0 is delayed by ln d/8.",
        laws.phase_retrieval_rows,
    ),
    "sgd": Section(
        "SGD",
        "Simulators against a loop in NumPy: the same path on the same inputs, and the same law on its own "
        "(`tests/physics/test_long_chains.py`).",
        laws.sgd_rows,
    ),
    "full-model": Section(
        "The full model",
        "Second layers, giant steps, schedules and weight decay: the theories of the presets "
        "(`tests/physics/independent_full_model.py`).",
        full_model.full_model_rows,
    ),
    "fluctuations": Section(
        "Fluctuations of SGD",
        "The scatter of SGD about `high_dimensional` and the offset of its mean at p = k = 2, γ = 1, "
        "Δ = 0.01, M = [[0.6, 0.1], [0.15, 0.5]] and Q = M Mᵀ + diag(0.3, 0.2) "
        "(`tests/physics/test_fluctuations.py`).",
        fluctuations.fluctuation_rows,
    ),
    "intervals": Section(
        "Coverage of intervals",
        "The share of synthetic sweeps in which a 95 % interval holds the truth.",
        intervals.interval_rows,
    ),
    "figures": Section(
        "Figures",
        "The numbers of the figures in their quick forms ([gallery](gallery/README.md)). Where "
        "another implementation measured a number, it used seeds of its own.",
        figures.figure_rows,
    ),
}  # fmt: skip


def render_document(tables: Mapping[str, list[Row]]) -> str:
    rows = [row for table in tables.values() for row in table]
    passed = sum(row.passed for row in rows)
    lines = ["# Validation", "", INTRODUCTION, "", f"{passed} of {len(rows)} rows are within their bounds."]
    for name, table in tables.items():
        section = SECTIONS[name]
        lines += ["", f"## {section.title}", "", section.text, "", *render_table(table)]
    return "\n".join(lines) + "\n"


def find_differences(
    section: str, rows: Sequence[Row], *, part: str = "", page: Path = DOCUMENT
) -> list[str]:
    """What is wrong with computed rows, or with those of the page whose quantities begin with `part`."""
    table = [
        row for row in read_document(page.read_text("utf-8"))[section] if row["quantity"].startswith(part)
    ]
    on_page = {(row["quantity"], row["bound"]) for row in table}
    computed = {(row.quantity, row.bound) for row in rows}
    return [
        *(f"outside its bound: {' | '.join(row.cells())}" for row in rows if not row.passed),
        *(f"outside its bound on the page: {row['quantity']}" for row in table if row["within"] != "yes"),
        *(f"not on the page: {quantity}, {bound}" for quantity, bound in sorted(computed - on_page)),
        *(f"no longer computed: {quantity}, {bound}" for quantity, bound in sorted(on_page - computed)),
    ]


def read_document(text: str) -> dict[str, list[dict[str, str]]]:
    """The rows of each section, by its name."""
    names = {section.title: name for name, section in SECTIONS.items()}
    _, *parts = re.split(r"^## ", text, flags=re.MULTILINE)
    return {names[part.split("\n", 1)[0]]: read_rows(part) for part in parts}
