"""Startup of new processes: the import, the first small integration, and the first small sweep."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx2

from benchmarks.harness import Row, time_interleaved
from sweep_service.cli.demo import service as serving

IMPORT = "import sweep_service"
INTEGRATE = """
import sweep_service as ss
point = {"d": 100, "p": 4, "k": 2, "gamma": 0.1, "noise": 1e-3}
ss.integrate(point, times=[0, 1, 10], regime="classical_noise")
"""
SPEC: dict[str, Any] = {
    "axes": {"d": [20, 100], "p": 4, "gamma": [0.1, 1.0], "regime": ["classical_noise", "high_dimensional"]},
    "fixed": {"k": 2, "noise": 1e-3},
    "seeds": 2,
    "time": {"max": 5},
}
# What a sweep needs, from a strong user: one compiled loop, one labelled array, one Zarr store.
LIBRARIES = """
import sys
import numba, numpy as np, scipy.integrate, xarray, zarr

@numba.njit(cache=False)
def step(w, x):
    for i in range(w.shape[0]):
        w[i] += 0.1 * np.tanh(w[i] * x)

w = np.ones(10)
step(w, 0.5)
xarray.Dataset({"w": ("i", w)}).to_zarr(sys.argv[1], mode="w", consolidated=False)
"""
SWEEP = "import json, sys, sweep_service as ss; ss.run(json.loads(sys.argv[2]), data=sys.argv[1])"
IMPORT_LIMIT_SECONDS, INTEGRATE_LIMIT_SECONDS = 0.5, 2.0
SWEEP_LIMIT_SECONDS, COLD_SWEEP_LIMIT_SECONDS, POINT_LIMIT_SECONDS = 3.0, 15.0, 2.0
POLL_SECONDS = 0.01


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
    if quick:  # the others compile, for half a minute
        return
    yield from measure_first_sweep()
    yield measure_first_point()


def measure_first_sweep() -> Iterator[Row]:
    """Time the first sweep of a process with an empty kernel cache and with a full one."""
    with tempfile.TemporaryDirectory() as root:
        caches = iter(range(100))

        def run_cold() -> float:
            return run_sweep(root, kernels=f"{root}/cold-{next(caches)}")

        warm = f"{root}/warm"
        run_sweep(root, kernels=warm)
        (cold,) = time_interleaved(run_cold, repeats=1, clock=time.perf_counter)
        libraries, first = time_interleaved(
            lambda: run_process(LIBRARIES, f"{root}/libraries.zarr"), lambda: run_sweep(root, kernels=warm),
            clock=time.perf_counter,
        )  # fmt: skip
    for name, what, timing, limit in (
        ("first-sweep", "a sweep of 32 runs, from import to dataset", first, SWEEP_LIMIT_SECONDS),
        ("first-sweep-cold", "the same with an empty kernel cache", cold, COLD_SWEEP_LIMIT_SECONDS),
    ):
        yield Row(
            f"startup/{name}", what, timing.seconds,
            "imports of numba, scipy, xarray and zarr, one compiled function, one stored array",
            libraries.seconds, limit=limit,
            note=f"Whole processes by the wall clock; {timing.value:.2f} s of processor time.",
        )  # fmt: skip


def run_sweep(root: str, kernels: str) -> float:
    """Run the sweep in a new process and a new data folder; returns seconds of processor time."""
    data = tempfile.mkdtemp(dir=root)
    return run_process(SWEEP, data, json.dumps(SPEC), SWEEP_KERNEL_CACHE=kernels)


def measure_first_point() -> Row:
    """Time the first request of a new service, from POST to the first stored run."""
    with (
        tempfile.TemporaryDirectory() as root,
        serving(Path(root), Path(root) / "log") as url,
        httpx2.Client(base_url=url, timeout=60.0) as client,
    ):
        while client.get("/readyz").json().get("threads", 0) < (os.cpu_count() or 1):
            time.sleep(POLL_SECONDS)
        time.sleep(5.0)  # until workers have loaded kernels
        first = measure_submission(client, SPEC)
        again = measure_submission(client, {**SPEC, "time": {"max": 5.5}})
    return Row(
        "startup/first-point", "from POST to the first stored run, on a service that has just started", first,
        "the same for its second sweep", again, limit=POINT_LIMIT_SECONDS,
    )  # fmt: skip


def measure_submission(client: httpx2.Client, spec: dict[str, Any]) -> float:
    began = time.perf_counter()
    sweep_id = client.post("/v1/sweeps", json=spec).raise_for_status().json()["id"]
    while not client.get(f"/v1/sweeps/{sweep_id}").raise_for_status().json()["counts"].get("done"):
        time.sleep(POLL_SECONDS)
    return time.perf_counter() - began


def run_process(code: str, *arguments: str, **environment: str) -> float:
    """Run code in a new interpreter; returns seconds of processor time."""
    before = os.times()
    subprocess.run([sys.executable, "-c", code, *arguments], check=True, env={**os.environ, **environment})
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system
