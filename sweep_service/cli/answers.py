"""How a command reports its result: text or JSON on standard output, and an exit code."""

from __future__ import annotations

import json
import sys
from typing import Any, NoReturn

import typer

from sweep_service.cli.format import format_accepted, format_outcome
from sweep_service.cli.targets import LocalTarget, RemoteTarget, SweepSummary
from sweep_service.signals import INTERRUPTED, stop
from sweep_service.text import replace_nonfinite

DONE, FAILED, REFUSED = 0, 1, 2
# A sweep in any other final state can be continued.
EXIT_CODES = {"completed": DONE, "incomplete": FAILED, "failed": FAILED}


def exit_with_outcome(target: LocalTarget | RemoteTarget, sweep: SweepSummary, as_json: bool) -> NoReturn:
    """Print the outcome of a sweep and exit with the code of its state."""
    state = sweep["state"]
    if stop.requested:
        if as_json:
            print_answer(as_json, sweep, "")
        else:
            print("interrupted; run the same command again to continue", file=sys.stderr)
        raise typer.Exit(INTERRUPTED)
    if state in ("queued", "running"):  # the service computes it
        print_answer(as_json, sweep, format_accepted(sweep, target.option))
        raise typer.Exit(DONE)
    print_answer(as_json, sweep, format_outcome(sweep, target.option))
    raise typer.Exit(EXIT_CODES.get(state, INTERRUPTED))


def print_answer(as_json: bool, content: Any, text: str) -> None:
    """Print `content` as JSON, or `text`."""
    if as_json:
        text = json.dumps(replace_nonfinite(content), default=str, allow_nan=False)
    print(text)
