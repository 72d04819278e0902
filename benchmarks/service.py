"""A service under load: status, list, chunks and exports while it computes and merges."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
from zarr.core.buffer import default_buffer_prototype

from benchmarks.harness import Row
from sweep_service.cli.demo import service as serving
from sweep_service.planning.bundles import Bundle
from sweep_service.planning.jobs import Job
from sweep_service.status import Status
from sweep_service.store.folder import DataFolder
from sweep_service.store.ledger import State, SweepRecord
from sweep_service.store.metadata import DatasetMetadata

STATUS_LIMIT_SECONDS, LIST_LIMIT_SECONDS = 0.1, 0.1
READY_LIMIT_SECONDS, STOP_LIMIT_SECONDS = 6.0, 10.0
REQUESTS_PER_SECOND, READERS = 100, 200
STORED_SWEEPS = 500  # sweeps in the list


def service(quick: bool) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as root:
        fill_ledger(Path(root), 20 if quick else STORED_SWEEPS)
        began = time.perf_counter()
        with serving(Path(root), Path(root) / "log") as url:
            asyncio.run(wait_until_ready(url))
            ready = time.perf_counter() - began
            asyncio.run(wait_until_ready(url, threads=1))
            sweep_id = submit_sweep(url, 2_000 if quick else 40_000)
            seconds = 3.0 if quick else 20.0
            health, status = asyncio.run(measure_status(url, sweep_id, seconds))
            yield Row(
                "service/status",
                f"95th percentile of {REQUESTS_PER_SECOND} status requests/s while a sweep runs", status,
                "of /healthz, in the same stream", health, limit=None if quick else STATUS_LIMIT_SECONDS,
            )  # fmt: skip
            status_seconds, page_seconds = asyncio.run(measure_pages(url, sweep_id, 5 if quick else 40))
            yield Row(
                "service/list", f"a page of 50 of {STORED_SWEEPS} sweeps, 95th percentile", page_seconds,
                "one status", status_seconds, limit=None if quick else LIST_LIMIT_SECONDS,
            )  # fmt: skip
            yield asyncio.run(measure_crowd(url, sweep_id, seconds, quick))
            ended = time.perf_counter()
        ended, bare = time.perf_counter() - ended, time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        bare = time.perf_counter() - bare
        for name, what, elapsed, limit in (
            (
                "ready",
                "from the command to /readyz, with 500 sweeps in the folder",
                ready,
                READY_LIMIT_SECONDS,
            ),
            ("stop", "from SIGTERM to the end, in the middle of a sweep", ended, STOP_LIMIT_SECONDS),
        ):
            yield Row(
                f"service/{name}", what, elapsed, "python -c pass", bare, limit=None if quick else limit
            )


def fill_ledger(root: Path, sweeps: int) -> None:
    """Fill a ledger with completed sweeps of 20 bundles each."""
    ledger = DataFolder(root).ledger()
    for at in range(sweeps):
        name, then = f"20260101-000000-{at:08x}", f"2026-01-01T00:00:00.{at:03d}+00:00"
        bundles = [Bundle((Job("sgd", index, 0, (0,), (0,)),), 5.0) for index in range(20)]
        ledger.add(
            SweepRecord(name, "", f"number {at}", State.COMPLETED, then, then, None, "", 20, 0), bundles
        )
        ledger.mark_merged(name, {bundle.key: (5.0, {Status.DONE: 1}) for bundle in bundles})
    ledger.close()


async def wait_until_ready(url: str, threads: int = 0) -> None:
    async with aiohttp.ClientSession() as client:
        for _ in range(600):
            try:
                async with client.get(f"{url}/readyz") as response:
                    if (await response.json())["threads"] >= threads:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.05)
    raise TimeoutError("the service did not become ready")


def submit_sweep(url: str, points: int) -> str:
    """Submit a sweep of many cheap runs that outlasts the load, and wait until the first runs are done."""
    spec = {
        "axes": {"d": {"lin": [10, 9 + points // 20, points // 20]}, "p": 4,
                 "gamma": {"log": [0.01, 0.1, 20]}},
        "fixed": {"k": 2, "noise": 1e-3}, "time": {"max": 20.0, "samples": 40}, "observables": ["risk"],
    }  # fmt: skip

    async def post() -> str:
        async with aiohttp.ClientSession() as client, client.post(f"{url}/v1/sweeps", json=spec) as response:
            submitted = await response.json()
            assert response.status == 202, submitted
        async with aiohttp.ClientSession() as client:
            while True:
                async with client.get(f"{url}/v1/sweeps/{submitted['id']}") as response:
                    now = await response.json()
                if now["counts"].get("done", 0):
                    return str(submitted["id"])
                await asyncio.sleep(0.2)

    return asyncio.run(post())


async def time_request(client: aiohttp.ClientSession, url: str) -> tuple[float, bytes, int]:
    began = time.perf_counter()
    async with client.get(url) as response:
        content = await response.read()
    return time.perf_counter() - began, content, response.status


async def measure_status(url: str, sweep_id: str, seconds: float) -> tuple[float, float]:
    """95th percentiles of /healthz and status requests at a fixed rate, without waiting for responses."""
    health: list[asyncio.Task[Any]] = []
    status: list[asyncio.Task[Any]] = []
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
        began = time.perf_counter()
        for at in range(int(REQUESTS_PER_SECOND * seconds)):
            await asyncio.sleep(max(0.0, began + at / REQUESTS_PER_SECOND - time.perf_counter()))
            status.append(asyncio.create_task(time_request(client, f"{url}/v1/sweeps/{sweep_id}")))
            if at % 10 == 0:
                health.append(asyncio.create_task(time_request(client, f"{url}/healthz")))
        results = [await asyncio.gather(*tasks) for tasks in (health, status)]
    assert all(code == 200 for result in results for _, _, code in result)
    return tuple(p95([elapsed for elapsed, _, _ in result]) for result in results)  # type: ignore[return-value]


def p95(values: list[float]) -> float:
    return float(np.percentile(values, 95))


async def measure_pages(url: str, sweep_id: str, count: int) -> tuple[float, float]:
    async with aiohttp.ClientSession() as client:
        status = [(await time_request(client, f"{url}/v1/sweeps/{sweep_id}"))[0] for _ in range(count)]
        page = []
        for _ in range(count):
            elapsed, content, _ = await time_request(client, f"{url}/v1/sweeps?limit=50")
            assert len(json.loads(content)["sweeps"]) >= 20
            page.append(elapsed)
    return p95(status), p95(page)


async def measure_crowd(url: str, sweep_id: str, seconds: float, quick: bool) -> Row:
    """Readers that repeat their request as soon as it is answered; every chunk must be complete."""
    root = f"{url}/v1/sweeps/{sweep_id}"
    to_buffer = default_buffer_prototype().buffer.from_bytes
    chunks, responses, errors, torn = 0, 0, 0, 0
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
        _, content, _ = await time_request(client, f"{root}/zarr/zarr.json")
        array = DatasetMetadata(content, sweep_id).arrays["sgd_risk"]
        keys = list(array.chunk_keys())

        def chunk() -> str:
            return f"{root}/zarr/{random.choice(keys)}"

        export = f"{root}/data?format=csv&d=10:12&variables=sgd_risk,sgd_status"
        end = time.perf_counter() + seconds

        async def reader(number: int) -> None:
            nonlocal chunks, responses, errors, torn
            kinds: list[Callable[[], str]] = [lambda: root, lambda: f"{url}/v1/sweeps", chunk, lambda: export]
            which = 3 if number % 50 == 0 else number % 3
            while time.perf_counter() < end:
                try:
                    _, content, code = await time_request(client, kinds[which]())
                except aiohttp.ClientError:
                    errors += 1
                    continue
                responses += 1
                if which == 2 and code == 404:
                    continue  # nothing of it is computed yet
                errors += code != 200
                if which == 2 and code == 200:
                    chunks += 1
                    torn += bool(await array.find_problem(to_buffer(content)))

        began = time.perf_counter()
        readers: list[Awaitable[None]] = [reader(number) for number in range(10 if quick else READERS)]
        await asyncio.gather(*readers)
        elapsed = time.perf_counter() - began
    return Row(
        "service/crowd", f"an answer among {len(readers)} concurrent readers", elapsed / max(1, responses),
        "one reader's share of the time", elapsed * len(readers) / max(1, responses),
        note=f"{responses} answers in {elapsed:.0f} s, {chunks} chunks: {errors} errors, {torn} torn.",
        floor=None if quick else 1.0, ours_error=float(errors + torn), most_error=0.0,
    )  # fmt: skip
