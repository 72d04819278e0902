"""Every end of a service: SIGTERM or SIGINT, to the process or its group, in every state.

`SWEEP_ENDINGS=200` also ends as many services at random moments, and prints the longest time:
`SWEEP_ENDINGS=200 pytest -m slow -n 0 -s tests/chaos/test_endings.py -k random`.
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time as clock
import uuid
from contextlib import suppress

import httpx2
import psutil
import pytest

from tests.service import ROOT, START_TIMEOUT_SECONDS, STARTED, free_port
from tests.specs import VERY_LONG_SPEC

MAX_SECONDS = 10.0  # documented
MARK = "SWEEP_TEST_MARK"  # in the environment of every process, to find those that are left
SIGNALS = {"TERM": signal.SIGTERM, "INT": signal.SIGINT}
TARGETS = {"process": os.kill, "group": os.killpg}
OPTIONS = ("--workers", "1", "--data", "data")
# sitecustomize.py: workers save a checkpoint each second, so that a test sees that a run has started.
SAVE_OFTEN = """
import sys
if "spawn_main" in " ".join(sys.orig_argv):
    import sweep_service.simulators.run as run
    run.CHECKPOINT_INTERVAL_SECONDS = 1.0
"""


started = []  # commands of the current test


@pytest.fixture(autouse=True)
def _nothing_left():
    yield
    close_all()


def close_all():
    while started:
        started.pop().close()


def until(condition, seconds=START_TIMEOUT_SECONDS):
    deadline = clock.monotonic() + seconds
    while not (value := condition()):
        assert clock.monotonic() < deadline, "the condition never became true"
        clock.sleep(0.02)
    return value


class Command:
    """A command and its children, in a process group of their own."""

    def __init__(self, folder, *words, terminal=None):
        folder.mkdir(exist_ok=True)
        (folder / "sitecustomize.py").write_text(SAVE_OFTEN)
        self.data, self.log = folder / "data", folder / f"{words[0]}.log"
        self.mark = uuid.uuid4().hex
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("SWEEP_", "DASK_"))}
        path = f"{folder}{os.pathsep}{ROOT}"
        env = {**inherited, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", MARK: self.mark}
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *map(str, words)],
                cwd=folder, env=env, stdout=terminal or output, stderr=terminal or output,
                start_new_session=True,
            )  # fmt: skip
        started.append(self)

    @property
    def text(self):
        return self.log.read_text("utf-8")

    def processes(self):
        """Return all processes that it started, itself included."""
        processes = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                is_ours = process.environ().get(MARK) == self.mark
                if is_ours and process.status() != psutil.STATUS_ZOMBIE:
                    processes.append(process)
        return processes

    def workers(self):
        return [process for process in self.processes() if "spawn_main" in " ".join(process.cmdline())]

    def wait_for_run(self):
        """Wait until a worker computes a run, and remove its checkpoint."""
        (checkpoint,) = until(lambda: list(self.data.glob("sweeps/*.parts/*.checkpoint")))
        checkpoint.unlink()

    def end(self, number=signal.SIGTERM, send=os.kill):
        """Send a signal and return the seconds until all processes have ended."""
        began = clock.monotonic()
        send(self.process.pid, number)
        self.process.wait(5 * MAX_SECONDS)
        until(lambda: not self.processes(), 5 * MAX_SECONDS)
        return clock.monotonic() - began

    def close(self):
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for process in self.processes():
            process.kill()


class Service(Command):
    """`sweep serve` with one worker, and what a test needs to bring it into a state."""

    def __init__(self, folder, *options):
        options = options or ("--workers", "1")
        super().__init__(
            folder, "sweep_service.cli", "serve", *options, "--port", "0", "--data", folder / "data"
        )

    @property
    def url(self):
        return until(lambda: re.search(STARTED.pattern.decode(), self.text))[1]

    def ready(self):
        """Wait until the worker has joined."""
        until(lambda: '"worker_joined"' in self.text)
        return self

    def busy(self):
        """Wait until a worker computes a long run."""
        self.ready()
        answer = httpx2.post(f"{self.url}/v1/sweeps", json=VERY_LONG_SPEC, timeout=60.0)
        self.sweep = f"{self.url}/v1/sweeps/{answer.raise_for_status().json()['id']}"
        self.wait_for_run()
        return self


def starting(folder):
    service = Service(folder)
    assert service.url
    return service


def idle(folder):
    return Service(folder).ready()


def busy(folder):
    return Service(folder).busy()


def store_gone(folder):
    service = busy(folder)
    service.data.rename(folder / "away")
    until(lambda: is_waiting(httpx2.get(service.sweep, timeout=60.0)))
    return service


def is_waiting(response):
    return response.is_error or bool(response.json()["reason"])


def silent_scheduler(folder):
    """An external scheduler is suspended; the service waits up to five seconds for each of its answers."""
    address, options = f"tcp://127.0.0.1:{free_port()}", ("--host", "127.0.0.1", "--no-dashboard")
    port = address.rpartition(":")[2]
    scheduler = Command(folder, "distributed.cli.dask_scheduler", *options, "--port", port)
    Command(folder, "distributed.cli.dask_worker", address, *options, "--nthreads", "1")
    service = Service(folder, "--scheduler", address)
    service.busy()
    scheduler.process.send_signal(signal.SIGSTOP)
    clock.sleep(random.uniform(0.0, 6.0))
    return service


def stopped_worker(folder):
    service = busy(folder)
    for worker in service.workers():
        worker.suspend()
    return service


def worker_stopped_while_it_starts(folder):
    service = Service(folder)
    (worker,) = until(service.workers)
    worker.suspend()
    return service


STATES = (
    starting, idle, busy, store_gone, silent_scheduler, stopped_worker, worker_stopped_while_it_starts,
)  # fmt: skip
CHEAP = [("INT", "group", idle)]
SLOW = [pytest.mark.slow]
CASES = [(number, target, state) for state in STATES for number in SIGNALS for target in TARGETS]


def check_end(service, state, number, send):
    """End a service, check how it ended, and return the seconds."""
    seconds = service.end(number, send)
    assert service.process.returncode == 0, service.text
    for word in ("Traceback", "leaked", "Error"):
        assert word not in service.text, service.text
    check_store(service, state)
    return seconds


def check_store(service, state):
    """A run that was interrupted has a checkpoint, and is not blamed."""
    if state is busy:
        assert list(service.data.rglob("*.checkpoint"))
    if state in (busy, stopped_worker):
        assert not list(service.data.rglob("*.crumb"))


@pytest.mark.parametrize(
    ("number", "target", "state"),
    [
        pytest.param(*case, id="-".join((*case[:2], case[2].__name__)), marks=SLOW * (case not in CHEAP))
        for case in CASES
    ],
)
def test_service_ends_in_every_state(tmp_path, number, target, state):
    seconds = check_end(state(tmp_path / "service"), state, SIGNALS[number], TARGETS[target])
    print(f"{seconds:.2f} s")
    assert seconds < MAX_SECONDS


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_services_end_at_random_moments(tmp_path):
    longest = {}
    for count in range(int(os.environ.get("SWEEP_ENDINGS", "3"))):
        state, number, target = (random.choice(list(of)) for of in (STATES, SIGNALS, TARGETS))
        service = state(tmp_path / str(count))
        clock.sleep(random.uniform(0.0, 1.0))
        seconds = check_end(service, state, SIGNALS[number], TARGETS[target])
        print(f"{count} {state.__name__} {number} {target}: {seconds:.2f} s", flush=True)
        close_all()
        longest[state.__name__] = max(seconds, longest.get(state.__name__, 0.0))
    print(f"longest: {json.dumps(longest)}", flush=True)
    assert max(longest.values()) < MAX_SECONDS


@pytest.mark.slow
@pytest.mark.parametrize("state", [busy, stopped_worker, worker_stopped_while_it_starts])
def test_second_signal_ends_at_once(tmp_path, state):
    service = state(tmp_path / "service")
    os.killpg(service.process.pid, signal.SIGINT)
    clock.sleep(0.1)
    assert service.end(signal.SIGINT, os.killpg) < 3.0
    assert service.process.returncode == 0
    assert "leaked" not in service.text
    assert "Traceback" not in service.text


@pytest.mark.slow
@pytest.mark.parametrize("state", ["busy", "stopped"])
@pytest.mark.parametrize("number", SIGNALS)
def test_command_that_computes_ends(tmp_path, state, number):
    (tmp_path / "spec.json").write_text(json.dumps(VERY_LONG_SPEC))
    command = Command(tmp_path, "sweep_service.cli", "run", "spec.json", *OPTIONS)
    command.wait_for_run()
    if state == "stopped":
        command.workers()[0].suspend()
    assert command.end(SIGNALS[number], os.killpg) < MAX_SECONDS
    assert command.process.returncode == 3, command.text
    assert "Traceback" not in command.text
    assert not list(command.data.rglob("*.crumb"))
    assert state == "stopped" or list(command.data.rglob("*.checkpoint"))


SCRIPT = """
import json, sys
import sweep_service as ss
ss.run(json.load(open("spec.json")), data="data", workers=1)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [("TERM", -signal.SIGTERM), ("INT", -signal.SIGINT)])
def test_script_that_computes_ends(tmp_path, number, code):
    (tmp_path / "spec.json").write_text(json.dumps(VERY_LONG_SPEC))
    (tmp_path / "script.py").write_text(SCRIPT)
    script = Command(tmp_path, "script")
    script.wait_for_run()
    assert script.end(SIGNALS[number], os.killpg) < MAX_SECONDS
    assert script.process.returncode in (code, 128 - code), script.text
    assert not list(script.data.rglob("*.crumb"))
    assert list(script.data.rglob("*.checkpoint"))
    assert "leaked" not in script.text


@pytest.mark.slow
def test_workers_end_when_the_service_is_killed(tmp_path):
    service = busy(tmp_path / "service")
    assert service.end(signal.SIGKILL) < MAX_SECONDS


@pytest.mark.slow
@pytest.mark.parametrize("words", [("run", "spec.json"), ("serve", "--port", "0")], ids=["run", "serve"])
def test_terminal_says_what_the_end_waits_for(tmp_path, words):
    """A suspended worker delays the end for some seconds; the message and the second signal do not wait."""
    (tmp_path / "spec.json").write_text(json.dumps(VERY_LONG_SPEC))
    master, slave = os.openpty()
    command = Command(tmp_path, "sweep_service.cli", *words, *OPTIONS, terminal=slave)
    os.close(slave)
    shown = Terminal(master)
    if words[0] == "run":
        command.wait_for_run()
    else:
        until(lambda: "joined" in shown.read())
    command.workers()[0].suspend()
    shown.text = ""
    os.killpg(command.process.pid, signal.SIGINT)
    until(lambda: "1 worker to" in shown.read(), 3.0)
    assert "again to end at once" in shown.text or "a second signal ends it at once" in shown.text
    assert command.process.poll() is None
    assert command.end(signal.SIGINT, os.killpg) < 3.0
    assert command.process.returncode == (3 if words[0] == "run" else 0)
    assert "leaked" not in shown.read()
    assert "Traceback" not in shown.text
    os.close(master)


class Terminal:
    """What a command has printed to a terminal."""

    def __init__(self, master):
        self.master, self.text = master, ""
        os.set_blocking(master, False)

    def read(self):
        with suppress(OSError):  # nothing more at the moment, or its other end is closed
            while content := os.read(self.master, 65536):
                self.text += content.decode("utf-8", "replace")
        return self.text


@pytest.mark.slow
def test_log_says_what_the_end_waits_for(tmp_path):
    service = busy(tmp_path / "service")
    service.end(signal.SIGINT, os.killpg)
    lines = [json.loads(line) for line in service.text.splitlines() if line.startswith("{")]
    (stopping,) = [line for line in lines if line.get("event") == "stopping"]
    assert stopping["reason"] == "1 worker to save unfinished runs"
