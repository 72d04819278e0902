"""Compilation of numba kernels, cached on disk and without the GIL.

Numba invalidates a cached function when its own file changes, but not when it calls a function in
another file that changes. The cache folder is therefore named by a hash of every source file of the
package that contains a kernel or an intrinsic: an edit to any of them starts a new cache.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
import time as clock
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import event
from numba.core.dispatcher import Dispatcher
from numba.types import unliteral

from sweep_service.numerics.kernel_cache import KernelCache

F = TypeVar("F", bound=Callable[..., Any])


@cache
def cache_folder() -> str:
    """Folder of compiled kernels, in $SWEEP_KERNEL_CACHE or the user's cache, named by the sources' hash."""
    package = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for source in sorted(package.rglob("*.py")):
        text = source.read_bytes()
        if b"@kernel(" in text or b"import numba" in text or b"from numba" in text:
            digest.update(source.relative_to(package).as_posix().encode() + text)
    root = os.environ.get("SWEEP_KERNEL_CACHE")
    if root is None:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        if not os.access(base, os.W_OK):
            try:
                os.makedirs(base, exist_ok=True)
            except OSError:  # a read-only home, as in many containers
                base = tempfile.gettempdir()
        root = os.path.join(base, "sweep-service", "kernels")
    return os.path.join(root, digest.hexdigest()[:16])


def kernel(
    *,
    fastmath: bool | set[str] = False,
    inline: bool = False,
    force_inline: bool = False,
    one_version: bool = False,
) -> Callable[[F], F]:
    """Decorator that compiles a function without the GIL and caches it.

    Division follows IEEE (no exception on zero), so that loops can be vectorised.

    `inline` is for scalar helpers of vectorised loops: a single call that LLVM does not inline keeps a
    loop scalar. `force_inline` removes the call of a short function, which costs as much as a few
    neurons. `fastmath` implies it: numba gives each caller its own copy of a callee, optimised again, and
    all calls in a process go to the copy that was loaded first. Plain arithmetic has the same bits in
    every copy, but sums that LLVM may reorder or contract do not, so they must never be called as copies.

    `one_version` compiles one version for all calls with the same types. Numba would compile one for each
    combination of constants and variables among the integers, which takes its time and changes nothing where
    callers inline the function.
    """

    def decorate(function: F) -> F:
        # numba reads CACHE_DIR when a function is decorated; it is restored for other users of numba
        # in the same process.
        previous = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = cache_folder()
        try:
            compiled = numba.njit(
                nogil=True,
                error_model="numpy",
                fastmath=fastmath,
                inline="always" if inline else "never",
                forceinline=force_inline or bool(fastmath),
            )(function)
            if isinstance(compiled, Dispatcher):  # not with NUMBA_DISABLE_JIT
                _set_up(compiled, function, one_version)
            return compiled
        finally:
            numba.config.CACHE_DIR = previous

    return decorate


def _set_up(dispatcher: Any, function: Callable[..., Any], one_version: bool) -> None:
    """Give a dispatcher the cache that `cache=True` would give it, but shared, and its rule for constants."""
    dispatcher._cache = KernelCache(function)
    if one_version:
        compile = dispatcher.compile
        dispatcher.compile = lambda types: compile(tuple(map(unliteral, types)))


class _CompilationTimer(event.Listener):
    """Processor time and elapsed time of each thread for compiling kernels or loading compiled ones."""

    def __init__(self) -> None:
        self.local = threading.local()

    def on_start(self, event: event.Event) -> None:
        depth = getattr(self.local, "depth", 0)
        if depth == 0:
            self.local.began = clock.thread_time(), clock.perf_counter()
        self.local.depth = depth + 1

    def on_end(self, event: event.Event) -> None:
        self.local.depth -= 1
        if self.local.depth == 0:
            seconds, elapsed = self.local.began
            self.local.seconds = self.seconds + clock.thread_time() - seconds
            self.local.elapsed = self.elapsed + clock.perf_counter() - elapsed

    @property
    def seconds(self) -> float:
        return getattr(self.local, "seconds", 0.0)

    @property
    def elapsed(self) -> float:
        return getattr(self.local, "elapsed", 0.0)


_compilation_timer = _CompilationTimer()
event.register("numba:compiler_lock", _compilation_timer)


def thread_work_seconds() -> float:
    """Processor seconds of this thread without compilation, that is the cost of the same work next time."""
    return clock.thread_time() - _compilation_timer.seconds


def elapsed_work_seconds() -> float:
    """A clock that stands still while this thread compiles."""
    return clock.perf_counter() - _compilation_timer.elapsed
