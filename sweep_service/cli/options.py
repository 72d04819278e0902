"""The options and arguments that several commands have, and their shell completion."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from sweep_service.runner import data_location


def _complete_ids(context: typer.Context) -> list[str]:
    """List the ids of a local folder from file names, which is fast enough for shell completion."""
    params = context.params
    if params.get("url") or "data" not in params or (not params["data"] and os.environ.get("SWEEP_URL")):
        return []
    return sorted(path.stem for path in Path(data_location(params["data"])).glob("sweeps/*.zarr"))


def _complete_presets() -> list[str]:
    """List the names of the presets without importing them."""
    return sorted(path.stem for path in (Path(__file__).parents[1] / "presets").glob("*.yaml"))


Data = Annotated[
    str | None,
    typer.Option(
        "--data",
        help="Data folder: a path or s3://bucket/folder. Default: SWEEP_DATA, or sweep-data.",
    ),
]
Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        help="URL of a service, such as http://127.0.0.1:8000. Default: SWEEP_URL. "
        "The token is read from SWEEP_TOKEN.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Spec = Annotated[
    str,
    typer.Argument(
        help="YAML or JSON file, - for standard input, or a preset.",
        autocompletion=_complete_presets,
    ),
]
Id = Annotated[
    str,
    typer.Argument(
        help="Id of a sweep, an unambiguous prefix, or its name.", autocompletion=_complete_ids, metavar="ID"
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers", min=1, help="Number of worker processes. Default: one per core; none for a tiny sweep."
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        help="Address of a Dask scheduler to compute on, such as tcp://host:8786. "
        "Default: SWEEP_SCHEDULER or DASK_SCHEDULER_ADDRESS.",
    ),
]
Serial = Annotated[bool, typer.Option("--serial", help="Compute in this process, without Dask.")]
Figure = Annotated[bool, typer.Option("--figure/--no-figure", help="Draw the completed sweep.")]
Priority = Annotated[
    int, typer.Option("--priority", help="Among sweeps that share workers, a higher priority goes first.")
]
Preset = Annotated[
    str | None, typer.Argument(help="Name of a preset to print.", autocompletion=_complete_presets)
]
