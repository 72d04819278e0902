"""A service under load: status, list, chunks and exports, while it computes and merges beside them."""

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
from numcodecs import Zstd

from benchmarks.harness import Row
from sweep_service.cli.demo import service as serving
from sweep_service.planning.bundles import Bundle
from sweep_service.planning.jobs import Job
from sweep_service.status import Status
from sweep_service.store.folder import DataFolder
from sweep_service.store.ledger import State, Sweep

P95, PAGE, READY, STOP = 0.1, 0.1, 6.0, 10.0  # seconds
RATE, READERS = 100, 200
STORED = 500  # sweeps in the list


def service(quick: bool) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as root:
        fill(Path(root), 20 if quick else STORED)
        began = time.perf_counter()
        with serving(Path(root), Path(root) / "log") as url:
            asyncio.run(until_ready(url))
            ready = time.perf_counter() - began
            asyncio.run(until_ready(url, threads=1))
            sweep = submitted(url, 2_000 if quick else 40_000)
            seconds = 3.0 if quick else 20.0
            health, status = asyncio.run(steady(url, sweep, seconds))
            yield Row(
                "service/status", f"95th percentile of {RATE} status requests/s while a sweep runs", status,
                "of /healthz, in the same stream", health, limit=None if quick else P95,
            )  # fmt: skip
            one, page = asyncio.run(pages(url, sweep, 5 if quick else 40))
            yield Row(
                "service/list", f"a page of 50 of {STORED} sweeps, 95th percentile", page, "one status", one,
                limit=None if quick else PAGE,
            )  # fmt: skip
            yield asyncio.run(crowd(url, sweep, seconds, quick))
            ended = time.perf_counter()
        ended, bare = time.perf_counter() - ended, time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        bare = time.perf_counter() - bare
        for name, what, took, limit in (
            ("ready", "from the command to /readyz, with 500 sweeps in the folder", ready, READY),
            ("stop", "from SIGTERM to the end, in the middle of a sweep", ended, STOP),
        ):
            yield Row(f"service/{name}", what, took, "python -c pass", bare, limit=None if quick else limit)


def fill(root: Path, sweeps: int) -> None:
    """A ledger with sweeps that have ended, of 20 bundles each."""
    ledger = DataFolder(root).ledger()
    for at in range(sweeps):
        name, then = f"20260101-000000-{at:08x}", f"2026-01-01T00:00:00.{at:03d}+00:00"
        some = [Bundle((Job("sgd", place, 0, (0,), (0,)),), 5.0) for place in range(20)]
        ledger.add(Sweep(name, "", f"number {at}", State.COMPLETED, then, then, None, "", 20, 0), some)
        ledger.merged(name, {one.key: (5.0, {Status.DONE: 1}) for one in some})
    ledger.close()


async def until_ready(url: str, threads: int = 0) -> None:
    async with aiohttp.ClientSession() as client:
        for _ in range(600):
            try:
                async with client.get(f"{url}/readyz") as answer:
                    if (await answer.json())["threads"] >= threads:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.05)
    raise TimeoutError("the service did not become ready")


def submitted(url: str, points: int) -> str:
    """A sweep of many cheap runs: merged every two seconds, and not done before the load is."""
    spec = {
        "axes": {"d": {"lin": [10, 9 + points // 20, points // 20]}, "p": 4,
                 "gamma": {"log": [0.01, 0.1, 20]}},
        "fixed": {"k": 2, "noise": 1e-3}, "time": {"max": 20.0, "samples": 40}, "observables": ["risk"],
    }  # fmt: skip

    async def post() -> str:
        async with aiohttp.ClientSession() as client, client.post(f"{url}/v1/sweeps", json=spec) as answer:
            about = await answer.json()
            assert answer.status == 202, about
        async with aiohttp.ClientSession() as client:
            while True:
                async with client.get(f"{url}/v1/sweeps/{about['id']}") as answer:
                    now = await answer.json()
                if now["counts"].get("done", 0):
                    return str(about["id"])
                await asyncio.sleep(0.2)

    return asyncio.run(post())


async def timed(client: aiohttp.ClientSession, url: str) -> tuple[float, bytes, int]:
    began = time.perf_counter()
    async with client.get(url) as answer:
        content = await answer.read()
    return time.perf_counter() - began, content, answer.status


async def steady(url: str, sweep: str, seconds: float) -> tuple[float, float]:
    """Requests at a fixed rate, whether or not those before are answered."""
    health: list[asyncio.Task[Any]] = []
    status: list[asyncio.Task[Any]] = []
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
        began = time.perf_counter()
        for at in range(int(RATE * seconds)):
            await asyncio.sleep(max(0.0, began + at / RATE - time.perf_counter()))
            status.append(asyncio.create_task(timed(client, f"{url}/v1/sweeps/{sweep}")))
            if at % 10 == 0:
                health.append(asyncio.create_task(timed(client, f"{url}/healthz")))
        found = [await asyncio.gather(*tasks) for tasks in (health, status)]
    assert all(code == 200 for some in found for _, _, code in some)
    return tuple(p95([took for took, _, _ in some]) for some in found)  # type: ignore[return-value]


def p95(values: list[float]) -> float:
    return float(np.percentile(values, 95))


async def pages(url: str, sweep: str, count: int) -> tuple[float, float]:
    async with aiohttp.ClientSession() as client:
        one = [(await timed(client, f"{url}/v1/sweeps/{sweep}"))[0] for _ in range(count)]
        page = []
        for _ in range(count):
            took, content, _ = await timed(client, f"{url}/v1/sweeps?limit=50")
            assert len(json.loads(content)["sweeps"]) >= 20
            page.append(took)
    return p95(one), p95(page)


async def crowd(url: str, sweep: str, seconds: float, quick: bool) -> Row:
    """Readers that each ask again as soon as they are answered; every chunk must be whole."""
    root = f"{url}/v1/sweeps/{sweep}"
    codec = Zstd()
    chunks, answers, errors, torn = 0, 0, 0, 0
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
        _, content, _ = await timed(client, f"{root}/zarr/zarr.json")
        about = json.loads(content)["consolidated_metadata"]["metadata"]["sgd_risk"]
        grid = about["chunk_grid"]["configuration"]["chunk_shape"]
        counts = [-(-size // step) for size, step in zip(about["shape"], grid, strict=True)]
        whole = 8 * int(np.prod(grid))

        def chunk() -> str:
            return f"{root}/zarr/sgd_risk/c/" + "/".join(str(random.randrange(n)) for n in counts)

        export = f"{root}/data?format=csv&d=10:12&variables=sgd_risk,sgd_status"
        end = time.perf_counter() + seconds

        async def reader(number: int) -> None:
            nonlocal chunks, answers, errors, torn
            kinds: list[Callable[[], str]] = [lambda: root, lambda: f"{url}/v1/sweeps", chunk, lambda: export]
            which = 3 if number % 50 == 0 else number % 3
            while time.perf_counter() < end:
                try:
                    _, content, code = await timed(client, kinds[which]())
                except aiohttp.ClientError:
                    errors += 1
                    continue
                answers += 1
                if which == 2 and code == 404:
                    continue  # nothing of it is computed yet
                errors += code != 200
                if which == 2 and code == 200:
                    chunks += 1
                    torn += len(codec.decode(content)) != whole

        began = time.perf_counter()
        readers: list[Awaitable[None]] = [reader(number) for number in range(10 if quick else READERS)]
        await asyncio.gather(*readers)
        took = time.perf_counter() - began
    return Row(
        "service/crowd", f"an answer among {len(readers)} concurrent readers", took / max(1, answers),
        "one reader's share of the time", took * len(readers) / max(1, answers),
        note=f"{answers} answers in {took:.0f} s, {chunks} chunks: {errors} errors, {torn} torn.",
        floor=None if quick else 1.0, ours_error=float(errors + torn), most_error=0.0,
    )  # fmt: skip
