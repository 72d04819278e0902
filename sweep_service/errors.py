"""What can go wrong, grouped by what a caller would do about it.

SweepError
├── InvalidInput            change the input: carries the field, its value and what is allowed
│   ├── LimitExceeded       ask for less, or raise the limit
│   │   └── TooManySweeps   wait until one has ended
│   └── RegimeUndefined     the input is fine, this limiting theory does not exist there
├── NotFound                name something that is there
├── Conflict                something else is there under that name or key: name another
├── TooNew                  upgrade: the data was written by a later version
├── Damaged                 restore a file, or let it be made again
├── StoreGone               wait: what is stored cannot be reached now
├── InUse                   another process works on this data folder: stop it, or name another folder
├── Denied                  name a token, or one that may do more
├── Unreachable             start the service, or name its address
├── IntegrationFailed       the integrator gave up on a finite solution: report it
└── Stopped                 the caller asked to stop: nothing is wrong

Numerical divergence is not here: it is a `Status`, stored like any other result.
"""

from __future__ import annotations

import difflib
import errno
import reprlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)  # what an OSError says of a full disk: wait, nothing is wrong with us
# And of a disk behind a network, or of one that was taken away.
NOT_THERE = (
    errno.EIO,
    errno.ESTALE,
    errno.ENOTCONN,
    errno.ETIMEDOUT,
    errno.EHOSTDOWN,
    errno.ENODEV,
    errno.EROFS,
)


class SweepError(Exception):
    """Base of every error that this package raises on purpose."""


class InvalidInput(SweepError, ValueError):
    """One input is not usable; `field`, `value` and `allowed` say which, what and why."""

    def __init__(self, field: str, value: Any, allowed: str) -> None:
        self.field, self.value, self.allowed = field, value, allowed
        super().__init__(f"{field} = {_short(value)}: {allowed}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.field, self.value, self.allowed)


class RegimeUndefined(InvalidInput):
    """The limiting theory that was asked for does not exist at this point."""


class NotFound(SweepError, LookupError):
    """Nothing of that name."""


class TooNew(SweepError):
    """Written by a later version than this one."""


class Damaged(SweepError):
    """A file that we wrote cannot be read any more."""


class StoreGone(SweepError, OSError):
    """What is stored cannot be reached: nothing is wrong with it, nor with us."""


class InUse(SweepError):
    """One process at a time may change a data folder."""


class LimitExceeded(InvalidInput):
    """A sweep beyond what this folder accepts."""


class TooManySweeps(LimitExceeded):
    """Wait until one of them has ended, or cancel one."""


class Conflict(SweepError):
    """Not with what is there now."""


class Denied(SweepError):
    """A service wants a token, or one that may do more."""


class Unreachable(SweepError):
    """No service answers there, or what answers is none of ours."""


class IntegrationFailed(SweepError):
    """The integrator stopped although the solution is still finite."""


class Stopped(SweepError):
    """The `stopped` hook answered true."""


def is_passing(error: BaseException | None) -> bool:
    """Trouble of the store that waiting ends: nobody is to blame, and nothing is given up."""
    return isinstance(error, StoreGone) or getattr(error, "errno", None) in (*NO_ROOM, *NOT_THERE)


# What is wrong with the files of one sweep, which others need not suffer from.
UNREADABLE = (Damaged, NotFound, TooNew, InvalidInput)


@contextmanager
def reading(name: str) -> Iterator[None]:
    """What cannot be made sense of is damaged, whatever the library that tried it calls that."""
    try:
        yield
    except (SweepError, MemoryError):
        raise
    except Exception as error:
        there = isinstance(error, OSError) and not isinstance(error, (FileNotFoundError, NotADirectoryError))
        if there:  # a file that cannot be read now may be whole
            raise
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise Damaged(f"{name} cannot be read: {why}") from error


def unknown_name(field: str, name: Any, known: Iterable[str]) -> InvalidInput:
    """An error for a name that is not in a registry, with the nearest known spelling."""
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=1) if isinstance(name, str) else []
    hint = f"did you mean {near[0]!r}? " if near else ""
    return InvalidInput(field, name, f"{hint}must be one of {', '.join(known)}")


# Cuts nested and long values while it goes, where repr() would build all of them first.
_QUOTE = reprlib.Repr()
_QUOTE.maxstring = _QUOTE.maxother = _QUOTE.maxlong = 200


def _short(value: Any, limit: int = 80) -> str:
    """A value as a person would quote it, however large or odd it is."""
    try:
        text = " ".join(_QUOTE.repr(value).split())
    except Exception:  # an integer of a million digits, a broken __repr__
        text = f"<{type(value).__name__}>"
    return text if len(text) <= limit else text[: limit - 3] + "..."
