"""Services that several tests share. A test that changes something uses its own sweep or service."""

import os

import pytest
import xarray as xr

from tests.api.served import gated, serving
from tests.specs import SMALL_SPEC


@pytest.fixture(scope="session", autouse=True)
def no_settings_from_outside():
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith(("SWEEP_", "DASK_")):
                patch.delenv(name)
        yield


@pytest.fixture(scope="module", autouse=True)  # tests of other folders check what is flushed
def no_waiting_for_the_disk():
    """Skip fsync, because these tests need not survive a power failure."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        yield


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """A service without tokens."""
    with serving(tmp_path_factory.mktemp("service")) as running:
        yield running


@pytest.fixture(scope="module")
def sweep_id(service):
    """The id of a completed sweep, which tests do not change."""
    return service.complete(SMALL_SPEC)


@pytest.fixture(scope="module")
def stored(service, sweep_id):
    with xr.open_zarr(service.folder.dataset_path(sweep_id), chunks=None) as dataset:
        return dataset.load()


@pytest.fixture(scope="module")
def get(service, sweep_id):
    def request(part="data", headers=None, **params):
        return service.get(f"/v1/sweeps/{sweep_id}/{part}", params=params, headers=headers)

    return request


@pytest.fixture(scope="module")
def gate(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("gated"), executor=gated) as running:
        yield running


@pytest.fixture
def held(gate):
    """A service that starts no tasks until `executor.let` allows it."""
    gate.executor.let(takes=False, computes=0)
    before = {sweep.id for sweep in gate.conductor_thread.ledger.sweeps()}
    yield gate
    for sweep in gate.conductor_thread.ledger.sweeps():
        if sweep.id not in before:  # they would slow down later tests
            gate.delete(f"/v1/sweeps/{sweep.id}")
    gate.executor.let()
