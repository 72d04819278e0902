"""Text output of sweeps and estimates, from the same data that --json prints."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sweep_service.text import (
    format_duration,
    format_fields,
    format_number,
    format_percent,
    format_size,
    format_table,
    make_printable,
)

MAX_FACET_VALUES = 12  # in one line of text


def format_accepted(sweep: Mapping[str, Any], options: str = "") -> str:
    """Format a sweep that a service has accepted: its links and the next command."""
    links = format_fields({name: sweep["links"][name] for name in ("page", "zarr", "dashboard")})
    return f"{sweep['id']}  {sweep['state']}\n{links}\n\n    sweep watch {sweep['id']}{options}"


def format_outcome(sweep: Mapping[str, Any], options: str = "") -> str:
    """Format the outcome of a sweep: its state, how to open it, and the next command."""
    state, location = sweep["state"], _location(sweep)
    arguments = f"{sweep['id']}{options}"
    runs = "1 run" if sweep["runs"] == 1 else f"{sweep['runs']} runs"
    lines = [f"{state}: {sweep['reason'] or f'{runs}: {_format_counts(sweep)}'}"]
    if state != "failed":
        lines += [location, *sweep.get("figures", ())]
        lines += ["", "    import sweep_service as ss", f"    ds = ss.open({location!r})", ""]
    if state == "incomplete":
        for failure in sweep.get("failures", ())[:1]:
            lines += [f"first error: {make_printable(failure['error'])}", f"    {failure['command']}"]
        lines += [f"all errors: {_failures_location(sweep)}"]
        lines += ["compute the failed runs again:", f"    sweep retry {arguments}"]
    elif state == "paused":
        lines += ["continue:", f"    sweep resume {arguments}"]
    elif state != "completed":
        lines += ["try again:" if state == "failed" else "continue:", f"    sweep retry {arguments}"]
    return "\n".join(lines).rstrip()


def _location(sweep: Mapping[str, Any]) -> str:
    """Return what `ss.open` accepts: the path of the dataset, or the URL of the sweep."""
    return sweep["path"] if "path" in sweep else sweep["links"]["self"]


def _failures_location(sweep: Mapping[str, Any]) -> str:
    """Return the folder or the URL of all failure records."""
    if "path" in sweep:
        return f"{sweep['path'].removesuffix('.zarr')}.failures"
    return sweep["links"]["failures"]


def format_sweep(sweep: Mapping[str, Any]) -> str:
    """Format a sweep with its failures."""
    remaining = sweep["core_seconds_left"]
    prediction = f", about {format_duration(remaining)} left" if remaining else ""
    lines = format_fields(
        {
            "id": sweep["id"],
            "name": sweep["name"],
            "note": " ".join((sweep.get("note") or "").split()),
            "tags": ", ".join(sweep.get("tags", ())),
            "state": sweep["state"] + (f": {sweep['reason']}" if sweep["reason"] else ""),
            "runs": f"{sweep['runs']}: {_format_counts(sweep)}",
            "core time": format_duration(sweep["core_seconds"]) + prediction,
            "size": _format_stored_bytes(sweep),
            "fixed": _format_fixed(sweep),
            "owner": sweep.get("owner"),
            "priority": sweep["priority"] or "",
            "rounds": _format_rounds(sweep.get("rounds", ())),
            "extends": sweep["extends"],
            "created": _format_time(sweep["created"]),
            "updated": _format_time(sweep["updated"]),
            "path": sweep.get("path"),
            "url": sweep["links"]["self"] if "links" in sweep else None,
        }
    )
    failures = [
        f"{failure['kind']}-{failure['number']}: {make_printable(failure['error'])}\n    {failure['command']}"
        for failure in sweep["failures"]
    ]
    failed = sweep["counts"].get("failed", 0)
    shown = sum(len(failure["runs"]) for failure in sweep["failures"])
    if failed > shown > 0:
        failures.append(f"… all failures: {_failures_location(sweep)}")
    return "\n".join([lines, *(["", f"{failed} failed runs"] if failures else []), *failures])


def _format_rounds(rounds: Sequence[Mapping[str, Any]]) -> str:
    """Format what each round adds: 96 runs at 12 points (pilot), then 410 runs at 9 points (measured)."""
    texts = (f"{row['runs']} runs at {row['points']} points ({', '.join(row['basis'])})" for row in rounds)
    return ", then ".join(texts)


def format_estimate(estimate: Mapping[str, Any]) -> str:
    """Format an estimate."""
    to_compute = estimate["runs"] - estimate["reused"] - estimate["copies"]
    counts = [f"{to_compute} to compute"]
    counts += [f"{estimate['reused']} already stored"] if estimate["reused"] else []
    counts += [f"{estimate['copies']} copies of others"] if estimate["copies"] else []
    continued = estimate.get("continued", 0)  # a service of an older version has none
    counts += [f"{continued} continue shorter ones"] if continued else []
    point = {name: value for name, value in estimate["dearest"].items() if name != "core_seconds"}
    parameters = ", ".join(f"{name} = {format_number(value)}" for name, value in point.items())
    highest_cost = f"{parameters}: {format_duration(estimate['dearest']['core_seconds'])}"
    lines = format_fields(
        {
            "points": estimate["points"],
            "runs": f"{estimate['runs']}: {', '.join(counts)}",
            "SGD steps": format_number(estimate["sgd_steps"]),
            "core time": format_duration(estimate["core_seconds"]),
            "of which": _format_breakdown(estimate["breakdown"]),
            "size": f"{format_size(estimate['bytes'] + estimate.get('state_bytes', 0))} at most",
            "costliest": highest_cost if to_compute else "",
        }
    )
    advice = [_format_alternative(alternative) for alternative in estimate["alternatives"]]
    refused = [f"would be refused: {estimate['refused']}"] if estimate["refused"] else []
    notes = [f"note: {text}" for text in estimate.get("notes", ())]  # a service of an older version has none
    warnings = [f"warning: {text}" for text in estimate["warnings"]]
    return "\n".join([lines, *advice, *warnings, *notes, *refused])


def format_prediction(prediction: Mapping[str, Any]) -> str:
    """Format the accuracy that the seeds of a spec will give."""
    return "\n".join([*prediction["summary"], *prediction["notes"]])


def format_seeds(numbers: Mapping[str, Any]) -> str:
    """Format the numbers of seeds of a stored sweep at its last time, with a row for each point."""
    points: dict[tuple[Any, ...], dict[str, Mapping[str, Any]]] = {}
    for curve in numbers["curves"]:
        points.setdefault(tuple(curve["at"].items()), {})[curve["source"]] = curve
    columns = [name for name, _ in next(iter(points), ())]
    noun = numbers["draws_are"]
    head = [*columns, f"{noun} now", "error now", "predicted", "measured (95 % interval)"]
    rows = [
        [*(format_number(value) for _, value in at), *_format_seed_cells(point)]
        for at, point in points.items()
    ]
    time = format_number(float(numbers["time"][-1]))
    return f"{numbers['long_name']}, at t = {time}\n\n{format_table(head, rows)}"


def _format_seed_cells(point: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Format the cells of a point: its draws, their error, and the numbers predicted and measured."""
    measured, predicted = point.get("sgd", {}), point.get("ode", {})
    errors = [curve["error"][-1] for curve in (measured, predicted) if "error" in curve]
    known = [error for error in errors if _is_known(error)]
    draws = measured.get("draws", predicted.get("draws"))
    interval = [measured[end][-1] if measured else None for end in ("mean", "low", "high")]
    count, low, high = (f"{number:.0f}" if _is_known(number) else "" for number in interval)
    expected = predicted["mean"][-1] if predicted else None
    return [
        "" if draws is None else str(draws),
        format_percent(known[0]) if known else "",
        f"{expected:.0f}" if _is_known(expected) else "",
        f"{count} ({low} to {high})" if count else "",
    ]


def _is_known(number: float | None) -> bool:
    """Whether it is neither NaN nor null, as a service writes NaN."""
    return number is not None and math.isfinite(number)


def _format_breakdown(breakdown: Sequence[Mapping[str, Any]]) -> str:
    """Format the cost of SGD and of each regime, if there are several."""
    costs = (
        f"{_method_title(method['name'])} {format_duration(method['core_seconds'])} ({method['runs']} runs)"
        for method in breakdown
    )
    return ", ".join(costs) if len(breakdown) > 1 else ""


def _format_alternative(alternative: Mapping[str, Any]) -> str:
    error = format_number(float(f"{alternative['error']:.2g}"))
    return (
        f"cheaper: {alternative['regime']} instead of {_method_title(alternative['instead_of'])}, "
        f"{format_duration(alternative['run_seconds'])} instead of "
        f"{format_duration(alternative['instead_of_run_seconds'])} for its costliest run, "
        f"with a predicted error of {error} R(0)"
    )


def _method_title(name: str) -> str:
    return "SGD" if name == "sgd" else name


def _format_counts(sweep: Mapping[str, Any]) -> str:
    """Format the counts of runs: 20 done, 4 failed; 4 reused from earlier sweeps."""
    counts = ", ".join(f"{number} {status}" for status, number in sweep["counts"].items())
    reused = f"; {sweep['reused']} reused from earlier sweeps" if sweep["reused"] else ""
    return f"{counts}{reused}"


def format_sweeps(sweeps: Iterable[Mapping[str, Any]]) -> str:
    """Format a table of sweeps, and below it why some of them wait.

    An id contains the time of creation, so there is no column for it. Owners, fixed parameters and tags
    have a column only if a sweep has them: owners need a service with named tokens.
    """
    sweeps = list(sweeps)
    columns: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "id": lambda sweep: sweep["id"],
        "state": lambda sweep: sweep["state"],
        "done": lambda sweep: f"{math.floor(100 * sweep['progress'])} %",
        "runs": lambda sweep: str(sweep["runs"]),
        "size": _format_stored_bytes,
        "owner": lambda sweep: sweep.get("owner") or "",
        "fixed": _format_fixed,
        "tags": lambda sweep: ", ".join(sweep.get("tags", ())),
        "name": lambda sweep: sweep["name"],
    }
    for name in ("owner", "fixed", "tags"):
        if not any(sweep.get(name) for sweep in sweeps):
            del columns[name]
    rows = [tuple(column(sweep) for column in columns.values()) for sweep in sweeps]
    if not rows:
        return "no sweeps"
    reasons = [f"{sweep['id']}: {make_printable(sweep['reason'])}" for sweep in sweeps if sweep["reason"]]
    return "\n".join([format_table(tuple(columns), rows), *([""] if reasons else []), *reasons])


def _format_fixed(sweep: Mapping[str, Any]) -> str:
    """Format the parameters with a single value; empty for a sweep of an older version."""
    from sweep_service.model.fixed import format_fixed

    return format_fixed(sweep.get("fixed", {}))


def _format_stored_bytes(sweep: Mapping[str, Any]) -> str:
    """Format the size of a sweep; empty if it is unknown, as that of a service of an older version."""
    size = sweep.get("stored_bytes")
    return "" if size is None else format_size(size)


def _format_time(timestamp: str) -> str:
    """Format a time: 2026-11-16 12:59:54 UTC."""
    return f"{timestamp[:19].replace('T', ' ')} UTC"


def format_facets(facets: Mapping[str, Any]) -> str:
    """Format the labels of the runs of an atlas: each with its values and the number of runs."""
    head = f"{facets['runs']} runs at {facets['points']} points of {facets['sweeps']} sweeps"
    rows = [
        (facet["name"], _format_facet(facet)) for facet in facets["parameters"] if facet["name"] != "sweep"
    ]
    unreadable = [f"{sweep_id} cannot be read: {reason}" for sweep_id, reason in facets["unreadable"].items()]
    table = format_table(("label", "values (runs)"), rows) if rows else ""
    return "\n".join(filter(None, [head, table, *unreadable]))


def _format_facet(facet: Mapping[str, Any]) -> str:
    values, ends = facet["values"], facet["range"]
    if values is None or len(values) > MAX_FACET_VALUES:
        span = f" from {format_number(ends[0])} to {format_number(ends[1])}" if ends else ""
        return f"{facet['distinct']} values{span}"
    return ", ".join(f"{format_number(entry['value'])} ({entry['runs']})" for entry in values)


def format_comparison(result: Mapping[str, Any]) -> str:
    """Format a comparison of two sweeps as a table of their common points."""
    differs = [
        f"{name}: {format_number(a)} and {format_number(b)}" for name, (a, b) in result["differs"].items()
    ]
    labels, how = result["labels"], result["how"]
    rows = [
        (
            *(format_number(point[name]) for name in labels),
            *(format_number(point[name]) for name in ("a", "b", how)),
            "?" if _is_unknown(point["standard_error"]) else format_number(point["standard_error"], 2),
            "yes" if point["paired"] else "no",
        )
        for point in result["points"]
    ]
    title = f"{result['value']} of {result['a']} and {result['b']}"
    table = format_table((*labels, "a", "b", how, "error", "paired"), rows)
    return "\n".join([title, *(["differ in " + "; ".join(differs)] if differs else []), table])


def _is_unknown(number: float | None) -> bool:
    return number is None or number != number
