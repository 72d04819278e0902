"""The REST client `ss.Client`, and `ss.open` for stored datasets."""

from __future__ import annotations

import json
import math
import os
import re
import time as clock
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote

from sweep_service.client import DEFAULT_URL
from sweep_service.errors import InvalidInput, NotFound, reading
from sweep_service.extras import explain_missing_package

if TYPE_CHECKING:
    import xarray as xr

    from sweep_service.client.connection import Event
    from sweep_service.planning.spec import SweepSpec

FINAL_STATES = ("completed", "incomplete", "cancelled", "failed")
SWEEP_URL = re.compile(r"(https?://.+)/v1/sweeps/([^/?#]+)(?:/zarr)?/?")

Json: TypeAlias = dict[str, Any]
Spec: TypeAlias = "Mapping[str, Any] | SweepSpec | str | bytes | Path"


class Client:
    """Client of a sweep service.

    Sweeps are plain dictionaries with the fields of the REST API. Errors of the service are raised as the
    errors of this package. A request is retried for ten seconds while the service does not answer; `wait`,
    `follow` and `events` retry for as long as needed.

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

    page_size = 500  # sweeps or failures per request

    def __init__(self, url: str | None = None, token: str | None = None) -> None:
        with explain_missing_package("a client of a service"):
            from sweep_service.client.connection import Connection

        self._connection = Connection(
            url or os.environ.get("SWEEP_URL") or DEFAULT_URL, token or os.environ.get("SWEEP_TOKEN")
        )
        self.url = self._connection.url

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to the service."""
        self._connection.close()

    # ---- submit and inspect

    def submit(self, spec: Spec, *, priority: int = 0, idempotency_key: str | None = None) -> Json:
        """Submit a sweep, or find the existing one with an equivalent spec.

        Parameters
        ----------
        spec
            A mapping, a text in YAML or JSON, or the path of a file.
        priority
            Among sweeps that share workers, a higher priority goes first.
        idempotency_key
            Key that identifies the request if it is sent again. By default a random one.

        Returns
        -------
        dict
            The sweep.

        Raises
        ------
        InvalidInput
            If the spec is invalid.
        LimitExceeded
            If the sweep is too large for the service, or `TooManySweeps` if too many have not ended.
        Conflict
            If the key was used for another spec.
        """
        key = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
        return self._request_sweep("POST", "/v1/sweeps", params={"priority": priority}, **_body(spec, key))

    def estimate(self, spec: Spec) -> Json:
        """Estimate the cost of a sweep without submitting it.

        Parameters
        ----------
        spec
            A mapping, a text in YAML or JSON, or the path of a file.

        Returns
        -------
        dict
            `points`, `runs`, `reused`, `sgd_steps`, `core_seconds`, `bytes`, `warnings`, and `refused`: the
            reason why the service would not accept the sweep, or None.

        Raises
        ------
        InvalidInput
            If the spec is invalid.
        """
        return self._connection.request_json("POST", "/v1/estimate", **_body(spec))

    def predict_seeds(self, spec: Spec, relative_error: float | None = None) -> Json:
        """Predict how accurately the seeds of a spec will determine the risk of SGD, without any run.

        Parameters
        ----------
        spec
            A mapping, a text in YAML or JSON, or the path of a file.
        relative_error
            Count the seeds for this standard error over the mean. By default about half of that of the spec.

        Returns
        -------
        dict
            `points`, up to three, each with the relative `error` and the number of `seeds` over `time`;
            `summary` in words, and `notes` that say what an error means or why there is no prediction.

        Raises
        ------
        InvalidInput
            If the spec or the error is invalid.
        """
        params = to_query({"relative_error": relative_error})
        return self._connection.request_json("POST", "/v1/seeds", params=params, **_body(spec))

    def sweep(self, id: str) -> Json:
        """Get a sweep.

        Parameters
        ----------
        id
            Id of the sweep.

        Returns
        -------
        dict
            `id`, `name`, `state`, `counts` of runs by status, `progress`, `links`, and more.

        Raises
        ------
        NotFound
            If there is no such sweep.
        """
        return self._request_sweep("GET", _path(id))

    def sweeps(
        self,
        state: str | Sequence[str] | None = None,
        name: str | None = None,
        tag: str | Sequence[str] | None = None,
    ) -> Iterator[Json]:
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
        return map(self._with_full_links, self._iter_pages("/v1/sweeps", "sweeps", state=states, **query))

    def failures(self, id: str) -> Iterator[Json]:
        """Iterate over the failed runs of a sweep.

        Parameters
        ----------
        id
            Id of the sweep.

        Yields
        ------
        dict
            `kind` and `number` of the run, its `error`, the numbers of all `runs` with this result, and the
            `command` that computes only this run.
        """
        return self._iter_pages(_path(id, "failures"), "failures")

    def rounds(self, id: str) -> Json:
        """List the rounds of a sweep with a target error.

        Parameters
        ----------
        id
            Id of the sweep.

        Returns
        -------
        dict
            `rounds`, each with the points and runs that it adds and what decided them, and `is_complete`.
        """
        return self._connection.request_json("GET", _path(id, "rounds"))

    def spec(self, id: str) -> Json:
        """Get the spec of a sweep, with all defaults filled in.

        Parameters
        ----------
        id
            Id of the sweep.

        Returns
        -------
        dict
            The spec.
        """
        return self._connection.request_json("GET", _path(id, "spec"))

    def presets(self) -> list[Json]:
        """List the presets of the service.

        Returns
        -------
        list of dict
            Name, title and spec of each preset.
        """
        return self._connection.request_json("GET", "/v1/presets")["presets"]

    def catalogue(self) -> Json:
        """Get the names that a spec can use.

        Returns
        -------
        dict
            Activations, regimes, observables and so on, with their descriptions.
        """
        return self._connection.request_json("GET", "/v1/catalogue")

    def cluster(self) -> Json:
        """Get the workers of the service and its queue.

        Returns
        -------
        dict
            The workers, and why no sweep can progress if that is the case.
        """
        return self._connection.request_json("GET", "/v1/cluster")

    # ---- control

    def cancel(self, id: str) -> Json:
        """Cancel the runs of a sweep that are not computed yet; computed runs are kept.

        This has no effect on a sweep that has ended.

        Parameters
        ----------
        id
            Id of the sweep.

        Returns
        -------
        dict
            The sweep.

        Raises
        ------
        NotFound
            If there is no such sweep.
        """
        return self._request_sweep("POST", _path(id, "cancel"))

    def pause(self, id: str) -> Json:
        """Stop computing a sweep until it is resumed.

        This has no effect on a sweep that has ended.

        Parameters
        ----------
        id
            Id of the sweep.

        Returns
        -------
        dict
            The sweep.

        Raises
        ------
        NotFound
            If there is no such sweep.
        """
        return self._request_sweep("POST", _path(id, "pause"))

    def resume(self, id: str) -> Json:
        """Continue a paused sweep.

        Parameters
        ----------
        id
            Id of the sweep.

        Returns
        -------
        dict
            The sweep.
        """
        return self._request_sweep("POST", _path(id, "resume"))

    def retry(self, id: str) -> Json:
        """Compute the failed and cancelled runs of a sweep again.

        Parameters
        ----------
        id
            Id of the sweep.

        Returns
        -------
        dict
            The sweep.
        """
        return self._request_sweep("POST", _path(id, "retry"))

    def extend(self, id: str, change: Spec, *, name: str | None = None) -> Json:
        """Submit a new sweep with more values than an existing one, whose runs are reused.

        Parameters
        ----------
        id
            Id of the existing sweep, which stays unchanged.
        change
            More values of axes, points, seeds or observables, or `time: {max, samples}` with a later time, in
            any form that `submit` accepts.
        name
            Name of the new sweep. By default that in `change`, or that of the existing sweep.

        Returns
        -------
        dict
            The new sweep.

        Raises
        ------
        InvalidInput
            If the change is invalid.
        """
        return self._request_sweep(
            "POST", _path(id, "extend"), params=to_query({"name": name}), **_body(change)
        )

    def estimate_extension(self, id: str, change: Spec) -> Json:
        """Estimate the cost of an extension without submitting it.

        Parameters
        ----------
        id
            Id of the existing sweep.
        change
            As in `extend`.

        Returns
        -------
        dict
            The fields of `estimate`; `reused` counts the runs that need not be computed again.

        Raises
        ------
        InvalidInput
            If the change is invalid.
        """
        params = {"dry_run": "true"}
        return self._connection.request_json("POST", _path(id, "extend"), params=params, **_body(change))

    def update(
        self,
        id: str,
        *,
        name: str | None = None,
        note: str | None = None,
        tags: Sequence[str] | None = None,
    ) -> Json:
        """Change the name, the note or the tags of a sweep.

        The dataset keeps the name that it was computed under as its title.

        Parameters
        ----------
        id
            Id of the sweep.
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
        return self._request_sweep("PATCH", _path(id), **_body(given))

    def remove(self, id: str) -> None:
        """Delete a sweep and its data.

        Parameters
        ----------
        id
            Id of the sweep.

        Raises
        ------
        NotFound
            If there is no such sweep.
        """
        self.sweep(id)
        with suppress(NotFound):  # an earlier attempt, whose response was lost, has removed it
            self._connection.request("DELETE", _path(id))

    # ---- wait

    def wait(self, id: str, progress: bool = True, timeout: float | None = None) -> Json:
        """Wait until a sweep has ended.

        Parameters
        ----------
        id
            Id of the sweep.
        progress
            Whether to show a progress bar in a terminal or a notebook.
        timeout
            Seconds to wait at most. By default there is no limit.

        Returns
        -------
        dict
            The sweep in its final state.

        Raises
        ------
        TimeoutError
            If the sweep has not ended in time.
        NotFound
            If there is no such sweep, or it is removed.
        """
        from sweep_service.client.progress import progress_bar

        with progress_bar(None if progress else False) as bar:
            for sweep in self.follow(id, timeout):
                bar.show(sweep)
        return sweep

    def follow(self, id: str, timeout: float | None = None) -> Iterator[Json]:
        """Iterate over the states of a sweep, from the current one to the final one.

        Parameters
        ----------
        id
            Id of the sweep.
        timeout
            Seconds to follow the sweep at most. By default there is no limit.

        Yields
        ------
        dict
            The sweep after each change. While the service cannot be reached, the last known sweep with the
            `reason` that it is being waited for.

        Raises
        ------
        TimeoutError
            If the sweep has not ended in time.
        NotFound
            If there is no such sweep, or it is removed.
        """
        end = math.inf if timeout is None else clock.monotonic() + timeout
        disconnected = {"reason": f"waiting for the service at {self.url}"}
        sweep: Json = {"state": "out of reach"}
        last_event: str | None = None
        try:
            while True:
                for response in self._connection.poll(_path(id), end):
                    if response is not None:
                        yield (sweep := self._with_full_links(response))
                    elif "id" in sweep:
                        yield sweep | disconnected
                if sweep["state"] in FINAL_STATES:
                    return
                for event in self._connection.events(_path(id, "events"), last_event, end):
                    if event is None:
                        yield sweep | disconnected
                        continue
                    if event.kind == "removed":
                        raise NotFound(f"{id} was removed")
                    last_event = event.id or last_event
                    # A new state, or an old one from the history: only the sweep itself tells.
                    if event.data["state"] != sweep["state"]:
                        break
                    yield (sweep := sweep | event.data)
        except TimeoutError:
            raise TimeoutError(f"{id} is {sweep['state']} after {timeout:g} s") from None

    def events(self, id: str, after: str | None = None) -> Iterator[Event]:
        """Iterate over the events of a sweep, past and future, until it ends.

        Parameters
        ----------
        id
            Id of the sweep.
        after
            Id of an event; only later ones are returned.

        Yields
        ------
        Event
            `id`, `kind` (state, progress, notes, compiling or removed) and `data`, the sweep at that time.
        """
        events = self._connection.events(_path(id, "events"), after, math.inf)
        return (event for event in events if event is not None)

    # ---- results

    def open(self, id: str, chunks: Any = None) -> xr.Dataset:
        """Open the dataset of a sweep, which may still be running.

        Parameters
        ----------
        id
            Id of the sweep.
        chunks
            As in `xarray.open_zarr`; `{}` gives Dask arrays.

        Returns
        -------
        xarray.Dataset
            The dataset. Values are downloaded when they are used.

        Raises
        ------
        NotFound
            If there is no such sweep.
        """
        from sweep_service.store.checked import HttpChunks

        url = self.sweep(id)["links"]["zarr"]
        self._connection.request("GET", _path(id, "zarr/zarr.json"))  # raises the error of the service
        options = {"client_kwargs": {"headers": dict(self._connection.headers)}}
        return _open_zarr(HttpChunks.from_url(url, options, read_only=True), url, chunks)

    def export(self, id: str, path: str | Path, format: str | None = None, **where: Any) -> Path:
        """Download a sweep, or a selection of it, as a file.

        Parameters
        ----------
        id
            Id of the sweep.
        path
            File to write.
        format
            `netcdf`, `csv`, `parquet` or `json`. By default the suffix of `path` decides.
        **where
            The selection: `d=100`, `gamma="0.01:1"`, `seed=[0, 1]`, and `variables=["sgd_risk"]`.

        Returns
        -------
        pathlib.Path
            The file.

        Raises
        ------
        InvalidInput
            If the format or the selection is invalid; no file is written then.
        """
        from sweep_service.analysis.export import open_output

        output = Path(path)
        with open_output(output, format) as (format_name, temporary):
            query = to_query({"format": format_name, **where})
            self._connection.download(_path(id, "data"), query, temporary)
        return output

    def contents(self, id: str) -> Json:
        """Get the axes of a sweep with their values, and its views.

        Parameters
        ----------
        id
            Id of the sweep.

        Returns
        -------
        dict
            Everything that a selection or a view can name.
        """
        return self._connection.request_json("GET", _path(id, "contents"))

    def map(self, id: str) -> Json:
        """Count the runs of each point by status.

        Parameters
        ----------
        id
            Id of the sweep.

        Returns
        -------
        dict
            The counts of each point.
        """
        return self._connection.request_json("GET", _path(id, "map"))

    def curves(self, id: str, observable: str = "risk", **where: Any) -> Json:
        """Compute an observable over time: SGD with bands over seeds, and the regimes.

        Parameters
        ----------
        id
            Id of the sweep.
        observable
            Name of an observable of the sweep.
        **where
            The selection, as in `export`.

        Returns
        -------
        dict
            The curves, as `ds.sweep.curves` computes them.

        Raises
        ------
        InvalidInput
            If the observable or the selection is invalid.
        """
        params = to_query({"observable": observable, **where})
        return self._connection.request_json("GET", _path(id, "curves"), params=params)

    def seeds(self, id: str, value: str = "risk", relative_error: float = 0.05, **where: Any) -> Json:
        """Compute how many seeds make the standard error of a mean a given share of it, over time.

        Parameters
        ----------
        id
            Id of the sweep.
        value
            `risk`, `final_risk`, or another observable of SGD.
        relative_error
            Standard error of the mean over the mean.
        **where
            The selection, as in `export`.

        Returns
        -------
        dict
            The numbers as `curves`: those measured from the runs have the source `sgd`, those predicted from
            stored fluctuations `ode`.

        Raises
        ------
        InvalidInput
            If the value, the error or the selection is invalid, or nothing is known about the scatter.
        """
        params = to_query({"value": value, "relative_error": relative_error, **where})
        return self._connection.request_json("GET", _path(id, "seeds"), params=params)

    def phase_diagram(self, id: str, x: str, y: str, value: str = "sgd_risk", **where: Any) -> Json:
        """Compute a value on two axes; other axes are selected, and seeds are averaged over.

        Parameters
        ----------
        id
            Id of the sweep.
        x, y
            Names of axes.
        value
            Name of the value.
        **where
            The selection, as in `export`.

        Returns
        -------
        dict
            The phase diagram, as `ds.sweep.phase_diagram` computes it.

        Raises
        ------
        InvalidInput
            If an axis, the value or the selection is invalid.
        """
        params = to_query({"x": x, "y": y, "value": value, **where})
        return self._connection.request_json("GET", _path(id, "phase-diagram"), params=params)

    def compare(self, a: str, b: str, /, value: str = "sgd_risk", how: str = "ratio", **where: Any) -> Json:
        """Compare a value of two sweeps at the points that both have.

        Parameters
        ----------
        a, b
            Ids of the sweeps.
        value
            Name of a value of phase diagrams.
        how
            `ratio`, a over b, or `difference`, a minus b.
        **where
            The selection, as in `export`.

        Returns
        -------
        dict
            The `points` with their numbers and errors, as `ss.compare` computes them, and what `differs`.

        Raises
        ------
        InvalidInput
            If a name is unknown, or the sweeps have no point in common.
        """
        params = to_query({"a": a, "b": b, "value": value, "how": how, **where})
        return self.get_json("/v1/compare", params)

    def figure(self, id: str, path: str | Path, view: str = "curves", **options: Any) -> Path:
        """Download a view of a sweep as a figure, which the service draws.

        Parameters
        ----------
        id
            Id of the sweep.
        path
            File to write: `.png`, `.svg` or `.pdf`.
        view
            Name of the view.
        **options
            Options of the view, and the selection as in `export`.

        Returns
        -------
        pathlib.Path
            The file.

        Raises
        ------
        InvalidInput
            If the format, an option or the selection is invalid; no file is written then.
        """
        output = Path(path)
        temporary = output.with_name(f".{output.name}.part")
        params = to_query({"format": output.suffix.removeprefix(".").lower(), **options})
        try:
            self._connection.download(_path(id, f"figures/{quote(view, safe='')}"), params, temporary)
            temporary.replace(output)
        finally:
            temporary.unlink(missing_ok=True)
        return output

    # ---- requests

    def get_json(self, path: str, params: Mapping[str, str]) -> Json:
        """Send a GET request to a route that has no method here, and return its JSON."""
        return self._connection.request_json("GET", path, params=params)

    def download(self, path: str, params: Mapping[str, str], file: Path) -> None:
        """Write the response of a route to a file."""
        self._connection.download(path, params, file)

    def _request_sweep(self, method: str, path: str, **options: Any) -> Json:
        return self._with_full_links(self._connection.request_json(method, path, **options))

    def _with_full_links(self, sweep: Json) -> Json:
        """Return the sweep with links that include the address of the service."""
        return {**sweep, "links": {name: f"{self.url}{link}" for name, link in sweep["links"].items()}}

    def _iter_pages(self, path: str, field: str, **params: Any) -> Iterator[Json]:
        """Iterate over the items of a list that the service returns in pages."""
        cursor: dict[str, str] = {}
        while True:
            page = self._connection.request_json(
                "GET", path, params={**params, "limit": self.page_size, **cursor}
            )
            yield from page[field]
            if page["next"] is None:
                return
            cursor = {"cursor": page["next"]}


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
    if location.startswith("s3://"):
        return _open_in_bucket(location, chunks)
    if "://" not in location:
        if not Path(location, "zarr.json").exists():
            raise NotFound(f"no sweep is stored at {location}")
        from sweep_service.store.local import LocalChunks

        with reading(location):
            return _open_zarr(LocalChunks(Path(location), read_only=True), location, chunks)
    match = SWEEP_URL.fullmatch(location)
    if match is None:
        raise InvalidInput("url", location, f"must have the form {DEFAULT_URL}/v1/sweeps/<id>")
    with Client(match[1], token) as client:
        return client.open(match[2], chunks)


def _open_in_bucket(url: str, chunks: Any) -> xr.Dataset:
    from sweep_service.store.objects import ROOT

    with explain_missing_package("a bucket"):
        from sweep_service.store.s3 import Bucket, S3Chunks

    bucket = Bucket(url)
    if not bucket.exists(ROOT):
        raise NotFound(f"no sweep is stored at {url}")
    with reading(url):
        return _open_zarr(S3Chunks(bucket.store, read_only=True), url, chunks)


def _open_zarr(store: Any, location: str, chunks: Any) -> xr.Dataset:
    """Open a dataset in a store that checks what it reads."""
    import xarray as xr

    from sweep_service.store.migration import complete_dataset

    dataset = complete_dataset(xr.open_zarr(store, chunks=chunks, consolidated=True, zarr_format=3))
    dataset.encoding["source"] = location
    return dataset


def _path(id: str, resource: str = "") -> str:
    return f"/v1/sweeps/{quote(id, safe='')}" + (f"/{resource}" if resource else "")


def _body(spec: Spec, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the request body of a spec or a change; the service parses the text."""
    content_type = "application/yaml"  # JSON is a subset
    if isinstance(spec, Path):
        spec = spec.read_bytes()
    elif isinstance(spec, Mapping):
        content_type, spec = "application/json", json.dumps(dict(spec), default=_to_plain)
    elif not isinstance(spec, (str, bytes)):
        content_type, spec = "application/json", spec.model_dump_json()
    return {"content": spec, "headers": {"Content-Type": content_type, **(headers or {})}}


def _to_plain(value: Any) -> Any:
    """Convert NumPy values for `json.dumps`, and refuse everything else."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise InvalidInput("spec", value, "must contain only numbers, texts, lists and mappings, as JSON does")


def to_query(params: Mapping[str, Any]) -> dict[str, str]:
    """Return query parameters; a value is a number, a text such as a range, or a sequence of them."""
    return {name: _query_value(value) for name, value in params.items() if value is not None}


def _query_value(value: Any) -> str:
    value = value.tolist() if hasattr(value, "tolist") else value
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    return ",".join(map(str, value)) if is_list else str(value)
