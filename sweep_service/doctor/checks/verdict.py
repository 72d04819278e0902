"""The result of a check: a verdict, what was found, and one line of advice."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """From best to worst."""

    OK = "ok"
    WARNING = "warning"
    WRONG = "wrong"


@dataclass(frozen=True)
class Check:
    """The result of one check."""

    name: str
    verdict: Verdict
    found: str
    advice: str = ""  # one line


def ok(name: str, found: str) -> Check:
    return Check(name, Verdict.OK, found)


def warning(name: str, found: str, advice: str) -> Check:
    return Check(name, Verdict.WARNING, found, advice)


def wrong(name: str, found: str, advice: str) -> Check:
    return Check(name, Verdict.WRONG, found, advice)


def describe_error(error: Exception) -> str:
    """Describe an error on one line."""
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).splitlines()[0]
