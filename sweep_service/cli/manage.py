"""`sweep cancel`, `pause`, `rm`: commands that change a sweep, and compute nothing."""

from __future__ import annotations

from sweep_service.cli.answers import say
from sweep_service.cli.arguments import target
from sweep_service.cli.options import Data, Id, Json, Url


def cancel(sweep: Id, data: Data = None, url: Url = None, as_json: Json = False) -> None:
    """Give up what is not computed yet; what is there stays."""
    found = target(data, url).cancel(sweep)
    say(as_json, found, f"{found['id']}  {found['state']}")


def pause(sweep: Id, data: Data = None, url: Url = None, as_json: Json = False) -> None:
    """Let a sweep rest until it is resumed."""
    found = target(data, url).pause(sweep)
    say(as_json, found, f"{found['id']}  {found['state']}")


def rm(sweep: Id, data: Data = None, url: Url = None, as_json: Json = False) -> None:
    """Remove a sweep and everything of it."""
    found = target(data, url).remove(sweep)
    say(as_json, {"id": found, "state": "removed"}, f"{found}  removed")
