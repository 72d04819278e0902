"""What the verbs of a client share: paths, query parameters, pages of lists, and the sweep that is meant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias
from urllib.parse import quote

from sweep_service.client.names import ID_LENGTH, SweepName, match_sweep
from sweep_service.client.responses import parse_json
from sweep_service.client.retries import download, send
from sweep_service.client.steps import Operation

Json: TypeAlias = dict[str, Any]


class Service(Protocol):
    """The part of a client that its verbs use."""

    url: str
    page_size: int
    headers: dict[str, str]


def request_json(service: Service, method: str, path: str, **options: Any) -> Operation[Any]:
    """Send a request and return the JSON of its response."""
    response = yield from send(method, path, **options)
    return parse_json(response, service.url)


def request_sweep(service: Service, method: str, path: str, **options: Any) -> Operation[Json]:
    """Send a request and return the sweep of its response."""
    return with_full_links(service, (yield from request_json(service, method, path, **options)))


def with_full_links(service: Service, sweep: Json) -> Json:
    """Return a sweep with links that include the address of the service."""
    return {**sweep, "links": {name: f"{service.url}{link}" for name, link in sweep["links"].items()}}


def request_page(
    service: Service, path: str, cursor: str | None, **params: Any
) -> Operation[tuple[Json, str | None]]:
    """Request one page of a list; returns it with the cursor of the next one."""
    position = {} if cursor is None else {"cursor": cursor}
    page = yield from request_json(
        service, "GET", path, params={**params, "limit": service.page_size, **position}
    )
    return page, page["next"]


def sweep_path(sweep_id: str, resource: str = "") -> str:
    """Return the path of a sweep, or of a part of it."""
    return f"/v1/sweeps/{quote(sweep_id, safe='')}" + (f"/{resource}" if resource else "")


def find_id(service: Service, sweep: SweepName) -> Operation[str]:
    """Find the id of a sweep; the service is asked unless it is complete.

    Parameters
    ----------
    sweep
        The sweep, its id, any beginning of it that no other id has, or its name.

    Returns
    -------
    str
        The id.

    Raises
    ------
    NotFound
        If no sweep is meant, or several are.
    """
    if isinstance(sweep, Mapping):
        return sweep["id"]
    if len(sweep) == ID_LENGTH:  # the service reports an unknown id itself
        return sweep
    names: dict[str, str] = {}
    cursor = None
    while sweep:
        page, cursor = yield from request_page(service, "/v1/sweeps", cursor, name=sweep)
        names |= {item["id"]: item["name"] for item in page["sweeps"]}
        if cursor is None:
            break
    return match_sweep(names, sweep)


def get_json(service: Service, path: str, params: Mapping[str, str]) -> Operation[Json]:
    """Send a GET request to a route that has no method here.

    Parameters
    ----------
    path
        Path of the route, such as `/v1/catalogue`.
    params
        Query parameters.

    Returns
    -------
    dict
        The JSON of the response.

    Raises
    ------
    NotFound
        If there is no such route.
    """
    return (yield from request_json(service, "GET", path, params=params))


def download_file(service: Service, path: str, params: Mapping[str, str], file: Path) -> Operation[None]:
    """Write the response of a route to a file.

    Parameters
    ----------
    path
        Path of the route.
    params
        Query parameters.
    file
        File to write.
    """
    yield from download(path, params, file)


def to_query(params: Mapping[str, Any]) -> dict[str, str]:
    """Return query parameters; a value is a number, a text such as a range, or a sequence of them."""
    return {name: _format_value(value) for name, value in params.items() if value is not None}


def _format_value(value: Any) -> str:
    value = value.tolist() if hasattr(value, "tolist") else value
    is_list = isinstance(value, Iterable) and isinstance(value, Sequence) and not isinstance(value, str)
    return ",".join(map(str, value)) if is_list else str(value)
