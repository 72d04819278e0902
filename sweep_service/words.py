"""What people and programs are told of a sweep: its content as plain data, and that in people's units."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweep_service.status import Status

if TYPE_CHECKING:
    from sweep_service.store.folder import DataFolder
    from sweep_service.store.ledger import Ledger, Sweep

WIDE = 10_000  # columns


def describe(folder: DataFolder, ledger: Ledger, sweep: Sweep, most: int | None = None) -> dict[str, Any]:
    """A sweep as people and programs are told of it, with all of its failures or so many."""
    found = list(islice(failures(folder, sweep.id), most))
    return {**view(sweep, ledger.totals(sweep.id)), "path": folder.address(sweep.id), "failures": found}


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


def failures(folder: DataFolder, sweep: str, after: str | None = None) -> Iterator[dict[str, Any]]:
    """Capsules by number, those after a run such as sgd-12; the trace is long, and stays in them."""

    def order(name: str) -> tuple[str, int]:
        kind, _, number = Path(name).stem.partition("-")
        return kind, int(number)

    for name in sorted(folder.objects.list(f"{sweep}.failures/"), key=order):
        if after is not None and order(name) <= order(after):
            continue
        found = json.loads(folder.objects.get(name))
        yield {part: found[part] for part in found if part != "trace"}


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
    where = ", ".join(f"{name} = {_number(value)}" for name, value in dearest.items())
    lines = listed(
        {
            "points": about["points"],
            "runs": f"{about['runs']}: {', '.join(parts)}",
            "SGD steps": _number(about["sgd_steps"]),
            "core time": duration(about["core_seconds"]),
            "size": f"{size(about['bytes'])} at most",
            "dearest": f"{where}: {duration(about['dearest']['core_seconds'])}" if left else "",
        }
    )
    refused = [f"would be refused: {about['refused']}"] if about["refused"] else []
    return "\n".join([lines, *(f"warning: {text}" for text in about["warnings"]), *refused])


def listed(about: Mapping[str, Any]) -> str:
    """Names and values below each other, without what is not there."""
    return "\n".join(
        f"{name:<10} {printable(str(value))}" for name, value in about.items() if value not in (None, "")
    )


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """On a terminal the last column is folded into what is left; a program gets whole lines."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    found = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        found.add_column(name, no_wrap=name != columns[-1])
    for one in rows:
        found.add_row(*(Text(printable(text)) for text in one))
    console = Console(width=None if sys.stdout.isatty() else WIDE)
    with console.capture() as text:
        console.print(found)
    return "\n".join(line.rstrip() for line in text.get().splitlines())


def _counted(about: Mapping[str, Any]) -> str:
    """20 done, 4 failed; 4 copied from earlier sweeps"""
    parts = ", ".join(f"{number} {label}" for label, number in about["counts"].items())
    copied = f"; {about['reused']} copied from earlier sweeps" if about["reused"] else ""
    return f"{parts}{copied}"


def duration(seconds: float | None) -> str:
    """1.3 h: two digits, in the unit that a person would choose; in JSON an endless one is null."""
    if seconds is None or not math.isfinite(seconds):
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
    value = math.inf if value is None else value
    if not isinstance(value, float):
        return str(value)
    if value and not 1e-3 <= abs(value) < 1e5:
        found, _, power = f"{value:.{digits - 1}e}".partition("e")
        return f"{found.rstrip('0').rstrip('.') if '.' in found else found}e{int(power)}" if power else found
    return f"{value:.{digits}g}" if abs(value) < 10**digits else f"{value:.0f}"


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


def printable(text: str) -> str:
    """Without control characters, which would rule the terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
