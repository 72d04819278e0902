"""The processes of a soak: a service with an embedded or a remote cluster, killed and suspended at random."""

import os
import random
import signal
import time as clock
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

import httpx2
import psutil

from tests.chaos.supervised import Supervisor

WORKERS = ("one", "two")
# Which processes are killed, and how often. A host is a nanny with its worker.
WEIGHTS = {
    "remote": {"worker": 66, "nanny": 10, "host": 8, "scheduler": 5, "service": 11},
    "embedded": {"worker": 85, "service": 15},
}
# Kills come in bursts, after some bundles have ended since the last burst, because processes need seconds to
# start, and more on a busy machine. The longer that takes, the more kills are in the next burst.
GAP_SECONDS, MIN_BURST, BUNDLES_BETWEEN, PATIENCE_SECONDS = (0.05, 0.7), 3, 4, 90.0
CHOICE_SECONDS = 8.0  # about the time until a killed service has workers again
NO_PROCESS = 2**22 + 1  # above the largest process id of Linux and macOS
TRIED_AGAIN = (429, 500, 502, 503, 504)
REQUEST_SECONDS = 300.0  # in which a request must be answered, however often the service is killed


class Stage(Supervisor):
    """A service and its cluster, whose processes may be killed at any time."""

    def __init__(self, cwd, kind, seed, ports):
        super().__init__(cwd)
        self.kind, self.random = kind, random.Random(seed)
        self.kills, self.stops = Counter(), Counter()
        self.dead, self.protected = set[int](), set[int]()
        self.spared = False  # the service is not killed
        port, scheduler_port = ports
        env = {"SAVE_EVERY": "0.5"}
        if kind == "embedded":
            self.service(port, "--workers", len(WORKERS), env=env)
        else:
            address = f"tcp://127.0.0.1:{scheduler_port}"
            self.scheduler(port=scheduler_port)
            for name in WORKERS:
                self.worker(name, address, env=env)
            self.service(port, "--scheduler", address)
        self.client = httpx2.Client(base_url=f"http://127.0.0.1:{port}")

    def close(self):
        super().close()
        self.client.close()

    # ---- requests, repeated until they succeed

    def ask(self, method, path, gone_is_fine=False, **options):
        end = clock.monotonic() + REQUEST_SECONDS
        while clock.monotonic() < end:
            with suppress(httpx2.TransportError):
                answer = self.client.request(method, path, timeout=90.0, **options)
                if answer.status_code == 404 and gone_is_fine:
                    return None
                if answer.status_code not in TRIED_AGAIN:
                    assert answer.is_success, answer.text
                    return answer.json() if answer.content else None
            clock.sleep(0.3)
        raise AssertionError(f"no answer to {method} {path} at the {self.kind} cluster")

    def submit(self, spec):
        return self.ask("POST", "/v1/sweeps", json=spec)["id"]

    def act(self, sweep, action, **options):
        return self.ask("POST", f"/v1/sweeps/{sweep}/{action}", **options)

    def remove(self, sweep):
        self.ask("DELETE", f"/v1/sweeps/{sweep}", gone_is_fine=True)

    def sweep(self, sweep):
        return self.ask("GET", f"/v1/sweeps/{sweep}")

    # ---- signals

    def kill_for(self, seconds, kills, stopping):
        """Kill `kills` processes or more in this time, the last ones at its end if it was short."""
        began = clock.monotonic()
        while (gone := clock.monotonic() - began) < seconds and not stopping.is_set():
            self.kill_until(max(self.killed + MIN_BURST, 1.1 * kills * gone / seconds), stopping)
            ended, end = self.ended(), min(clock.monotonic() + PATIENCE_SECONDS, began + seconds)
            while self.ended() < ended + BUNDLES_BETWEEN and clock.monotonic() < end:
                stopping.wait(0.2)
        self.kill_until(kills, stopping)

    def kill_until(self, kills, stopping):
        while self.killed < kills and not stopping.is_set():
            self.kill_something(stopping)
            clock.sleep(self.random.uniform(*GAP_SECONDS))

    @property
    def killed(self):
        return self.kills.total()

    def ended(self):
        """Count ended bundles, including those computed twice."""
        return self.tasks.read_text().count('"ended"') if self.tasks.exists() else 0

    def kill_something(self, stopping):
        """Choose a kind of process and kill one, or choose again if none appears for some seconds."""
        weights = {what: w for what, w in WEIGHTS[self.kind].items() if what != "service" or not self.spared}
        what = self.random.choices(list(weights), list(weights.values()))[0]
        end = clock.monotonic() + CHOICE_SECONDS
        while clock.monotonic() < end and not stopping.is_set():
            with suppress(psutil.NoSuchProcess, ProcessLookupError):
                if self.kill(what):
                    self.kills[what] += 1
                    return
            stopping.wait(0.1)

    def kill(self, what):
        """Kill a process of this kind; return whether one was running that had not been killed before."""
        pid = self.find(what)
        if pid is None or pid in self.dead | self.protected:
            return False
        if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return False
        self.dead.add(pid)
        (os.killpg if what == "host" else os.kill)(pid, signal.SIGKILL)
        return True

    def find(self, what):
        """Return the id of a process of this kind."""
        if what in self.kept:
            return self.kept[what].pid
        parent = self.kept["service" if self.kind == "embedded" else self.random.choice(WORKERS)].pid
        if what != "worker":
            return parent
        children = worker_processes(parent)
        return self.random.choice(children).pid if children else None

    def suspend(self, what, seconds, stopping):
        """Stop a process for some time with SIGSTOP; neither it nor its parent is killed meanwhile."""
        while not stopping.is_set():
            with suppress(psutil.Error):
                process = psutil.Process(self.find(what) or NO_PROCESS)
                self.protected |= {process.pid, process.ppid()}
                if process.pid not in self.dead:
                    process.suspend()
                    stopping.wait(seconds)
                    process.resume()
                    self.stops[what] += 1
                    self.protected.clear()
                    return
            self.protected.clear()
            stopping.wait(0.5)


def worker_processes(parent):
    """Return the worker processes of a nanny or a service, without resource trackers."""
    processes = []
    with suppress(psutil.Error):  # it has just ended
        for process in psutil.Process(parent).children():
            with suppress(psutil.Error):
                if any("spawn_main" in word for word in process.cmdline()):
                    processes.append(process)
    return processes


@dataclass
class Usage:
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
