"""Figures as files with provenance metadata, and with the same bytes each time."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from sweep_service.analysis.plots.style import finite_values, use_style
from sweep_service.analysis.runs import parameter, read_structures
from sweep_service.errors import InvalidInput, unknown_name
from sweep_service.model.parameters import PARAMETERS
from sweep_service.version import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The metadata keys of each format. Dates are left out, so that files are reproducible.
FORMATS: dict[str, dict[str, str]] = {
    "png": {"title": "Title", "caption": "Description", "origin": "Source", "program": "Software"},
    "svg": {"title": "Title", "caption": "Description", "origin": "Source", "program": "Creator"},
    "pdf": {"title": "Title", "caption": "Subject", "origin": "Keywords", "program": "Creator"},
}
DATE_KEYS = {"png": (), "svg": ("Date",), "pdf": ("CreationDate",)}


def save(
    figure: Figure,
    to: str | os.PathLike[str] | IO[bytes],
    format: str | None = None,
    dataset: xr.Dataset | None = None,
    caption: str = "",
    sweep_id: str = "",
) -> None:
    """Write a PNG, SVG or PDF, by `format` or by the suffix of the path. A path is replaced atomically."""
    path = Path(to) if isinstance(to, str | os.PathLike) else None
    format = (format or (path.suffix[1:] if path else "png")).lower()
    if format not in FORMATS:
        raise unknown_name("format", format, FORMATS)
    buffer = io.BytesIO()
    with use_style():
        _fix_layout(figure)
        figure.savefig(buffer, format=format, metadata=metadata(format, dataset, caption, sweep_id))
    if path is None:
        to.write(buffer.getvalue())  # type: ignore[union-attr]
        return
    partial_path = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        partial_path.write_bytes(buffer.getvalue())
        os.replace(partial_path, path)
    finally:
        partial_path.unlink(missing_ok=True)


def _fix_layout(figure: Figure) -> None:
    """Lay a figure out once: repeated for each file, the layout would depend on the files before."""
    from matplotlib.layout_engine import PlaceHolderLayoutEngine

    layout_engine = figure.get_layout_engine()
    if layout_engine is not None and not isinstance(layout_engine, PlaceHolderLayoutEngine):
        figure.draw_without_rendering()
        figure.set_layout_engine("none")


def metadata(format: str, dataset: xr.Dataset | None, caption: str, sweep_id: str = "") -> dict[str, Any]:
    """Title, caption, origin and program by the keys of a format, and None for each date."""
    attributes = {} if dataset is None else dataset.attrs
    texts = {
        "title": str(attributes.get("title", "")),
        "caption": caption,
        "origin": "" if dataset is None else origin(dataset, sweep_id, key=True),
        "program": f"sweep-service {__version__}",
    }
    return {FORMATS[format][key]: text for key, text in texts.items() if text} | dict.fromkeys(
        DATE_KEYS[format]
    )


def caption(dataset: xr.Dataset, sweep_id: str = "") -> str:
    """A sentence with the parameters, and one with the origin of the numbers."""
    activation, teacher = (_format_values(dataset, name) for name in ("activation", "teacher_activation"))
    texts = [f"activation {activation}" if teacher == activation else f"activation {activation} of {teacher}"]
    for name, registered in PARAMETERS.items():
        values = "" if registered.kind == "text" else _format_values(dataset, name)
        if values and (registered.in_every_key or values != f"{registered.default:g}"):
            texts.append(f"{registered.symbol} = {values}")
    if init_kind := read_structures(dataset).get("init", {}).get("kind"):
        texts.append(f"{init_kind} start")
    if "seed" in dataset.sizes:
        texts.append(f"seeds {dataset.sizes['seed']} × {dataset.sizes.get('repeat', 1)} (init × repeat)")
    if "time" in dataset.sizes:
        texts.append(f"t ≤ {float(dataset['time'].values[-1]):g}")
    sentence = ", ".join(texts)
    computed_by = origin(dataset, sweep_id)
    return f"{sentence[0].upper()}{sentence[1:]}. {computed_by[0].upper()}{computed_by[1:]}."


def origin(dataset: xr.Dataset, sweep_id: str = "", key: bool = False) -> str:
    """The sweep, and the version of the code that computed it."""
    attributes = dataset.attrs
    sweep_id = sweep_id or read_sweep_id(dataset)
    texts = [f"sweep {sweep_id}"] if sweep_id else []
    if key and "key" in attributes:
        texts.append(f"key {attributes['key']}")
    version = attributes.get("sweep_service_version", __version__)
    revision = f" ({attributes['git']})" if attributes.get("git") else ""
    return ", ".join([*texts, f"computed by sweep-service {version}{revision}"])


def read_sweep_id(dataset: xr.Dataset) -> str:
    """The sweep id by the path of the dataset, `…/<id>.zarr`, or `…/<id>/zarr` of a service."""
    source = str(dataset.encoding.get("source", "")).rstrip("/").removesuffix("/zarr")
    return source.rpartition("/")[2].removesuffix(".zarr")


def _format_values(dataset: xr.Dataset, name: str) -> str:
    """The value of a parameter, or the smallest and the largest."""
    try:
        values = np.unique(parameter(dataset, name).values)
    except InvalidInput:  # a dataset made by hand may lack it
        return ""
    if values.dtype.kind not in "iuf":
        return " or ".join(str(value) for value in values)
    ends = dict.fromkeys(
        f"{value:g}" for value in (finite_values(values)[[0, -1]] if len(finite_values(values)) else ())
    )
    return " … ".join(ends)
