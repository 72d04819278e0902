"""The errors of this package, grouped by what the caller can do about them.

SweepError
├── InvalidInput            change the input; carries the field, its value and what is allowed
│   ├── InvalidSpec         change the spec; carries several errors
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
├── OutOfRange              use smaller norms; averages of the activation are not accurate at these
├── MissingPackage          install the extra of this distribution that it names
├── IntegrationFailed       report it: the integrator failed on a finite solution
└── Stopped                 nothing: the caller requested the stop

Numerical divergence is not an error but a `Status`, stored like any other result.
"""

from __future__ import annotations

import difflib
import errno
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

MAX_REPORTED_ERRORS = 20  # of one spec
MAX_COMPARED_CHARACTERS = 200  # of an unknown name

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


class Position(NamedTuple):
    """A place in a text; lines and columns are counted from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


class InvalidInput(SweepError, ValueError):
    """An unusable input: `field` has `value`, and `allowed` says what it should be."""

    position: Position | None = None  # in the text of a spec

    def __init__(self, field: str, value: Any, allowed: str) -> None:
        self.field, self.value, self.allowed = field, value, allowed
        super().__init__(f"{field} = {_shorten(value)}: {allowed}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.field, self.value, self.allowed), self.__dict__

    def __str__(self) -> str:
        message = super().__str__()
        return f"{self.position}: {message}" if self.position is not None else message

    @property
    def errors(self) -> tuple[InvalidInput, ...]:
        """The single errors of which this one consists."""
        return (self,)


class InvalidSpec(InvalidInput):
    """Several errors of one spec. `field`, `value` and `allowed` are those of the first."""

    def __init__(self, errors: Sequence[InvalidInput], is_truncated: bool = False) -> None:
        super().__init__(errors[0].field, errors[0].value, errors[0].allowed)
        self._errors = tuple(errors)
        self.is_truncated = is_truncated  # whether there are more errors

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._errors, self.is_truncated)

    def __str__(self) -> str:
        lines = [str(error) for error in self._errors]
        return "\n".join(
            [*lines, f"only the first {len(lines)} errors are listed"] if self.is_truncated else lines
        )

    @property
    def errors(self) -> tuple[InvalidInput, ...]:
        return self._errors


class ErrorCollector:
    """Collects errors, so that all errors of an input are reported at once."""

    def __init__(self) -> None:
        self.errors: list[InvalidInput] = []
        self._is_truncated = False

    def add(self, *errors: InvalidInput) -> None:
        """Add errors; one that consists of several is taken apart."""
        self.add_all(errors)

    def add_all(self, errors: Iterable[InvalidInput]) -> None:
        """Add errors, of which no more are generated than are reported."""
        for error in errors:
            self.errors.extend(error.errors)
            self._is_truncated |= isinstance(error, InvalidSpec) and error.is_truncated
            if self.is_full:
                return

    @contextmanager
    def catch(self) -> Iterator[None]:
        """Collect the error that the body of a `with` statement raises."""
        try:
            yield
        except InvalidInput as error:
            self.add(error)

    @property
    def is_full(self) -> bool:
        """Whether there are more errors than are reported, so that looking for others is useless."""
        return self._is_truncated or len(self.errors) > MAX_REPORTED_ERRORS

    def raise_errors(self) -> None:
        """Raise the collected errors, if there are any."""
        if len(self.errors) == 1:
            raise self.errors[0]
        if self.errors:
            raise InvalidSpec(self.errors[:MAX_REPORTED_ERRORS], self.is_full)


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
    """Another process holds the data folder; only one at a time may change it.

    `url` is the address of that process if it is a service.
    """

    def __init__(self, message: str, url: str = "") -> None:
        super().__init__(message)
        self.url = url


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


class OutOfRange(SweepError):
    """A state lies outside the range in which averages of its activation can be computed."""


class MissingPackage(SweepError, ImportError):
    """An optional package is not installed."""


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


def unknown_name(
    field: str, name: Any, known: Iterable[str], hints: Mapping[str, str] | None = None
) -> InvalidInput:
    """Make the error for a name that is not in a registry, with the hint for it or the closest known name.

    `hints` describes known names by names that people use instead, in lower case.
    """
    known = sorted(known)
    hint = hints.get(name.lower(), "") if hints and isinstance(name, str) else ""
    if not hint and isinstance(name, str):
        # Comparing very long texts takes long, and nothing is close to them.
        matches = difflib.get_close_matches(name, known, n=1) if len(name) <= MAX_COMPARED_CHARACTERS else []
        hint = repr(matches[0]) if matches else ""
    question = f"did you mean {hint}? " if hint else ""
    return InvalidInput(field, name, f"{question}must be one of {', '.join(known)}")


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
