"""`sweep serve`, `submit`, `watch`: start a service and use it."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from sweep_service.cli.answers import exit_with_outcome, print_answer
from sweep_service.cli.arguments import read_spec, reject_conflicting_options, remote_target
from sweep_service.cli.options import Data, Id, Json, Priority, Scheduler, Spec, Url, Workers
from sweep_service.cli.targets import RemoteTarget, SweepSummary
from sweep_service.extras import explain_missing_package
from sweep_service.signals import INTERRUPTED, Interrupt, announce_stop, stop


def serve(
    host: Annotated[
        str | None, typer.Option("--host", help="Address to listen on. Default: SWEEP_HOST, or 127.0.0.1.")
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", help="Port; 0 selects a free one. Default: SWEEP_PORT, or 8000.")
    ] = None,
    data: Data = None,
    scheduler: Scheduler = None,
    workers: Workers = None,
    log: Annotated[
        str | None,
        typer.Option(
            "--log",
            help="Log format: json or text. Default: SWEEP_LOG, or text in a terminal.",
        ),
    ] = None,
    log_requests: Annotated[
        bool | None,
        typer.Option(
            "--log-requests/--no-log-requests",
            help="Log each request. Default: SWEEP_LOG_REQUESTS, or only in JSON.",
        ),
    ] = None,
) -> None:
    """Start the service: REST API, web page and workers."""
    reject_conflicting_options(workers, scheduler, serial=False)
    options = {
        "host": host,
        "port": port,
        "data": data,
        "scheduler": scheduler,
        "workers": workers,
        "log": log,
        "log_requests": log_requests,
    }
    options = {name: value for name, value in options.items() if value is not None}
    if workers is not None:
        options["scheduler"] = None  # overrides the environment
    stop.computing = True  # a signal then sets the flag, and the service shuts down by itself
    stop.exit_code = 0
    stop.describe_awaited, stop.announce = lambda: "the service to start", announce_stop
    with explain_missing_package("a service"):
        from sweep_service.api.serve import serve as run_service

    run_service(**options)


def submit(
    spec: Spec,
    url: Url = None,
    priority: Priority = 0,
    follow: Annotated[bool, typer.Option("--watch", help="Follow the sweep until it ends.")] = False,
    as_json: Json = False,
) -> None:
    """Submit a sweep to a service."""
    target = remote_target(url)
    sweep = target.submit(read_spec(spec), priority)
    if follow and sweep["state"] in ("queued", "running"):
        sweep = _watch(target, sweep["id"], as_json)
    exit_with_outcome(target, sweep, as_json)


def watch(sweep_id: Id, url: Url = None, as_json: Json = False) -> None:
    """Follow a sweep of a service until it ends or is paused. Ctrl-C leaves it running."""
    target = remote_target(url)
    exit_with_outcome(target, _watch(target, target.find_id(sweep_id), as_json), as_json)


def _watch(target: RemoteTarget, sweep_id: str, as_json: bool) -> SweepSummary:
    """Show the progress of a sweep until it ends or is paused."""
    from sweep_service.client.progress import Bar

    sweep: SweepSummary = {}
    stop.waiting = True
    try:
        with Bar(quiet=as_json) as bar:
            for sweep in target.client.follow(sweep_id):
                bar.show(sweep)
                if sweep["state"] == "paused":
                    break
        return target.describe(sweep_id, None if as_json else 1)
    except Interrupt:
        stop.cancel_repeat()
        if as_json:
            print_answer(as_json, sweep, "")
        else:
            print(f"the sweep continues; to watch it: sweep watch {sweep_id}{target.option}", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
