"""The one way to compile a numba kernel here: cached on disk, without the GIL.

Numba invalidates a cached function when its own file changes, but not when a function that it
calls in another file does. So the cache lives in a folder named by a hash of every source file of the
package that holds a kernel or an intrinsic: an edit to any of them starts a fresh cache.
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

F = TypeVar("F", bound=Callable[..., Any])


@cache
def cache_folder() -> str:
    """Where compiled kernels go: $SWEEP_KERNEL_CACHE or the user's cache, keyed by the sources."""
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
    *, fastmath: bool | set[str] = False, inline: bool = False, merged: bool = False
) -> Callable[[F], F]:
    """Compile without the GIL, cached; division follows IEEE so that loops can vectorise.

    `inline` is for scalar helpers of vectorised loops: one call that LLVM leaves keeps a loop scalar.
    `merged` spares short functions the call itself, which costs as much as a few neurons. With `fastmath`
    it is implied: numba gives each caller a copy of what it calls, optimised once more, and all calls in
    a process go to the copy that was loaded first. Plain arithmetic has the same bits in every copy;
    sums that LLVM may reorder or contract have not, so no copy of them may be left to be called.
    """

    def decorate(function: F) -> F:
        # numba reads CACHE_DIR when a function is decorated; other users of numba in the same
        # process keep their own setting.
        previous = numba.config.CACHE_DIR
        numba.config.CACHE_DIR = cache_folder()
        try:
            return numba.njit(
                cache=True,
                nogil=True,
                error_model="numpy",
                fastmath=fastmath,
                inline="always" if inline else "never",
                forceinline=merged or bool(fastmath),
            )(function)
        finally:
            numba.config.CACHE_DIR = previous

    return decorate


class _Compiling(event.Listener):
    """How long each thread has compiled kernels, or read compiled ones."""

    def __init__(self) -> None:
        self.mine = threading.local()

    def on_start(self, event: event.Event) -> None:
        depth = getattr(self.mine, "depth", 0)
        if depth == 0:
            self.mine.began = clock.thread_time()
        self.mine.depth = depth + 1

    def on_end(self, event: event.Event) -> None:
        self.mine.depth -= 1
        if self.mine.depth == 0:
            self.mine.seconds = self.seconds + clock.thread_time() - self.mine.began

    @property
    def seconds(self) -> float:
        return getattr(self.mine, "seconds", 0.0)


_compiling = _Compiling()
event.register("numba:compiler_lock", _compiling)


def working_time() -> float:
    """Processor seconds of this thread, without those spent on compiling: what work costs the next time."""
    return clock.thread_time() - _compiling.seconds
