"""The target, the executor and the spec that the command line selects; it overrides the environment."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from sweep_service.cli.targets import LocalTarget, MakeExecutor, RemoteTarget, make_serial_executor
from sweep_service.errors import InvalidInput
from sweep_service.runner import data_folder, executor_factory
from sweep_service.signals import stop


def choose_target(
    data: str | None,
    url: str | None,
    make_executor: MakeExecutor = make_serial_executor,
    quiet: bool = True,
) -> LocalTarget | RemoteTarget:
    """Return the data folder or the service that the options or the environment name."""
    if data is not None and url is not None:
        raise InvalidInput("--data", str(data), "cannot be combined with --url")
    if url is not None or (data is None and os.environ.get("SWEEP_URL")):
        return remote_target(url)
    return LocalTarget(data_folder(data), make_executor, quiet)


def choose_computing_target(
    data: str | None,
    url: str | None,
    workers: int | None,
    scheduler: str | None,
    serial: bool,
    quiet: bool,
) -> LocalTarget | RemoteTarget:
    """Return the target of a command that computes; options for computing exclude a service."""
    target = choose_target(data, url, choose_executor(workers, scheduler, serial), quiet)
    for name, value in (("--workers", workers), ("--scheduler", scheduler), ("--serial", serial or None)):
        if value is not None and isinstance(target, RemoteTarget):
            raise InvalidInput(name, value, f"does not apply to the service at {target.client.url}")
    return target


def remote_target(url: str | None) -> RemoteTarget:
    """Return the service at `url`, by default at SWEEP_URL."""
    from sweep_service.client.client import Client

    return RemoteTarget(Client(url))


def choose_executor(workers: int | None, scheduler: str | None, serial: bool) -> MakeExecutor:
    """Return a function that makes the executor for a data folder and the work to do."""
    reject_conflicting_options(workers, scheduler, serial)
    if scheduler is not None:
        from sweep_service.validation import read_scheduler_address

        read_scheduler_address(scheduler, "--scheduler")
    make_executor = executor_factory(0 if serial else workers, scheduler)
    return lambda folder, work: make_executor(folder, stop, work)


def reject_conflicting_options(workers: int | None, scheduler: str | None, serial: bool) -> None:
    """Reject more than one of --workers, --scheduler and --serial."""
    if workers is not None and (serial or scheduler is not None):
        other = "--serial" if serial else "--scheduler"
        raise InvalidInput("--workers", workers, f"cannot be combined with {other}")
    if serial and scheduler is not None:
        raise InvalidInput("--scheduler", scheduler, "cannot be combined with --serial")


def is_spec(source: str) -> bool:
    """Return whether an argument names a spec rather than the id of a sweep."""
    from sweep_service.planning.spec_text import looks_like_path
    from sweep_service.presets import PRESETS

    return source == "-" or source in PRESETS or Path(source).exists() or looks_like_path(source)


def read_spec(spec: str) -> bytes:
    """Read the text of a spec from a file, from standard input or from a preset."""
    from sweep_service.planning.spec_text import looks_like_path
    from sweep_service.presets import PRESETS, read_preset_text

    if spec in PRESETS and not Path(spec).exists():
        return read_preset_text(spec).encode()
    if spec != "-" and not Path(spec).exists() and not looks_like_path(spec):
        raise InvalidInput("spec", spec, f"must be a file, - or one of {', '.join(PRESETS)}")
    return read_file(spec)


def read_file(path: str) -> bytes:
    """Read a file or standard input, up to just above the size limit of a spec."""
    from sweep_service.planning import spec_text

    return sys.stdin.buffer.read(spec_text.MAX_SPEC_BYTES + 1) if path == "-" else spec_text.read_file(path)
