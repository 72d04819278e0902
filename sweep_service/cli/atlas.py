"""`sweep atlas`, `compare`: questions to the runs of many sweeps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sweep_service.cli.answers import print_answer
from sweep_service.cli.arguments import choose_target
from sweep_service.cli.format import format_comparison, format_facets
from sweep_service.cli.inspect import parse_view
from sweep_service.cli.options import Data, Id, Json, Url
from sweep_service.errors import InvalidInput, unknown_name

TABLES = {".csv": "csv", ".parquet": "parquet"}
FIGURES = (".png", ".svg", ".pdf")


def atlas(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="VIEW NAME=VALUE",
            help="A selection such as k=2 p=4:16 activation=erf; before it, phase-diagram, triangle or "
            "curves with its options: phase-diagram x=gamma y=p value=sgd_final_risk d=50.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", help="The runs as .csv or .parquet, or a view as .png, .svg or .pdf."),
    ] = None,
    data: Data = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Show which runs are stored, over all sweeps, and draw diagrams and curves of them.

    Without a view, the values of each parameter are listed with the number of runs, and --output writes the
    runs themselves. A view needs --output for a figure, or --json for its numbers.
    """
    view, options = parse_view(arguments or [])
    target = choose_target(data, url)
    suffixes = FIGURES if view else tuple(TABLES)
    if output is not None and output.suffix not in suffixes:
        raise InvalidInput("--output", str(output), f"must end in {', '.join(suffixes)}")
    if view and output is None and not as_json:
        raise InvalidInput("--output", None, f"is required for a figure ({', '.join(FIGURES)}), or --json")
    if view and output is not None:
        target.draw_atlas(view, options, output)
        print_answer(as_json, {"path": str(output), "view": view, "words": options}, str(output))
    elif view:
        print_answer(True, target.compute_atlas_view(view, options), "")
    elif output is not None:
        count = target.write_atlas_runs(options, output, TABLES[output.suffix])
        print_answer(as_json, {"path": str(output), "runs": count}, f"{output}  {count} runs")
    else:
        facets = target.count_atlas_runs(options)
        print_answer(as_json, facets, format_facets(facets))


def compare(
    a: Id,
    b: Id,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="VALUE NAME=VALUE", help="A value, by default sgd_risk, and a selection such as d=100."
        ),
    ] = None,
    how: Annotated[str, typer.Option("--how", help="ratio (a over b) or difference (a minus b).")] = "ratio",
    data: Data = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Compare a value of two sweeps at the points that both have, with standard errors.

    At points with shared starts the runs are compared in pairs, so that the scatter of the starts cancels.
    """
    value, options = parse_view(arguments or [])
    if "value" in options or "how" in options:
        raise unknown_name("option", "value" if "value" in options else "how", ["VALUE", "--how"])
    result = choose_target(data, url).compare(a, b, {"value": value or "sgd_risk", "how": how, **options})
    print_answer(as_json, result, format_comparison(result))
