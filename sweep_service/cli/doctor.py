"""`sweep doctor`, `certificates`: commands for whoever runs a service or a cluster."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sweep_service.cli.answers import DONE, FAILED, say
from sweep_service.cli.options import Data, Json, Scheduler
from sweep_service.cli.targets import Here
from sweep_service.errors import InUse
from sweep_service.runner import data_folder, default_scheduler

if TYPE_CHECKING:
    from sweep_service.store.folder import DataFolder


def doctor(
    data: Data = None,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Make the ledger again from what is stored.")
    ] = False,
    scheduler: Scheduler = None,
    as_json: Json = False,
) -> None:
    """Check the store, the machine and a cluster, and say what to do; measure how fast the engines are here.

    Measured is only a folder that nobody uses and that nothing is wrong with, without a scheduler.
    """
    from sweep_service.doctor.checks import local
    from sweep_service.doctor.diagnosis import described, diagnosis, worst

    folder, scheduler = data_folder(data), scheduler or default_scheduler()
    adopted = []
    if rebuild:
        with Here(folder).conductor() as conductor:
            adopted = conductor.rebuild()
    checks, found = local(folder), {}
    if scheduler is not None:
        from sweep_service.validation import scheduler_address
        from sweep_service.workers.report import report

        found = report(scheduler_address(scheduler, "--scheduler"), folder)
        checks += found.pop("checks")
    found |= {**diagnosis(folder, checks), "adopted": adopted}
    if scheduler is None and worst(checks) != "wrong":
        found["calibration"] = _measured(folder)
    say(as_json, found, described(found, checks, _painted))
    raise typer.Exit(FAILED if worst(checks) == "wrong" else DONE)


def _measured(folder: DataFolder) -> dict[str, float]:
    """Nothing while somebody uses the folder, who may compute."""
    from sweep_service.doctor.calibration import measure

    try:
        with folder.lock():
            return measure(folder)
    except InUse:
        return {}


def _painted(verdict: str, text: str) -> str:
    colours = {"ok": typer.colors.GREEN, "warning": typer.colors.YELLOW, "wrong": typer.colors.RED}
    return typer.style(text, fg=colours[verdict]) if sys.stdout.isatty() else text


def certificates(
    folder: Annotated[Path, typer.Argument(help="Where to write them, for the owner's eyes alone.")],
    days: Annotated[int, typer.Option("--days", min=1, max=36500, help="How long they are good for.")] = 730,
    force: Annotated[bool, typer.Option("--force", help="Replace those that are there.")] = False,
    as_json: Json = False,
) -> None:
    """Make what a cluster needs for TLS; then DASK_CONFIG=FOLDER for the scheduler, workers and service."""
    from sweep_service.doctor.certificates import make

    end, where = make(folder, days, force), folder.absolute()
    text = (
        f"good until {end:%Y-%m-%d}; each process of the cluster needs them, and\nexport DASK_CONFIG={where}"
    )
    say(as_json, {"folder": str(where), "end": end.isoformat()}, text)
