"""BLAS on one thread, for the length of a call: with more, the last bits depend on the number of cores."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any


def one_blas_thread() -> AbstractContextManager[Any]:
    context: AbstractContextManager[Any] = _libraries().limit(limits=1, user_api="blas")
    return context


@cache
def _libraries() -> Any:
    """The loaded BLAS libraries, found once: looking for them takes milliseconds."""
    import scipy.linalg  # noqa: F401  its own BLAS must be loaded to be found
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
