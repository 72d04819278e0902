"""`sweep run`, `gallery`, `extend`, `retry`, `resume`: commands that compute in this process."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from sweep_service.cli.answers import DONE, FAILED, end, say
from sweep_service.cli.arguments import computing_target, executor_of, read_file, read_spec
from sweep_service.cli.format import ending
from sweep_service.cli.options import Data, Figure, Id, Json, Priority, Scheduler, Serial, Spec, Url, Workers
from sweep_service.cli.targets import Here
from sweep_service.runner import data_folder
from sweep_service.signals import stop

if TYPE_CHECKING:
    from sweep_service.figures import Figure as Paper


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
    """Compute a sweep here, without a service, and draw it. After Ctrl-C the same command goes on.

    A preset that is a figure of the papers is drawn like it, and its numbers are checked.
    """
    place = Here(data_folder(data), executor_of(workers, scheduler, serial), quiet=as_json)
    if (known := _paper(spec)) is not None:
        _reproduce(place, *known, priority, figure, as_json)
    about = place.submit(read_spec(spec), priority)
    files = place.draw(about) if figure and about["state"] == "completed" else ()
    end(place, {**about, "figures": [str(file) for file in files]}, as_json)


def gallery(
    output: Annotated[
        Path | None, typer.Argument(help="A folder for the page. By default one beside the sweeps.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="In their full forms, which take hours.")] = False,
    data: Data = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    serial: Serial = False,
    as_json: Json = False,
) -> None:
    """Reproduce all figures of the papers, and write a page with their numbers."""
    from sweep_service.figures import FIGURES
    from sweep_service.figures.gallery import page

    place = Here(data_folder(data), executor_of(workers, scheduler, serial), quiet=as_json)
    folder = output or place.folder.state / "gallery"
    reports = []
    for one in FIGURES.values():
        names = one.full if full else one.presets
        reports.append(place.reproduce(one, _computed(place, names, 0, as_json), folder))
        if not as_json:
            print(f"{one.name:<18} {'passes' if reports[-1].passed else 'FAILS'}", file=sys.stderr)
    (folder / "README.md").write_text(page(reports), "utf-8")
    path = str(folder / "README.md")
    say(as_json, {"page": path, "figures": [one.plain() for one in reports]}, path)
    raise typer.Exit(DONE if all(one.passed for one in reports) else FAILED)


def _reproduce(
    place: Here, one: Paper, names: Sequence[str], priority: int, draw: bool, as_json: bool
) -> NoReturn:
    """The sweeps of a figure, its files, and its numbers against their bounds."""
    found = _computed(place, names, priority, as_json)
    report = place.reproduce(one, found, place.folder.state / "figures", draw)
    say(
        as_json, {**found[names[0]], **report.plain()}, f"{ending(found[names[0]], place.option)}\n\n{report}"
    )
    raise typer.Exit(DONE if report.passed else FAILED)


def _computed(place: Here, names: Sequence[str], priority: int, as_json: bool) -> dict[str, dict[str, Any]]:
    """Sweeps of presets, all of them to their ends; the first that does not get there ends the command."""
    found = {}
    for name in names:
        found[name] = place.submit(read_spec(name), priority)
        if stop.asked or found[name]["state"] != "completed":
            end(place, found[name], as_json)
    return found


def _paper(spec: str) -> tuple[Paper, Sequence[str]] | None:
    """The figure of the papers that a preset stands for, and all of its presets in that form."""
    from sweep_service.figures import figure_of

    found = None if Path(spec).exists() else figure_of(spec)
    names = () if found is None else found.full if spec in found.full else found.presets
    return None if found is None or spec != names[0] else (found, names)


def extend(
    sweep: Id,
    change: Annotated[str, typer.Argument(help="More values for axes, or more seeds: a file, or - .")],
    data: Data = None,
    url: Url = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    serial: Serial = False,
    as_json: Json = False,
) -> None:
    """A new sweep with more values; what the old one has computed is copied."""
    place = computing_target(data, url, workers, scheduler, serial, as_json)
    end(place, place.extend(sweep, read_file(change)), as_json)


def retry(
    sweep: Id,
    data: Data = None,
    url: Url = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    serial: Serial = False,
    as_json: Json = False,
) -> None:
    """Compute the failed and cancelled runs of a sweep again, or go on with one that was interrupted."""
    place = computing_target(data, url, workers, scheduler, serial, as_json)
    end(place, place.retry(sweep), as_json)


def resume(
    sweep: Id,
    data: Data = None,
    url: Url = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    serial: Serial = False,
    as_json: Json = False,
) -> None:
    """Go on with a sweep that was paused or interrupted."""
    place = computing_target(data, url, workers, scheduler, serial, as_json)
    end(place, place.resume(sweep), as_json)
