"""`sweep` as people and programs call it.

Commands run in children of one process that has the imports behind it; what a new process does by
itself is tested with new processes.
"""

import atexit
import json
import os
import signal
import subprocess
import sys
import time as clock
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import sweep_service
from sweep_service.cli.answers import REFUSED

HOME = str(Path(sweep_service.__file__).resolve().parents[1])
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("SWEEP_")},
    "PYTHONPATH": HOME, "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "200",
}  # fmt: skip
NURSERY = """
import json, os, sys, traceback
import xarray, zarr, rich.progress
import sweep_service as ss
from sweep_service import presets
from sweep_service.analysis import accessor, export
from sweep_service.api import serve
from sweep_service.cli import app
from sweep_service.client import client, progress
from sweep_service.doctor import calibration, diagnosis
from sweep_service.execution import conductor, executors
from sweep_service.planning import estimate
from sweep_service.analysis.plots import style

with style.canvas(None) as (figure, axes):
    axes.set_xscale("log")
    figure.savefig(os.devnull, format="png")

point = {"d": 6, "p": 4, "k": 2, "gamma": 0.1}
for chains in (1, 2, 8):
    ss.simulate(point, times=[0, 0.1], seed=list(range(chains)))
ss.integrate(point, times=[0, 0.1], regime="classical")

def child(order):
    os.chdir(order["cwd"])
    for number, name in enumerate(("in", "out", "err")):
        flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        os.dup2(os.open(order[name], flags), number)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)
    os.environ.update(order["env"])
    sys.argv = ["sweep", *order["argv"]]
    code = 1
    try:
        exec(order["before"], {})
        app.main()
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    os._exit(code)

for line in sys.stdin:
    order = json.loads(line)
    if "wait" in order:
        print(os.waitstatus_to_exitcode(os.waitpid(order["wait"], 0)[1]), flush=True)
    else:
        number = os.fork()
        if number == 0:
            child(order)
        print(number, flush=True)
"""


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self):
        """All of standard output, as one JSON value by the letter of the standard."""
        return json.loads(self.out, parse_constant=_no_constant)


def _no_constant(name):
    raise AssertionError(f"{name} is not JSON")


@dataclass(frozen=True)
class Child:
    nursery: "Nursery"
    pid: int
    folder: Path

    def text(self, name):
        path = self.folder / name
        return path.read_text("utf-8") if path.exists() else ""

    def kill(self, number=signal.SIGKILL):
        os.kill(self.pid, number)

    def wait(self):
        return Answer(int(self.nursery.ask(wait=self.pid)), self.text("out"), self.text("err"))


class Nursery:
    """Children that begin where others are after three seconds of imports."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-c", NURSERY],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=HOME, env=ENVIRONMENT,
        )  # fmt: skip
        self.born = 0
        atexit.register(self.close)

    def close(self):
        self.process.communicate()

    def ask(self, **order):
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()

    def start(self, cwd, *argv, text="", env=None, before="", serial=True):
        """A command in a folder; `before` is code that the child executes first."""
        if serial and argv and argv[0] in ("run", "extend", "retry", "resume"):
            argv = (*argv, "--serial")
        self.born += 1
        folder = Path(cwd) / f".child-{self.born}"
        folder.mkdir(parents=True)
        (folder / "in").write_text(text if isinstance(text, str) else json.dumps(text), "utf-8")
        files = {name: str(folder / name) for name in ("in", "out", "err")}
        argv = [str(word) for word in argv]
        pid = self.ask(cwd=str(cwd), argv=argv, env=env or {}, before=before, **files)
        return Child(self, int(pid), folder)

    def run(self, cwd, *argv, **options):
        return self.start(cwd, *argv, **options).wait()


@cache
def nursery():
    return Nursery()


def until(condition, seconds=60.0):
    """Wait for what another process does."""
    end = clock.monotonic() + seconds
    while not (found := condition()):
        assert clock.monotonic() < end, "it never happened"
        clock.sleep(0.01)
    return found


SMALL = {
    "name": "small",
    "axes": {"d": [5, 8], "p": 4, "gamma": [0.1, 0.5], "regime": "classical_noise"},
    "fixed": {"k": 2, "noise": 1e-3},
    "init": {"kind": "informed", "shared": True},
    "seeds": {"init": 2, "repeat": 2},
    "time": {"max": 2.0, "samples": 4},
}
LONG = {
    **SMALL,
    "axes": {"d": 200, "p": 8, "gamma": 0.1},
    "init": {"kind": "informed"},
    "time": {"max": 300.0, "samples": 4},
    "seeds": 1,
}  # 5 million steps: some seconds
FAIL = """
import sweep_service.execution.compute as computing
plain = computing.integrate_run
def broken(point, **options):
    if options["seed"] == 1:
        raise RuntimeError("out of order")
    return plain(point, **options)
computing.integrate_run = broken
"""


def begun(cwd):
    """Wait until a sweep is being computed."""
    until(lambda: list(Path(cwd).glob("sweep-data/sweeps/*.parts/*.crumb")))


def sweep(cwd, *argv, **options):
    return nursery().run(cwd, *argv, **options)


def fresh(argv, cwd, **options):
    """A command in a new process, as from a shell."""
    command = [sys.executable, "-m", "sweep_service.cli", *argv]
    return subprocess.run(command, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, **options)


def trace_of(folder):
    """All that a command left in its folder."""
    return sorted(path.name for path in Path(folder).iterdir() if not path.name.startswith(".child-"))


def assert_refused(answer, *words):
    assert answer.code == REFUSED, answer
    assert answer.out == ""
    assert len(answer.err.splitlines()) == 1, answer.err
    assert answer.err.startswith("sweep: ")
    for word in words:
        assert word in answer.err


COMMANDS = {
    "run": ["run", "-"],
    "list": ["list"],
    "show": ["show", "ID"],
    "cancel": ["cancel", "ID"],
    "extend": ["extend", "ID", "-"],
    "rm": ["rm", "ID"],
    "estimate": ["estimate", "-"],
    "export": ["export", "ID", "out.csv"],
    "plot": ["plot", "ID", "out.png"],
    "rerun": ["rerun", "ID", "sgd-0"],
    "retry": ["retry", "ID"],
    "pause": ["pause", "ID"],
    "resume": ["resume", "ID"],
    "presets": ["presets"],
    "doctor": ["doctor"],
    "certificates": ["certificates", "there"],
}
OF_A_SERVICE = ("serve", "submit", "watch")  # their tests are in test_service.py
OF_MINUTES = ("gallery",)  # whose test makes it shorter
INPUT = {"run": SMALL, "estimate": SMALL, "extend": {"axes": {"gamma": [0.9]}}}


def processes():
    return (
        [path.name for path in Path("/proc").iterdir() if path.name.isdigit()]
        if sys.platform == "linux"
        else []
    )


def environment(pid):
    try:
        return Path(f"/proc/{pid}/environ").read_text("utf-8", "replace").split("\0")
    except OSError:  # it is gone
        return []
