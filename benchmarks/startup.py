"""Startup of a new process: the import, and the first small integration with a warm kernel cache."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial

from benchmarks.harness import Row, time_interleaved

IMPORT = "import sweep_service"
INTEGRATE = """
import sweep_service as ss
point = {"d": 100, "p": 4, "k": 2, "gamma": 0.1, "noise": 1e-3}
ss.integrate(point, times=[0, 1, 10], regime="classical_noise")
"""
IMPORT_LIMIT_SECONDS, INTEGRATE_LIMIT_SECONDS = 0.5, 2.0


def startup(quick: bool) -> Iterator[Row]:
    import_limit, integrate_limit = (None, None) if quick else (IMPORT_LIMIT_SECONDS, INTEGRATE_LIMIT_SECONDS)
    if not quick:
        run_process(INTEGRATE)  # warms the kernel cache
    calls = [partial(run_process, code) for code in ("pass", IMPORT, INTEGRATE)]
    bare, imported, integrated = time_interleaved(*calls, repeats=1 if quick else 5, clock=time.perf_counter)
    for name, what, timing, limit in (
        ("import", IMPORT, imported, import_limit),
        ("first-integrate", "import and integrate at p = 4", integrated, integrate_limit),
    ):
        yield Row(
            f"startup/{name}", what, timing.seconds, "python -c pass", bare.seconds, limit=limit,
            note=f"Whole processes by the wall clock; {timing.value:.2f} s of processor time.",
        )  # fmt: skip


def run_process(code: str) -> float:
    """Run code in a new interpreter; returns seconds of processor time."""
    before = os.times()
    subprocess.run([sys.executable, "-c", code], check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system
