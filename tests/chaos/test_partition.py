"""Network partitions between hosts, which run in network namespaces.

Workers that are cut off continue: they still reach the store, and write parts of bundles that are meanwhile
computed elsewhere.
"""

import json
import time as clock
from contextlib import contextmanager

import httpx2
import pytest
import xarray as xr

from tests.api.served import ENDED
from tests.chaos.crashes import assert_tidy
from tests.chaos.hosts import WAYS, hosts_or_skip
from tests.chaos.supervised import Supervisor
from tests.hold import Hold
from tests.stored import compute_dataset

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

PORT, SCHEDULER = 8000, 8786
TTL = {"DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "15s"}  # shorter than the default, so that tests wait less
SPEC = {
    "name": "cut off",
    "axes": {"d": [100, 160], "p": [4, 8], "gamma": [0.1, 0.2], "regime": "classical_noise"},
    "fixed": {"k": 2, "noise": 1e-3},
    "init": {"kind": "informed"},
    "seeds": {"init": 2, "repeat": 4},
    "time": {"max": 200.0, "samples": 5},
    "observables": ["risk"],
}
ENDLESS = {
    "name": "doomed", "axes": {"d": 1000, "p": 8, "gamma": 0.01}, "fixed": {"k": 2},
    "time": {"max": 1e3, "samples": 2}, "observables": ["risk"],
}  # fmt: skip


class Stage(Supervisor):
    """A service on one host, queried from there."""

    def __init__(self, cwd, hosts, desk):
        super().__init__(cwd)
        self.hosts, self.desk = hosts, desk

    def ask(self, method, path, **options):
        with self.hosts.inside(self.desk):
            return httpx2.request(
                method, f"http://127.0.0.1:{PORT}{path}", timeout=60.0, **options
            ).raise_for_status()

    def submit(self, spec):
        return self.ask("POST", "/v1/sweeps", json=spec).json()["id"]

    def sweep(self, sweep):
        return self.ask("GET", f"/v1/sweeps/{sweep}").json()

    def workers(self):
        return {worker["name"] for worker in self.ask("GET", "/v1/cluster").json()["workers"]}

    def task_log(self, what, **fields):
        """Return the tasks that started or ended, from the logs of workers."""
        lines = self.tasks.read_text().splitlines() if self.tasks.exists() else []
        entries = [json.loads(line) for line in lines]
        return [entry for entry in entries if entry["what"] == what and fields.items() <= entry.items()]

    def is_ready(self):
        try:
            return self.ask("GET", "/readyz").status_code == 200
        except httpx2.HTTPError:
            return False


def until(condition, seconds=180.0):
    end = clock.monotonic() + seconds
    while not (result := condition()):
        assert clock.monotonic() < end, "it never happened"
        clock.sleep(0.25)
    return result


@contextmanager
def staged(cwd, desk, brain, workers, hold):
    """Start the service, the scheduler and each worker on hosts, some of which may be the same."""
    hosts = hosts_or_skip()
    try:
        address = {name: hosts.add(name) for name in dict.fromkeys((desk, brain, *workers))}
        stage = Stage(cwd, hosts, desk)
        try:
            scheduler_url = f"tcp://{address[brain]}:{SCHEDULER}"
            stage.scheduler(address[brain], SCHEDULER, before=hosts.on(brain), env=TTL)
            for name in workers:
                stage.worker(name, scheduler_url, address[name], before=hosts.on(name), env=hold.environment)
            stage.service(PORT, "--scheduler", scheduler_url, before=hosts.on(desk))
            until(stage.is_ready)
            yield stage
            assert stage.stop(60.0) == []
        finally:
            stage.close()
    finally:
        hosts.close()


def assert_as_undisturbed(stage, sweep, spec, runs):
    assert stage.sweep(sweep)["counts"] == {"done": runs}
    with xr.open_zarr(stage.data / "sweeps" / f"{sweep}.zarr", chunks=None) as dataset:
        wanted = compute_dataset(stage.cwd / "alone", spec)
        seconds = ["sgd_seconds", "ode_seconds"]
        xr.testing.assert_equal(dataset.load().drop_vars(seconds), wanted.load().drop_vars(seconds))


def test_cut_off_workers_lose_nothing_and_reconnect(tmp_path):
    names, hold = ["one", "two", "three", "four"], Hold(tmp_path, "task:computed")
    with staged(tmp_path / "stage", "brain", "brain", names, hold) as stage:
        until(lambda: stage.workers() == set(names))
        doomed = stage.submit(ENDLESS)
        (unlucky, *_) = until(lambda: stage.task_log("begun", sweep=doomed))
        sweep = stage.submit(SPEC)
        # One worker computes a sweep that is removed, and the others are about to write a part.
        until(lambda: hold.count() == len(names) - 1)
        assert {entry["worker"] for entry in stage.task_log("begun")} == set(names)

        # Three of four workers are cut off in different ways, and continue.
        lost = [unlucky["worker"], *(name for name in names if name != unlucky["worker"])][:3]
        began = clock.time()
        for name, way in zip(lost, WAYS, strict=True):
            stage.hosts.cut(name, way)
        hold.release()
        stage.ask("DELETE", f"/v1/sweeps/{doomed}")
        until(lambda: stage.workers() == set(names) - set(lost))
        print(f"{clock.time() - began:.0f} s until workers that are cut off are given up")
        late = [
            entry for name in lost for entry in stage.task_log("ended", worker=name) if entry["time"] > began
        ]
        assert {entry["worker"] for entry in late} >= set(lost[1:])  # they wrote parts

        for name, way in zip(lost, WAYS, strict=True):
            stage.hosts.heal(name, way)
        until(lambda: stage.sweep(sweep)["state"] in ENDED, 400.0)
        assert stage.sweep(sweep)["state"] == "completed"
        often = {entry["bundle"] for entry in late if entry["sweep"] == sweep}
        again = [bundle for bundle in often if len(stage.task_log("ended", bundle=bundle)) > 1]
        print(f"{len(often)} bundles were ended by workers that were cut off, {len(again)} also by others")
        assert again
        assert_as_undisturbed(stage, sweep, SPEC, 80)

        # They reconnect, or their supervisor restarts them, and they work as before.
        until(lambda: stage.workers() == set(names))
        more = stage.submit({**SPEC, "seeds": {"init": [7, 8], "repeat": 4}})
        until(lambda: stage.sweep(more)["state"] == "completed", 400.0)
        assert {entry["worker"] for entry in stage.task_log("ended", sweep=more)} & set(lost)
        until(lambda: not list(stage.data.glob("sweeps/*.parts")))
    assert_tidy(tmp_path / "stage" / "data", 2)


@pytest.mark.parametrize("way", WAYS)
def test_cut_off_service_waits_and_shows_the_reason(tmp_path, way):
    names, hold = ["one", "two"], Hold(tmp_path, "task:computed#2")
    with staged(tmp_path / "stage", "desk", "brain", names, hold) as stage:
        sweep = stage.submit(SPEC)
        until(lambda: hold.count() == len(names) and stage.sweep(sweep)["counts"].get("done"))
        assert stage.sweep(sweep)["bundles_left"] > len(names)
        stage.hosts.cut("desk", way)
        hold.release()
        began = clock.monotonic()
        until(lambda: "waiting for the scheduler" in stage.sweep(sweep)["reason"])
        print(f"{clock.monotonic() - began:.0f} s until the service says that it waits")
        submitted = clock.monotonic()
        other = stage.submit({**SPEC, "seeds": {"init": [7], "repeat": 4}})  # it still accepts sweeps
        print(f"{clock.monotonic() - submitted:.1f} s for an order meanwhile")
        until(lambda: "lost the scheduler" in stage.log("service").read_text())
        print(f"{clock.monotonic() - began:.0f} s until the connection is given up")
        for sweep_id in (sweep, other):
            assert stage.sweep(sweep_id)["state"] in ("running", "queued")
            assert "waiting for the scheduler" in stage.sweep(sweep_id)["reason"]
        stage.hosts.heal("desk", way)
        began = clock.monotonic()
        until(lambda: stage.sweep(sweep)["reason"] == "")
        print(f"{clock.monotonic() - began:.0f} s until it goes on")
        for sweep_id in (sweep, other):
            until(lambda sweep_id=sweep_id: stage.sweep(sweep_id)["state"] == "completed", 400.0)
        assert_as_undisturbed(stage, sweep, SPEC, 80)
    assert_tidy(tmp_path / "stage" / "data", 2)
