"""How a command answers: text for people, JSON for programs, and an exit code."""

from __future__ import annotations

import json
import sys
from typing import Any, NoReturn

import typer

from sweep_service.cli.format import accepted, ending
from sweep_service.cli.targets import Here, There
from sweep_service.signals import INTERRUPTED, stop
from sweep_service.text import json_ready

DONE, FAILED, REFUSED = 0, 1, 2
ENDS = {"completed": DONE, "incomplete": FAILED, "failed": FAILED}  # the others can go on


def end(place: Here | There, about: dict[str, Any], as_json: bool) -> NoReturn:
    """Say what became of a sweep, and exit by it."""
    state = about["state"]
    if stop.asked:
        if as_json:
            say(as_json, about, "")
        else:
            print("interrupted: the same command goes on from here", file=sys.stderr)
        raise typer.Exit(INTERRUPTED)
    if state in ("queued", "running"):  # the service goes on
        say(as_json, about, accepted(about, place.option))
        raise typer.Exit(DONE)
    say(as_json, about, ending(about, place.option))
    raise typer.Exit(ENDS.get(state, INTERRUPTED))


def say(as_json: bool, content: Any, text: str) -> None:
    if as_json:
        text = json.dumps(json_ready(content), default=str, allow_nan=False)
    print(text)
