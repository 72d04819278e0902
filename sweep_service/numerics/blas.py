"""BLAS limited to one thread during a call: with more, the last bits depend on the number of cores."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any


def one_blas_thread() -> AbstractContextManager[Any]:
    """Context in which BLAS uses a single thread."""
    context: AbstractContextManager[Any] = _libraries().limit(limits=1, user_api="blas")
    return context


@cache
def _libraries() -> Any:
    """The loaded BLAS libraries, cached because the search takes milliseconds."""
    import scipy.linalg  # noqa: F401  loads SciPy's own BLAS, so that the search finds it
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
