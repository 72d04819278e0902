"""`sweep archive`: write finished sweeps of a data folder to one zip file.

The same sweeps give the same bytes: files are in order of their names, uncompressed (chunks of datasets are
compressed already), and without dates.
"""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zarr.core.sync import sync

from sweep_service.archives.citation import PAPERS, format_bibliography
from sweep_service.archives.contents import (
    CITATION,
    ENVIRONMENT,
    FIGURES,
    MANIFEST,
    MAX_FILES,
    MAX_SWEEPS,
    METADATA,
    README,
    SWEEPS,
    digest,
    format_manifest,
)
from sweep_service.archives.crate import (
    Publication,
    SweepEntry,
    describe_crate,
    format_description,
    format_title,
    publication_date,
)
from sweep_service.errors import Conflict, Damaged, InvalidInput, LimitExceeded
from sweep_service.status import Status
from sweep_service.store.folder import DataFolder
from sweep_service.store.ledger import State, SweepRecord
from sweep_service.store.metadata import CHUNKS
from sweep_service.store.notes import NOTES_SUFFIX
from sweep_service.store.objects import PARTIAL

SUFFIX = ".zip"
DATE = (1980, 1, 1, 0, 0, 0)  # the first that a zip file can have
FILE_MODE = 0o100644
MAX_DATASET_FILES = MAX_FILES - 6 * MAX_SWEEPS  # beside spec, notes and figures of each sweep
UNIX = 3  # the system that the modes of files are of
PROVENANCE = ("sweep_service_version", "git", "created", "versions", "environment", "key")
README_TEXT = """# {title}

{description}

This is an [RO-Crate](https://w3id.org/ro/crate/1.1). `ro-crate-metadata.json` describes its files,
`environment.json` lists the versions of code and packages, and `sha256sum -c manifest-sha256.txt` checks
every file.

## Open

```python
import xarray as xr

ds = xr.open_zarr("sweeps/{example}.zarr")  # after unpacking; or sweep_service.open for all analyses
```

`sweep import ARCHIVE.zip` adds the sweeps to a data folder of [sweep-service](https://arxiv.org/abs/2302.05882),
which then reuses their runs in new sweeps.

## Sweeps

{sweeps}

## Cite

Please cite this archive, the software and the papers whose theory it computes; `CITATION.bib` has them all.

{papers}
"""


def write_archive(
    folder: DataFolder,
    sweeps: Sequence[SweepRecord],
    output: Path,
    publication: Publication | None = None,
    with_figures: bool = True,
) -> None:
    """Write sweeps that have ended to `output`, which appears when it is complete."""
    publication = publication or Publication()
    _check_output(output)
    _check_sweeps(folder, sweeps)
    sweeps = sorted(sweeps, key=lambda sweep: sweep.id)
    partial = output.with_name(f"{output.name}.{os.getpid()}{PARTIAL}")
    try:
        with tempfile.TemporaryDirectory() as drawings, zipfile.ZipFile(partial, "x") as file:
            figures = _draw_figures(folder, sweeps, Path(drawings)) if with_figures else {}
            entries = [_describe_sweep(folder, sweep, list(figures)) for sweep in sweeps]
            files = _small_files(folder, publication, entries, figures)
            sizes = {name: len(content) for name, content in files.items()}
            files[METADATA] = describe_crate(publication, entries, {**sizes, MANIFEST: 0})
            digests = _write_files(file, folder, sweeps, files)
            _write(file, MANIFEST, format_manifest(digests))
        os.replace(partial, output)
    finally:
        partial.unlink(missing_ok=True)


def _check_output(output: Path) -> None:
    if output.suffix != SUFFIX:
        raise InvalidInput("output", str(output), f"must end in {SUFFIX}")
    if not output.parent.is_dir() or output.is_dir():
        raise InvalidInput("output", str(output), "must be a file in a folder that exists")


def _check_sweeps(folder: DataFolder, sweeps: Sequence[SweepRecord]) -> None:
    ids = [sweep.id for sweep in sweeps]
    if len(set(ids)) != len(ids) or not 1 <= len(ids) <= MAX_SWEEPS:
        raise InvalidInput("sweeps", len(ids), f"must be 1 to {MAX_SWEEPS} different sweeps")
    for sweep in sweeps:
        if not sweep.state.has_ended or sweep.state is State.FAILED:
            raise Conflict(f"{sweep.id} is {sweep.state}: only a sweep that has ended can be archived")
        if Status.PENDING in folder.dataset(sweep.id).counts():
            raise Conflict(f"{sweep.id} has runs that are pending: sweep retry {sweep.id} computes them")
    count = sum(1 for sweep in sweeps for _ in folder.objects.list(f"{sweep.id}.zarr/"))
    if count > MAX_DATASET_FILES:
        allowed = f"must be at most {MAX_DATASET_FILES}: archive fewer sweeps at once"
        raise LimitExceeded("files", count, allowed)


def _draw_figures(folder: DataFolder, sweeps: Sequence[SweepRecord], drawings: Path) -> dict[str, bytes]:
    """Draw the most informative view of each sweep that has one; return files by name."""
    from sweep_service.client.client import open
    from sweep_service.figures.gallery import draw_suggested_view

    figures: dict[str, bytes] = {}
    for sweep in sweeps:
        with open(folder.dataset_path(sweep.id)) as dataset:
            try:
                paths = draw_suggested_view(dataset, sweep.id, drawings)
            except InvalidInput:  # for example, no run has ended with values
                continue
        figures |= {f"{FIGURES}/{path.name}": path.read_bytes() for path in paths}
    return figures


def _describe_sweep(folder: DataFolder, sweep: SweepRecord, figures: Sequence[str]) -> SweepEntry:
    dataset = folder.dataset(sweep.id)
    if "keys_sha256" not in dataset.attributes:
        raise Conflict(f"{sweep.id} was stored by an older version, without keys, and cannot be archived")
    return SweepEntry(
        id=sweep.id,
        spec=folder.spec(sweep.id),
        notes=folder.notes(sweep.id),
        attributes=dataset.attributes,
        observables=dataset.plan.grid.observables,
        counts={status.label: count for status, count in sorted(dataset.counts().items())},
        figures=[name for name in figures if name.startswith(f"{FIGURES}/{sweep.id}.")],
    )


def _small_files(
    folder: DataFolder,
    publication: Publication,
    entries: Sequence[SweepEntry],
    figures: Mapping[str, bytes],
) -> dict[str, bytes]:
    """Return all files but the metadata, the manifest and the datasets."""
    title, date = format_title(publication, entries), publication_date(entries)
    versions = tuple(sorted({entry.version for entry in entries}))
    files = {
        README: _format_readme(publication, entries).encode(),
        CITATION: format_bibliography(title, publication.authors, date, versions).encode(),
        ENVIRONMENT: _format_environment(entries),
        **figures,
    }
    for entry in entries:
        files[f"{SWEEPS}/{entry.id}.json"] = folder.objects.get(f"{entry.id}.json")
        if folder.objects.exists(f"{entry.id}{NOTES_SUFFIX}"):
            files[f"{SWEEPS}/{entry.id}{NOTES_SUFFIX}"] = folder.objects.get(f"{entry.id}{NOTES_SUFFIX}")
    return files


def _format_readme(publication: Publication, entries: Sequence[SweepEntry]) -> str:
    return README_TEXT.format(
        title=format_title(publication, entries),
        description=format_description(entries),
        example=entries[0].id,
        sweeps="\n".join(f"- `{entry.id}`: {entry.title}; runs: {entry.runs}" for entry in entries),
        papers="\n".join(f"- {paper.reference}" for paper in PAPERS),
    )


def _format_environment(entries: Sequence[SweepEntry]) -> bytes:
    content = {
        entry.id: {name: _parse(entry.attributes[name]) for name in PROVENANCE if name in entry.attributes}
        for entry in entries
    }
    return (json.dumps(content, indent=2, sort_keys=True) + "\n").encode()


def _parse(attribute: str) -> Any:
    return json.loads(attribute) if attribute.startswith("{") else attribute


def _write_files(
    file: zipfile.ZipFile, folder: DataFolder, sweeps: Sequence[SweepRecord], files: Mapping[str, bytes]
) -> dict[str, str]:
    """Write all files but the manifest in order of their names; return their digests."""
    names = dict.fromkeys(files, "")
    for sweep in sweeps:
        dataset = f"{sweep.id}.zarr"
        names |= {f"{SWEEPS}/{name}": sweep.id for name in folder.objects.list(f"{dataset}/")}
    digests, stores = {}, {sweep.id: folder.dataset(sweep.id).store for sweep in sweeps}
    for name in sorted(names):
        if name in files:
            content = files[name]
        else:
            key = name.partition(".zarr/")[2]
            content = _read_object(folder, stores[names[name]], name.removeprefix(f"{SWEEPS}/"), key)
        digests[name] = digest(content)
        _write(file, name, content)
    return digests


def _read_object(folder: DataFolder, store: Any, name: str, key: str) -> bytes:
    """Read a file of a dataset; raise Damaged if it is a chunk whose checksum is wrong."""
    if key.split("/")[1:2] != [CHUNKS]:
        return folder.objects.get(name)
    content = sync(store.get(key))
    if content is None:
        raise Damaged(f"{name} has been removed while it was archived")
    return content.to_bytes()


def _write(file: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, DATE)
    entry.create_system, entry.external_attr = UNIX, FILE_MODE << 16
    file.writestr(entry, content)
