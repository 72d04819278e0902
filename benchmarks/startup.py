"""What a new process waits for: the import, and the first small integration from a warm kernel cache."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial

from benchmarks.harness import Row, interleaved

IMPORT = "import sweep_service"
INTEGRATE = """
import sweep_service as ss
point = {"d": 100, "p": 4, "k": 2, "gamma": 0.1, "noise": 1e-3}
ss.integrate(point, times=[0, 1, 10], regime="classical_noise")
"""
IMPORT_LIMIT, INTEGRATE_LIMIT = 0.5, 2.0


def startup(quick: bool) -> Iterator[Row]:
    import_limit, integrate_limit = (None, None) if quick else (IMPORT_LIMIT, INTEGRATE_LIMIT)
    if not quick:
        process(INTEGRATE)  # the kernel cache is warm from here on
    calls = [partial(process, code) for code in ("pass", IMPORT, INTEGRATE)]
    bare, imported, integrated = interleaved(*calls, repeats=1 if quick else 5, clock=time.perf_counter)
    for name, what, found, limit in (
        ("import", IMPORT, imported, import_limit),
        ("first-integrate", "import and integrate at p = 4", integrated, integrate_limit),
    ):
        yield Row(
            f"startup/{name}", what, found.seconds, "python -c pass", bare.seconds, limit=limit,
            note=f"Whole processes by the wall clock; {found.value:.2f} s of processor time.",
        )  # fmt: skip


def process(code: str) -> float:
    """Run it in a new interpreter; seconds of processor time."""
    before = os.times()
    subprocess.run([sys.executable, "-c", code], check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system
