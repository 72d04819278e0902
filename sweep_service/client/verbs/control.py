"""Verbs that change a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from sweep_service.client.names import SweepName
from sweep_service.client.requests import Json, Service, find_id, request_sweep, sweep_path
from sweep_service.client.retries import send
from sweep_service.client.steps import Operation
from sweep_service.client.verbs.submission import spec_body
from sweep_service.errors import NotFound


def cancel(service: Service, id: SweepName) -> Operation[Json]:
    """Cancel the runs of a sweep that are not computed yet; computed runs are kept.

    This has no effect on a sweep that has ended.

    Parameters
    ----------
    id
        The sweep: its id, any beginning of it that no other id has, or its name.

    Returns
    -------
    dict
        The sweep.

    Raises
    ------
    NotFound
        If there is no such sweep.
    """
    sweep_id = yield from find_id(service, id)
    return (yield from request_sweep(service, "POST", sweep_path(sweep_id, "cancel")))


def pause(service: Service, id: SweepName) -> Operation[Json]:
    """Stop computing a sweep until it is resumed.

    This has no effect on a sweep that has ended.

    Parameters
    ----------
    id
        The sweep: its id, any beginning of it that no other id has, or its name.

    Returns
    -------
    dict
        The sweep.

    Raises
    ------
    NotFound
        If there is no such sweep.
    """
    sweep_id = yield from find_id(service, id)
    return (yield from request_sweep(service, "POST", sweep_path(sweep_id, "pause")))


def resume(service: Service, id: SweepName) -> Operation[Json]:
    """Continue a paused sweep.

    Parameters
    ----------
    id
        The sweep: its id, any beginning of it that no other id has, or its name.

    Returns
    -------
    dict
        The sweep.
    """
    sweep_id = yield from find_id(service, id)
    return (yield from request_sweep(service, "POST", sweep_path(sweep_id, "resume")))


def retry(service: Service, id: SweepName) -> Operation[Json]:
    """Compute the failed and cancelled runs of a sweep again.

    Parameters
    ----------
    id
        The sweep: its id, any beginning of it that no other id has, or its name.

    Returns
    -------
    dict
        The sweep.
    """
    sweep_id = yield from find_id(service, id)
    return (yield from request_sweep(service, "POST", sweep_path(sweep_id, "retry")))


def update(
    service: Service,
    id: SweepName,
    *,
    name: str | None = None,
    note: str | None = None,
    tags: Sequence[str] | None = None,
) -> Operation[Json]:
    """Change the name, the note or the tags of a sweep.

    The dataset keeps the name that it was computed under as its title.

    Parameters
    ----------
    id
        The sweep: its id, any beginning of it that no other id has, or its name.
    name
        The new name. By default it stays.
    note
        A text about the sweep, of any number of lines. By default it stays; an empty text removes it.
    tags
        Words by which sweeps are grouped, in place of those that it has. By default they stay.

    Returns
    -------
    dict
        The sweep.

    Raises
    ------
    InvalidInput
        If the name, the note or a tag is too long or not printable, or there are too many tags.
    NotFound
        If there is no such sweep.
    """
    change = {"name": name, "note": note, "tags": None if tags is None else list(tags)}
    given = {field: value for field, value in change.items() if value is not None}
    path = sweep_path((yield from find_id(service, id)))
    return (yield from request_sweep(service, "PATCH", path, **spec_body(given)))


def remove(service: Service, id: SweepName) -> Operation[None]:
    """Delete a sweep and its data.

    Parameters
    ----------
    id
        The sweep: its id, any beginning of it that no other id has, or its name.

    Raises
    ------
    NotFound
        If there is no such sweep.
    """
    path = sweep_path((yield from find_id(service, id)))
    yield from send("GET", path)
    with suppress(NotFound):  # an earlier attempt, whose response was lost, has removed it
        yield from send("DELETE", path)
