"""The REST clients `ss.Client` and `ss.AsyncClient`, and `ss.open` for stored datasets."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweep_service.client import DEFAULT_URL, requests
from sweep_service.client.binding import (
    as_event,
    as_fields,
    async_iterating,
    awaiting,
    awaiting_as,
    blocking,
    blocking_as,
    iterating,
)
from sweep_service.client.opening import SWEEP_URL, open_stored
from sweep_service.client.requests import Json as Json
from sweep_service.client.requests import to_query as to_query
from sweep_service.client.sweep import AsyncSweep, Sweep
from sweep_service.client.verbs import control, following, listing, results, submission
from sweep_service.client.verbs.following import FINAL_STATES as FINAL_STATES
from sweep_service.client.verbs.submission import Spec as Spec
from sweep_service.display import Link, format_html
from sweep_service.errors import InvalidInput
from sweep_service.extras import explain_missing_package

if TYPE_CHECKING:
    import xarray as xr


class _Access:
    """The address of a service and the token; `page_size` is the number of sweeps or failures per request."""

    page_size = 500

    def __init__(self, url: str | None = None, token: str | None = None) -> None:
        self.url = (url or os.environ.get("SWEEP_URL") or DEFAULT_URL).rstrip("/")
        token = token or os.environ.get("SWEEP_TOKEN")
        if token and not (token.isascii() and token.isprintable()):
            raise InvalidInput("token", None, "must be printable ASCII")
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def _repr_html_(self) -> str:
        """Show the address; no request is sent, which could take long."""
        access = "with a token" if self.headers else "without a token"
        return format_html(type(self).__name__, {"page": Link(self.url), "access": access})


class Client(_Access):
    """Client of a sweep service.

    A sweep is a dictionary with the fields of the REST API, and has the verbs of this class as methods. Verbs
    take a sweep, its id, any beginning of the id that no other sweep has, or the name of the sweep. Errors
    of the service are raised as the errors of this package. A request is retried for ten seconds while the
    service does not answer; `wait`, `follow` and `events` retry for as long as needed.

    Parameters
    ----------
    url
        Address of the service. By default `SWEEP_URL`, or `http://127.0.0.1:8000`.
    token
        Token of the service, if it requires one. By default `SWEEP_TOKEN`.

    Raises
    ------
    InvalidInput
        If the URL or the token is malformed. No request is sent yet.
    """

    def __init__(self, url: str | None = None, token: str | None = None) -> None:
        super().__init__(url, token)
        with explain_missing_package("a client of a service"):
            from sweep_service.client.connection import Connection
        self.connection = Connection(self.url, self.headers)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to the service."""
        self.connection.close()

    submit = blocking_as(Sweep, submission.submit)
    estimate = blocking(submission.estimate)
    predict_seeds = blocking(submission.predict_seeds)
    sweep = blocking_as(Sweep, listing.sweep)
    sweeps = iterating(listing.sweeps, Sweep)
    find_id = blocking(requests.find_id)
    failures = iterating(listing.failures, as_fields)
    spec = blocking(listing.spec)
    rounds = blocking(listing.rounds)
    presets = blocking(listing.presets)
    catalogue = blocking(listing.catalogue)
    cluster = blocking(listing.cluster)

    cancel = blocking_as(Sweep, control.cancel)
    pause = blocking_as(Sweep, control.pause)
    resume = blocking_as(Sweep, control.resume)
    retry = blocking_as(Sweep, control.retry)
    extend = blocking_as(Sweep, submission.extend)
    estimate_extension = blocking(submission.estimate_extension)
    update = blocking_as(Sweep, control.update)
    remove = blocking(control.remove)

    wait = blocking_as(Sweep, following.wait)
    follow = iterating(following.follow, Sweep)
    events = iterating(following.events, as_event)

    open = blocking(results.open)
    plot = blocking(results.plot)
    export = blocking(results.export)
    contents = blocking(results.contents)
    map = blocking(results.map)
    curves = blocking(results.curves)
    seeds = blocking(results.seeds)
    phase_diagram = blocking(results.phase_diagram)
    compare = blocking(results.compare)
    figure = blocking(results.figure)
    get_json = blocking(requests.get_json)
    download = blocking(requests.download_file)


class AsyncClient(_Access):
    """Client of a sweep service whose verbs are awaited, with those of `Client` and its parameters.

    `sweeps`, `failures`, `follow` and `events` are asynchronous iterators. Use it as `async with`, or await
    `aclose` at the end. A dataset that it opens is an ordinary one: its values are downloaded when they are
    used, and the event loop waits for them.
    """

    def __init__(self, url: str | None = None, token: str | None = None) -> None:
        super().__init__(url, token)
        with explain_missing_package("a client of a service"):
            from sweep_service.client.connection import AsyncConnection
        self.connection = AsyncConnection(self.url, self.headers)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections to the service."""
        await self.connection.aclose()

    submit = awaiting_as(AsyncSweep, submission.submit)
    estimate = awaiting(submission.estimate)
    predict_seeds = awaiting(submission.predict_seeds)
    sweep = awaiting_as(AsyncSweep, listing.sweep)
    sweeps = async_iterating(listing.sweeps, AsyncSweep)
    find_id = awaiting(requests.find_id)
    failures = async_iterating(listing.failures, as_fields)
    spec = awaiting(listing.spec)
    rounds = awaiting(listing.rounds)
    presets = awaiting(listing.presets)
    catalogue = awaiting(listing.catalogue)
    cluster = awaiting(listing.cluster)

    cancel = awaiting_as(AsyncSweep, control.cancel)
    pause = awaiting_as(AsyncSweep, control.pause)
    resume = awaiting_as(AsyncSweep, control.resume)
    retry = awaiting_as(AsyncSweep, control.retry)
    extend = awaiting_as(AsyncSweep, submission.extend)
    estimate_extension = awaiting(submission.estimate_extension)
    update = awaiting_as(AsyncSweep, control.update)
    remove = awaiting(control.remove)

    wait = awaiting_as(AsyncSweep, following.wait)
    follow = async_iterating(following.follow, AsyncSweep)
    events = async_iterating(following.events, as_event)

    open = awaiting(results.open)
    plot = awaiting(results.plot)
    export = awaiting(results.export)
    contents = awaiting(results.contents)
    map = awaiting(results.map)
    curves = awaiting(results.curves)
    seeds = awaiting(results.seeds)
    phase_diagram = awaiting(results.phase_diagram)
    compare = awaiting(results.compare)
    figure = awaiting(results.figure)
    get_json = awaiting(requests.get_json)
    download = awaiting(requests.download_file)


def open(url_or_path: str | Path, token: str | None = None, chunks: Any = None) -> xr.Dataset:
    """Open the dataset of a stored sweep.

    Parameters
    ----------
    url_or_path
        The folder `<id>.zarr`, its location in a bucket `s3://…/<id>.zarr` (keys and endpoint are then read
        from the environment), or the URL of a sweep `http://…/v1/sweeps/<id>`.
    token
        Token of the service, if it requires one. By default `SWEEP_TOKEN`.
    chunks
        As in `xarray.open_zarr`; `{}` gives Dask arrays.

    Returns
    -------
    xarray.Dataset
        The dataset. Values are read when they are used.

    Raises
    ------
    NotFound
        If no sweep is stored there.
    InvalidInput
        If the URL is not that of a sweep.
    Damaged
        If a file that is needed now is damaged. Chunks are checked when their values are read.
    TooNew
        If a later version of this package wrote the dataset.
    """
    location = str(url_or_path)
    if not location.startswith(("http://", "https://")):
        return open_stored(location, chunks)
    match = SWEEP_URL.fullmatch(location)
    if match is None:
        raise InvalidInput("url", location, f"must have the form {DEFAULT_URL}/v1/sweeps/<id>")
    with Client(match[1], token) as client:
        return client.open(match[2], chunks)
