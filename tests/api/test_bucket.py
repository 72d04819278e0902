"""A service with its data in a bucket responds like one with a folder."""

import uuid

import pytest
import xarray as xr

from tests.api.served import assert_problem, serving
from tests.specs import SMALL_SPEC
from tests.store.weed import weed

TIMING = ["sgd_seconds", "ode_seconds"]


@pytest.fixture(scope="module")
def bucket(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bucket")
    with weed(folder / "weed") as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        with serving(f"s3://bucket/{uuid.uuid4().hex}", state=folder / "state") as service:
            yield service


@pytest.fixture(scope="module")
def stored(bucket):
    return bucket.complete(SMALL_SPEC)


@pytest.fixture(scope="module")
def local_dataset(tmp_path_factory):
    """The same sweep in a folder."""
    with serving(tmp_path_factory.mktemp("here")) as service:
        sweep_id = service.complete(SMALL_SPEC)
        with service.folder.open_dataset(sweep_id) as dataset:
            yield dataset.load()


def test_dataset_in_bucket_opens_by_url(bucket, stored, local_dataset):
    with xr.open_zarr(f"{bucket.url}/v1/sweeps/{stored}/zarr", chunks=None) as remote_dataset:
        xr.testing.assert_equal(remote_dataset.load().drop_vars(TIMING), local_dataset.drop_vars(TIMING))


def test_object_in_bucket_has_ranges_and_etags(bucket, stored):
    path = f"/v1/sweeps/{stored}/zarr/zarr.json"
    whole = bucket.get(path)
    assert whole.content == bucket.folder.objects.get(f"{stored}.zarr/zarr.json")
    tag = whole.headers["etag"]
    assert bucket.get(path, headers={"If-None-Match": tag}).status_code == 304
    part = bucket.get(path, headers={"Range": "bytes=5-14", "If-Range": tag})
    assert (part.status_code, part.content) == (206, whole.content[5:15])
    assert part.headers["content-range"] == f"bytes 5-14/{len(whole.content)}"
    assert bucket.get(path, headers={"Range": "bytes=5-14", "If-Range": '"other"'}).content == whole.content
    assert bucket.get(path, headers={"Range": f"bytes={len(whole.content)}-"}).status_code == 416
    head = bucket.client.head(path)
    assert (head.content, int(head.headers["content-length"])) == (b"", len(whole.content))


@pytest.mark.parametrize(
    "path", ["nothing", "c/0", "..%2F..%2Flock", "%2e%2e/%2e%2e/lock", "a//b", "sgd_risk"]
)
def test_only_objects_of_the_dataset_are_served(bucket, stored, path):
    assert_problem(bucket.get(f"/v1/sweeps/{stored}/zarr/{path}"), 404)


def test_exports_and_figures_from_bucket(bucket, stored, local_dataset, tmp_path):
    sweep = bucket.get(f"/v1/sweeps/{stored}").json()
    assert sweep["state"] == "completed"
    contents = bucket.get(f"/v1/sweeps/{stored}/contents").json()
    assert contents["times"] == [0.0, float(local_dataset.time[-1])]
    assert bucket.get(f"/v1/sweeps/{stored}/curves").status_code == 200
    (tmp_path / "all.nc").write_bytes(
        bucket.get(f"/v1/sweeps/{stored}/data", params={"format": "netcdf"}).content
    )
    with xr.open_dataset(tmp_path / "all.nc") as dataset:
        assert dataset.sizes == local_dataset.sizes


def test_sweep_is_removed_from_bucket(bucket):
    sweep_id = bucket.complete({**SMALL_SPEC, "name": "to go", "time": {"max": 0.25, "samples": 2}})
    assert bucket.client.delete(f"/v1/sweeps/{sweep_id}").status_code == 204
    assert not [name for name in bucket.folder.objects.list() if name.startswith(sweep_id)]
    assert_problem(bucket.get(f"/v1/sweeps/{sweep_id}/zarr/zarr.json"), 404)
