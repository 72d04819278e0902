"""`sweep cancel`, `pause`, `rename`, `note`, `tag`, `rm`: commands that change a sweep without computing."""

from __future__ import annotations

from typing import Annotated

import typer

from sweep_service.cli.answers import print_answer
from sweep_service.cli.arguments import choose_target
from sweep_service.cli.options import Data, Id, Json, Url
from sweep_service.errors import InvalidInput


def cancel(sweep_id: Id, data: Data = None, url: Url = None, as_json: Json = False) -> None:
    """Cancel a sweep. Computed runs are kept."""
    sweep = choose_target(data, url).cancel(sweep_id)
    print_answer(as_json, sweep, f"{sweep['id']}  {sweep['state']}")


def pause(sweep_id: Id, data: Data = None, url: Url = None, as_json: Json = False) -> None:
    """Pause a sweep until it is resumed."""
    sweep = choose_target(data, url).pause(sweep_id)
    print_answer(as_json, sweep, f"{sweep['id']}  {sweep['state']}")


def rename(
    sweep_id: Id,
    name: Annotated[str, typer.Argument(help="The new name.")],
    data: Data = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Rename a sweep. Its dataset keeps the first name as its title."""
    sweep = choose_target(data, url).update(sweep_id, name=name)
    print_answer(as_json, sweep, f"{sweep['id']}  {sweep['name']}")


def note(
    sweep_id: Id,
    text: Annotated[str, typer.Argument(help='A text about the sweep; "" removes it.')],
    data: Data = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Attach a note to a sweep, in place of the one it has."""
    sweep = choose_target(data, url).update(sweep_id, note=text)
    print_answer(as_json, sweep, f"{sweep['id']}  {sweep['note'] or 'no note'}")


def tag(
    sweep_id: Id,
    tags: Annotated[list[str] | None, typer.Argument(help="Tags to add.")] = None,
    remove: Annotated[
        list[str] | None, typer.Option("--remove", metavar="TAG", help="A tag to remove; may be repeated.")
    ] = None,
    data: Data = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Add tags to a sweep, by which `sweep list --tag` finds it, or remove some."""
    if not tags and not remove:
        raise InvalidInput("tags", tags, "name tags to add, or tags to remove with --remove")
    sweep = choose_target(data, url).tag(sweep_id, tags or (), remove or ())
    print_answer(as_json, sweep, f"{sweep['id']}  {', '.join(sweep['tags']) or 'no tags'}")


def rm(sweep_id: Id, data: Data = None, url: Url = None, as_json: Json = False) -> None:
    """Delete a sweep and its data."""
    removed_id = choose_target(data, url).remove(sweep_id)
    print_answer(as_json, {"id": removed_id, "state": "removed"}, f"{removed_id}  removed")
