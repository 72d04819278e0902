"""What `sweep doctor` says, of this machine, of a data folder and of a cluster."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from sweep_service.doctor.checks.verdict import Check, Verdict
from sweep_service.store.folder import DataFolder
from sweep_service.text import listed, printable, size
from sweep_service.version import __version__

WIDE = 14  # letters of the longest name of a check


def diagnosis(folder: DataFolder, checks: Sequence[Check]) -> dict[str, Any]:
    return {
        "version": __version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "data": str(folder.root),
        "free_bytes": folder.free_bytes(),
        "verdict": worst(checks).value,
        "checks": [{**asdict(check), "verdict": check.verdict.value} for check in checks],
    }


def worst(checks: Sequence[Check]) -> Verdict:
    return max((check.verdict for check in checks), key=list(Verdict).index, default=Verdict.OK)


def described(found: dict[str, Any], checks: Sequence[Check], painted: Callable[[Verdict, str], str]) -> str:
    """For people: what was looked at, a line each, and below those that are not ok what to do."""
    about = {name: found.get(name) for name in ("version", "python", "machine", "data", "scheduler")}
    lines = [
        listed({**about, "free": size(found["free_bytes"]), "adopted": ", ".join(found.get("adopted", ()))})
    ]
    lines += ["", *(_line(check, painted) for check in checks), ""]
    counts = Counter(check.verdict for check in checks)
    lines += [", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict])]
    if found.get("calibration"):
        lines += ["", "time of each kind of work, relative to the formulas"]
        lines += [f"{work:<22} {factor:.2f}" for work, factor in found["calibration"].items()]
    return "\n".join(lines)


def _line(check: Check, painted: Callable[[Verdict, str], str]) -> str:
    line = f"{painted(check.verdict, f'{check.verdict:<8}')} {check.name:<{WIDE}} {printable(check.found)}"
    return f"{line}\n{'':<{9 + WIDE}} do: {printable(check.advice)}" if check.advice else line
