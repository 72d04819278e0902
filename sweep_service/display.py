"""HTML of objects that a notebook shows. All text is escaped: names and notes are written by other people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from sweep_service.text import (
    format_duration,
    format_number,
    format_remaining,
    format_size,
    make_printable,
)

CELL = ' style="text-align: left"'


def format_html(title: str, fields: Mapping[str, Any], notes: Iterable[str] = ()) -> str:
    """Format a title, names with values as a table, and notes below it; empty values are left out."""
    rows = "".join(
        f"<tr><th{CELL}>{_escape(name)}</th><td{CELL}>{_format_value(value)}</td></tr>"
        for name, value in fields.items()
        if value not in (None, "")
    )
    below = "".join(f"<div>{_escape(note)}</div>" for note in notes if note)
    return f"<div><strong>{_escape(title)}</strong><table>{rows}</table>{below}</div>"


class Link(str):
    """A URL that is shown as a link, if it is one of the web."""


class Share(float):
    """A fraction that is shown as a bar."""


def _escape(text: Any) -> str:
    return escape(make_printable(str(text)))


def _format_value(value: Any) -> str:
    if isinstance(value, Share):
        return f'<progress max="1" value="{value:.4f}"></progress> {100 * value:.0f} %'
    text = _escape(value)
    if isinstance(value, Link) and value.startswith(("http://", "https://")):
        return f'<a href="{text}" target="_blank" rel="noopener">{text}</a>'
    return text


def format_sweep_html(sweep: Mapping[str, Any]) -> str:
    """Format a sweep as the REST API returns it."""
    counts = ", ".join(f"{number} {status}" for status, number in sweep.get("counts", {}).items())
    links = sweep.get("links", {})
    progress = sweep.get("progress")
    fields = {
        "id": sweep.get("id"),
        "state": sweep.get("state"),
        "reason": sweep.get("reason"),
        "runs": f"{sweep.get('runs', '')}: {counts}" if counts else sweep.get("runs"),
        "progress": None if progress is None else Share(progress),
        "time left": format_remaining(sweep) if "eta_seconds" in sweep else "",
        "note": sweep.get("note"),
        "page": Link(links["page"]) if "page" in links else None,
        "data": Link(links["zarr"]) if "zarr" in links else None,
    }
    return format_html(f"Sweep {sweep.get('name') or ''}".rstrip(), fields)


def format_estimate_html(estimate: Mapping[str, Any]) -> str:
    """Format the predicted cost of a sweep."""
    left = estimate["runs"] - estimate["reused"] - estimate["copies"]
    breakdown = (f"{cost['name']} {format_duration(cost['core_seconds'])}" for cost in estimate["breakdown"])
    fields = {
        "points": estimate["points"],
        "runs": f"{estimate['runs']}: {left} to compute, {estimate['reused']} already stored, "
        f"{estimate['copies']} copies of others",
        "SGD steps": format_number(estimate["sgd_steps"]),
        "core time": format_duration(estimate["core_seconds"]),
        "of which": ", ".join(breakdown),
        "size": f"{format_size(estimate['bytes'])} at most",
        "would be refused": estimate["refused"],
    }
    notes = [f"warning: {text}" for text in estimate["warnings"]]
    notes += [f"note: {text}" for text in estimate.get("notes", ())]
    return format_html("Estimate", fields, notes)


def format_spec_html(content: Mapping[str, Any]) -> str:
    """Format a spec as it would be written in YAML."""
    import yaml

    text = yaml.safe_dump(dict(content), sort_keys=False, default_flow_style=None, allow_unicode=True)
    return f"<div><strong>Spec</strong><pre>{escape(text)}</pre></div>"


class CostEstimate(dict[str, Any]):
    """The predicted cost of a sweep: a dictionary with the fields of the REST API."""

    def _repr_html_(self) -> str:
        return format_estimate_html(self)
