"""A service that is started with other versions of a simulator and a regime."""

import json

import numpy as np
import pytest
import xarray as xr

from sweep_service.dynamics.regimes import REGIMES
from sweep_service.simulators.selection import SIMULATORS
from tests.api.served import Gated, serving
from tests.specs import TINY_SPEC

REASON = "simulator S1 had version 1 and has 2, regime classical_noise had version 1 and has 2"
KEY = {"Idempotency-Key": "before the upgrade"}


@pytest.fixture(autouse=True)
def first_versions(monkeypatch):
    set_first_versions(monkeypatch)


def set_first_versions(patch):
    """Begin with first versions, whatever they are now. The entries stay those of the package."""
    for registry in (SIMULATORS, REGIMES):
        for name in registry:
            patch.setitem(vars(registry[name]), "version", 1)


def one_bundle(folder, stopped):
    """An executor that computes one bundle of the two."""
    executor = Gated(stopped)
    executor.let(computes=1)
    return executor


def half_done(data):
    """Submit a sweep to a service that ends before it is complete; return its id."""
    with serving(data, executor=one_bundle) as service:
        sweep_id = service.submit(TINY_SPEC, headers=KEY)
        service.run_steps()
    return sweep_id


def upgrade(patch):
    for registry, name in ((SIMULATORS, "S1"), (REGIMES, "classical_noise")):
        patch.setitem(vars(registry[name]), "version", 2)


def test_reason_is_shown_until_the_sweep_is_resumed(tmp_path, monkeypatch):
    sweep_id = half_done(tmp_path)
    upgrade(monkeypatch)
    with serving(tmp_path) as service:
        shown = service.sweep(sweep_id)
        assert (shown["state"], shown["counts"]) == ("paused", {"pending": 2, "done": 2})
        assert shown["reason"].startswith(f"{REASON}: resume computes these runs again")
        assert shown["versions"] == {"simulator S1": 1, "regime classical_noise": 1}
        (listed,) = service.get("/v1/sweeps?state=paused").json()["sweeps"]
        assert listed == shown
        with xr.open_zarr(f"{service.url}/v1/sweeps/{sweep_id}/zarr") as stored:
            assert json.loads(stored.attrs["versions"]) == shown["versions"]
            assert np.isfinite(stored.sgd_risk).any() or np.isfinite(stored.ode_risk).any()
        resumed = service.act(sweep_id, "resume")
        assert resumed["versions"] == {"simulator S1": 2, "regime classical_noise": 2}
        ended = service.wait_until_ended(sweep_id)
        assert (ended["state"], ended["reason"], ended["counts"]) == ("completed", "", {"done": 4})
        events = service.get(f"/v1/sweeps/{sweep_id}/events").text
        assert f"restarted: {REASON}" in events
        with xr.open_zarr(f"{service.url}/v1/sweeps/{sweep_id}/zarr") as stored:
            assert json.loads(stored.attrs["versions"]) == ended["versions"]
            assert stored.attrs["key"] == ended["key"]


def test_same_spec_makes_a_new_sweep(tmp_path, monkeypatch):
    sweep_id = half_done(tmp_path)
    upgrade(monkeypatch)
    with serving(tmp_path) as service:
        repeated = service.post("/v1/sweeps", json=TINY_SPEC, headers=KEY).json()
        assert repeated["id"] == sweep_id  # the answer to a repeated request does not change
        new = service.post("/v1/sweeps", json=TINY_SPEC)
        assert new.status_code == 202
        assert new.json()["id"] != sweep_id
        assert (new.json()["reused"], new.json()["key"] != repeated["key"]) == (0, True)
        assert service.wait_until_ended(new.json()["id"])["state"] == "completed"
        assert service.post("/v1/sweeps", json=TINY_SPEC).json()["id"] == new.json()["id"]
