"""Lets a long computation be abandoned from outside: it asks a function that its caller has set.

The function belongs to the context of the caller, as the service computes for many clients at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from sweep_service.errors import Stopped

_is_abandoned: ContextVar[Callable[[], bool] | None] = ContextVar("is_abandoned", default=None)


@contextmanager
def abandoned_if(is_abandoned: Callable[[], bool]) -> Iterator[None]:
    """Make `check_abandoned` raise once `is_abandoned` returns true."""
    token = _is_abandoned.set(is_abandoned)
    try:
        check_abandoned()
        yield
    finally:
        _is_abandoned.reset(token)


def check_abandoned() -> None:
    """Raise `Stopped` if the client has closed its connection; cheap enough for every point of a grid."""
    is_abandoned = _is_abandoned.get()
    if is_abandoned is not None and is_abandoned():
        raise Stopped("the client has closed its connection")
