"""A check has a verdict, what it found, and in one line what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    OK = "ok"
    WARNING = "warning"
    WRONG = "wrong"


@dataclass(frozen=True)
class Check:
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


def why(error: Exception) -> str:
    """What an error says, in a line."""
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).splitlines()[0]
