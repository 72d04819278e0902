"""Helpers that run the command `sweep`.

Commands run in forks of one process that has already imported everything; `run_in_new_process` tests what a
new process does.
"""

import atexit
import json
import os
import signal
import subprocess
import sys
import time as clock
from dataclasses import dataclass
from pathlib import Path

import sweep_service
from sweep_service.cli.answers import REFUSED
from tests.hold import Hold
from tests.specs import SMALL_SPEC

ROOT = str(Path(sweep_service.__file__).resolve().parents[1])
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("SWEEP_")},
    "PYTHONPATH": ROOT, "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "200",
}  # fmt: skip
SERVER_CODE = """
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

def run_child(request):
    os.chdir(request["cwd"])
    for number, name in enumerate(("in", "out", "err")):
        flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        os.dup2(os.open(request[name], flags), number)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)
    os.environ.update(request["env"])
    sys.argv = ["sweep", *request["argv"]]
    code = 1
    try:
        exec(request["before"], {})
        app.main()
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    os._exit(code)

for line in sys.stdin:
    request = json.loads(line)
    if "wait" in request:
        print(os.waitstatus_to_exitcode(os.waitpid(request["wait"], 0)[1]), flush=True)
    else:
        pid = os.fork()
        if pid == 0:
            run_child(request)
        print(pid, flush=True)
"""


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self):
        """Standard output, parsed as strict JSON."""
        return json.loads(self.out, parse_constant=reject_constant)


def reject_constant(name):
    raise AssertionError(f"{name} is not JSON")


@dataclass(frozen=True)
class Child:
    server: "ForkServer"
    pid: int
    folder: Path

    def text(self, name):
        """Return what the child has written so far: out or err."""
        path = self.folder / name
        return path.read_text("utf-8") if path.exists() else ""

    def kill(self, number=signal.SIGKILL):
        os.kill(self.pid, number)

    def wait(self):
        return Answer(int(self.server.request(wait=self.pid)), self.text("out"), self.text("err"))


class ForkServer:
    """A process that forks a child for each command, which saves three seconds of imports."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER_CODE],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=ENVIRONMENT,
        )  # fmt: skip
        self.children = 0
        self.is_broken = False
        atexit.register(self.close)

    def close(self):
        self.process.communicate()

    def request(self, **request):
        """Send a request and return the response. After a timeout the next line would answer the last one."""
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            return self.process.stdout.readline()
        except BaseException:
            self.is_broken = True
            self.process.kill()
            raise

    def start(self, cwd, *argv, text="", env=None, before="", serial=True):
        """Start a command in a folder; the child first executes the code `before`."""
        if serial and argv and argv[0] in ("run", "extend", "retry", "resume"):
            argv = (*argv, "--serial")
        self.children += 1
        folder = Path(cwd) / f".child-{self.children}"
        folder.mkdir(parents=True)
        (folder / "in").write_text(text if isinstance(text, str) else json.dumps(text), "utf-8")
        files = {name: str(folder / name) for name in ("in", "out", "err")}
        argv = [str(word) for word in argv]
        pid = self.request(cwd=str(cwd), argv=argv, env=env or {}, before=before, **files)
        return Child(self, int(pid), folder)

    def run(self, cwd, *argv, **options):
        return self.start(cwd, *argv, **options).wait()


SERVERS = []  # the last one is in use


def fork_server():
    """Return the server of this test process, a new one if a test was cut off in a request."""
    if not SERVERS or SERVERS[-1].is_broken:
        SERVERS.append(ForkServer())
    return SERVERS[-1]


def until(condition, seconds=60.0):
    """Wait until a condition holds."""
    end = clock.monotonic() + seconds
    while not (result := condition()):
        assert clock.monotonic() < end, "timed out"
        clock.sleep(0.01)
    return result


BREAK_SEED_1 = """
import sweep_service.execution.compute as compute
original = compute.integrate_run
def broken(point, **options):
    if options["seed"] == 1:
        raise RuntimeError("out of order")
    return original(point, **options)
compute.integrate_run = broken
"""


def start_held(cwd, *argv, run="sgd-0", **options):
    """Start a command and wait until it computes a run, where it stays until it is stopped."""
    hold = Hold(Path(cwd), f"run:{run}")
    child = fork_server().start(cwd, *argv, env=hold.environment, **options)
    until(lambda: hold.has(child.pid))
    return child


def run_command(cwd, *argv, **options):
    """Run a command in a folder and return its answer."""
    return fork_server().run(cwd, *argv, **options)


def run_in_new_process(argv, cwd, **options):
    """Run a command in a new process, as a shell does."""
    command = [sys.executable, "-m", "sweep_service.cli", *argv]
    return subprocess.run(command, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, **options)


def list_files(folder):
    """List the files that commands have left in a folder."""
    return sorted(path.name for path in Path(folder).iterdir() if not path.name.startswith(".child-"))


def assert_refused(answer, *phrases):
    """Assert that a command was refused with one line that contains the words."""
    assert answer.code == REFUSED, answer
    assert answer.out == ""
    assert len(answer.err.splitlines()) == 1, answer.err
    assert answer.err.startswith("sweep: ")
    for phrase in phrases:
        assert phrase in answer.err


COMMANDS = {
    "run": ["run", "-"],
    "list": ["list"],
    "show": ["show", "ID"],
    "atlas": ["atlas"],
    "compare": ["compare", "ID", "ID"],
    "cancel": ["cancel", "ID"],
    "extend": ["extend", "ID", "-"],
    "rename": ["rename", "ID", "a name"],
    "note": ["note", "ID", "a note"],
    "tag": ["tag", "ID", "a tag"],
    "archive": ["archive", "ID", "out.zip", "--no-figures"],
    "rm": ["rm", "ID"],
    "estimate": ["estimate", "-"],
    "seeds": ["seeds", "ID"],
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
SERVICE_COMMANDS = ("serve", "submit", "watch")  # their tests are in test_service.py
OTHER_COMMANDS = ("gallery", "import", "slurm")  # tested in test_plot.py, tests/archives and tests/clusters
INPUT = {"run": SMALL_SPEC, "estimate": SMALL_SPEC, "extend": {"axes": {"gamma": [0.9]}}}


def list_processes():
    """List the ids of all processes, on Linux."""
    return (
        [path.name for path in Path("/proc").iterdir() if path.name.isdigit()]
        if sys.platform == "linux"
        else []
    )


def read_environment(pid):
    """Return the environment of a process."""
    try:
        return Path(f"/proc/{pid}/environ").read_text("utf-8", "replace").split("\0")
    except OSError:  # the process has ended
        return []
