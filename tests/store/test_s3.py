"""The S3 backend on a real server: conformance, sweeps, the lease, errors."""

import threading
import time
import uuid
from datetime import timedelta
from functools import partial

import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import HealthCheck, settings

import sweep_service as ss
from sweep_service.doctor.checks import store as checks
from sweep_service.doctor.verify import verify
from sweep_service.errors import Damaged, InUse, InvalidInput, NotFound, StoreGone
from sweep_service.execution.conductor import Conductor
from sweep_service.execution.executors import SerialExecutor
from sweep_service.planning.grids import Grid
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.spec import SweepSpec
from sweep_service.status import Status
from sweep_service.store import s3
from sweep_service.store.folder import INDEX_SUFFIX, DataFolder, parse_location
from sweep_service.store.kept_states import STATES_SUFFIX
from sweep_service.store.ledger import State
from sweep_service.store.locking import lease as leases
from sweep_service.store.locking.lease import Lease, LeaseTimes, hold_lease
from sweep_service.store.s3 import Bucket, S3Objects
from tests.chaos.proxy import proxied
from tests.store.conformance import StoreConformance, StoreMachine
from tests.store.weed import weed

TIMING = ["sgd_seconds", "ode_seconds"]
SPEC = SweepSpec.parse(
    {
        "axes": {"d": [5, 8], "p": 3, "gamma": [0.1, 0.5], "regime": ["classical", "high_dimensional"]},
        "fixed": {"k": 2},
        "seeds": 2,
        "time": {"max": 1.0, "samples": 4},
    }
)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with weed(tmp_path_factory.mktemp("weed")) as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        yield server


@pytest.fixture
def url(server):
    return f"s3://bucket/{uuid.uuid4().hex}"


def test_damage_in_a_bucket_is_found_and_repaired(url, tmp_path):
    folder = DataFolder(url, tmp_path)
    with Conductor(folder, SerialExecutor()) as conductor:
        sweep, _ = conductor.submit(SPEC)
        conductor.run(sweep.id)
    with ss.open(folder.dataset_path(sweep.id)) as dataset:
        before = dataset.drop_vars(TIMING).load()
    name = next(name for name in folder.objects.list(f"{sweep.id}.zarr/sgd_risk/c/"))
    content = bytearray(folder.objects.get(name))
    content[20] ^= 1
    folder.objects.put(name, bytes(content))
    with ss.open(folder.dataset_path(sweep.id)) as dataset, pytest.raises(Damaged, match=name):
        dataset.sgd_risk.load()
    checks, (found,) = verify(folder, [sweep.id])
    assert [name in check.found for check in checks] == [True]
    found.request.save(folder, sweep.id)
    with Conductor(folder, SerialExecutor()) as conductor:
        assert conductor.run(sweep.id).state is State.COMPLETED
    with ss.open(folder.dataset_path(sweep.id)) as dataset:
        assert dataset.drop_vars(TIMING).load().identical(before)


class TestS3Objects(StoreConformance):
    turns = 2  # fewer, because the S3 client of a loser retries for a second

    @pytest.fixture
    def objects(self, url):
        return S3Objects(url)

    def opening(self, objects):
        return f"from sweep_service.store.s3 import S3Objects\nobjects = S3Objects({objects.url!r})"


class S3Machine(StoreMachine):
    def start(self):
        return S3Objects(f"s3://bucket/{uuid.uuid4().hex}")


@pytest.mark.usefixtures("server")
class TestS3States(S3Machine.TestCase):
    settings = settings(
        max_examples=10, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck)
    )


def test_clear_removes_only_its_folder(url):
    objects = S3Objects(url)
    for name in ("a.zarr/zarr.json", "a.zarr/c/0", "a.zarrs/c", "a.zarr.x", "b"):
        objects.put(name, b"1")
    assert objects.list_top() == {"a.zarr", "a.zarrs", "a.zarr.x", "b"}
    objects.clear("a.zarr")
    objects.clear("nowhere")
    assert list(objects.list()) == ["a.zarr.x", "a.zarrs/c", "b"]


# ---- names


@pytest.mark.parametrize(
    ("data", "location"),
    [
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("s3://my.bucket-1/a/b_c/", "s3://my.bucket-1/a/b_c"),
    ],
)
def test_s3_url_has_bucket_and_prefix(data, location):
    assert parse_location(data) == location
    assert not str(DataFolder(data).state).startswith("s3")
    assert DataFolder(data).state == DataFolder(location).state != DataFolder(f"{location}/other").state


@pytest.mark.parametrize(
    "data",
    [
        "s3://", "s3:///a", "s3://b", "s3://Bucket/a", "s3://bucket/../a", "s3://bucket/a//b",
        "s3://bucket/a b", "s3://bucket/a?x=1", "s3://key:secret@bucket/a", "gs://bucket/a", "http://host/a", "file://host/a",
        "file://relative",
    ],
)  # fmt: skip
def test_invalid_data_locations_are_rejected(data):
    with pytest.raises(InvalidInput, match=r"data = .*must be"):
        DataFolder(data)


# ---- sweeps


def computed(location, state, spec=SPEC):
    folder = DataFolder(location, state)
    with Conductor(folder, SerialExecutor()) as conductor:
        sweep = conductor.run(conductor.submit(spec)[0].id)
    assert sweep.state is State.COMPLETED
    return folder, sweep.id


def test_sweep_in_a_bucket_equals_the_one_in_a_folder(url, tmp_path):
    bucket_folder, sweep = computed(url, tmp_path / "state")
    local_folder, twin = computed(tmp_path / "here", None)
    with ss.open(bucket_folder.address(sweep)) as stored, ss.open(local_folder.address(twin)) as expected:
        xr.testing.assert_equal(stored.drop_vars(TIMING), expected.drop_vars(TIMING))
    left = {name.partition("/")[0] for name in bucket_folder.objects.list()}
    assert left == {f"{sweep}{end}" for end in (".json", ".keys", ".zarr", STATES_SUFFIX, INDEX_SUFFIX)}
    assert sorted(path.name for path in (tmp_path / "state").iterdir()) == [
        "calibration.json",
        "ledger.sqlite",
    ]


def test_removed_sweep_leaves_no_objects(url, tmp_path):
    folder, sweep = computed(url, tmp_path / "state")
    with Conductor(folder, SerialExecutor()) as conductor:
        conductor.remove(sweep)
        with pytest.raises(NotFound):
            ss.open(folder.address(sweep))
    assert list(folder.objects.list()) == []
    assert list(Bucket(url).names("")) == []  # the lease included


def test_lost_ledger_is_rebuilt(url, tmp_path):
    """As after the service has moved to another machine."""
    _, sweep = computed(url, tmp_path / "one")
    with Conductor(DataFolder(url, tmp_path / "other"), SerialExecutor()) as conductor:
        assert conductor.ledger.sweeps() == []
        assert conductor.rebuild() == [sweep]
        assert conductor.run(sweep).state is State.COMPLETED
        assert conductor.counts(sweep) == {Status.DONE: 24}


def test_missing_dataset_is_not_found(url):
    with pytest.raises(NotFound, match="no sweep is stored at s3://"):
        ss.open(f"{url}/sweeps/20260101-000000-01234567.zarr")


# ---- the lease


SHORT = LeaseTimes(duration=2.0, renew_interval=0.2, margin=0.5)


def make_lease(url):
    return Lease(Bucket(url), "lock", "", uuid.uuid4().hex, SHORT)


def test_lease_has_one_holder(url):
    times = LeaseTimes(renew_interval=0.2)
    taken = r"process \d+ on .*a service at http://host:8000"
    with hold_lease(url, "lock", "http://host:8000", times), pytest.raises(InUse, match=taken):
        Lease(Bucket(url), "lock", "", uuid.uuid4().hex, times).acquire()
    with hold_lease(url, "lock", "", times):  # free at once
        pass


def test_lease_of_a_dead_holder_expires(url):
    dead = make_lease(url)
    dead.acquire()
    began, successor = time.monotonic(), make_lease(url)
    successor.acquire()
    assert time.monotonic() - began > SHORT.duration
    assert not dead.renew()
    assert successor.renew()


def test_exactly_one_of_many_processes_takes_over(url):
    make_lease(url).acquire()
    acquired = []

    def acquire():
        try:
            lease = make_lease(url)
            lease.acquire()
            acquired.append(lease)
        except InUse:
            pass

    threads = [threading.Thread(target=acquire) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(acquired) == 1


def test_lost_response_does_not_lose_the_lease(url):
    lease = make_lease(url)
    lease.acquire()
    tag = lease.tag
    assert lease.renew()
    lease.tag = tag  # as if the write had succeeded and its response had been lost
    assert lease.renew()
    assert lease.renew()


def test_former_holder_cannot_write(url, tmp_path, monkeypatch):
    """A process that slept through its lease must not write, because another process may hold it now."""
    monkeypatch.setattr(leases, "hold_lease", partial(hold_lease, times=SHORT))
    folder = DataFolder(url, tmp_path)
    with folder.lock():
        folder.objects.put("a", b"1")
        Bucket(url).put("lock", b'{"holder": "another", "process": "process 1 on x", "about": ""}')
        end = time.monotonic() + 30
        with pytest.raises(InUse, match="taken over"):
            while time.monotonic() < end:
                folder.check_writable()
                time.sleep(0.05)
        for write in (
            lambda: folder.objects.put("a", b"2"),
            lambda: folder.objects.delete("a"),
            lambda: folder.objects.clear("a.zarr"),
            lambda: folder.create_dataset("s", SweepPlan(Grid.of(SPEC)), {}),
        ):
            with pytest.raises(InUse):
                write()
        assert folder.objects.get("a") == b"1"
    assert Bucket(url).exists("lock")  # it belongs to the other process


# ---- unavailable servers


def test_unreachable_server_raises_store_gone(tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "k")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    with pytest.raises(StoreGone, match="does not answer"):
        S3Objects("s3://bucket/away").get("a")


@pytest.mark.parametrize("value", [1.0, np.nan])
def test_busy_server_raises_store_gone_for_chunks(server, url, monkeypatch, value):
    """Both for a write and for the deletion of a chunk that becomes empty."""
    monkeypatch.setattr(s3, "RETRY_TIMEOUT", timedelta(seconds=0.1))
    with proxied(int(server.environment["AWS_ENDPOINT_URL"].rpartition(":")[2])) as line:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{line.port}")
        chunks = S3Objects(url).chunks("s.zarr")
        array = zarr.create_array(chunks, shape=2, chunks=2, dtype=float, fill_value=np.nan)
        array[:] = 0.0
        line.set("busy")
        with pytest.raises(StoreGone, match="SlowDown"):
            array[:] = value


def test_missing_bucket_raises_store_gone(server):
    """StoreGone instead of NotFound, because the whole bucket is missing."""
    objects = S3Objects("s3://nobody-made-it/data")
    for ask in (lambda: objects.get("a"), objects.list_top):
        with pytest.raises(StoreGone, match="NoSuchBucket"):
            ask()


def test_wrong_credentials_raise_store_gone(server, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(StoreGone, match="denies access: SignatureDoesNotMatch"):
        S3Objects(f"s3://bucket/{uuid.uuid4().hex}").put("a", b"")
    (check,) = checks.check_store(DataFolder("s3://bucket/doctor", "unused"))
    assert (check.verdict, "AWS_ACCESS_KEY_ID" in check.advice) == ("wrong", True)
    monkeypatch.undo()
    (check,) = checks.check_store(DataFolder("s3://bucket/well", "unused"))
    assert check.verdict == "ok"
