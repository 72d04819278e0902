"""The sweeps of a soak: submitted, steered, compared with undisturbed twins, removed, and submitted again."""

import json
import threading
import time as clock
from collections import Counter
from dataclasses import dataclass, field
from itertools import cycle

import numpy as np
import xarray as xr

from sweep_service.execution.task import DEATH_MESSAGE
from sweep_service.status import Status
from tests.api.served import ENDED
from tests.stored import compute_dataset

ACTIVE = 3  # sweeps of each service that exist at any time
KEPT = 3  # completed sweeps of each service that stay to the end; others are removed and submitted again
STEPS = 12  # parts of the time, at each of which a sweep is cancelled, paused, and so on
SECONDS = ["sgd_seconds", "ode_seconds"]
BASE = {"fixed": {"k": 2, "noise": 1e-3}, "init": {"kind": "informed"}, "observables": ["risk", "cosine"]}


def engines(seed):
    """SGD by several simulators, some chains in lanes."""
    axes = {"d": [40, 160], "p": [4, 30], "gamma": [0.1, 0.3]}
    seeds = {"init": [seed], "repeat": 8}
    return {**BASE, "axes": axes, "seeds": seeds, "time": {"max": 12.0, "samples": 300}}


def regimes(seed):
    """Regimes without SGD."""
    wanted = ["classical", "classical_noise", "high_dimensional", "mean_field"]
    axes = {"d": [20, 100], "p": [4, 12], "gamma": [0.05, 0.2], "regime": wanted}
    seeds = [seed, seed + 1, seed + 2]
    return {**BASE, "axes": axes, "simulate": False, "seeds": seeds, "time": {"max": 300.0, "samples": 1000}}


def long(seed):
    """Runs that are longer than the time between two kills, and finish only with checkpoints."""
    axes = {"d": 150, "p": 8, "gamma": 0.1}
    return {**BASE, "axes": axes, "seeds": [seed, seed + 1], "time": {"max": 3000.0, "samples": 4}}


def mixed(seed):
    """A mixture of the others."""
    axes = {"d": [30, 90], "p": [3, 8], "gamma": 0.1, "regime": ["classical_noise", "auto"]}
    seeds = {"init": [seed, seed + 1], "repeat": 3}
    return {**BASE, "axes": axes, "seeds": seeds, "time": {"max": 200.0, "samples": 300}}


SPECS = [kind(seed) for seed in (100, 200) for kind in (long, engines, regimes, mixed)]
FATES = {
    fate: (long if fate == "deleted" else mixed)(1000 + 10 * at)
    for at, fate in enumerate(("cancelled", "retried", "paused", "deleted", "extended"))
}


class Twins:
    """Undisturbed datasets, each computed once in this process."""

    def __init__(self, folder):
        self.folder, self.datasets, self.lock = folder, {}, threading.Lock()

    def compute_all(self, stopping):
        for spec in [*SPECS, *(spec for fate, spec in FATES.items() if fate != "deleted")]:
            if not stopping.is_set():
                self[spec]

    def __contains__(self, spec):
        return _key(spec) in self.datasets

    def __getitem__(self, spec):
        key = _key(spec)
        with self.lock:
            if key not in self.datasets:
                with compute_dataset(self.folder / str(len(self.datasets)), spec) as dataset:
                    self.datasets[key] = dataset.load().drop_vars(SECONDS, errors="ignore")
            return self.datasets[key]


def _key(spec):
    return json.dumps(spec, sort_keys=True)


@dataclass
class Order:
    """A sweep that the service has accepted."""

    spec: dict
    fate: str = "left alone"
    is_verified: bool = False

    @property
    def is_awaited(self):
        """Whether it is to complete by itself, and has not been compared yet."""
        return not self.is_verified and self.fate not in ("cancelled", "retried")


@dataclass
class Customer:
    """Submits sweeps to one service, and compares every completed dataset with its twin."""

    stage: object
    twins: Twins
    rotation: cycle = field(default_factory=lambda: cycle(SPECS))
    orders: dict = field(default_factory=dict)  # by sweep id, without those that were removed
    completed: Counter = field(default_factory=Counter)  # by fate
    removed: int = 0
    blamed: int = 0  # sweeps with runs that were given up after too many deaths, and were retried
    numbers: int = 0  # that were compared

    def run_for(self, seconds, stopping):
        began, steps, due = clock.monotonic(), self.steps(), 0
        while (gone := clock.monotonic() - began) < seconds and not stopping.is_set():
            if gone > due * seconds / STEPS:
                due += 1
                next(steps, None)
            self.verify_ended()
            self.fill()
            stopping.wait(1.0)
        if not stopping.is_set():
            for _ in steps:  # those that were not reached in time
                pass

    def order(self, spec, fate="left alone"):
        sweep = self.stage.submit({**spec, "name": fate})
        assert sweep not in self.orders
        self.orders[sweep] = Order(spec, fate)
        return sweep

    def fill(self):
        """Submit sweeps until `ACTIVE` exist."""
        for _ in range(ACTIVE - sum(order.is_awaited for order in self.orders.values())):
            stored = [order.spec for order in self.orders.values()]
            self.order(next(spec for spec in self.rotation if spec not in stored))

    def verify_ended(self):
        """Compare sweeps that have completed with their twins, and remove most of them."""
        for sweep, order in list(self.orders.items()):
            if not order.is_awaited or order.spec not in self.twins:
                continue
            if self.stage.sweep(sweep)["state"] in ENDED and self.verify(sweep):
                kept = sum(order.is_verified and order.fate == "left alone" for order in self.orders.values())
                if order.fate == "left alone" and kept > KEPT:
                    self.remove(sweep)

    def verify(self, sweep):
        """Compare a sweep that has ended; return False if it must be continued, because runs were blamed."""
        order, view = self.orders[sweep], self.stage.sweep(sweep)
        if view["state"] == "incomplete":
            failures = self.stage.ask("GET", f"/v1/sweeps/{sweep}/failures")["failures"]
            errors = {failure["error"] for failure in failures}
            assert all(error == DEATH_MESSAGE or error.startswith("KilledWorker") for error in errors), errors
            self.blamed += 1
            self.stage.act(sweep, "retry")
            return False
        self.compare(sweep, order, view["state"])
        if not order.is_verified:
            self.completed[order.fate] += 1
        order.is_verified = True
        return True

    def compare(self, sweep, order, state):
        wanted = self.twins[order.spec]
        with xr.open_zarr(self.stage.data / "sweeps" / f"{sweep}.zarr", chunks=None) as stored:
            actual = stored.load().drop_vars(SECONDS, errors="ignore")
        self.numbers += sum(variable.size for variable in actual.data_vars.values())
        if order.fate == "cancelled" and state == "cancelled":
            for kind in ("sgd", "ode"):
                kept = actual[f"{kind}_status"] != Status.CANCELLED
                mine = [name for name in actual if name.startswith(kind)]
                xr.testing.assert_equal(actual[mine].where(kept), wanted[mine].where(kept))
                assert np.isnan(actual[f"{kind}_risk"].where(~kept)).all()
            return
        assert state == "completed", (sweep, order, state)
        xr.testing.assert_equal(actual, wanted)

    def remove(self, sweep):
        self.stage.remove(sweep)
        del self.orders[sweep]
        self.removed += 1

    def steps(self):
        """Yield between the actions on sweeps that are not left alone."""
        for fate, spec in FATES.items():
            sweep = self.order(spec, fate)
            yield
            if fate in ("cancelled", "retried"):
                self.stage.act(sweep, "cancel")
            elif fate == "paused":
                self.stage.act(sweep, "pause")
                yield
                assert self.stage.sweep(sweep)["state"] in ("paused", "completed", "incomplete")
                self.stage.act(sweep, "resume")
            elif fate == "deleted":
                self.remove(sweep)
            else:
                more = self.stage.act(sweep, "extend", json={"axes": {"gamma": [0.2]}})["id"]
                axes = {**spec["axes"], "gamma": [0.1, 0.2]}
                self.orders[more] = Order({**spec, "axes": axes}, "extension")
            yield

    def finish(self, seconds):
        """Wait until all sweeps have ended, now that nothing is killed, and compare them."""
        end = clock.monotonic() + seconds
        for sweep, order in self.orders.items():
            if order.fate == "retried":
                self.stage.act(sweep, "retry")
        left = {sweep for sweep, order in self.orders.items() if not order.is_verified}
        while left:
            assert clock.monotonic() < end, [self.stage.sweep(sweep) for sweep in left]
            left -= {one for one in left if self.stage.sweep(one)["state"] in ENDED and self.verify(one)}
            clock.sleep(0.5)
