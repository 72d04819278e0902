"""Minutes of random kills during several sweeps, whose datasets must equal those of undisturbed runs.

`SOAK_SECONDS` sets the duration, and `SOAK_SEED` repeats the random choices (not their timing).
"""

import os
import random
import signal
import statistics
import threading
import time as clock
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

import httpx
import numpy as np
import psutil
import pytest
import xarray as xr
from distributed.diskutils import WorkSpace

from sweep_service.status import Status
from tests.api.served import ENDED
from tests.chaos.supervised import Supervisor
from tests.chaos.test_crashes import assert_tidy
from tests.service import free_port
from tests.stored import compute_dataset

SECONDS = float(os.environ.get("SOAK_SECONDS", "600"))
SEED = int(os.environ.get("SOAK_SEED", random.randrange(10**6)))
KILLS = int(SECONDS / 3)  # 200 in ten minutes
WORKERS = ("one", "two", "three")
ACTIVE = 4  # sweeps that exist at any time
# Kills come in bursts, after some bundles have ended since the last burst, because processes need seconds to
# start, and more on a busy machine. The longer that takes, the more kills are in the next burst.
GAP, LEAST, ENDS, PATIENCE = (0.05, 0.7), 3, 4, 40.0
WEIGHTS = {"worker": 70, "nanny": 8, "host": 8, "scheduler": 5, "service": 9}
# For some of the time the service is not killed, and its memory and open files must not grow.
SPARED = ((0.25, 0.55), (0.75, 1.0))

LOCKS = ("global.lock", "purge.lock")  # empty files that Dask workers leave

BASE = {"fixed": {"k": 2, "noise": 1e-3}, "init": {"kind": "informed"}, "observables": ["risk", "cosine"]}


def engines(seed):
    """SGD by several simulators, some chains in lanes."""
    axes = {"d": [40, 160], "p": [4, 30], "gamma": [0.1, 0.3]}
    return {**BASE, "axes": axes, "seeds": {"init": [seed], "repeat": 8}, "time": {"max": 12.0, "samples": 5}}


def regimes(seed):
    """Regimes without SGD."""
    wanted = ["classical", "classical_noise", "high_dimensional", "mean_field"]
    axes = {"d": [20, 100], "p": [4, 12], "gamma": [0.05, 0.2], "regime": wanted}
    seeds = [seed, seed + 1, seed + 2]
    return {**BASE, "axes": axes, "simulate": False, "seeds": seeds, "time": {"max": 300.0, "samples": 20}}


def long(seed):
    """Runs that finish only with checkpoints."""
    axes = {"d": 150, "p": 8, "gamma": 0.1}
    return {**BASE, "axes": axes, "seeds": [seed, seed + 1], "time": {"max": 3000.0, "samples": 4}}


def mixed(seed):
    """A mixture of the others."""
    axes = {"d": [30, 90], "p": [3, 8], "gamma": 0.1, "regime": ["classical_noise", "auto"]}
    return {
        **BASE,
        "axes": axes,
        "seeds": {"init": [seed, seed + 1], "repeat": 3},
        "time": {"max": 200.0, "samples": 6},
    }


KINDS = (engines, regimes, long, mixed)


class Soak(Supervisor):
    """A scheduler, workers and a service, each of which may be killed at any time."""

    def __init__(self, cwd):
        super().__init__(cwd)
        self.random, self.kills, self.spared, self.problem = random.Random(SEED), Counter(), False, None
        self.dead = set[int]()
        self.held = [Held() for _ in SPARED]
        self.port, scheduler = free_port(), free_port()
        address = f"tcp://127.0.0.1:{scheduler}"
        self.scheduler(port=scheduler)
        for name in WORKERS:
            self.worker(name, address, env={"SAVE_EVERY": "0.5"})
        self.service(address, self.port)
        self.began, self.client = clock.monotonic(), httpx.Client(base_url=f"http://127.0.0.1:{self.port}")

    # ---- requests, repeated until they succeed

    def ask(self, method, path, gone_is_fine=False, **options):
        end = clock.monotonic() + 300.0
        while clock.monotonic() < end:
            with suppress(httpx.TransportError):
                answer = self.client.request(method, path, timeout=60.0, **options)
                if answer.status_code == 404 and gone_is_fine:
                    return None
                if answer.status_code not in (429, 500, 502, 503, 504):
                    assert answer.is_success, answer.text
                    return answer.json() if answer.content else None
            clock.sleep(0.3)
        raise AssertionError(f"no answer to {method} {path}")

    def submit(self, spec):
        return self.ask("POST", "/v1/sweeps", json=spec)["id"]

    def act(self, sweep, action, **options):
        return self.ask("POST", f"/v1/sweeps/{sweep}/{action}", **options)

    def sweep(self, sweep):
        return self.ask("GET", f"/v1/sweeps/{sweep}")

    def done(self, sweep):
        return self.sweep(sweep)["counts"].get("done", 0)

    def until(self, condition, seconds):
        """Return whether the condition became true."""
        end = clock.monotonic() + seconds
        while clock.monotonic() < end:
            if condition():
                return True
            assert self.problem is None, self.problem
            clock.sleep(0.5)
        return False

    # ---- kills

    def kill_for(self, seconds):
        try:
            while (gone := clock.monotonic() - self.began) < seconds:
                self.spared = any(begin <= gone / seconds <= end for begin, end in SPARED)
                wanted = max(sum(self.kills.values()) + LEAST, 1.1 * KILLS * gone / seconds)
                while sum(self.kills.values()) < wanted:
                    self.kill_something()
                    clock.sleep(self.random.uniform(*GAP))
                ended, patience = self.ended(), clock.monotonic() + PATIENCE
                while self.ended() < ended + ENDS and clock.monotonic() < patience:
                    clock.sleep(0.2)
        except BaseException as error:
            self.problem = error
            raise

    def ended(self):
        """Count ended bundles, including those computed twice."""
        return self.tasks.read_text().count('"ended"') if self.tasks.exists() else 0

    def watch_service(self, killer):
        while killer.is_alive():
            gone = (clock.monotonic() - self.began) / SECONDS
            for usage, (begin, end) in zip(self.held, SPARED, strict=True):
                if self.spared and begin <= gone <= end:
                    usage.look(self.kept["service"].pid)
            clock.sleep(1.0)

    def kill_something(self):
        weights = {what: w for what, w in WEIGHTS.items() if what != "service" or not self.spared}
        what = self.random.choices(list(weights), list(weights.values()))[0]
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            self.kills[what] += self.kill(what)

    def kill(self, what):
        """Kill a process of this kind; return whether one was running and not killed recently."""
        name = what if what in self.kept else self.random.choice(WORKERS)
        pid = self.kept[name].pid
        if what == "worker":
            pid = next((child.pid for child in computing_children(pid)), None)
        if pid is None or pid in self.dead or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return False
        self.dead.add(pid)
        (os.killpg if what == "host" else os.kill)(pid, signal.SIGKILL)
        return True


def computing_children(nanny):
    """Return the worker process of a nanny, not its resource tracker."""
    processes = []
    with suppress(psutil.Error):  # it has just ended
        for process in psutil.Process(nanny).children():
            with suppress(psutil.Error):
                if any("spawn_main" in word for word in process.cmdline()):
                    processes.append(process)
    return processes


@dataclass
class Held:
    """Memory and open files of one process of the service, every second."""

    pids: set = field(default_factory=set)
    files: list = field(default_factory=list)
    memory: list = field(default_factory=list)
    threads: list = field(default_factory=list)

    def look(self, pid):
        with suppress(psutil.Error):
            process = psutil.Process(pid)
            self.pids.add(pid)
            self.files.append(process.num_fds())
            self.memory.append(process.memory_info().rss / 2**20)
            self.threads.append(process.num_threads())


@dataclass
class Plan:
    """The sweeps that are submitted over time, and their fate."""

    soak: Soak
    specs: dict = field(default_factory=dict)  # by sweep id
    fates: dict = field(default_factory=dict)
    seed: int = 1000

    def begin(self, kind, fate="left alone", **change):
        self.seed += 10
        spec = {**kind(self.seed), **change, "name": f"{kind.__name__}, {fate}"}
        sweep = self.soak.submit(spec)
        self.specs[sweep], self.fates[sweep] = spec, fate
        return sweep

    def fill(self):
        """Submit sweeps until `ACTIVE` exist."""
        existing = [sweep for sweep in self.specs if self.fates[sweep] != "deleted"]
        active = sum(self.soak.sweep(sweep)["state"] in ("queued", "running") for sweep in existing)
        for _ in range(active, ACTIVE):
            self.begin(KINDS[Counter(self.fates.values())["left alone"] % len(KINDS)])

    def steps(self):
        """Yield steps with the share of the time at which each is due."""
        soak = self.soak
        for fate in ("cancelled", "retried", "paused", "deleted", "extended"):
            sweep = self.begin(mixed if fate != "deleted" else long, fate)
            yield
            soak.until(lambda sweep=sweep: soak.done(sweep), 20.0)
            if fate in ("cancelled", "retried"):
                soak.act(sweep, "cancel")
            elif fate == "paused":
                soak.act(sweep, "pause")
                yield
                assert soak.sweep(sweep)["state"] in ("paused", "completed")
                soak.act(sweep, "resume")
            elif fate == "deleted":
                soak.ask("DELETE", f"/v1/sweeps/{sweep}", gone_is_fine=True)
            else:
                more = soak.act(sweep, "extend", json={"axes": {"gamma": [0.2]}})["id"]
                spec = self.specs[sweep]
                self.specs[more] = {**spec, "axes": {**spec["axes"], "gamma": [0.1, 0.2]}}
                self.fates[more] = "an extension"
            yield


def flat(values, skip=0.3):
    """Return medians of early and late samples, after the start-up phase."""
    later = values[int(len(values) * skip) :]
    part = max(1, len(later) // 3)
    return statistics.median(later[:part]), statistics.median(later[-part:])


@pytest.mark.slow
@pytest.mark.timeout(int(3 * SECONDS) + 3600)
def test_minutes_of_kills_leave_correct_datasets(tmp_path):
    print(f"\nSOAK_SECONDS={SECONDS:.0f} SOAK_SEED={SEED}")
    soak = Soak(tmp_path / "soak")
    try:
        check(soak, endured(soak))
    finally:
        soak.close()
        soak.client.close()


def endured(soak):
    """Kill processes while sweeps are submitted and removed."""
    plan = Plan(soak)
    assert soak.until(lambda: soak.ask("GET", "/healthz"), 60.0)
    soak.began = clock.monotonic()
    killer = threading.Thread(target=soak.kill_for, args=(SECONDS,), daemon=True)
    killer.start()
    watcher = threading.Thread(target=soak.watch_service, args=(killer,), daemon=True)
    watcher.start()
    steps, count, due = plan.steps(), 12, 0
    while killer.is_alive():
        if clock.monotonic() - soak.began > due * SECONDS / count:
            due += 1
            next(steps, None)
            plan.fill()
        clock.sleep(1.0)
    watcher.join()
    assert soak.problem is None, soak.problem
    for _ in steps:  # the steps that were not reached in time
        pass
    return plan


def check(soak, plan):
    starts = {name: kept.starts for name, kept in soak.kept.items()}
    print(f"kills {sum(soak.kills.values())} {dict(soak.kills)}, starts {starts}, bundles {soak.ended()}")
    assert sum(soak.kills.values()) >= KILLS
    assert min(soak.kills[what] for what in WEIGHTS) > 0

    existing = [sweep for sweep, fate in plan.fates.items() if fate != "deleted"]
    for sweep in existing:
        if plan.fates[sweep] == "retried":
            soak.act(sweep, "retry")
    for sweep in existing:
        assert soak.until(lambda sweep=sweep: soak.sweep(sweep)["state"] in ENDED, 1800.0), soak.sweep(sweep)
    views = {sweep: soak.sweep(sweep) for sweep in existing}
    print(f"sweeps {dict(Counter(plan.fates.values()))}, runs {sum(view['runs'] for view in views.values())}")

    for phase, usage in enumerate(soak.held):
        for name in ("files", "threads", "memory"):
            print(f"service, phase {phase}: {name} {flat(getattr(usage, name))} of {len(usage.files)} looks")
    # one process per worker is left besides nannies; those of killed nannies have ended
    nannies = [soak.kept[name].pid for name in WORKERS]
    assert soak.until(lambda: all(len(computing_children(pid)) == 1 for pid in nannies), 60.0)
    ours = {soak.kept[name].pid for name in soak.kept}
    others = [
        process for process in soak.everyone() if process.pid not in ours and process.ppid() not in ours
    ]
    assert others == []

    wal = soak.data / "ledger.sqlite-wal"
    assert wal.stat().st_size < 16 << 20  # SQLite restarts the file after 4 MB if there are no readers
    assert soak.stop(60.0) == []
    assert_tidy(soak.data, len(existing))
    assert not wal.exists()
    scratch = soak.temporary / "dask-scratch-space"
    WorkSpace(str(scratch)).new_work_dir(prefix="next-").release()  # the next start removes leftovers
    assert {path for path in soak.temporary.rglob("*") if path.is_file()} <= {
        scratch / name for name in LOCKS
    }
    for sweep in existing:
        compare(soak, plan, sweep, views[sweep])
    for usage in soak.held:
        assert len(usage.pids) == 1  # it was not killed while all others were
        before, after = flat(usage.files)
        assert after <= before + 5, usage.files  # a leak would add a few at each of several reconnections
        before, after = flat(usage.memory)
        assert after <= before + 15, usage.memory  # of 290 MB; 1 or 2 MB are typical


def compare(soak, plan, sweep, view):
    """Compare a sweep with an undisturbed twin."""
    wanted = compute_dataset(soak.cwd / "twins" / sweep, plan.specs[sweep]).load()
    with xr.open_zarr(soak.data / "sweeps" / f"{sweep}.zarr", chunks=None) as result:
        result = result.load()
    seconds = ["sgd_seconds", "ode_seconds"]
    result, wanted = (dataset.drop_vars(seconds, errors="ignore") for dataset in (result, wanted))
    if plan.fates[sweep] == "cancelled" and view["state"] == "cancelled":
        for kind in ("sgd", "ode"):
            kept = result[f"{kind}_status"] != Status.CANCELLED
            names = [name for name in result if name.startswith(kind)]
            xr.testing.assert_equal(result[names].where(kept), wanted[names].where(kept))
            assert np.isnan(result[f"{kind}_risk"].where(~kept)).all()
        return
    assert view["state"] == "completed", (plan.fates[sweep], view)
    xr.testing.assert_equal(result, wanted)
