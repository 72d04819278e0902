"""Text for people and programs: durations, sizes, lists, tables, and what JSON can hold."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

WIDE = 10_000  # columns


def listed(about: Mapping[str, Any]) -> str:
    """Names and values below each other, without what is not there."""
    return "\n".join(
        f"{name:<10} {printable(str(value))}" for name, value in about.items() if value not in (None, "")
    )


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """On a terminal the last column is folded into what is left; a program gets whole lines."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    found = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        found.add_column(name, no_wrap=name != columns[-1])
    for one in rows:
        found.add_row(*(Text(printable(text)) for text in one))
    console = Console(width=None if sys.stdout.isatty() else WIDE)
    with console.capture() as text:
        console.print(found)
    return "\n".join(line.rstrip() for line in text.get().splitlines())


def duration(seconds: float | None) -> str:
    """1.3 h: two digits, in the unit that a person would choose; in JSON an endless one is null."""
    if seconds is None or not math.isfinite(seconds):
        return "without end"
    for unit, length in (("years", 31_557_600.0), ("days", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= length:
            return f"{few_digits(seconds / length, 2)} {unit}"
    return f"{few_digits(seconds, 2)} s" if seconds >= 0.01 or seconds == 0 else "less than 0.01 s"


def size(count: float) -> str:
    for unit, length in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= length:
            return f"{few_digits(count / length, 2)} {unit}"
    return f"{count} bytes"


def few_digits(value: Any, digits: int = 3) -> str:
    """Few digits, and 1.2e6 for 1200000.0; a whole number or a name as it is."""
    value = math.inf if value is None else value
    if not isinstance(value, float):
        return str(value)
    if value and not 1e-3 <= abs(value) < 1e5:
        found, _, power = f"{value:.{digits - 1}e}".partition("e")
        return f"{found.rstrip('0').rstrip('.') if '.' in found else found}e{int(power)}" if power else found
    return f"{value:.{digits}g}" if abs(value) < 10**digits else f"{value:.0f}"


def printable(text: str) -> str:
    """Without control characters, which would rule the terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def json_ready(value: Any) -> Any:
    """What JSON can say: a number that is not finite is null."""
    if isinstance(value, dict):
        return {name: json_ready(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_ready(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
