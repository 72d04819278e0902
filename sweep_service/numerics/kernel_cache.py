"""The cache of compiled kernels, by which a machine compiles each kernel once, and only when it is needed.

A process that needs a kernel which another process is compiling waits for it, and loads the result. A thread
can follow when it compiles or waits, to tell its user what takes so long.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time as clock
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numba.core import event
from numba.core.caching import FunctionCache

# A process that is suspended while it compiles would hold up the others, so they compile after this time
# themselves. The slowest kernel takes some ten seconds on an idle machine.
MAX_WAIT_SECONDS = 180.0
POLL_SECONDS = 0.02
Report = Callable[[bool], None]


class NotCompiled(Exception):
    """A kernel is not in the cache, and this thread may only load kernels."""


class _ThreadState(threading.local):
    """What a thread is compiling, and what it may do."""

    def __init__(self) -> None:
        self.may_compile = True
        self.report: Report | None = None
        self.depth = 0  # of calls of the compiler
        self.is_compiling = False
        self.locks: dict[Path, int | None] = {}  # descriptors by lock file; None where there is no lock


_thread = _ThreadState()


@contextmanager
def following_compilation(report: Report) -> Iterator[None]:
    """Call `report(True)` when this thread begins to compile, or waits for a process that does, and
    `report(False)` when it ends.

    The calls are made in this thread, inside the compiler, so `report` must not call kernels.
    """
    previous, _thread.report = _thread.report, report
    try:
        yield
    finally:
        _thread.report = previous


@contextmanager
def only_loading() -> Iterator[None]:
    """Raise `NotCompiled` in this thread where a kernel would have to be compiled."""
    previous, _thread.may_compile = _thread.may_compile, False
    try:
        yield
    finally:
        _thread.may_compile = previous


class KernelCache(FunctionCache):
    """The cache of one kernel. Numba loads from it before it compiles, and saves to it afterwards.

    Between the two, this process holds a lock. A kernel is locked before those that it calls, and kernels do
    not call each other in circles, so processes cannot wait for each other in a circle.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self.lock_file = Path(self.cache_path) / f"{function.__module__}.{function.__qualname__}.lock"

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load the code for a signature. If there is none, take the lock and return None."""
        found = super().load_overload(sig, target_context)
        if found is not None or self.lock_file in _thread.locks:  # a recursion has the lock already
            return found
        if not _thread.may_compile:
            raise NotCompiled(str(self))
        _report(True)
        _thread.locks[self.lock_file] = _lock(self.lock_file)
        found = super().load_overload(sig, target_context)
        if found is not None:  # another process has compiled it meanwhile
            _unlock(self.lock_file)
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        super().save_overload(sig, data)
        _unlock(self.lock_file)


class _CompilerListener(event.Listener):
    """Notices when a thread leaves the compiler."""

    def on_start(self, event: event.Event) -> None:
        _thread.depth += 1

    def on_end(self, event: event.Event) -> None:
        _thread.depth -= 1
        if _thread.depth == 0 and _thread.is_compiling:
            for path in list(_thread.locks):  # of kernels whose compilation has failed
                _unlock(path)
            _report(False)


event.register("numba:compiler_lock", _CompilerListener())


def _report(is_compiling: bool) -> None:
    if _thread.is_compiling != is_compiling:
        _thread.is_compiling = is_compiling
        if _thread.report is not None:
            _thread.report(is_compiling)


def _lock(path: Path) -> int | None:
    """Return a descriptor that holds the lock; None where that is impossible, so that compiling goes on."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:  # the cache is read-only
        return None
    deadline = clock.monotonic() + MAX_WAIT_SECONDS
    while clock.monotonic() < deadline:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            clock.sleep(POLL_SECONDS)
        except OSError:  # a file system without locks
            break
    os.close(descriptor)
    return None


def _unlock(path: Path) -> None:
    descriptor = _thread.locks.pop(path, None)
    if descriptor is not None:
        os.close(descriptor)
