"""The RO-Crate metadata of an archive (https://w3id.org/ro/crate/1.1): JSON-LD that describes its files.

Directories with the chunks of a dataset are one entity each, as RO-Crate permits; the manifest lists every
file. The same sweeps give the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sweep_service.archives.citation import PAPERS, SOFTWARE, SOFTWARE_AUTHOR, SOFTWARE_LICENSE, Paper
from sweep_service.archives.contents import CITATION, ENVIRONMENT, FIGURES, MANIFEST, METADATA, README, SWEEPS
from sweep_service.model.labels import variable_attributes
from sweep_service.planning.spec import SweepSpec
from sweep_service.store.notes import NOTES_SUFFIX, Notes

CONTEXT = "https://w3id.org/ro/crate/1.1/context"
PROFILE = "https://w3id.org/ro/crate/1.1"
ZARR = "https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html"
MEDIA_TYPES = {
    ".png": "image/png", ".svg": "image/svg+xml", ".pdf": "application/pdf", ".json": "application/json",
    ".md": "text/markdown", ".bib": "application/x-bibtex", ".txt": "text/plain",
}  # fmt: skip
Entity = dict[str, Any]


@dataclass(frozen=True)
class Publication:
    """What the person who archives sweeps says about them."""

    title: str = ""
    authors: tuple[str, ...] = ()
    license: str = "https://creativecommons.org/licenses/by/4.0/"


@dataclass(frozen=True)
class SweepEntry:
    """A sweep as it is described: its spec, its notes, how it was computed, and its files."""

    id: str
    spec: SweepSpec
    notes: Notes
    attributes: Mapping[str, Any]  # of the dataset
    observables: Sequence[str]
    counts: Mapping[str, int]  # of runs by status
    figures: Sequence[str] = field(default_factory=tuple)

    @property
    def title(self) -> str:
        return self.notes.name or self.id

    @property
    def version(self) -> str:
        return str(self.attributes.get("sweep_service_version", "unknown"))

    @property
    def dataset_name(self) -> str:
        return f"{SWEEPS}/{self.id}.zarr/"

    @property
    def runs(self) -> str:
        return ", ".join(f"{count} {status}" for status, count in self.counts.items())


def describe_crate(publication: Publication, sweeps: Sequence[SweepEntry], sizes: Mapping[str, int]) -> bytes:
    """Return `ro-crate-metadata.json`. `sizes` are the bytes of the files that are described one by one."""
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": format_title(publication, sweeps),
        "description": format_description(sweeps),
        "datePublished": publication_date(sweeps),
        "license": _reference(publication.license),
        "keywords": sorted({"stochastic gradient descent", "two-layer networks", *_tags(sweeps)}),
        "author": [_reference(_author_id(number)) for number in range(len(publication.authors))],
        "citation": [_reference(paper.url) for paper in PAPERS],
        "hasPart": [_reference(name) for name in sorted([*sizes, *(sweep.dataset_name for sweep in sweeps)])],
        "mentions": [_reference(_action_id(sweep)) for sweep in sweeps],
    }
    graph = [
        {
            "@id": METADATA,
            "@type": "CreativeWork",
            "conformsTo": _reference(PROFILE),
            "about": _reference("./"),
        },
        {name: value for name, value in root.items() if value not in ([], "")},
        {"@id": publication.license, "@type": "CreativeWork", "name": publication.license},
        *_describe_people(publication),
        *(_describe_file(name, size) for name, size in sorted(sizes.items())),
        *(entity for sweep in sweeps for entity in _describe_sweep(sweep)),
        *_describe_variables(sweeps),
        *_describe_software(sweeps),
        *map(_describe_paper, PAPERS),
        {"@id": ZARR, "@type": "WebPage", "name": "Zarr core specification, version 3"},
    ]
    content = {"@context": CONTEXT, "@graph": graph}
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()


def format_title(publication: Publication, sweeps: Sequence[SweepEntry]) -> str:
    return publication.title or "; ".join(sweep.title for sweep in sweeps)


def format_description(sweeps: Sequence[SweepEntry]) -> str:
    notes = [f"{sweep.title}: {sweep.notes.note}" for sweep in sweeps if sweep.notes.note]
    count = "A parameter sweep" if len(sweeps) == 1 else f"{len(sweeps)} parameter sweeps"
    text = f"{count} of one-pass SGD in two-layer networks and its limiting ODEs, computed by {SOFTWARE}."
    return "\n".join([text, *notes])


def publication_date(sweeps: Sequence[SweepEntry]) -> str:
    """Return the day on which the last of the sweeps was created, which does not depend on the archive."""
    return max(str(sweep.attributes.get("created", "1970-01-01")) for sweep in sweeps)[:10]


def _tags(sweeps: Iterable[SweepEntry]) -> set[str]:
    return {tag for sweep in sweeps for tag in sweep.notes.tags}


def _reference(identifier: str) -> Entity:
    return {"@id": identifier}


def _author_id(number: int) -> str:
    return f"#author-{number + 1}"


def _action_id(sweep: SweepEntry) -> str:
    return f"#computation-{sweep.id}"


def _software_id(version: str) -> str:
    return f"#{SOFTWARE}-{version}"


def _describe_people(publication: Publication) -> list[Entity]:
    return [
        {"@id": _author_id(number), "@type": "Person", "name": name}
        for number, name in enumerate(publication.authors)
    ]


def _describe_file(name: str, size: int) -> Entity:
    titles = {
        README: "What this archive holds, and how to open it",
        CITATION: "What to cite, as BibTeX",
        ENVIRONMENT: "Versions of code, packages and machine that computed each sweep",
        MANIFEST: "SHA-256 of every other file, in the format of sha256sum",
    }
    folder, _, rest = name.partition("/")
    sweep_id = rest.partition(".")[0]
    if folder == FIGURES:
        title = f"Figure of sweep {sweep_id}"
    elif folder == SWEEPS:
        part = "Name, note and tags" if name.endswith(NOTES_SUFFIX) else "Spec"
        title = f"{part} of sweep {sweep_id}"
    else:
        title = titles[name]
    media_type = next(media for suffix, media in MEDIA_TYPES.items() if name.endswith(suffix))
    entity = {"@id": name, "@type": "File", "name": title, "encodingFormat": media_type}
    # The manifest lists the digest of the metadata, so that its own size is not known here.
    return entity if name == MANIFEST else {**entity, "contentSize": str(size)}


def _describe_sweep(sweep: SweepEntry) -> Iterable[Entity]:
    yield {
        "@id": sweep.dataset_name,
        "@type": "Dataset",
        "identifier": sweep.id,
        "name": sweep.title,
        "description": f"Labelled arrays of sweep {sweep.id} as a Zarr 3 group; runs: {sweep.runs}.",
        "dateCreated": str(sweep.attributes.get("created", "")),
        "encodingFormat": ["application/vnd.zarr", _reference(ZARR)],
        "variableMeasured": [_reference(_variable_id(name)) for name in sweep.observables],
        "keywords": list(sweep.notes.tags),
    }
    yield {
        "@id": _action_id(sweep),
        "@type": "CreateAction",
        "name": f"Computation of sweep {sweep.id}",
        "instrument": _reference(_software_id(sweep.version)),
        "object": _reference(f"{SWEEPS}/{sweep.id}.json"),
        "result": [_reference(sweep.dataset_name), *map(_reference, sweep.figures)],
        "startTime": str(sweep.attributes.get("created", "")),
        "description": f"Run keys {sweep.attributes.get('keys_sha256', '')}, "
        f"versions {sweep.attributes.get('versions', '{}')}",
    }


def _variable_id(name: str) -> str:
    return f"#variable-{name}"


def _describe_variables(sweeps: Iterable[SweepEntry]) -> Iterable[Entity]:
    for name in sorted({name for sweep in sweeps for name in sweep.observables}):
        labels = variable_attributes(name)
        entity = {"@id": _variable_id(name), "@type": "PropertyValue", "name": name}
        yield entity | {"description": str(labels.get("long_name", name))}


def _describe_software(sweeps: Iterable[SweepEntry]) -> Iterable[Entity]:
    for version in sorted({sweep.version for sweep in sweeps}):
        yield {
            "@id": _software_id(version),
            "@type": "SoftwareApplication",
            "name": SOFTWARE,
            "version": version,
            "softwareVersion": version,
            "license": _reference(SOFTWARE_LICENSE),
            "author": _reference(f"#{SOFTWARE}-developers"),
        }
    yield {"@id": f"#{SOFTWARE}-developers", "@type": "Organization", "name": SOFTWARE_AUTHOR}
    yield {"@id": SOFTWARE_LICENSE, "@type": "CreativeWork", "name": "MIT License"}


def _describe_paper(paper: Paper) -> Entity:
    return {
        "@id": paper.url,
        "@type": "ScholarlyArticle",
        "name": paper.title,
        "author": list(paper.authors),
        "datePublished": str(paper.year),
        "isPartOf": f"{paper.venue}, {paper.series} {paper.volume}",
        "pagination": "-".join(map(str, paper.pages)),
    }
