"""A service from Python: all that its REST interface offers, and waiting that outlives the service."""

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

from sweep_service.client.connection import URL, Connection, Event
from sweep_service.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    import xarray as xr

    from sweep_service.planning.spec import SweepSpec

ENDS = ("completed", "incomplete", "cancelled", "failed")
PAGE = 500  # sweeps or failures in one answer
SWEEP = re.compile(r"(https?://.+)/v1/sweeps/([^/?#]+)(?:/zarr)?/?")

Answer: TypeAlias = dict[str, Any]
Written: TypeAlias = "Mapping[str, Any] | SweepSpec | str | bytes | Path"


class Client:
    """The service at a URL (or `SWEEP_URL`), with a token (or `SWEEP_TOKEN`) if it wants one.

    Sweeps are plain dictionaries. A spec is a mapping, a text in YAML or JSON, or the path of a file. What
    the service refuses raises the errors of this package. A request waits ten seconds for a service that
    is away; `wait`, `follow` and `events` wait for as long as it takes.
    """

    def __init__(self, url: str | None = None, token: str | None = None) -> None:
        self._to = Connection(
            url or os.environ.get("SWEEP_URL") or URL, token or os.environ.get("SWEEP_TOKEN")
        )
        self.url = self._to.url

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def close(self) -> None:
        self._to.close()

    # ---- submit and look

    def submit(self, spec: Written, *, priority: int = 0, idempotency_key: str | None = None) -> Answer:
        """A new sweep, or the one there is with the same spec."""
        key = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
        return self._sweep("POST", "/v1/sweeps", params={"priority": priority}, **_body(spec, key))

    def estimate(self, spec: Written) -> Answer:
        """What a sweep would cost."""
        return self._to.json("POST", "/v1/estimate", **_body(spec))

    def sweep(self, id: str) -> Answer:
        return self._sweep("GET", _path(id))

    def sweeps(self, state: str | Sequence[str] | None = None, name: str | None = None) -> Iterator[Answer]:
        """All of them, or those in some states, or with this in their name or id, newest first."""
        states = [state] if isinstance(state, str) else list(state or ())
        named = {"name": name} if name else {}
        return map(self._linked, self._pages("/v1/sweeps", "sweeps", state=states, **named))

    def failures(self, id: str) -> Iterator[Answer]:
        """Each failed run with its error, and a command that computes it alone."""
        return self._pages(_path(id, "failures"), "failures")

    def spec(self, id: str) -> Answer:
        """As it was asked for, with every default filled in."""
        return self._to.json("GET", _path(id, "spec"))

    def presets(self) -> list[Answer]:
        """Specs to start from."""
        return self._to.json("GET", "/v1/presets")["presets"]

    def catalogue(self) -> Answer:
        """The activations, regimes, observables and so on that a spec can name."""
        return self._to.json("GET", "/v1/catalogue")

    def cluster(self) -> Answer:
        """Who computes, and what is waiting for them."""
        return self._to.json("GET", "/v1/cluster")

    # ---- steer

    def cancel(self, id: str) -> Answer:
        """Give up what is not computed yet; what is there stays."""
        return self._sweep("POST", _path(id, "cancel"))

    def pause(self, id: str) -> Answer:
        return self._sweep("POST", _path(id, "pause"))

    def resume(self, id: str) -> Answer:
        return self._sweep("POST", _path(id, "resume"))

    def retry(self, id: str) -> Answer:
        """Compute failed and cancelled runs again."""
        return self._sweep("POST", _path(id, "retry"))

    def extend(self, id: str, change: Written) -> Answer:
        """A new sweep with more values of axes, points or seeds; what this one has is copied."""
        return self._sweep("POST", _path(id, "extend"), **_body(change))

    def remove(self, id: str) -> None:
        """Leave nothing of it."""
        self.sweep(id)
        with suppress(NotFound):  # an attempt whose answer was lost has done it
            self._to.ask("DELETE", _path(id))

    # ---- wait

    def wait(self, id: str, progress: bool = True, timeout: float | None = None) -> Answer:
        """The sweep when it has ended; with a bar on the way, if this is a terminal."""
        from sweep_service.client.progress import progress_bar

        with progress_bar(None if progress else False) as bar:
            for now in self.follow(id, timeout):
                bar.show(now)
        return now

    def follow(self, id: str, timeout: float | None = None) -> Iterator[Answer]:
        """The sweep as it is, and again whenever something has happened to it, until it has ended."""
        end = math.inf if timeout is None else clock.monotonic() + timeout
        lost = {"reason": f"waiting for the service at {self.url}"}
        now: Answer = {"state": "out of reach"}
        after: str | None = None
        try:
            while True:
                for found in self._to.latest(_path(id), end):
                    if found is not None:
                        yield (now := self._linked(found))
                    elif "id" in now:
                        yield now | lost
                if now["state"] in ENDS:
                    return
                for event in self._to.events(_path(id, "events"), after, end):
                    if event is None:
                        yield now | lost
                        continue
                    if event.kind == "removed":
                        raise NotFound(f"{id} was removed")
                    after = event.id
                    if event.data["state"] != now["state"]:  # new, or of the past
                        break
                    yield (now := now | event.data)
        except TimeoutError:
            raise TimeoutError(f"{id} is {now['state']} after {timeout:g} s") from None

    def events(self, id: str, after: str | None = None) -> Iterator[Event]:
        """All that has happened to a sweep, or what came after an event; then what happens, to its end."""
        found = self._to.events(_path(id, "events"), after, math.inf)
        return (event for event in found if event is not None)

    # ---- results

    def open(self, id: str, chunks: Any = None) -> xr.Dataset:
        """The dataset, also while it grows; values are fetched when they are used."""
        return _opened(self.sweep(id)["links"]["zarr"], self._to.headers, chunks)

    def export(self, id: str, path: str | Path, format: str | None = None, **where: Any) -> Path:
        """Write a sweep, or the part of it where d=100, gamma="0.01:1", variables=["sgd_risk"] and so on, to
        a file: netcdf, csv, parquet or json, as its name ends unless told."""
        from sweep_service.analysis.export import written

        output = Path(path)
        with written(output, format) as (kind, fresh):
            self._to.download(_path(id, "data"), _query({"format": kind, **where}), fresh)
        return output

    def contents(self, id: str) -> Answer:
        """Its axes with their values, and what can be drawn: all that a selection can name."""
        return self._to.json("GET", _path(id, "contents"))

    def map(self, id: str) -> Answer:
        """Runs of each point by status."""
        return self._to.json("GET", _path(id, "map"))

    def curves(self, id: str, observable: str = "risk", **where: Any) -> Answer:
        """An observable against time: SGD with bands over seeds, and the theories."""
        return self._to.json("GET", _path(id, "curves"), params=_query({"observable": observable, **where}))

    def phase_diagram(self, id: str, x: str, y: str, value: str = "sgd_risk", **where: Any) -> Answer:
        """One value on two axes, the rest chosen or averaged over seeds."""
        params = _query({"x": x, "y": y, "value": value, **where})
        return self._to.json("GET", _path(id, "phase-diagram"), params=params)

    def figure(self, id: str, path: str | Path, view: str = "curves", **words: Any) -> Path:
        """Write a view, drawn by the service, to a file: .png, .svg or .pdf, with the words of the view."""
        output = Path(path)
        fresh = output.with_name(f".{output.name}.part")
        params = _query({"format": output.suffix.removeprefix(".").lower(), **words})
        try:
            self._to.download(_path(id, f"figures/{quote(view, safe='')}"), params, fresh)
            fresh.replace(output)
        finally:
            fresh.unlink(missing_ok=True)
        return output

    # ---- how it is asked

    def _sweep(self, method: str, path: str, **options: Any) -> Answer:
        return self._linked(self._to.json(method, path, **options))

    def _linked(self, sweep: Answer) -> Answer:
        """With links that lead there from anywhere."""
        return {**sweep, "links": {name: f"{self.url}{link}" for name, link in sweep["links"].items()}}

    def _pages(self, path: str, name: str, **params: Any) -> Iterator[Answer]:
        cursor: dict[str, str] = {}
        while True:
            page = self._to.json("GET", path, params={**params, "limit": PAGE, **cursor})
            yield from page[name]
            if page["next"] is None:
                return
            cursor = {"cursor": page["next"]}


def open(url_or_path: str | Path, token: str | None = None, chunks: Any = None) -> xr.Dataset:
    """A stored sweep: by its folder `<id>.zarr`, by its URL `…/v1/sweeps/<id>`, or by that of its store.

    A folder may be in a bucket, `s3://…/<id>.zarr`; keys and endpoint are then in the environment.
    """
    where = str(url_or_path)
    if where.startswith("s3://"):
        return _from_bucket(where, chunks)
    if "://" not in where:
        if not Path(where, "zarr.json").exists():
            raise NotFound(f"no sweep is stored at {where}")
        return _opened(where, {}, chunks)
    found = SWEEP.fullmatch(where)
    if found is None:
        raise InvalidInput("url", where, f"must be such as {URL}/v1/sweeps/<id>")
    with Client(found[1], token) as client:
        return client.open(found[2], chunks)


def _from_bucket(url: str, chunks: Any) -> xr.Dataset:
    import xarray as xr

    from sweep_service.store.objects import ROOT
    from sweep_service.store.s3 import Bucket, S3Chunks

    bucket = Bucket(url)
    if not bucket.exists(ROOT):
        raise NotFound(f"no sweep is stored at {url}")
    return xr.open_zarr(
        S3Chunks(bucket.store, read_only=True), chunks=chunks, consolidated=True, zarr_format=3
    )


def _opened(where: str, headers: Mapping[str, str], chunks: Any) -> xr.Dataset:
    import xarray as xr

    remote = {"client_kwargs": {"headers": dict(headers)}} if "://" in where else None
    return xr.open_zarr(where, chunks=chunks, consolidated=True, zarr_format=3, storage_options=remote)


def _path(id: str, part: str = "") -> str:
    return f"/v1/sweeps/{quote(id, safe='')}" + (f"/{part}" if part else "")


def _body(text: Written, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
    """A spec, or a change of one, as it is: the service reads it."""
    kind = "application/yaml"  # of which JSON is a part
    if isinstance(text, Path):
        text = text.read_bytes()
    elif isinstance(text, Mapping):
        kind, text = "application/json", json.dumps(dict(text), default=_plain)
    elif not isinstance(text, (str, bytes)):
        kind, text = "application/json", text.model_dump_json()
    return {"content": text, "headers": {"Content-Type": kind, **(headers or {})}}


def _plain(value: Any) -> Any:
    """Numbers and arrays of NumPy; tuples and the like are lists to JSON anyway."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise InvalidInput("spec", value, "must hold what JSON can hold: numbers, texts, lists, mappings")


def _query(params: Mapping[str, Any]) -> dict[str, str]:
    """What is chosen along a dimension: a value, a range as text, or several of them."""
    return {name: _listed(value) for name, value in params.items() if value is not None}


def _listed(value: Any) -> str:
    value = value.tolist() if hasattr(value, "tolist") else value
    several = isinstance(value, Sequence) and not isinstance(value, str)
    return ",".join(map(str, value)) if several else str(value)
