"""`sweep run`, `gallery`, `extend`, `retry`, `resume`: commands that compute."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from sweep_service.cli.answers import DONE, FAILED, exit_with_outcome, print_answer
from sweep_service.cli.arguments import choose_computing_target, choose_executor, read_file, read_spec
from sweep_service.cli.format import format_estimate, format_outcome
from sweep_service.cli.options import Data, Figure, Id, Json, Priority, Scheduler, Serial, Spec, Url, Workers
from sweep_service.cli.targets import LocalTarget, SweepSummary
from sweep_service.runner import data_folder
from sweep_service.signals import stop

if TYPE_CHECKING:
    from sweep_service.figures import Figure as PaperFigure


def run(
    spec: Spec,
    data: Data = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    serial: Serial = False,
    priority: Priority = 0,
    figure: Figure = True,
    as_json: Json = False,
) -> None:
    """Compute a sweep on this machine, without a service, and draw it.

    A preset of a figure of the papers is drawn like that figure, and its numbers are checked. After
    Ctrl-C, run the same command again to continue.
    """
    target = LocalTarget(data_folder(data), choose_executor(workers, scheduler, serial), quiet=as_json)
    if (paper_figure := _find_paper_figure(spec)) is not None:
        _reproduce(target, *paper_figure, priority, figure, as_json)
    sweep = target.submit(read_spec(spec), priority)
    files = target.draw(sweep) if figure and sweep["state"] == "completed" else ()
    exit_with_outcome(target, {**sweep, "figures": [str(file) for file in files]}, as_json)


def gallery(
    output: Annotated[
        Path | None, typer.Argument(help="Folder of the page. Default: gallery, in the state folder.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Use the papers' parameters; takes hours.")] = False,
    data: Data = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    serial: Serial = False,
    as_json: Json = False,
) -> None:
    """Reproduce all figures and write a page with their numbers."""
    from sweep_service.figures import FIGURES
    from sweep_service.figures.gallery import render_page

    target = LocalTarget(data_folder(data), choose_executor(workers, scheduler, serial), quiet=as_json)
    folder = output or target.folder.state / "gallery"
    reports = []
    for figure in FIGURES.values():
        presets = figure.full_presets if full else figure.presets
        sweeps = _compute_presets(target, presets, 0, as_json)
        reports.append(target.reproduce(figure, sweeps, folder))
        if not as_json:
            print(f"{figure.name:<24} {'passes' if reports[-1].passed else 'FAILS'}", file=sys.stderr)
    (folder / "README.md").write_text(render_page(reports), "utf-8")
    path = str(folder / "README.md")
    print_answer(as_json, {"page": path, "figures": [report.to_json() for report in reports]}, path)
    raise typer.Exit(DONE if all(report.passed for report in reports) else FAILED)


def _reproduce(
    target: LocalTarget, figure: PaperFigure, presets: Sequence[str], priority: int, draw: bool, as_json: bool
) -> NoReturn:
    """Compute the sweeps of a figure, draw it and check its numbers; exit with the result."""
    sweeps = _compute_presets(target, presets, priority, as_json)
    report = target.reproduce(figure, sweeps, target.folder.state / "figures", draw)
    sweep = sweeps[presets[0]]
    text = f"{format_outcome(sweep, target.option)}\n\n{report}"
    print_answer(as_json, {**sweep, **report.to_json()}, text)
    raise typer.Exit(DONE if report.passed else FAILED)


def _compute_presets(
    target: LocalTarget, presets: Sequence[str], priority: int, as_json: bool
) -> dict[str, SweepSummary]:
    """Compute the sweeps of presets; exit at the first one that does not complete."""
    sweeps = {}
    for preset in presets:
        sweeps[preset] = target.submit(read_spec(preset), priority)
        if stop.requested or sweeps[preset]["state"] != "completed":
            exit_with_outcome(target, sweeps[preset], as_json)
    return sweeps


def _find_paper_figure(spec: str) -> tuple[PaperFigure, Sequence[str]] | None:
    """Find the figure whose first preset is `spec`, and all presets of that form of the figure."""
    from sweep_service.figures import find_figure

    figure = None if Path(spec).exists() else find_figure(spec)
    if figure is None:
        return None
    presets = figure.full_presets if spec in figure.full_presets else figure.presets
    return (figure, presets) if spec == presets[0] else None


def extend(
    sweep_id: Id,
    change: Annotated[
        str,
        typer.Argument(help="File with more values, seeds, times or observables, or - for standard input."),
    ],
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the new sweep. Default: that of the old one.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the estimate.")] = False,
    data: Data = None,
    url: Url = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    serial: Serial = False,
    as_json: Json = False,
) -> None:
    """Compute a new sweep with more values or later times; runs of the old sweep are reused."""
    target = choose_computing_target(data, url, workers, scheduler, serial, as_json)
    if dry_run:
        cost = target.estimate_extension(sweep_id, read_file(change))
        print_answer(as_json, cost, format_estimate(cost))
    else:
        exit_with_outcome(target, target.extend(sweep_id, read_file(change), name), as_json)


def retry(
    sweep_id: Id,
    data: Data = None,
    url: Url = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    serial: Serial = False,
    as_json: Json = False,
) -> None:
    """Compute the failed and cancelled runs of a sweep again, or continue an interrupted sweep."""
    target = choose_computing_target(data, url, workers, scheduler, serial, as_json)
    exit_with_outcome(target, target.retry(sweep_id), as_json)


def resume(
    sweep_id: Id,
    data: Data = None,
    url: Url = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    serial: Serial = False,
    as_json: Json = False,
) -> None:
    """Continue a paused or interrupted sweep."""
    target = choose_computing_target(data, url, workers, scheduler, serial, as_json)
    exit_with_outcome(target, target.resume(sweep_id), as_json)
