"""What people and programs are told of a sweep: its content as plain data, and that in people's units."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweep_service.status import Status

if TYPE_CHECKING:
    from sweep_service.store.folder import DataFolder
    from sweep_service.store.ledger import Ledger, Sweep


def describe(folder: DataFolder, ledger: Ledger, sweep: Sweep, most: int | None = None) -> dict[str, Any]:
    """A sweep as people and programs are told of it, with all of its failures or so many."""
    path = str(folder.dataset_path(sweep.id).resolve())
    found = list(islice(failures(folder, sweep.id), most))
    return {**view(sweep, ledger.totals(sweep.id)), "path": path, "failures": found}


def view(sweep: Sweep, totals: Mapping[str, Any], threads: float = 0.0) -> dict[str, Any]:
    """A row of the ledger and its totals, with the time that so many threads need for the rest."""
    counts = dict(totals["counts"])
    if left := sweep.runs - sum(counts.values()):
        counts = {Status.PENDING.label: left, **counts}
    done, rest = totals["cost_done"], totals["cost_left"]
    whole = done + rest + totals["cost_dropped"]
    speed = totals["seconds"] / done if done else 1.0  # predictions are off by a factor, which shows
    return {
        **row(sweep),
        "counts": counts,
        "progress": done / whole if whole else 1.0,
        "eta_seconds": rest * speed / threads if threads and not sweep.state.ended else None,
        "core_seconds": totals["seconds"],
        "core_seconds_left": rest * speed,
        "bundles_left": totals["bundles_left"],
    }


def row(sweep: Sweep) -> dict[str, Any]:
    return {**asdict(sweep), "state": sweep.state.value}


def failures(folder: DataFolder, sweep: str) -> Iterator[dict[str, Any]]:
    """Capsules by number; the trace is long, and stays in them."""

    def order(name: str) -> tuple[str, int]:
        kind, _, number = Path(name).stem.partition("-")
        return kind, int(number)

    for name in sorted(folder.objects.list(f"{sweep}.failures/"), key=order):
        found = json.loads(folder.objects.get(name))
        yield {part: found[part] for part in found if part != "trace"}


def ending(about: Mapping[str, Any], options: str = "") -> str:
    """What a person wants to know when a sweep ends: how, where it is, and what to do next."""
    state, path = about["state"], about["path"]
    again = f"sweep retry {about['id']}{options}"
    runs = "1 run" if about["runs"] == 1 else f"{about['runs']} runs"
    lines = [f"{state}: {about['reason'] or f'{runs}: {_counted(about)}'}"]
    if state != "failed":
        opened = ["    import xarray as xr", f"    ds = xr.open_zarr({path!r})"]
        lines += [path, "", *opened, ""]
    if state == "incomplete":
        for first in about["failures"][:1]:
            lines += [f"the first error: {printable(first['error'])}", f"    {first['command']}"]
        lines += [f"all errors, with their traces: {path.removesuffix('.zarr')}.failures"]
        lines += ["compute the failed runs again:", f"    {again}"]
    elif state != "completed":
        lines += ["try again:" if state == "failed" else "go on:", f"    {again}"]
    return "\n".join(lines).rstrip()


def told(about: Mapping[str, Any]) -> str:
    """A sweep on a few lines."""
    rest = about["core_seconds_left"]
    left = f", {_time(rest)} predicted to be left" if rest else ""
    lines = listed(
        {
            "id": about["id"],
            "name": about["name"],
            "state": about["state"] + (f": {about['reason']}" if about["reason"] else ""),
            "runs": f"{about['runs']}: {_counted(about)}",
            "core time": _time(about["core_seconds"]) + left,
            "priority": about["priority"] or "",
            "extends": about["extends"],
            "created": _when(about["created"]),
            "updated": _when(about["updated"]),
            "path": about["path"],
        }
    )
    failed = about["counts"].get("failed", 0)
    shown = [
        f"{one['kind']}-{one['number']}: {printable(one['error'])}\n    {one['command']}"
        for one in about["failures"]
    ]
    copies = sum(len(one["runs"]) for one in about["failures"])
    if failed > copies > 0:
        shown.append(f"… all of them in {about['path'].removesuffix('.zarr')}.failures")
    return "\n".join([lines, *(["", f"{failed} failed runs"] if shown else []), *shown])


def priced(about: Mapping[str, Any]) -> str:
    """An estimate on a few lines."""
    left = about["runs"] - about["reused"] - about["copies"]
    parts = [f"{left} to compute"]
    parts += [f"{about['reused']} stored already"] if about["reused"] else []
    parts += [f"{about['copies']} equal to others"] if about["copies"] else []
    dearest = {name: value for name, value in about["dearest"].items() if name != "core_seconds"}
    where = ", ".join(f"{name} = {_number(value)}" for name, value in dearest.items())
    lines = listed(
        {
            "points": about["points"],
            "runs": f"{about['runs']}: {', '.join(parts)}",
            "SGD steps": _number(about["sgd_steps"]),
            "core time": _time(about["core_seconds"]),
            "size": f"{size(about['bytes'])} at most",
            "dearest": f"{where}: {_time(about['dearest']['core_seconds'])}" if left else "",
        }
    )
    refused = [f"would be refused: {about['refused']}"] if about["refused"] else []
    return "\n".join([lines, *(f"warning: {text}" for text in about["warnings"]), *refused])


def listed(about: Mapping[str, Any]) -> str:
    """Names and values below each other, without what is not there."""
    return "\n".join(
        f"{name:<10} {printable(str(value))}" for name, value in about.items() if value not in (None, "")
    )


def _counted(about: Mapping[str, Any]) -> str:
    """20 done, 4 failed; 4 copied from earlier sweeps"""
    parts = ", ".join(f"{number} {label}" for label, number in about["counts"].items())
    copied = f"; {about['reused']} copied from earlier sweeps" if about["reused"] else ""
    return f"{parts}{copied}"


def _time(seconds: float) -> str:
    """1.3 h: two digits, in the unit that a person would choose."""
    if not math.isfinite(seconds):
        return "without end"
    for unit, length in (("years", 31_557_600.0), ("days", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= length:
            return f"{_number(seconds / length, 2)} {unit}"
    return f"{_number(seconds, 2)} s" if seconds >= 0.01 or seconds == 0 else "less than 0.01 s"


def size(count: float) -> str:
    for unit, length in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= length:
            return f"{_number(count / length, 2)} {unit}"
    return f"{count} bytes"


def _number(value: Any, digits: int = 3) -> str:
    """Few digits, and 1.2e6 for 1200000.0; a whole number or a name as it is."""
    if not isinstance(value, float):
        return str(value)
    if value and not 1e-3 <= abs(value) < 1e5:
        found, _, power = f"{value:.{digits - 1}e}".partition("e")
        return f"{found.rstrip('0').rstrip('.') if '.' in found else found}e{int(power)}" if power else found
    return f"{value:.{digits}g}" if abs(value) < 10**digits else f"{value:.0f}"


def _when(stamp: str) -> str:
    """2026-11-16 12:59:54 UTC"""
    return f"{stamp[:19].replace('T', ' ')} UTC"


def printable(text: str) -> str:
    """Without control characters, which would rule the terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
