"""`sweep cancel`, `pause`, `rm`: commands that change the state of a sweep without computing."""

from __future__ import annotations

from sweep_service.cli.answers import print_answer
from sweep_service.cli.arguments import choose_target
from sweep_service.cli.options import Data, Id, Json, Url


def cancel(sweep_id: Id, data: Data = None, url: Url = None, as_json: Json = False) -> None:
    """Cancel a sweep. Computed runs are kept."""
    sweep = choose_target(data, url).cancel(sweep_id)
    print_answer(as_json, sweep, f"{sweep['id']}  {sweep['state']}")


def pause(sweep_id: Id, data: Data = None, url: Url = None, as_json: Json = False) -> None:
    """Pause a sweep until it is resumed."""
    sweep = choose_target(data, url).pause(sweep_id)
    print_answer(as_json, sweep, f"{sweep['id']}  {sweep['state']}")


def rm(sweep_id: Id, data: Data = None, url: Url = None, as_json: Json = False) -> None:
    """Delete a sweep and its data."""
    removed_id = choose_target(data, url).remove(sweep_id)
    print_answer(as_json, {"id": removed_id, "state": "removed"}, f"{removed_id}  removed")
