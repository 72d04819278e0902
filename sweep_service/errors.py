"""The errors of this package, grouped by what the caller can do about them.

SweepError
├── InvalidInput            change the input; carries the field, its value and what is allowed
│   ├── LimitExceeded       make the sweep smaller, or raise the limit
│   │   ├── TooManySweeps   wait until a sweep has ended
│   │   └── NoRoom          free some space on the disk
│   └── RegimeUndefined     choose another regime; this one does not exist at the point
├── NotFound                use a name that exists
├── Conflict                use another name or key; this one is taken
├── TooNew                  upgrade; a later version wrote the data
├── Damaged                 restore the file, or rebuild it
├── StoreGone               wait; the store cannot be reached now
├── InUse                   stop the process that uses the data folder, or use another folder
├── Denied                  use a token, or one with more rights
├── Unreachable             start the service, or correct its address
├── IntegrationFailed       report it: the integrator failed on a finite solution
└── Stopped                 nothing: the caller requested the stop

Numerical divergence is not an error but a `Status`, stored like any other result.
"""

from __future__ import annotations

import difflib
import errno
import reprlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

DISK_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT)
# A network file system that does not answer, or a disk that was removed.
STORE_GONE_ERRNOS = (
    errno.EIO,
    errno.ESTALE,
    errno.ENOTCONN,
    errno.ETIMEDOUT,
    errno.EHOSTDOWN,
    errno.ENODEV,
    errno.EROFS,
)


class SweepError(Exception):
    """Base class of the errors that this package raises deliberately."""


class InvalidInput(SweepError, ValueError):
    """An unusable input: `field` has `value`, and `allowed` says what it should be."""

    def __init__(self, field: str, value: Any, allowed: str) -> None:
        self.field, self.value, self.allowed = field, value, allowed
        super().__init__(f"{field} = {_shorten(value)}: {allowed}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.field, self.value, self.allowed)


class RegimeUndefined(InvalidInput):
    """The requested regime does not exist at this point."""


class NotFound(SweepError, LookupError):
    """No object has this name."""


class TooNew(SweepError):
    """The data was written by a later version of this package."""


class Damaged(SweepError):
    """A stored file cannot be interpreted."""


class StoreGone(SweepError, OSError):
    """The store cannot be reached at the moment; its content is intact."""


class InUse(SweepError):
    """Another process holds the data folder; only one at a time may change it."""


class LimitExceeded(InvalidInput):
    """The sweep exceeds a limit of the data folder or the service."""


class TooManySweeps(LimitExceeded):
    """The limit of unfinished sweeps is reached: wait until one has ended, or cancel one."""


class NoRoom(LimitExceeded):
    """The sweep needs more space than the disk has."""


class Conflict(SweepError):
    """The request contradicts the current state."""


class Denied(SweepError):
    """The service requires a token, or one with more rights."""


class Unreachable(SweepError):
    """No sweep service answers at this address."""


class IntegrationFailed(SweepError):
    """The integrator stopped although the solution is still finite."""


class Stopped(SweepError):
    """The `stopped` callback returned true."""


def is_temporary(error: BaseException | None) -> bool:
    """Whether an error of the store may pass by itself, so that waiting is better than failing."""
    return isinstance(error, StoreGone) or getattr(error, "errno", None) in (
        *DISK_FULL_ERRNOS,
        *STORE_GONE_ERRNOS,
    )


# The files of one sweep cannot be used; other sweeps are not affected.
UNREADABLE_SWEEP = (Damaged, NotFound, TooNew, InvalidInput)


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Raise `Damaged` for any error that a library raises while it parses the file `name`."""
    try:
        yield
    except (SweepError, MemoryError):
        raise
    except Exception as error:
        missing = isinstance(error, (FileNotFoundError, NotADirectoryError))
        if isinstance(error, OSError) and not missing:  # the file may be intact but unreadable now
            raise
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise Damaged(f"{name} cannot be read: {reason}") from error


def unknown_name(field: str, name: Any, known: Iterable[str]) -> InvalidInput:
    """Make the error for a name that is not in a registry, with the closest known name."""
    known = sorted(known)
    matches = difflib.get_close_matches(name, known, n=1) if isinstance(name, str) else []
    hint = f"did you mean {matches[0]!r}? " if matches else ""
    return InvalidInput(field, name, f"{hint}must be one of {', '.join(known)}")


# Truncates nested and long values as it goes; repr() would build the whole text first.
_TRUNCATED_REPR = reprlib.Repr()
_TRUNCATED_REPR.maxstring = _TRUNCATED_REPR.maxother = _TRUNCATED_REPR.maxlong = 200


def _shorten(value: Any, limit: int = 80) -> str:
    """Format a value for a message in at most `limit` characters."""
    try:
        text = " ".join(_TRUNCATED_REPR.repr(value).split())
    except Exception:  # an integer of a million digits, a broken __repr__
        text = f"<{type(value).__name__}>"
    return text if len(text) <= limit else text[: limit - 3] + "..."
