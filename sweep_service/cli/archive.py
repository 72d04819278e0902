"""`sweep archive` and `sweep import`: finished sweeps as one file, from a data folder into another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from sweep_service.cli.answers import print_answer
from sweep_service.cli.options import Data, Json
from sweep_service.cli.targets import LocalTarget
from sweep_service.errors import InvalidInput
from sweep_service.runner import data_folder
from sweep_service.text import format_size


def archive(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="ID... OUT.zip", help="Ids of sweeps, or unambiguous prefixes; then the file."
        ),
    ],
    title: Annotated[str, typer.Option("--title", help="Title. Default: the names of the sweeps.")] = "",
    authors: Annotated[
        list[str] | None, typer.Option("--author", metavar="NAME", help="An author; may be repeated.")
    ] = None,
    license: Annotated[
        str, typer.Option("--license", metavar="URL", help="License of the data.")
    ] = "https://creativecommons.org/licenses/by/4.0/",
    figures: Annotated[bool, typer.Option("--figures/--no-figures", help="Draw each sweep.")] = True,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Write finished sweeps to one file with everything that others need: an RO-Crate, ready to publish.

    It has datasets, specs, versions, figures and what to cite. `sweep import` adds it to another data folder.
    """
    from sweep_service.archives.crate import Publication
    from sweep_service.archives.write_archive import write_archive

    *prefixes, name = arguments
    output = Path(name)
    if not prefixes:
        raise InvalidInput("arguments", name, "must be one or more sweeps and a file: ID... OUT.zip")
    target = LocalTarget(data_folder(data))
    sweep_ids = _find_ids(target, prefixes)
    with target.open_ledger() as ledger:
        sweeps = [ledger.sweep(sweep_id) for sweep_id in sweep_ids]
    publication = Publication(title, tuple(authors or ()), license)
    write_archive(target.folder, sweeps, output, publication, figures)
    size = output.stat().st_size
    answer = {"ids": sweep_ids, "path": str(output), "bytes": size}
    print_answer(as_json, answer, f"{output}  {format_size(size)}")


def _find_ids(target: LocalTarget, prefixes: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(target.find_id(prefix) for prefix in prefixes))


def import_sweeps(
    path: Annotated[Path, typer.Argument(metavar="ARCHIVE.zip", help="A file that sweep archive wrote.")],
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Add the sweeps of an archive to a data folder. Their runs are then reused like any others.

    Everything in the file is checked first, and nothing is written if something is wrong.
    """
    from sweep_service.archives.import_archive import check_archive, import_archive
    from sweep_service.execution.summary import record_to_dict

    if not path.is_file():
        raise InvalidInput("path", str(path), "must be a file that sweep archive wrote")
    target = LocalTarget(data_folder(data))
    if not target.folder.has_ledger():  # an archive that is refused must not leave an empty folder behind
        check_archive(path)
    with target.open_conductor("stop the service at {url} first") as conductor:
        sweeps = [record_to_dict(sweep) for sweep in import_archive(conductor, path)]
        paths = [conductor.folder.address(sweep["id"]) for sweep in sweeps]
    answer = [{**sweep, "path": path} for sweep, path in zip(sweeps, paths, strict=True)]
    lines = [f"{sweep['id']}  {sweep['state']}  {sweep['runs']} runs  {sweep['name']}" for sweep in sweeps]
    print_answer(as_json, answer, "\n".join(lines))
