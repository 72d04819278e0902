"""An unavailable store: the sweep waits, shows the reason, and continues by itself; nothing is lost."""

import os
import time as clock

import pytest
import xarray as xr

import sweep_service as ss
from sweep_service.store.folder import INDEX_SUFFIX, DataFolder
from sweep_service.store.s3 import Bucket
from tests.api.served import until
from tests.chaos.proxy import proxied
from tests.hold import Hold
from tests.service import ROOT, start_service
from tests.store.weed import weed
from tests.stored import compute_dataset

AWAY = 30.0  # seconds, longer than a lease
SPEC = {
    "name": "outage",
    "axes": {"d": [40, 60, 80], "p": [4, 6], "gamma": [0.1, 0.3, 1.0], "regime": ["classical"]},
    "fixed": {"k": 2},
    "seeds": 6,
    "time": {"max": 40.0, "samples": 20},
}
WORKERS = 2
SMALL_BUNDLES = """
import sweep_service.execution.conductor as conducting
from sweep_service.planning.bundles import BundleLimits
conducting.DEFAULT_SETTINGS = conducting.ConductorSettings(BundleLimits(target_seconds=0.03))
"""
pytestmark = pytest.mark.slow


def plain(dataset):
    return dataset.load().drop_vars(["sgd_seconds", "ode_seconds"], errors="ignore")


@pytest.fixture(scope="module")
def twin(tmp_path_factory):
    with compute_dataset(tmp_path_factory.mktemp("twin"), SPEC) as dataset:
        return plain(dataset)


@pytest.fixture
def hold(tmp_path):
    """Each worker computes one of many small bundles, and waits with the second before it writes the part."""
    (tmp_path / "sitecustomize.py").write_text(SMALL_BUNDLES)
    return Hold(tmp_path, "task:computed#2")


@pytest.fixture
def small(hold):
    """The environment of a service whose workers are held."""
    return {**hold.environment, "PYTHONPATH": f"{hold.folder}{os.pathsep}{ROOT}"}


def survives(service, folder, twin, hold, cut, mend, *phrases):
    """Cut the store off in the middle of a sweep and mend it; check messages and the dataset."""
    with ss.Client(service.url) as client:
        sweep = client.submit(SPEC)["id"]
        until(lambda: hold.count() == WORKERS and client.sweep(sweep)["counts"].get("done"), 120.0)
        assert client.sweep(sweep)["bundles_left"] > WORKERS
        cut()
        hold.release()  # both workers now write to a store that is away
        began = clock.monotonic()
        reason = until(lambda: client.sweep(sweep)["reason"], 120.0)
        assert reason.startswith("waiting for")
        for phrase in phrases:
            assert phrase in reason
        clock.sleep(max(0.0, AWAY - (clock.monotonic() - began)))
        status = client.sweep(sweep)
        assert status["state"] == "running"
        assert status["reason"].startswith("waiting for")
        mend()
        ended = client.wait(sweep, progress=False, timeout=300)
    assert (ended["state"], ended["reason"]) == ("completed", "")
    assert ended["counts"] == {"done": ended["runs"]}
    with ss.open(folder.address(sweep)) as dataset:
        xr.testing.assert_equal(plain(dataset), twin)
    left = {name.partition("/")[0].removeprefix(sweep) for name in folder.objects.list() if name != "nonce"}
    assert left - {INDEX_SUFFIX} == {".json", ".keys", ".zarr"}  # the index follows


def test_sweep_survives_an_unmounted_folder(tmp_path, twin, hold, small):
    data, away = tmp_path / "data", tmp_path / "away"
    service = start_service(data, workers=WORKERS, env=small)
    try:
        cut, mend = (lambda: data.rename(away)), (lambda: away.rename(data))
        survives(service, DataFolder(data), twin, hold, cut, mend, "is not available")
        assert service.stop() == 0
    finally:
        service.close()
    assert not away.exists()


@pytest.mark.parametrize("how", ["busy", "hanging", "killed"])
def test_sweep_survives_an_unreachable_bucket(tmp_path, twin, hold, small, how, monkeypatch):
    with weed(tmp_path / "weed") as server, proxied(server.ports[0]) as proxy:
        env = {**server.environment, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.port}"}
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        url = f"s3://bucket/{how}"
        env |= {**small, "SWEEP_STATE": str(tmp_path / "state")}
        service = start_service(url, log=tmp_path / "log", env=env, workers=WORKERS)
        cuts = {"killed": (server.kill, server.start)}
        cut, mend = cuts.get(how, (lambda: proxy.set(how), lambda: proxy.set("open")))
        phrases = ["SlowDown"] if how == "busy" else []
        try:
            survives(service, DataFolder(url, tmp_path / "state"), twin, hold, cut, mend, url, *phrases)
            assert service.stop() == 0
        finally:
            service.close()
        assert how == "killed" or proxy.refused > 0
        assert not Bucket(url).exists("lock")
