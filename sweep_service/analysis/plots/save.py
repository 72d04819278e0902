"""A figure as a file that says where its numbers come from, and has the same bytes when made again."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from sweep_service.analysis.plots.style import finite, style
from sweep_service.analysis.runs import parameter, spec_of
from sweep_service.errors import InvalidInput, unknown_name
from sweep_service.model.parameters import PARAMETERS
from sweep_service.version import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# What each format calls title, caption, origin and program; where a date would be, there is none.
FORMATS: dict[str, dict[str, str]] = {
    "png": {"title": "Title", "caption": "Description", "origin": "Source", "program": "Software"},
    "svg": {"title": "Title", "caption": "Description", "origin": "Source", "program": "Creator"},
    "pdf": {"title": "Title", "caption": "Subject", "origin": "Keywords", "program": "Creator"},
}
DATES = {"png": (), "svg": ("Date",), "pdf": ("CreationDate",)}


def save(
    figure: Figure,
    to: str | os.PathLike[str] | IO[bytes],
    format: str | None = None,
    dataset: xr.Dataset | None = None,
    caption: str = "",
    id: str = "",
) -> None:
    """PNG, SVG or PDF, by the format or by the name of the file, which is there whole or not at all."""
    path = Path(to) if isinstance(to, str | os.PathLike) else None
    format = (format or (path.suffix[1:] if path else "png")).lower()
    if format not in FORMATS:
        raise unknown_name("format", format, FORMATS)
    buffer = io.BytesIO()
    with style():
        _settle(figure)
        figure.savefig(buffer, format=format, metadata=metadata(format, dataset, caption, id))
    if path is None:
        to.write(buffer.getvalue())  # type: ignore[union-attr]
        return
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(buffer.getvalue())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _settle(figure: Figure) -> None:
    """Lays a figure out for good: done again for each file, it would depend on which came before."""
    from matplotlib.layout_engine import PlaceHolderLayoutEngine

    engine = figure.get_layout_engine()
    if engine is not None and not isinstance(engine, PlaceHolderLayoutEngine):
        figure.draw_without_rendering()
        figure.set_layout_engine("none")


def metadata(format: str, dataset: xr.Dataset | None, caption: str, id: str = "") -> dict[str, Any]:
    """Title, caption, the sweep with its key and the state of the code; never a date."""
    attributes = {} if dataset is None else dataset.attrs
    said = {
        "title": str(attributes.get("title", "")),
        "caption": caption,
        "origin": "" if dataset is None else origin(dataset, id, key=True),
        "program": f"sweep-service {__version__}",
    }
    return {FORMATS[format][what]: text for what, text in said.items() if text} | dict.fromkeys(DATES[format])


def caption(dataset: xr.Dataset, id: str = "") -> str:
    """The parameters in one sentence, where the numbers are in another."""
    spec = spec_of(dataset)
    activation, teacher = (_values(dataset, name) for name in ("activation", "teacher_activation"))
    said = [f"activation {activation}" if teacher == activation else f"activation {activation} of {teacher}"]
    for name, one in PARAMETERS.items():
        values = "" if one.kind == "text" else _values(dataset, name)
        if values and (one.in_every_key or values != f"{one.default:g}"):
            said.append(f"{one.symbol} = {values}")
    if start := spec.get("init", {}).get("kind"):
        said.append(f"{start} start")
    if "seed" in dataset.sizes:
        said.append(f"seeds {dataset.sizes['seed']} × {dataset.sizes.get('repeat', 1)} (init × repeat)")
    if "time" in dataset.sizes:
        said.append(f"t ≤ {float(dataset['time'].values[-1]):g}")
    sentence = ", ".join(said)
    return f"{sentence[0].upper()}{sentence[1:]}. {origin(dataset, id)[0].upper()}{origin(dataset, id)[1:]}."


def origin(dataset: xr.Dataset, id: str = "", key: bool = False) -> str:
    """The sweep and the code that computed it."""
    attributes = dataset.attrs
    id = id or id_of(dataset)
    said = [f"sweep {id}"] if id else []
    if key and "key" in attributes:
        said.append(f"key {attributes['key']}")
    version = attributes.get("sweep_service_version", __version__)
    state = f" ({attributes['git']})" if attributes.get("git") else ""
    return ", ".join([*said, f"computed by sweep-service {version}{state}"])


def id_of(dataset: xr.Dataset) -> str:
    """The sweep's, by where it was opened: `…/<id>.zarr`, or `…/<id>/zarr` of a service."""
    source = str(dataset.encoding.get("source", "")).rstrip("/").removesuffix("/zarr")
    return source.rpartition("/")[2].removesuffix(".zarr")


def _values(dataset: xr.Dataset, name: str) -> str:
    """One value, or the smallest and the largest."""
    try:
        values = np.unique(parameter(dataset, name).values)
    except InvalidInput:  # a dataset made by hand may not say it
        return ""
    if values.dtype.kind not in "iuf":
        return " or ".join(str(value) for value in values)
    ends = dict.fromkeys(f"{value:g}" for value in (finite(values)[[0, -1]] if len(finite(values)) else ()))
    return " … ".join(ends)
