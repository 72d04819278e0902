"""What the command line says, before the environment: where sweeps are, who computes, which spec."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from sweep_service.cli.targets import Here, There, alone
from sweep_service.errors import InvalidInput
from sweep_service.runner import data_folder, executor_factory
from sweep_service.signals import stop

if TYPE_CHECKING:
    from sweep_service.execution.executors import Executor
    from sweep_service.store.folder import DataFolder


def target(
    data: str | None,
    url: str | None,
    executor: Callable[[DataFolder], Executor] = alone,
    quiet: bool = True,
) -> Here | There:
    if data is not None and url is not None:
        raise InvalidInput("--data", str(data), "is for a folder, not for the service of --url")
    if url is not None or (data is None and os.environ.get("SWEEP_URL")):
        return service(url)
    return Here(data_folder(data), executor, quiet)


def computing_target(
    data: str | None,
    url: str | None,
    workers: int | None,
    scheduler: str | None,
    serial: bool,
    quiet: bool,
) -> Here | There:
    place = target(data, url, executor_of(workers, scheduler, serial), quiet)
    for name, value in (("--workers", workers), ("--scheduler", scheduler), ("--serial", serial or None)):
        if value is not None and isinstance(place, There):
            raise InvalidInput(
                name, value, f"is for computing here, not for the service at {place.client.url}"
            )
    return place


def service(url: str | None) -> There:
    from sweep_service.client.client import Client

    return There(Client(url))


def executor_of(workers: int | None, scheduler: str | None, serial: bool) -> Callable[[DataFolder], Executor]:
    """Who computes."""
    require_one(workers, scheduler, serial)
    if scheduler is not None:
        from sweep_service.validation import scheduler_address

        scheduler_address(scheduler, "--scheduler")
    make = executor_factory(0 if serial else workers, scheduler)
    return lambda folder: make(folder, stop)


def require_one(workers: int | None, scheduler: str | None, serial: bool) -> None:
    if workers is not None and (serial or scheduler is not None):
        other = "--serial" if serial else "--scheduler"
        raise InvalidInput("--workers", workers, f"is for a cluster of this machine, not for {other}")
    if serial and scheduler is not None:
        raise InvalidInput("--scheduler", scheduler, "is not for --serial, which uses no cluster")


def read_spec(spec: str) -> bytes:
    """The text of a file, of standard input, or of a preset."""
    from sweep_service.presets import PRESETS, preset_text

    if spec in PRESETS and not Path(spec).exists():
        return preset_text(spec).encode()
    if spec != "-" and not Path(spec).exists():
        raise InvalidInput("spec", spec, f"must be a file, - or one of {', '.join(PRESETS)}")
    return read_file(spec)


def read_file(path: str) -> bytes:
    from sweep_service.planning.spec import LARGEST_SPEC

    try:
        if path == "-":
            return sys.stdin.buffer.read(LARGEST_SPEC + 1)
        with open(path, "rb") as file:
            return file.read(LARGEST_SPEC + 1)
    except OSError as error:
        raise InvalidInput("spec", path, f"cannot be read: {error.strerror}") from None
