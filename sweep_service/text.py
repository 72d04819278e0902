"""Formatting of durations, sizes, numbers, fields and tables, and values that JSON can represent."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

UNLIMITED_WIDTH = 10_000  # columns
WIDE_RANGE = 1.25  # ratio of the ends of a range of durations, from which it is shown


def format_fields(fields: Mapping[str, Any]) -> str:
    """Format names and values as two columns, without the empty ones."""
    return "\n".join(
        f"{name:<10} {make_printable(str(value))}"
        for name, value in fields.items()
        if value not in (None, "")
    )


def format_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format a table. In a terminal the last column is wrapped; in a pipe each row is one line."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        grid.add_column(name, no_wrap=name != columns[-1])
    for row in rows:
        grid.add_row(*(Text(make_printable(text)) for text in row))
    console = Console(width=None if sys.stdout.isatty() else UNLIMITED_WIDTH)
    with console.capture() as text:
        console.print(grid)
    return "\n".join(line.rstrip() for line in text.get().splitlines())


def format_duration(seconds: float | None) -> str:
    """Format a duration with two digits in a suitable unit: 1.3 h. None stands for an infinite one."""
    if seconds is None or not math.isfinite(seconds):
        return "infinite"
    for unit, length in (("years", 31_557_600.0), ("days", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= length:
            return f"{format_number(seconds / length, 2)} {unit}"
    return f"{format_number(seconds, 2)} s" if seconds >= 0.01 or seconds == 0 else "less than 0.01 s"


def format_remaining(sweep: Mapping[str, Any]) -> str:
    """Format the time left of a sweep, with its range where that is wide; empty if it is unknown."""
    if not sweep["eta_seconds"]:
        return ""
    left = f"{format_duration(sweep['eta_seconds'])} left"
    low, high = (sweep.get(name) for name in ("eta_low_seconds", "eta_high_seconds"))
    if low is None or high is None or high < WIDE_RANGE * low:  # older services give no range
        return left
    return f"{left} ({format_duration(low)} to {format_duration(high)})"


def format_size(count: float) -> str:
    """Format a number of bytes with two digits: 2.4 MB."""
    for unit, length in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= length:
            return f"{format_number(count / length, 2)} {unit}"
    return f"{count} bytes"


def format_number(value: Any, digits: int = 3) -> str:
    """Format a float with few digits, 1.2e6 for 1200000.0; integers and names stay as they are."""
    value = math.inf if value is None else value
    if not isinstance(value, float):
        return str(value)
    if value and not 1e-3 <= abs(value) < 1e5:
        mantissa, _, power = f"{value:.{digits - 1}e}".partition("e")
        if not power:  # infinity or NaN
            return mantissa
        mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
        return f"{mantissa}e{int(power)}"
    return f"{value:.{digits}g}" if abs(value) < 10**digits else f"{value:.0f}"


def format_percent(share: float) -> str:
    """Format a share in percent with two digits: 4.1 %."""
    return f"{format_number(100.0 * float(share), 2)} %"


def make_printable(text: str) -> str:
    """Replace control characters, which could change the state of the terminal, by `?`."""
    return "".join(character if character.isprintable() else "?" for character in text)


def replace_nonfinite(value: Any) -> Any:
    """Replace numbers that are not finite by None, as JSON cannot represent them."""
    if isinstance(value, dict):
        return {name: replace_nonfinite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [replace_nonfinite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
