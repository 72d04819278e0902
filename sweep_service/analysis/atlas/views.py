"""The views of an atlas, with the words and formats of those of one sweep."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any

from sweep_service.analysis.atlas.atlas import Atlas
from sweep_service.analysis.plots.options import SWITCHES
from sweep_service.analysis.plots.save import save
from sweep_service.analysis.views import VIEWS, view_to_json
from sweep_service.errors import unknown_name
from sweep_service.text import format_number

ATLAS_VIEWS: dict[str, Callable[..., Any]] = {
    "phase-diagram": Atlas.phase_diagram,
    "triangle": Atlas.triangle,
    "curves": Atlas.curves,
}
BY_SWEEP = "by_sweep"


def compute_view(atlas: Atlas, view: str, options: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The numbers of a view, and its drawing options."""
    if view not in ATLAS_VIEWS:
        raise unknown_name("view", view, ATLAS_VIEWS)
    options, drawing = VIEWS[view].split_options(options)
    if isinstance(options.get(BY_SWEEP), str):
        if options[BY_SWEEP] not in SWITCHES:
            raise unknown_name(BY_SWEEP, options[BY_SWEEP], SWITCHES)
        options[BY_SWEEP] = SWITCHES[options[BY_SWEEP]]
    return ATLAS_VIEWS[view](atlas, **options), drawing


def view_as_json(atlas: Atlas, view: str, options: Mapping[str, Any]) -> Any:
    """The numbers of a view as plain data, with those of the selection."""
    return view_to_json(view, compute_view(atlas, view, options)[0])


def draw_view(atlas: Atlas, view: str, options: Mapping[str, Any], format: str) -> bytes:
    """A view as a file: png, svg or pdf."""
    numbers, drawing = compute_view(atlas, view, options)
    file = io.BytesIO()
    save(VIEWS[view].draw(numbers, **drawing), file, format, caption=describe_selection(atlas, options))
    return file.getvalue()


def describe_selection(atlas: Atlas, options: Mapping[str, Any]) -> str:
    """A sentence that says which runs a figure shows, for its metadata."""
    chosen = {name: value for name, value in {**atlas.where, **options}.items() if name in atlas.names}
    texts = [f"{name} = {format_number(value)}" for name, value in chosen.items()]
    return f"Runs of {atlas.count_sweeps()} sweeps{': ' if texts else ''}{', '.join(texts)}."
