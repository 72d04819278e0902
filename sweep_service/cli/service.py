"""`sweep serve`, `submit`, `watch`: start a service, and give it work."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from sweep_service.cli.answers import end, say
from sweep_service.cli.arguments import read_spec, require_one, service
from sweep_service.cli.options import Data, Id, Json, Priority, Scheduler, Spec, Url, Workers
from sweep_service.cli.targets import There
from sweep_service.signals import INTERRUPTED, Interrupt, stop


def serve(
    host: Annotated[
        str | None, typer.Option("--host", help="Where to listen. By default SWEEP_HOST, or 127.0.0.1.")
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", help="By default SWEEP_PORT, or 8000; 0 for any that is free.")
    ] = None,
    data: Data = None,
    scheduler: Scheduler = None,
    workers: Workers = None,
    log: Annotated[
        str | None,
        typer.Option("--log", help="json or text. By default SWEEP_LOG, or text in a terminal, else JSON."),
    ] = None,
) -> None:
    """Start the service: its REST interface, its page, and the workers that compute."""
    require_one(workers, scheduler, serial=False)
    given = {"host": host, "port": port, "data": data, "scheduler": scheduler, "workers": workers, "log": log}
    given = {name: value for name, value in given.items() if value is not None}
    if workers is not None:
        given["scheduler"] = None  # whatever the environment says
    stop.computing = True  # the service ends by itself when it is asked to
    from sweep_service.api.serve import serve as begin

    raise typer.Exit(begin(**given))


def submit(
    spec: Spec,
    url: Url = None,
    priority: Priority = 0,
    follow: Annotated[bool, typer.Option("--watch", help="Stay, and follow it to its end.")] = False,
    as_json: Json = False,
) -> None:
    """Give a sweep to a service, which computes it."""
    place = service(url)
    found = place.submit(read_spec(spec), priority)
    if follow and found["state"] in ("queued", "running"):
        found = _watched(place, found["id"], as_json)
    end(place, found, as_json)


def watch(sweep: Id, url: Url = None, as_json: Json = False) -> None:
    """Follow a sweep of a service until it ends or pauses. Ctrl-C leaves it running."""
    place = service(url)
    end(place, _watched(place, place.find(sweep), as_json), as_json)


def _watched(place: There, sweep: str, as_json: bool) -> dict[str, Any]:
    from sweep_service.client.progress import Bar

    now: dict[str, Any] = {}
    stop.waiting = True
    try:
        with Bar(quiet=as_json) as bar:
            for now in place.client.follow(sweep):
                bar.show(now)
                if now["state"] == "paused":
                    break
        return place.show(sweep, None if as_json else 1)
    except Interrupt:
        stop.handled()
        if as_json:
            say(as_json, now, "")
        else:
            print(f"the sweep goes on: sweep watch {sweep}{place.option}", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
