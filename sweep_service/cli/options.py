"""The options and arguments that commands share, and what the shell completes them with."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from sweep_service.runner import data_location


def _ids(context: typer.Context) -> list[str]:
    """For the shell, while a person types: quickly, from the names of files."""
    given = context.params
    if given.get("url") or "data" not in given or (not given["data"] and os.environ.get("SWEEP_URL")):
        return []
    return sorted(path.stem for path in Path(data_location(given["data"])).glob("sweeps/*.zarr"))


def _presets() -> list[str]:
    return sorted(path.stem for path in (Path(__file__).parents[1] / "presets").glob("*.yaml"))


Data = Annotated[
    str | None,
    typer.Option(
        "--data",
        help="Where the sweeps are: a folder, or s3://bucket/folder. By default SWEEP_DATA, or sweep-data.",
    ),
]
Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        help="A service, such as http://127.0.0.1:8000; SWEEP_TOKEN has the token that it may want. "
        "By default SWEEP_URL.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Answer in JSON, for programs.")]
Spec = Annotated[
    str,
    typer.Argument(help="A JSON or YAML file, - for standard input, or a preset.", autocompletion=_presets),
]
Id = Annotated[
    str, typer.Argument(help="A sweep's id, or the beginning of one.", autocompletion=_ids, metavar="ID")
]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, help="Processes that compute. By default one for each core.")
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        help="Compute on the Dask cluster of this scheduler, such as tcp://host:8786. "
        "Also from SWEEP_SCHEDULER or DASK_SCHEDULER_ADDRESS.",
    ),
]
Serial = Annotated[bool, typer.Option("--serial", help="Compute in this process, without Dask.")]
Figure = Annotated[bool, typer.Option("--figure/--no-figure", help="Draw it when it is done.")]
Priority = Annotated[
    int, typer.Option("--priority", help="Among sweeps that share workers, higher goes first.")
]
Preset = Annotated[str | None, typer.Argument(help="Print this one.", autocompletion=_presets)]
