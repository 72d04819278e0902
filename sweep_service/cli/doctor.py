"""`sweep doctor`, `certificates`: commands for the operator of a service or a cluster."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sweep_service.cli.answers import DONE, FAILED, print_answer
from sweep_service.cli.options import Data, Json, Scheduler
from sweep_service.cli.targets import LocalTarget
from sweep_service.errors import InUse
from sweep_service.runner import data_folder, default_scheduler

if TYPE_CHECKING:
    from sweep_service.store.folder import DataFolder


def doctor(
    data: Data = None,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Rebuild the ledger from the stored data.")
    ] = False,
    scheduler: Scheduler = None,
    as_json: Json = False,
) -> None:
    """Check the store, the machine and a cluster, give advice, and calibrate the estimates.

    The calibration needs a data folder that is not in use and has no failed check. It is skipped if a
    scheduler is given.
    """
    from sweep_service.doctor.checks import run_checks
    from sweep_service.doctor.diagnosis import format_diagnosis, summarise_checks, worst_verdict

    folder, scheduler = data_folder(data), scheduler or default_scheduler()
    adopted = []
    if rebuild:
        with LocalTarget(folder).open_conductor() as conductor:
            adopted = conductor.rebuild()
    checks, answer = run_checks(folder), {}
    if scheduler is not None:
        from sweep_service.validation import read_scheduler_address
        from sweep_service.workers.report import report

        answer = report(read_scheduler_address(scheduler, "--scheduler"), folder)
        checks += answer.pop("checks")
    answer |= {**summarise_checks(folder, checks), "adopted": adopted}
    if scheduler is None and worst_verdict(checks) != "wrong":
        answer["calibration"] = _calibrate(folder)
    print_answer(as_json, answer, format_diagnosis(answer, checks, _colour))
    raise typer.Exit(FAILED if worst_verdict(checks) == "wrong" else DONE)


def _calibrate(folder: DataFolder) -> dict[str, float]:
    """Measure the calibration, unless a process that may be computing holds the folder."""
    from sweep_service.doctor.calibration import measure

    try:
        with folder.lock():
            return measure(folder)
    except InUse:
        return {}


def _colour(verdict: str, text: str) -> str:
    """Colour a verdict in a terminal."""
    colours = {"ok": typer.colors.GREEN, "warning": typer.colors.YELLOW, "wrong": typer.colors.RED}
    return typer.style(text, fg=colours[verdict]) if sys.stdout.isatty() else text


def certificates(
    folder: Annotated[Path, typer.Argument(help="Folder to write to; only its owner can read the files.")],
    days: Annotated[int, typer.Option("--days", min=1, max=36500, help="Validity in days.")] = 730,
    force: Annotated[bool, typer.Option("--force", help="Replace existing certificates.")] = False,
    as_json: Json = False,
) -> None:
    """Create TLS certificates for a cluster.

    Set DASK_CONFIG=FOLDER for the scheduler, the workers and the service to use them.
    """
    from sweep_service.doctor.certificates import write_certificates

    expiry, path = write_certificates(folder, days, force), folder.absolute()
    text = f"valid until {expiry:%Y-%m-%d}; for every process of the cluster:\nexport DASK_CONFIG={path}"
    print_answer(as_json, {"folder": str(path), "end": expiry.isoformat()}, text)
