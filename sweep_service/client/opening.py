"""The Zarr dataset of a sweep, from a folder, a bucket or a service."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweep_service.client import DEFAULT_URL
from sweep_service.errors import InvalidInput, NotFound, reading
from sweep_service.extras import explain_missing_package

if TYPE_CHECKING:
    import xarray as xr

SWEEP_URL = re.compile(r"(https?://.+)/v1/sweeps/([^/?#]+)(?:/zarr)?/?")


def open_stored(location: str, chunks: Any) -> xr.Dataset:
    """Open the dataset of a folder or a bucket."""
    if location.startswith("s3://"):
        return _open_in_bucket(location, chunks)
    if "://" in location:
        raise InvalidInput("url", location, f"must have the form {DEFAULT_URL}/v1/sweeps/<id>")
    if not Path(location, "zarr.json").exists():
        raise NotFound(f"no sweep is stored at {location}")
    from sweep_service.store.local import LocalChunks

    with reading(location):
        return _open_zarr(LocalChunks(Path(location), read_only=True), location, chunks)


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


def open_url(url: str, headers: Mapping[str, str], chunks: Any) -> xr.Dataset:
    """Open the dataset of a service at the URL of its store."""
    from sweep_service.store.checked import HttpChunks

    options = {"client_kwargs": {"headers": dict(headers)}}
    return _open_zarr(HttpChunks.from_url(url, options, read_only=True), url, chunks)
