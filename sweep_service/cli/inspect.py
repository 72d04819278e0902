"""`sweep list`, `show`, `estimate`, `export`, `plot`, `rerun`, `presets`: commands that change nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from sweep_service.cli.answers import DONE, FAILED, say
from sweep_service.cli.arguments import read_spec, target
from sweep_service.cli.format import listing, priced, told
from sweep_service.cli.options import Data, Id, Json, Preset, Spec, Url
from sweep_service.cli.targets import Here
from sweep_service.errors import InvalidInput
from sweep_service.runner import data_folder
from sweep_service.text import table

FEW_FAILURES = 5  # are shown to people


def list_sweeps(data: Data = None, url: Url = None, as_json: Json = False) -> None:
    """The sweeps of a folder or a service, newest first."""
    found = target(data, url).sweeps()
    say(as_json, found, listing(found))


def show(sweep: Id, data: Data = None, url: Url = None, as_json: Json = False) -> None:
    """One sweep: its state, its counts, where it is, and what failed."""
    about = target(data, url).show(sweep, None if as_json else FEW_FAILURES)
    say(as_json, about, told(about))


def estimate(spec: Spec, data: Data = None, url: Url = None, as_json: Json = False) -> None:
    """What a sweep would cost, without beginning it."""
    about = target(data, url, quiet=as_json).estimate(read_spec(spec))
    say(as_json, about, priced(about))


def export(
    sweep: Id,
    output: Annotated[Path, typer.Argument(help="The file to write: .nc, .csv, .parquet or .json.")],
    data: Data = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Write a sweep as netCDF, as a table with a line for each run and time, or as JSON."""
    found = target(data, url).export(sweep, output)
    say(as_json, {"id": found, "path": str(output)}, str(output))


def plot(
    sweep: Id,
    output: Annotated[Path, typer.Argument(help="The file to write: .png, .svg or .pdf.")],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            help="A view, then its words, and what to choose along the axes: "
            "phase-diagram x=gamma y=p value=sgd_risk d=50. By default what shows most.",
        ),
    ] = None,
    data: Data = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Draw a sweep: curves, a phase diagram, the triangle, the plane, rates, a collapse, cosines."""
    from sweep_service.figures.gallery import drawn

    with target(data, url).opened(sweep) as (found, dataset):
        view, said = drawn(dataset, found, output, *_words(words or []))
    say(as_json, {"id": found, "path": str(output), "view": view, "words": said}, str(output))


def _words(words: Sequence[str]) -> tuple[str, dict[str, str]]:
    """A view, and what is said of it: as in a query, one that comes again adds to the first."""
    view = words[0] if words and "=" not in words[0] else ""
    given: dict[str, str] = {}
    for word in words[1:] if view else words:
        name, equals, value = word.partition("=")
        if not (name and equals):
            raise InvalidInput("words", word, "must be such as x=gamma or d=50")
        given[name] = f"{given[name]},{value}" if name in given else value
    return view, given


def rerun(
    sweep: Id,
    run: Annotated[str, typer.Argument(help="The name of a run, such as sgd-12 or ode-3.")],
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Compute one run again, alone, and show what becomes of it; nothing is stored."""
    from sweep_service.execution.compute import alone
    from sweep_service.status import Status

    folder = data_folder(data)
    plan = folder.plan(Here(folder).find(sweep))
    result = alone(plan, plan.runs.find(run))
    status = Status(int(result.values["status"][0])).label
    trace = "".join(failure.trace for failure in result.failures)
    say(as_json, {"run": run, "status": status, "trace": trace}, trace or status)
    raise typer.Exit(FAILED if trace else DONE)


def presets(name: Preset = None, as_json: Json = False) -> None:
    """Specs to start from."""
    from sweep_service.presets import PRESETS, preset, preset_text

    if name is not None:
        say(as_json, json.loads(preset(name).model_dump_json()), preset_text(name).rstrip())
    else:
        found = {one: preset(one).name for one in PRESETS}
        say(as_json, found, table(("name", "title"), found.items()))
