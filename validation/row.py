"""A row of the document: one number beside its independent value, the error and its bound."""

from __future__ import annotations

import math
from dataclasses import dataclass

ROUNDING = 1e-12  # errors below it differ between processors


@dataclass(frozen=True)
class Row:
    """`expected` and `actual` are missing where the error is the largest of many numbers."""

    quantity: str
    method: str  # how the independent value was obtained
    actual: float | None
    expected: float | None
    error: float | None
    bound: str
    passed: bool

    @classmethod
    def near(
        cls,
        quantity: str,
        method: str,
        actual: float,
        expected: float,
        tolerance: float,
        relative: bool = False,
    ) -> Row:
        error = abs(actual - expected) / (abs(expected) if relative else 1.0)
        return cls(
            quantity, method, actual, expected, error, _at_most(tolerance, relative), error <= tolerance
        )

    @classmethod
    def largest_error(
        cls, quantity: str, method: str, error: float, tolerance: float, relative: bool = False
    ) -> Row:
        return cls(quantity, method, None, None, error, _at_most(tolerance, relative), error <= tolerance)

    @classmethod
    def inside(
        cls,
        quantity: str,
        method: str,
        actual: float,
        expected: float | None,
        low: float = -math.inf,
        high: float = math.inf,
    ) -> Row:
        """A number with an interval of its own, which need not be centred at the independent value."""
        error = None if expected is None else abs(actual - expected)
        bound = f"in [{low:g}, {high:g}]"
        bound = f">= {low:g}" if math.isinf(high) else f"<= {high:g}" if math.isinf(low) else bound
        return cls(quantity, method, actual, expected, error, bound, low <= actual <= high)

    def cells(self) -> tuple[str, ...]:
        return (
            self.quantity,
            self.method,
            _format_number(self.expected),
            _format_number(self.actual),
            _format_error(self.error),
            self.bound,
            "yes" if self.passed else "**no**",
        )


COLUMNS = ("quantity", "independent value from", "independent value", "ours", "error", "bound", "within")


def _at_most(tolerance: float, relative: bool) -> str:
    return f"error <= {tolerance:g}{' relative' if relative else ''}"


def _format_number(x: float | None) -> str:
    if x is None:
        return ""
    return "0" if abs(x) < ROUNDING else f"{x:.4g}"


def _format_error(x: float | None) -> str:
    """One digit, rounded up, so that another processor prints the same with few exceptions."""
    if x is None:
        return ""
    if not x >= ROUNDING:
        return "nan" if math.isnan(x) else "< 1e-12"
    unit = 10.0 ** math.floor(math.log10(x))
    return f"{math.ceil(x / unit * (1.0 - 1e-9)) * unit:.1g}"


def render_table(rows: list[Row]) -> list[str]:
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    return lines + [
        "| " + " | ".join(cell.replace("|", "\\|") for cell in row.cells()) + " |" for row in rows
    ]


def read_rows(text: str) -> list[dict[str, str]]:
    """The rows of a table of the document, as cells by column."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    cells = [line[2:-2].replace("\\|", "\0").split(" | ") for line in lines]
    rows = [[cell.replace("\0", "|").strip() for cell in row] for row in cells]
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows if tuple(row) != COLUMNS]
