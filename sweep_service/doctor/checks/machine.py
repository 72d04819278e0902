"""This machine: room, kernels that give the right numbers, cores, memory, files."""

from __future__ import annotations

import math
import os
import re
import resource
import shutil
import tempfile
import time as clock
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from sweep_service.doctor.checks.verdict import Check, ok, warning, why, wrong
from sweep_service.dynamics.integrate import integrate
from sweep_service.numerics.jit import cache_folder
from sweep_service.simulators.simulate import simulate
from sweep_service.store.folder import DataFolder
from sweep_service.text import size

LITTLE = 1 << 30  # bytes
NONE = 16 << 20  # bytes: with a little less, nothing is begun
FEW = 0.05  # of all inodes


def disks(folder: DataFolder) -> Iterator[Check]:
    places = {"disk": folder.state, "temporary": Path(tempfile.gettempdir())}
    if isinstance(folder.root, Path) and folder.root != folder.state:
        places = {"disk": folder.root, "state disk": folder.state, **places}
    for name, path in places.items():
        there = path.resolve()
        while not there.exists():
            there = there.parent
        yield _disk(name, there)


def _disk(name: str, path: Path) -> Check:
    free, about = shutil.disk_usage(path).free, os.statvfs(path)
    found = f"{path} has {size(free)} left"
    advice = "sweep rm ID removes a sweep; sweeps wait while there is no room, and lose nothing"
    if free < NONE:
        return wrong(name, found, advice)
    if about.f_files and about.f_favail < FEW * about.f_files:
        files = f"{found}, and room for {about.f_favail} files"
        return warning(name, files, "remove files: a chunk of a dataset is one")
    return warning(name, found, advice) if free < LITTLE else ok(name, found)


# Risks at t = 1, as the engines and regimes gave them when their versions were last raised.
_SMALL = {"d": 5, "p": 4, "k": 2, "gamma": 0.1, "noise": 1e-3}
GOLDEN: Mapping[str, tuple[dict[str, Any], float]] = {
    "S1": (_SMALL, 0.00832605112202546),
    "S2": ({**_SMALL, "d": 60, "p": 100, "gamma": 2.0}, 0.03823772755822995),
    "S3": ({**_SMALL, "d": 60}, 0.05450559907249499),
    "S4": ({**_SMALL, "p": 20, "activation": "square"}, 0.015174014666201219),
    "classical_noise": (_SMALL, 0.00832199166896408),
    "high_dimensional": (_SMALL, 0.008340416538852008),
    "mean_field": (_SMALL, 0.024508792905593706),
}
ROUNDING = 1e-7  # by which another processor or library may differ: the numbers are of few steps


def kernels(folder: DataFolder) -> Iterator[Check]:
    """They compile, and give the numbers that they should."""
    began, off, exact = clock.perf_counter(), [], 0
    for name, (point, wanted) in GOLDEN.items():
        if name.startswith("S"):
            got = float(simulate(point, times=[0.0, 1.0], engine=name).risk[-1])
        else:
            got = float(integrate(point, times=[0.0, 1.0], regime=name).risk[-1])
        exact += got == wanted
        if not math.isclose(got, wanted, rel_tol=ROUNDING):
            off.append(f"{name} gives {got!r}, not {wanted!r}")
    seconds = clock.perf_counter() - began
    if off:
        yield wrong(
            "kernels", "; ".join(off), "install the versions of requirements.lock; results differ here"
        )
    else:
        bits = "to the last bit" if exact == len(GOLDEN) else "but for rounding: another processor or library"
        yield ok("kernels", f"{len(GOLDEN)} known numbers {bits}, in {seconds:.1f} s")
    try:
        os.makedirs(cache_folder(), exist_ok=True)
        with tempfile.TemporaryFile(dir=cache_folder()):
            yield ok("kernel cache", cache_folder())
    except OSError as error:
        advice = (
            "SWEEP_KERNEL_CACHE names a folder that can be written, or every process compiles for a minute"
        )
        yield warning("kernel cache", f"{cache_folder()}: {why(error)}", advice)


def cores(folder: DataFolder) -> Iterator[Check]:
    there, quota = os.cpu_count() or 1, cpu_quota()
    mine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else there
    allowed = min(mine, math.ceil(quota)) if quota else mine
    if allowed < there:
        found = f"{there} cores, of which this process may use {quota or mine:g}"
        yield warning("cores", found, f"SWEEP_WORKERS={allowed}, or workers get in each other's way")
    else:
        yield ok("cores", str(there))


def cpu_quota(root: str = "/sys/fs/cgroup") -> float | None:
    """Cores that a container may use, in either version of cgroups; nothing without a limit."""
    for names in (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")):
        with suppress(OSError, ValueError):
            words = " ".join(Path(root, name).read_text("ascii") for name in names).split()
            if words[0] not in ("max", "-1"):
                return int(words[0]) / int(words[1])
    return None


ENOUGH = 500 << 20  # bytes for each core: what a worker takes with its kernels, and some data


def memory(folder: DataFolder) -> Iterator[Check]:
    free = free_memory()
    if free is None:
        return
    needed = ENOUGH * (os.cpu_count() or 1)
    found = f"{size(free)} free"
    advice = "fewer workers (SWEEP_WORKERS), or they are killed when points are large"
    yield warning("memory", found, advice) if free < needed else ok("memory", found)


def free_memory(meminfo: str = "/proc/meminfo", root: str = "/sys/fs/cgroup") -> int | None:
    """What is left for this process: of the machine, and of its container."""
    left = []
    with suppress(OSError):
        found = re.search(r"MemAvailable: *(\d+) kB", Path(meminfo).read_text("ascii"))
        left += [int(found[1]) << 10] if found else []
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        with suppress(OSError, ValueError):
            left.append(int(Path(root, limit).read_text("ascii")) - int(Path(root, used).read_text("ascii")))
    return max(0, min(left)) if left else None


MOST_FILES = 1024  # that a service with some clients and workers may well need


def open_files(folder: DataFolder) -> Iterator[Check]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < MOST_FILES and soft != resource.RLIM_INFINITY:
        yield warning(
            "open files", f"at most {soft}", f"ulimit -n {max(hard, 4096)}, or LimitNOFILE of systemd"
        )
    else:
        yield ok("open files", "no limit" if soft == resource.RLIM_INFINITY else f"at most {soft}")
