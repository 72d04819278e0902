"""The report of `sweep doctor`, as data and as text."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from sweep_service.doctor.checks.verdict import Check, Verdict
from sweep_service.store.folder import DataFolder
from sweep_service.text import format_fields, format_size, make_printable
from sweep_service.version import __version__

NAME_WIDTH = 14  # length of the longest name of a check


def summarise_checks(folder: DataFolder, checks: Sequence[Check]) -> dict[str, Any]:
    """Return the report as plain data."""
    return {
        "version": __version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "data": str(folder.root),
        "free_bytes": folder.free_bytes(),
        "verdict": worst_verdict(checks).value,
        "checks": [{**asdict(check), "verdict": check.verdict.value} for check in checks],
    }


def worst_verdict(checks: Sequence[Check]) -> Verdict:
    """Return the worst verdict of all checks."""
    return max((check.verdict for check in checks), key=list(Verdict).index, default=Verdict.OK)


def format_diagnosis(
    report: dict[str, Any], checks: Sequence[Check], colour: Callable[[Verdict, str], str]
) -> str:
    """Format the report as text: one line per check, with advice below."""
    machine = {name: report.get(name) for name in ("version", "python", "machine", "data", "scheduler")}
    lines = [
        format_fields(
            {
                **machine,
                "free": format_size(report["free_bytes"]),
                "adopted": ", ".join(report.get("adopted", ())),
            }
        )
    ]
    lines += ["", format_checks(checks, colour)]
    if report.get("calibration"):
        lines += ["", "time of each class of work, relative to the cost formulas"]
        lines += [f"{work_class:<22} {factor:.2f}" for work_class, factor in report["calibration"].items()]
    return "\n".join(lines)


def format_checks(checks: Sequence[Check], colour: Callable[[Verdict, str], str]) -> str:
    """Format one line per check, with advice below, and the number of checks by verdict."""
    counts = Counter(check.verdict for check in checks)
    summary = ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict])
    return "\n".join([*(_format_check(check, colour) for check in checks), "", summary])


def _format_check(check: Check, colour: Callable[[Verdict, str], str]) -> str:
    verdict = colour(check.verdict, f"{check.verdict:<8}")
    line = f"{verdict} {check.name:<{NAME_WIDTH}} {make_printable(check.found)}"
    return f"{line}\n{'':<{9 + NAME_WIDTH}} do: {make_printable(check.advice)}" if check.advice else line
