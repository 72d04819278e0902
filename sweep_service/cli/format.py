"""Sweeps and estimates as text for people, from the plain data that programs get."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from sweep_service.text import duration, few_digits, listed, printable, size, table


def accepted(about: Mapping[str, Any], options: str = "") -> str:
    """What a person wants to know of a sweep that a service has taken on."""
    links = listed({name: about["links"][name] for name in ("page", "zarr", "dashboard")})
    return f"{about['id']}  {about['state']}\n{links}\n\n    sweep watch {about['id']}{options}"


def ending(about: Mapping[str, Any], options: str = "") -> str:
    """What a person wants to know when a sweep ends: how, where it is, and what to do next."""
    state, place = about["state"], _place(about)
    again = f"{about['id']}{options}"
    runs = "1 run" if about["runs"] == 1 else f"{about['runs']} runs"
    lines = [f"{state}: {about['reason'] or f'{runs}: {_counted(about)}'}"]
    if state != "failed":
        lines += [place, *about.get("figures", ())]
        lines += ["", "    import sweep_service as ss", f"    ds = ss.open({place!r})", ""]
    if state == "incomplete":
        for first in about.get("failures", ())[:1]:
            lines += [f"the first error: {printable(first['error'])}", f"    {first['command']}"]
        lines += [f"all errors: {_errors(about)}"]
        lines += ["compute the failed runs again:", f"    sweep retry {again}"]
    elif state == "paused":
        lines += ["go on:", f"    sweep resume {again}"]
    elif state != "completed":
        lines += ["try again:" if state == "failed" else "go on:", f"    sweep retry {again}"]
    return "\n".join(lines).rstrip()


def _place(about: Mapping[str, Any]) -> str:
    """What opens it: a folder here, a URL there."""
    return about["path"] if "path" in about else about["links"]["self"]


def _errors(about: Mapping[str, Any]) -> str:
    """Where all of them are."""
    if "path" in about:
        return f"{about['path'].removesuffix('.zarr')}.failures"
    return about["links"]["failures"]


def told(about: Mapping[str, Any]) -> str:
    """A sweep on a few lines."""
    rest = about["core_seconds_left"]
    left = f", {duration(rest)} predicted to be left" if rest else ""
    lines = listed(
        {
            "id": about["id"],
            "name": about["name"],
            "state": about["state"] + (f": {about['reason']}" if about["reason"] else ""),
            "runs": f"{about['runs']}: {_counted(about)}",
            "core time": duration(about["core_seconds"]) + left,
            "priority": about["priority"] or "",
            "extends": about["extends"],
            "created": _when(about["created"]),
            "updated": _when(about["updated"]),
            "path": about.get("path"),
            "url": about["links"]["self"] if "links" in about else None,
        }
    )
    failed = about["counts"].get("failed", 0)
    shown = [
        f"{one['kind']}-{one['number']}: {printable(one['error'])}\n    {one['command']}"
        for one in about["failures"]
    ]
    copies = sum(len(one["runs"]) for one in about["failures"])
    if failed > copies > 0:
        shown.append(f"… all of them in {_errors(about)}")
    return "\n".join([lines, *(["", f"{failed} failed runs"] if shown else []), *shown])


def priced(about: Mapping[str, Any]) -> str:
    """An estimate on a few lines."""
    left = about["runs"] - about["reused"] - about["copies"]
    parts = [f"{left} to compute"]
    parts += [f"{about['reused']} stored already"] if about["reused"] else []
    parts += [f"{about['copies']} equal to others"] if about["copies"] else []
    dearest = {name: value for name, value in about["dearest"].items() if name != "core_seconds"}
    where = ", ".join(f"{name} = {few_digits(value)}" for name, value in dearest.items())
    lines = listed(
        {
            "points": about["points"],
            "runs": f"{about['runs']}: {', '.join(parts)}",
            "SGD steps": few_digits(about["sgd_steps"]),
            "core time": duration(about["core_seconds"]),
            "size": f"{size(about['bytes'])} at most",
            "dearest": f"{where}: {duration(about['dearest']['core_seconds'])}" if left else "",
        }
    )
    refused = [f"would be refused: {about['refused']}"] if about["refused"] else []
    return "\n".join([lines, *(f"warning: {text}" for text in about["warnings"]), *refused])


def _counted(about: Mapping[str, Any]) -> str:
    """20 done, 4 failed; 4 copied from earlier sweeps"""
    parts = ", ".join(f"{number} {label}" for label, number in about["counts"].items())
    copied = f"; {about['reused']} copied from earlier sweeps" if about["reused"] else ""
    return f"{parts}{copied}"


def listing(sweeps: Iterable[Mapping[str, Any]]) -> str:
    """Sweeps as a table; their ids say when they were created."""
    rows = [
        (one["id"], one["state"], f"{math.floor(100 * one['progress'])} %", str(one["runs"]), one["name"])
        for one in sweeps
    ]
    return table(("id", "state", "done", "runs", "name"), rows) if rows else "no sweeps yet"


def _when(stamp: str) -> str:
    """2026-11-16 12:59:54 UTC"""
    return f"{stamp[:19].replace('T', ' ')} UTC"
