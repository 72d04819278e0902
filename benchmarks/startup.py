"""What a new process waits for: the import, and the first small integration from a warm kernel cache."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

from benchmarks.harness import Row, interleaved

IMPORT = "import sweep_service"
INTEGRATE = """
import sweep_service as ss
ss.integrate({"d": 100, "p": 4, "k": 2, "gamma": 0.1, "noise": 1e-3}, times=[0, 1, 10], regime="classical_noise")
"""
IMPORT_LIMIT, INTEGRATE_LIMIT = 0.5, 2.0


def startup(quick: bool) -> Iterator[Row]:
    calls = [process(code) for code in ("pass", IMPORT, INTEGRATE)]
    for call in calls:
        call()  # the kernel cache is warm from here on
    bare, imported, integrated = interleaved(*calls, repeats=1 if quick else 5)
    note = "Whole processes, the interpreter included."
    what = "python -c pass"
    yield Row(
        "startup/import", "import sweep_service", imported.seconds, what, bare.seconds, limit=IMPORT_LIMIT, note=note
    )
    yield Row(
        "startup/first-integrate", "import and integrate, p = 4", integrated.seconds, what, bare.seconds,
        limit=INTEGRATE_LIMIT, note=note,
    )  # fmt: skip


def process(code: str) -> Callable[[], None]:
    def run() -> None:
        subprocess.run([sys.executable, "-c", code], check=True)

    return run
