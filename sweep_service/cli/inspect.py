"""Commands that change no sweep: `sweep list`, `show`, `estimate`, `seeds`, `export`, `plot`, `rerun`, …"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from sweep_service.cli.answers import DONE, FAILED, print_answer
from sweep_service.cli.arguments import choose_target, is_spec, read_spec
from sweep_service.cli.format import (
    format_estimate,
    format_prediction,
    format_seeds,
    format_sweep,
    format_sweeps,
)
from sweep_service.cli.options import Data, Id, Json, Preset, Spec, Url
from sweep_service.cli.targets import LocalTarget
from sweep_service.errors import InvalidInput, NotFound
from sweep_service.runner import data_folder
from sweep_service.text import format_table

MAX_FAILURES_SHOWN = 5  # in text; JSON has all of them


def list_sweeps(
    tags: Annotated[
        list[str] | None,
        typer.Option("--tag", metavar="TAG", help="Only sweeps with this tag; may be repeated."),
    ] = None,
    data: Data = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """List the sweeps of a data folder or a service, newest first."""
    sweeps = choose_target(data, url).list_sweeps(tags or ())
    print_answer(as_json, sweeps, format_sweeps(sweeps))


def show(sweep_id: Id, data: Data = None, url: Url = None, as_json: Json = False) -> None:
    """Show the state, run counts, location and failures of a sweep."""
    sweep = choose_target(data, url).describe(sweep_id, None if as_json else MAX_FAILURES_SHOWN)
    print_answer(as_json, sweep, format_sweep(sweep))


def estimate(
    spec: Spec,
    accuracy: Annotated[
        bool,
        typer.Option(
            "--accuracy/--no-accuracy",
            help="Also predict how accurately the risk of SGD will be known, which takes up to some seconds.",
        ),
    ] = True,
    data: Data = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Predict the cost of a sweep, and the accuracy of its mean risk, without starting it."""
    target, text = choose_target(data, url, quiet=as_json), read_spec(spec)
    answer = target.estimate(text)
    if not as_json:
        print(format_estimate(answer), flush=True)  # at once, because the accuracy takes longer
    if accuracy:
        with suppress(NotFound):  # a service of an older version cannot predict it
            answer["accuracy"] = target.predict_seeds(text)
    if as_json:
        print_answer(as_json, answer, "")
    elif "accuracy" in answer:
        print(f"\n{format_prediction(answer['accuracy'])}")


def seeds(
    source: Annotated[
        str,
        typer.Argument(
            metavar="ID|SPEC",
            help="Id of a sweep, or an unambiguous prefix; or the spec of a new one: a file, - or a preset.",
        ),
    ],
    selection: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME=VALUE", help="Points and times of a sweep: d=100 time=10."),
    ] = None,
    error: Annotated[
        float | None,
        typer.Option(
            "--error",
            help="Standard error of the mean over the mean. Default: 0.05, and for a spec about half of what "
            "its seeds give.",
        ),
    ] = None,
    value: Annotated[
        str, typer.Option("--value", help="risk, final_risk, or another observable of SGD.")
    ] = "risk",
    data: Data = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Count the seeds that make a mean as accurate as you want.

    For a sweep, the numbers are measured from its runs, and predicted if it stores fluctuations; at its last
    time unless a time is selected. For a spec they are predicted at a few points, before any run.
    """
    target = choose_target(data, url, quiet=as_json)
    if is_spec(source):
        if selection or value != "risk":
            name = "--value" if value != "risk" else "selection"
            raise InvalidInput(name, selection or value, "is for stored sweeps: a spec has the risk only")
        prediction = target.predict_seeds(read_spec(source), error)
        print_answer(as_json, prediction, format_prediction(prediction))
        return
    options: dict[str, object] = {"value": value, **_parse_options(selection or ())}
    if error is not None:
        options["relative_error"] = error
    numbers = target.count_seeds(source, options)
    print_answer(as_json, numbers, format_seeds(numbers))


def export(
    sweep_id: Id,
    output: Annotated[Path, typer.Argument(help="Output file: .nc, .csv, .parquet or .json.")],
    data: Data = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Export a sweep as netCDF, as a table with one row per run and time, or as JSON."""
    exported_id = choose_target(data, url).export(sweep_id, output)
    print_answer(as_json, {"id": exported_id, "path": str(output)}, str(output))


def plot(
    sweep_id: Id,
    output: Annotated[Path, typer.Argument(help="Output file: .png, .svg or .pdf.")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="VIEW NAME=VALUE",
            help="A view, its options and the selection: phase-diagram x=gamma y=p value=sgd_risk d=50 "
            "levels=5, or curves time=steps scale=log. Default: the most informative view.",
        ),
    ] = None,
    data: Data = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Draw a view of a sweep: curves, phase-diagram, triangle, plane, rates, collapse or cosines."""
    from sweep_service.figures.gallery import draw_view

    with choose_target(data, url).open_dataset(sweep_id) as (drawn_id, dataset):
        view, options = draw_view(dataset, drawn_id, output, *parse_view(arguments or []))
    answer = {"id": drawn_id, "path": str(output), "view": view, "words": options}
    print_answer(as_json, answer, str(output))


def parse_view(arguments: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Parse the name of a view and its options; a repeated option adds to its values, as in a URL."""
    view = arguments[0] if arguments and "=" not in arguments[0] else ""
    return view, _parse_options(arguments[1:] if view else arguments)


def _parse_options(arguments: Sequence[str]) -> dict[str, str]:
    options: dict[str, str] = {}
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not (name and equals):
            raise InvalidInput("option", argument, "must have the form x=gamma or d=50")
        options[name] = f"{options[name]},{value}" if name in options else value
    return options


def rerun(
    sweep_id: Id,
    run: Annotated[str, typer.Argument(help="Name of a run, such as sgd-12 or ode-3.")],
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Compute one run alone and show its status or error; nothing is stored."""
    from sweep_service.execution.compute import compute_run
    from sweep_service.status import DivergedQuantity, Status

    folder = data_folder(data)
    plan = folder.plan(LocalTarget(folder).find_id(sweep_id))
    result = compute_run(plan, plan.runs.find(run))
    status = Status(int(result.values["status"][0])).label
    trace = "".join(failure.trace for failure in result.failures)
    quantity = DivergedQuantity(int(result.values["diverged_quantity"][0]))
    text = f"{status}: {quantity.label}" if quantity else status
    answer = {"run": run, "status": status, "diverged_quantity": quantity.label, "trace": trace}
    print_answer(as_json, answer, trace or text)
    raise typer.Exit(FAILED if trace else DONE)


def presets(name: Preset = None, as_json: Json = False) -> None:
    """List the ready-made specs, or print one."""
    from sweep_service.presets import PRESETS, read_preset, read_preset_text

    if name is not None:
        print_answer(
            as_json, json.loads(read_preset(name).model_dump_json()), read_preset_text(name).rstrip()
        )
    else:
        titles = {name: read_preset(name).name for name in PRESETS}
        print_answer(as_json, titles, format_table(("name", "title"), titles.items()))
