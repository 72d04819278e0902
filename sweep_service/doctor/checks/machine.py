"""Checks of this machine: disks, kernels, cores, memory, open files and plugins."""

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

from sweep_service.doctor.checks.verdict import Check, describe_error, ok, warning, wrong
from sweep_service.dynamics.integrate import integrate
from sweep_service.numerics.jit import cache_folder
from sweep_service.plugins import load_plugins
from sweep_service.simulators.simulate import simulate
from sweep_service.store.folder import DataFolder
from sweep_service.text import format_size

LOW_DISK_BYTES = 1 << 30
FULL_DISK_BYTES = 16 << 20  # with slightly less, the conductor submits nothing
LOW_INODE_FRACTION = 0.05


def check_disks(folder: DataFolder) -> Iterator[Check]:
    """Check the free space of the data folder, the state folder and the temporary folder."""
    paths = {"disk": folder.state, "temporary": Path(tempfile.gettempdir())}
    if isinstance(folder.root, Path) and folder.root != folder.state:
        paths = {"disk": folder.root, "state disk": folder.state, **paths}
    for name, path in paths.items():
        existing = path.resolve()
        while not existing.exists():
            existing = existing.parent
        yield _check_disk(name, existing)


def _check_disk(name: str, path: Path) -> Check:
    free, file_system = shutil.disk_usage(path).free, os.statvfs(path)
    found = f"{path} has {format_size(free)} free"
    advice = "free some space, for example with sweep rm ID; sweeps wait meanwhile and lose nothing"
    if free < FULL_DISK_BYTES:
        return wrong(name, found, advice)
    if file_system.f_files and file_system.f_favail < LOW_INODE_FRACTION * file_system.f_files:
        files = f"{found}, but only {file_system.f_favail} free inodes"
        return warning(name, files, "remove files; every chunk of a dataset is a file")
    return warning(name, found, advice) if free < LOW_DISK_BYTES else ok(name, found)


# Risks at t = 1 of each simulator and regime, from when its version was last raised.
_SMALL_POINT = {"d": 5, "p": 4, "k": 2, "gamma": 0.1, "noise": 1e-3}
GOLDEN_RISKS: Mapping[str, tuple[dict[str, Any], float]] = {
    "S1": (_SMALL_POINT, 0.00832605112202546),
    "S2": ({**_SMALL_POINT, "d": 60, "p": 100, "gamma": 2.0}, 0.03823772755822995),
    "S3": ({**_SMALL_POINT, "d": 60}, 0.05450559907249499),
    "S4": ({**_SMALL_POINT, "p": 20, "activation": "square"}, 0.015174014666201219),
    "classical_noise": (_SMALL_POINT, 0.00832199166896408),
    "high_dimensional": (_SMALL_POINT, 0.008340416538852008),
    "mean_field": (_SMALL_POINT, 0.024508792905593706),
}
# Another processor or library may differ by rounding errors, which stay small over the few steps to t = 1.
GOLDEN_RTOL = 1e-7


def check_kernels(
    folder: DataFolder, golden: Mapping[str, tuple[dict[str, Any], float]] = GOLDEN_RISKS
) -> Iterator[Check]:
    """Check that the kernels reproduce the golden risks, and that their cache is writable."""
    began, mismatches, exact = clock.perf_counter(), [], 0
    for name, (point, expected) in golden.items():
        if name.startswith("S"):
            risk = float(simulate(point, times=[0.0, 1.0], engine=name).risk[-1])
        else:
            risk = float(integrate(point, times=[0.0, 1.0], regime=name).risk[-1])
        exact += risk == expected
        if not math.isclose(risk, expected, rel_tol=GOLDEN_RTOL):
            mismatches.append(f"{name} gives {risk!r}, not {expected!r}")
    seconds = clock.perf_counter() - began
    if mismatches:
        yield wrong(
            "kernels",
            "; ".join(mismatches),
            "install the versions of requirements.lock; results differ on this machine",
        )
    else:
        accuracy = "exactly" if exact == len(golden) else "up to rounding (another processor or library)"
        yield ok("kernels", f"{len(golden)} golden numbers reproduced {accuracy} in {seconds:.1f} s")
    try:
        os.makedirs(cache_folder(), exist_ok=True)
        with tempfile.TemporaryFile(dir=cache_folder()):
            yield ok("kernel cache", cache_folder())
    except OSError as error:
        advice = "set SWEEP_KERNEL_CACHE to a writable folder; otherwise every process compiles for a minute"
        yield warning("kernel cache", f"{cache_folder()}: {describe_error(error)}", advice)


def check_cores(folder: DataFolder) -> Iterator[Check]:
    """Check that this process may use all cores."""
    total, quota = os.cpu_count() or 1, cpu_quota()
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else total
    allowed = min(affinity, math.ceil(quota)) if quota else affinity
    if allowed < total:
        found = f"{total} cores, of which this process may use {quota or affinity:g}"
        yield warning("cores", found, f"set SWEEP_WORKERS={allowed}; more workers would slow each other down")
    else:
        yield ok("cores", str(total))


def cpu_quota(root: str = "/sys/fs/cgroup") -> float | None:
    """Return the number of cores that the cgroup (version 1 or 2) allows, or None without a limit."""
    for names in (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")):
        with suppress(OSError, ValueError):
            quota, period, *_ = " ".join(Path(root, name).read_text("ascii") for name in names).split()
            if quota not in ("max", "-1"):
                return int(quota) / int(period)
    return None


MIN_BYTES_PER_CORE = 500 << 20  # a worker with its kernels and some data


def check_memory(folder: DataFolder) -> Iterator[Check]:
    """Check that there is enough free memory for one worker per core."""
    free = free_memory()
    if free is None:
        return
    needed = MIN_BYTES_PER_CORE * (os.cpu_count() or 1)
    found = f"{format_size(free)} free"
    advice = "use fewer workers (SWEEP_WORKERS); with large points they may run out of memory"
    yield warning("memory", found, advice) if free < needed else ok("memory", found)


def free_memory(meminfo: str = "/proc/meminfo", root: str = "/sys/fs/cgroup") -> int | None:
    """Return the free memory of the machine or of the cgroup, whichever is less."""
    free = []
    with suppress(OSError):
        match = re.search(r"MemAvailable: *(\d+) kB", Path(meminfo).read_text("ascii"))
        free += [int(match[1]) << 10] if match else []
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        with suppress(OSError, ValueError):
            free.append(int(Path(root, limit).read_text("ascii")) - int(Path(root, used).read_text("ascii")))
    return max(0, min(free)) if free else None


MIN_OPEN_FILES = 1024  # a service with some clients and workers can need this many


def check_open_files(folder: DataFolder) -> Iterator[Check]:
    """Check the limit of open files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < MIN_OPEN_FILES and soft != resource.RLIM_INFINITY:
        yield warning(
            "open files",
            f"at most {soft}",
            f"raise it with ulimit -n {max(hard, 4096)}, or with LimitNOFILE in systemd",
        )
    else:
        yield ok("open files", "no limit" if soft == resource.RLIM_INFINITY else f"at most {soft}")


def check_plugins(folder: DataFolder) -> Iterator[Check]:
    """List the plugins that this process has loaded; one that cannot be loaded ends every command."""
    for plugin in load_plugins().values():
        entries = ", ".join(f"{kind} {name}" for kind, name in plugin.entries)
        yield ok("plugin", f"{plugin.name} ({plugin.digest[:8]}) adds {entries}")
