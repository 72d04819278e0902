"""Services that several tests share. Who changes one takes a sweep of its own, or a service of its own."""

import os

import pytest
import xarray as xr

from tests.api.served import SMALL, gated, serving


@pytest.fixture(scope="session", autouse=True)
def no_settings_from_outside():
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith(("SWEEP_", "DASK_")):
                patch.delenv(name)
        yield


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk():
    """What is written need not survive a loss of power here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        yield


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """Without a lock on its door."""
    with serving(tmp_path_factory.mktemp("service")) as found:
        yield found


@pytest.fixture(scope="module")
def sweep(service):
    """The id of a completed sweep; nobody changes it."""
    return service.done(SMALL)


@pytest.fixture(scope="module")
def stored(service, sweep):
    with xr.open_zarr(service.folder.dataset_path(sweep), chunks=None) as found:
        return found.load()


@pytest.fixture(scope="module")
def get(service, sweep):
    def asked(part="data", headers=None, **params):
        return service.get(f"/v1/sweeps/{sweep}/{part}", params=params, headers=headers)

    return asked


@pytest.fixture(scope="module")
def gate(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("gated"), executor=gated) as found:
        yield found


@pytest.fixture
def held(gate):
    """A service in which nothing begins; who needs more lets it."""
    gate.executor.let(takes=False, computes=0)
    before = {sweep.id for sweep in gate.engine.ledger.sweeps()}
    yield gate
    for sweep in gate.engine.ledger.sweeps():
        if sweep.id not in before:  # every one makes the next a little slower
            gate.delete(f"/v1/sweeps/{sweep.id}")
    gate.executor.let()
