"""Verbs that read: one sweep, all of them, and what the service knows."""

from __future__ import annotations

from collections.abc import Sequence

from sweep_service.client.names import SweepName
from sweep_service.client.requests import (
    Json,
    Service,
    find_id,
    request_json,
    request_page,
    request_sweep,
    sweep_path,
    with_full_links,
)
from sweep_service.client.steps import Item, Operation


def sweep(service: Service, id: SweepName) -> Operation[Json]:
    """Get a sweep.

    Parameters
    ----------
    id
        The sweep: its id, any beginning of it that no other id has, or its name.

    Returns
    -------
    dict
        `id`, `name`, `state`, `counts` of runs by status, `progress`, `links`, and more.

    Raises
    ------
    NotFound
        If there is no such sweep.
    """
    sweep_id = yield from find_id(service, id)
    return (yield from request_sweep(service, "GET", sweep_path(sweep_id)))


def sweeps(
    service: Service,
    state: str | Sequence[str] | None = None,
    name: str | None = None,
    tag: str | Sequence[str] | None = None,
) -> Operation[None]:
    """Iterate over the sweeps of the service, newest first.

    Parameters
    ----------
    state
        Only sweeps in this state or in one of these states.
    name
        Only sweeps whose name or id contains this text.
    tag
        Only sweeps with this tag or with all of these tags.

    Yields
    ------
    dict
        A sweep.
    """
    states = [state] if isinstance(state, str) else list(state or ())
    tags = [tag] if isinstance(tag, str) else list(tag or ())
    query = {**({"name": name} if name else {}), **({"tag": tags} if tags else {})}
    cursor = None
    while True:
        page, cursor = yield from request_page(service, "/v1/sweeps", cursor, state=states, **query)
        for sweep in page["sweeps"]:
            yield Item(with_full_links(service, sweep))
        if cursor is None:
            return


def failures(service: Service, id: SweepName) -> Operation[None]:
    """Iterate over the failed runs of a sweep.

    Parameters
    ----------
    id
        The sweep: its id, any beginning of it that no other id has, or its name.

    Yields
    ------
    dict
        `kind` and `number` of the run, its `error`, the numbers of all `runs` with this result, and the
        `command` that computes only this run.
    """
    path = sweep_path((yield from find_id(service, id)), "failures")
    cursor = None
    while True:
        page, cursor = yield from request_page(service, path, cursor)
        for failure in page["failures"]:
            yield Item(failure)
        if cursor is None:
            return


def spec(service: Service, id: SweepName) -> Operation[Json]:
    """Get the spec of a sweep, with all defaults filled in.

    Parameters
    ----------
    id
        The sweep: its id, any beginning of it that no other id has, or its name.

    Returns
    -------
    dict
        The spec.
    """
    sweep_id = yield from find_id(service, id)
    return (yield from request_json(service, "GET", sweep_path(sweep_id, "spec")))


def rounds(service: Service, id: SweepName) -> Operation[Json]:
    """List the rounds of a sweep with a target error.

    Parameters
    ----------
    id
        The sweep: its id, any beginning of it that no other id has, or its name.

    Returns
    -------
    dict
        `rounds`, each with the points and runs that it adds and what decided them, and `is_complete`.
    """
    sweep_id = yield from find_id(service, id)
    return (yield from request_json(service, "GET", sweep_path(sweep_id, "rounds")))


def presets(service: Service) -> Operation[list[Json]]:
    """List the presets of the service.

    Returns
    -------
    list of dict
        Name, title and spec of each preset.
    """
    return (yield from request_json(service, "GET", "/v1/presets"))["presets"]


def catalogue(service: Service) -> Operation[Json]:
    """Get the names that a spec can use.

    Returns
    -------
    dict
        Activations, regimes, observables and so on, with their descriptions.
    """
    return (yield from request_json(service, "GET", "/v1/catalogue"))


def cluster(service: Service) -> Operation[Json]:
    """Get the workers of the service and its queue.

    Returns
    -------
    dict
        The workers, and why no sweep can progress if that is the case.
    """
    return (yield from request_json(service, "GET", "/v1/cluster"))
