"""`sweep doctor`, `certificates`: commands for the operator of a service or a cluster."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from sweep_service.cli.answers import DONE, FAILED, print_answer
from sweep_service.cli.options import Data, Json, Scheduler
from sweep_service.cli.targets import LocalTarget
from sweep_service.client.names import match_sweep
from sweep_service.errors import InUse, InvalidInput
from sweep_service.extras import explain_missing_package
from sweep_service.runner import data_folder, default_scheduler

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sweep_service.doctor.verify import Findings
    from sweep_service.store.folder import DataFolder


def doctor(
    sweep_ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID]...", help="Sweeps to verify; by default all.", show_default=False),
    ] = None,
    data: Data = None,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Rebuild the ledger and the indexes of runs from the data.")
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Read all stored data instead, and list what is damaged.")
    ] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="Verify, and have damaged runs computed again.")
    ] = False,
    scheduler: Scheduler = None,
    as_json: Json = False,
) -> None:
    """Check the store, the machine and a cluster, give advice, and calibrate the estimates.

    The calibration needs a data folder that is not in use and has no failed check. It is skipped if a
    scheduler is given.

    With --verify, all stored data is read instead: specs, keys, every chunk, parts, failure records and the
    ledger. With --repair, damaged runs are marked pending; the service or sweep resume computes them again.
    """
    from sweep_service.doctor.checks import run_checks
    from sweep_service.doctor.diagnosis import format_diagnosis, summarise_checks, worst_verdict

    folder, scheduler = data_folder(data), scheduler or default_scheduler()
    if verify or repair:
        _verify(folder, sweep_ids or [], repair, as_json)
    if sweep_ids:
        raise InvalidInput("ID", sweep_ids[0], "is only used with --verify or --repair")
    adopted = []
    if rebuild:
        with LocalTarget(folder).open_conductor("stop it first") as conductor:
            adopted = conductor.rebuild()
    checks, answer = run_checks(folder), {}
    if scheduler is not None:
        from sweep_service.validation import read_scheduler_address

        with explain_missing_package("a report on a cluster"):
            from sweep_service.workers.report import report

        answer = report(read_scheduler_address(scheduler, "--scheduler"), folder)
        checks += answer.pop("checks")
    answer |= {**summarise_checks(folder, checks), "adopted": adopted}
    if scheduler is None and worst_verdict(checks) != "wrong":
        answer["calibration"] = _calibrate(folder)
    print_answer(as_json, answer, format_diagnosis(answer, checks, _colour))
    raise typer.Exit(FAILED if worst_verdict(checks) == "wrong" else DONE)


def _verify(folder: DataFolder, prefixes: list[str], repair: bool, as_json: bool) -> NoReturn:
    """Read all data of some sweeps, print what is damaged, and request its repair."""
    from sweep_service.doctor.diagnosis import format_checks, summarise_checks, worst_verdict
    from sweep_service.doctor.verify import stored_ids, verify

    ids = stored_ids(folder)
    checks, findings = verify(
        folder, [match_sweep(dict.fromkeys(ids, ""), prefix) for prefix in prefixes] or ids
    )
    damaged = [sweep for sweep in findings if sweep.problems and sweep.is_repairable]
    outcomes = _repair(folder, damaged) if repair and damaged else {}
    advice = "have it restored or computed again with: sweep doctor --repair" if damaged else ""
    lines = [f"{sweep_id}: {outcome}" for sweep_id, outcome in outcomes.items()] or [advice]
    left = [sweep for sweep in findings if sweep.problems and not sweep.is_repairable]
    answer = {**summarise_checks(folder, checks), "repaired": outcomes}
    print_answer(as_json, answer, "\n".join([format_checks(checks, _colour), *lines]).rstrip())
    is_done = worst_verdict(checks) != "wrong" or (repair and bool(damaged) and not left)
    raise typer.Exit(DONE if is_done else FAILED)


def _repair(folder: DataFolder, damaged: Sequence[Findings]) -> dict[str, str]:
    """Request repairs, and carry them out unless a process uses the folder; return the outcome by sweep."""
    ids = [sweep.sweep_id for sweep in damaged]
    for sweep in damaged:
        sweep.request.save(folder, sweep.sweep_id)
    target = LocalTarget(folder)
    try:
        with target.open_conductor() as conductor:
            states = {sweep.id: sweep.state.value for sweep in conductor.ledger.sweeps()}
    except InUse:
        return dict.fromkeys(ids, "the process that uses the folder repairs it within a minute")
    return {sweep_id: _describe_repair(sweep_id, states.get(sweep_id), target.option) for sweep_id in ids}


def _describe_repair(sweep_id: str, state: str | None, option: str) -> str:
    if state is None:
        return "is not in the ledger: run sweep doctor --rebuild, then --repair again"
    if state == "failed":
        return "cannot be repaired: remove it, and submit its spec again"
    if state == "completed":
        return "repaired"
    return f"repaired: compute its runs with sweep resume {sweep_id}{option}, or start the service"


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
    with explain_missing_package("creating certificates"):
        from sweep_service.doctor.certificates import write_certificates

    expiry, path = write_certificates(folder, days, force), folder.absolute()
    text = f"valid until {expiry:%Y-%m-%d}; for every process of the cluster:\nexport DASK_CONFIG={path}"
    print_answer(as_json, {"folder": str(path), "end": expiry.isoformat()}, text)
