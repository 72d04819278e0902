"""`sweep` as people and programs call it: answers, exit codes, refusals that leave no trace.

Commands run in children of one process that has the imports behind it; what a new process does by
itself is tested with new processes.
"""

import atexit
import csv
import json
import os
import re
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import time as clock
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import typer
import xarray as xr

import sweep_service
from sweep_service import cli, words
from sweep_service import export as exporting
from sweep_service.cli import DONE, FAILED, FEW_FAILURES, INTERRUPTED, REFUSED
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.presets import PRESETS, preset_text
from sweep_service.spec import LARGEST_SPEC
from sweep_service.store.folder import DataFolder
from sweep_service.store.ledger import State, Sweep

HOME = str(Path(sweep_service.__file__).resolve().parents[1])
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("SWEEP_")},
    "PYTHONPATH": HOME, "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "200",
}  # fmt: skip
NURSERY = """
import json, os, sys, traceback
import xarray, zarr, rich.progress
import sweep_service as ss
from sweep_service import cli, conductor, doctor, estimate, executors, export, presets

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
        cli.main()
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
        if serial and argv[0] in ("run", "extend", "retry"):
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
import sweep_service.compute as computing
plain = computing.integrate
def broken(point, **options):
    if options["seed"] == 1:
        raise RuntimeError("out of order")
    return plain(point, **options)
computing.integrate = broken
"""


def begun(cwd):
    """Wait until a sweep is being computed."""
    until(lambda: list(Path(cwd).glob("sweep-data/sweeps/*.parts/*.crumb")))


def sweep(cwd, *argv, **options):
    return nursery().run(cwd, *argv, **options)


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A folder with one completed sweep; nobody changes it."""
    cwd = tmp_path_factory.mktemp("filled")
    answer = sweep(cwd, "run", "-", "--json", text=SMALL)
    assert answer.code == DONE, answer.err
    return cwd, answer.json["id"]


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


# ---- a new process


HEAVY = ("distributed", "numba", "numpy", "pydantic", "scipy", "sqlalchemy", "xarray", "yaml", "zarr")


def test_help_is_quick_and_light():
    code = (
        "import sys\nsys.argv = ['sweep', '--help']\nfrom sweep_service.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        f"print(*[name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    )
    found = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True)
    assert (found.returncode, found.stderr.strip()) == (0, "")
    assert all(name in found.stdout for name in COMMANDS)
    assert "import" not in found.stdout  # it is for users
    assert "Exit codes" in found.stdout


@pytest.mark.slow
def test_a_new_process_runs_a_sweep_from_standard_input(tmp_path):
    answer = fresh(["run", "-", "--json", "--serial"], tmp_path, input=json.dumps(SMALL))
    assert (answer.returncode, answer.stderr) == (DONE, "")
    about = json.loads(answer.stdout)
    with xr.open_zarr(about["path"], chunks=None) as found:
        assert np.all(found.sgd_status == 1)


# ---- who computes


def test_by_default_a_sweep_is_computed_by_dask(tmp_path, filled):
    cwd, known = filled
    answer = fresh(["run", "-", "--workers", "1"], tmp_path, input=json.dumps(SMALL))
    assert answer.returncode == DONE, answer.stderr
    assert answer.stdout.startswith("completed: 24 runs: 24 done\n")
    assert re.findall(r"dashboard http\S+", answer.stderr), answer.stderr
    (path,) = tmp_path.glob("sweep-data/sweeps/*.zarr")
    with (
        xr.open_zarr(path, chunks=None) as found,
        xr.open_zarr(cwd / "sweep-data" / "sweeps" / f"{known}.zarr", chunks=None) as serial,
    ):
        for name in ("sgd_risk", "ode_risk", "sgd_status", "ode_status"):
            np.testing.assert_array_equal(found[name], serial[name])


@pytest.mark.slow
def test_an_interrupted_cluster_leaves_a_paused_sweep_and_no_process(tmp_path):
    command = [sys.executable, "-m", "sweep_service.cli", "run", "-", "--workers", "2", "--json"]
    mark = f"CHILD_OF={tmp_path}"
    child = subprocess.Popen(
        command, cwd=tmp_path, env={**ENVIRONMENT, "CHILD_OF": str(tmp_path)}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    child.stdin.write(json.dumps({**LONG, "time": {"max": 30000.0, "samples": 4}, "seeds": 4}))
    child.stdin.close()
    child.stdin = None
    until(lambda: list(tmp_path.glob("sweep-data/sweeps/*.parts/*.crumb")), 60.0)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate()
    assert child.returncode == INTERRUPTED, err
    assert json.loads(out)["state"] == "paused"
    assert sweep(tmp_path, "list", "--json").json[0]["state"] == "paused"
    until(lambda: not [pid for pid in processes() if mark in environment(pid)])


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


@pytest.mark.slow
def test_a_scheduler_that_is_not_there_is_waited_for(tmp_path):
    child = nursery().start(
        tmp_path, "run", "-", "--scheduler", "tcp://127.0.0.1:9", text=SMALL, serial=False
    )
    until(lambda: "waiting for the scheduler at tcp://127.0.0.1:9" in child.text("err"), 60.0)
    child.kill(signal.SIGINT)
    answer = child.wait()
    assert answer.code == INTERRUPTED
    assert "Traceback" not in answer.err


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--workers", "2", "--serial"], ("--workers = 2", "--serial")),
        (["--workers", "2", "--scheduler", "tcp://x:1"], ("--workers = 2", "--scheduler")),
        (["--scheduler", "tcp://x:1", "--serial"], ("--scheduler = 'tcp://x:1'", "--serial")),
        (["--scheduler", "nonsense"], ("--scheduler = 'nonsense'", "tcp://host:8786")),
        (["--scheduler", "http://x:1"], ("--scheduler = 'http://x:1'", "tcp://host:8786")),
    ],
    ids=lambda value: " ".join(value),
)
@pytest.mark.parametrize("command", ["run", "extend", "retry"])
def test_who_computes_is_said_once_and_well(tmp_path, command, argv, words):
    answer = sweep(tmp_path, *COMMANDS[command], *argv, text=SMALL, serial=False)
    assert_refused(answer, *words)
    assert trace_of(tmp_path) == []


@pytest.mark.parametrize(
    ("options", "given", "address"),
    [
        ({}, {}, "this machine"),
        ({"workers": 3}, {"SWEEP_SCHEDULER": "tcp://a:1"}, "this machine"),
        ({}, {"SWEEP_SCHEDULER": "tcp://a:1", "DASK_SCHEDULER_ADDRESS": "tcp://b:1"}, "tcp://a:1"),
        ({}, {"DASK_SCHEDULER_ADDRESS": "tcp://b:1"}, "tcp://b:1"),
        ({"scheduler": "tcp://c:1"}, {"SWEEP_SCHEDULER": "tcp://a:1"}, "tcp://c:1"),
        ({"serial": True}, {"SWEEP_SCHEDULER": "tcp://a:1"}, None),
    ],
    ids=["default", "workers", "environment", "dask's environment", "scheduler", "serial"],
)
def test_the_command_line_goes_before_the_environment(tmp_path, monkeypatch, options, given, address):
    for name in ("SWEEP_SCHEDULER", "DASK_SCHEDULER_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    asked = {"workers": None, "scheduler": None, "serial": False, **options}
    executor = cli._executor(**asked)(DataFolder(tmp_path / "data"))
    assert getattr(getattr(executor, "cluster", None), "address", None) == address
    if "workers" in options:
        assert executor.cluster.workers == 3
    executor.close()
    assert not (tmp_path / "data").exists()


def test_a_priority_is_kept(tmp_path):
    assert sweep(tmp_path, "run", "-", "--priority", "3", "--json", text=SMALL).json["priority"] == 3


# ---- every command, for people and for programs


COMMANDS = {
    "run": ["run", "-"],
    "list": ["list"],
    "show": ["show", "ID"],
    "cancel": ["cancel", "ID"],
    "extend": ["extend", "ID", "-"],
    "rm": ["rm", "ID"],
    "estimate": ["estimate", "-"],
    "export": ["export", "ID", "out.csv"],
    "rerun": ["rerun", "ID", "sgd-0"],
    "retry": ["retry", "ID"],
    "presets": ["presets"],
    "doctor": ["doctor"],
}
INPUT = {"run": SMALL, "estimate": SMALL, "extend": {"axes": {"gamma": [0.9]}}}


def test_every_command_is_tested():
    from sweep_service.cli import app

    names = {command.name or command.callback.__name__ for command in app.registered_commands}
    assert names == set(COMMANDS)


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_answers(tmp_path, filled, name, as_json):
    cwd, known = filled
    subprocess.run(["cp", "-r", cwd / "sweep-data", tmp_path / "sweep-data"], check=True)
    argv = [known if word == "ID" else word for word in COMMANDS[name]]
    answer = sweep(tmp_path, *argv, *(["--json"] if as_json else []), text=INPUT.get(name, ""))
    assert answer.code == DONE, answer.err
    assert "Traceback" not in answer.err
    assert "Warning" not in answer.err
    assert answer.out.strip()
    if as_json:
        assert answer.json
        assert answer.err == ""
        assert len(answer.out.splitlines()) == 1


def test_show_and_list_tell_the_state_and_the_counts(filled):
    cwd, known = filled
    (one,) = sweep(cwd, "list", "--json").json
    about = sweep(cwd, "show", known[:12], "--json").json
    assert (one["id"], one["name"], one["state"], one["runs"]) == (known, "small", "completed", 24)
    assert {name: about[name] for name in one} == one
    assert about["counts"] == {"done": 24}
    assert (cwd / about["path"]).is_dir()
    text = sweep(cwd, "list").out
    assert known in text
    assert "small" in text


def test_show_counts_reused_runs_too(tmp_path):
    sweep(tmp_path, "run", "-", text=SMALL)
    wider = {**SMALL, "seeds": {"init": 3, "repeat": 2}}
    known = sweep(tmp_path, "run", "-", "--json", text=wider).json["id"]
    about = sweep(tmp_path, "show", known, "--json").json
    assert about["reused"] == 24
    assert about["counts"] == {"done": 36}


@pytest.mark.parametrize("there", [False, True], ids=["no folder", "no ledger"])
def test_looking_for_a_sweep_makes_nothing(tmp_path, there):
    if there:
        (tmp_path / "sweep-data").mkdir()
    assert sweep(tmp_path, "list", "--json").json == []
    assert sweep(tmp_path, "list").out == "no sweeps yet\n"
    for name in ("show", "export", "rerun", "cancel", "rm", "retry", "extend"):
        assert_refused(sweep(tmp_path, *COMMANDS[name], text=INPUT.get(name, "")), "no sweeps")
    assert trace_of(tmp_path) == ["sweep-data"] * there
    assert not there or list((tmp_path / "sweep-data").iterdir()) == []


def test_run_says_how_to_open_what_it_stored(tmp_path):
    answer = sweep(tmp_path, "run", "-", text=SMALL)
    namespace = {}
    code = "\n".join(line.strip() for line in answer.out.splitlines() if line.startswith("    "))
    exec(code, namespace)
    with namespace["ds"] as found:
        assert "sgd_risk" in found


def test_the_folder_may_be_named_by_the_environment(tmp_path):
    assert sweep(tmp_path, "run", "-", text=SMALL, env={"SWEEP_DATA": "elsewhere"}).code == DONE
    assert trace_of(tmp_path) == ["elsewhere"]
    assert len(sweep(tmp_path, "list", "--json", "--data", "elsewhere").json) == 1


@pytest.mark.slow
def test_files_of_both_kinds_and_a_name_with_spaces_are_read(tmp_path):
    (tmp_path / "a b.json").write_text(json.dumps(SMALL))
    yaml = (
        "axes: {d: [5, 8], p: 4, gamma: [1.0e-1, 0.5], regime: classical_noise}\nfixed: {k: 2, noise: 1e-3}\n"
    )
    yaml += "init: {kind: informed, shared: true}\nseeds: {init: 2, repeat: 2}\ntime: {max: 2, samples: 4}\n"
    (tmp_path / "b.yaml").write_text(yaml)
    first = sweep(tmp_path, "run", "a b.json", "--json").json
    second = sweep(tmp_path, "run", "b.yaml", "--json").json
    assert first["id"] == second["id"]


def test_the_page_names_commands_and_options_that_exist():
    page = (Path(HOME) / "docs" / "sweeps.md").read_text("utf-8")
    commands = typer.main.get_command(cli.app).commands
    named = re.findall(r"(?:^|`)sweep ([a-z]+)", page, re.MULTILINE)
    assert set(named) == set(commands)
    options = {word for command in commands.values() for option in command.params for word in option.opts}
    assert [word for word in re.findall(r"(?<=[ `])--[a-z-]+", page) if word not in options] == []


# ---- presets


def test_presets_are_listed_and_printed(tmp_path):
    listed = sweep(tmp_path, "presets", "--json").json
    assert list(listed) == list(PRESETS)
    for name in PRESETS:
        assert sweep(tmp_path, "presets", name).out.strip() == preset_text(name).strip()
        assert sweep(tmp_path, "presets", name, "--json").json["name"] == listed[name]
        about = sweep(tmp_path, "estimate", name, "--json").json
        assert about["core_seconds"] > 0
    assert_refused(sweep(tmp_path, "presets", "fig2-rigt"), "did you mean 'fig2-right'")
    assert_refused(sweep(tmp_path, "run", "../fig2-right"), "must be a file")
    assert trace_of(tmp_path) == []


@pytest.mark.slow
def test_a_preset_runs_by_its_name(tmp_path):
    """Shorter: a file of that name wins, and is the preset with less time."""
    name = PRESETS[0]
    text = re.sub(r"max: [\d.]+", "max: 0.5", preset_text(name))
    text = re.sub(r"min: [\d.]+", "min: 0.1", text)
    (tmp_path / name).write_text(text)
    answer = sweep(tmp_path, "run", name, "--json")
    assert answer.json["state"] == "completed"


@pytest.mark.slow
@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_completes(tmp_path, name):
    assert sweep(tmp_path, "run", name, "--json").json["state"] == "completed"


# ---- estimate, export, rerun, doctor
def test_an_estimate_counts_what_would_be_computed(tmp_path):
    found = sweep(tmp_path, "estimate", "-", "--json", text=SMALL).json
    assert (found["points"], found["runs"]) == (4, 24)
    assert (found["reused"], found["copies"]) == (0, 4)  # one theory for both d
    steps = sum(4 * 2.0 * 4 * d / gamma for d in (5, 8) for gamma in (0.1, 0.5))
    assert found["sgd_steps"] == pytest.approx(steps)
    assert found["core_seconds"] > 0
    assert {"d", "gamma", "core_seconds"} <= set(found["dearest"])
    assert found["refused"] is None
    text = sweep(tmp_path, "estimate", "-", text=SMALL).out
    assert re.search(r"^runs +24: 20 to compute, 4 equal to others$", text, re.MULTILINE)
    assert re.search(r"^core time +[\d.]+ s$", text, re.MULTILINE)
    assert re.search(r"^size +[\d.]+ kB at most$", text, re.MULTILINE)
    assert re.search(r"^dearest +d = \d, p = 4, gamma = 0.\d: [\d.]+ s$", text, re.MULTILINE)
    assert trace_of(tmp_path) == []


def test_an_estimate_knows_what_is_stored(filled):
    cwd, _ = filled
    found = sweep(cwd, "estimate", "-", "--json", text={**SMALL, "seeds": {"init": 3, "repeat": 2}}).json
    assert (found["runs"], found["reused"], found["copies"]) == (36, 20, 6)
    again = sweep(cwd, "estimate", "-", text=SMALL).out
    assert "0 to compute, 20 stored already" in again
    assert "dearest" not in again


def test_an_estimate_says_that_a_sweep_would_be_refused(tmp_path):
    dear = {**SMALL, "time": {"max": 1e12, "samples": 3}}
    answer = sweep(tmp_path, "estimate", "-", text=dear)
    assert answer.code == DONE
    assert re.search(r"^core time +[\d.]+ years$", answer.out, re.MULTILINE)
    assert "would be refused: core_hours" in answer.out
    assert "core_hours" in sweep(tmp_path, "estimate", "-", "--json", text=dear).json["refused"]


def test_many_points_are_announced(tmp_path):
    many = {**SMALL, "axes": {"d": {"lin": [100, 5099, 5000]}, "p": 4, "gamma": [0.1, 0.2]}, "seeds": 10000}
    answer = sweep(tmp_path, "run", "-", text=many)  # refused by its number of runs, which is quick
    assert answer.code == REFUSED
    assert answer.err.startswith("preparing 10000 points\nsweep: runs")
    assert trace_of(tmp_path) == []


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (words._time(0.0), "0 s"),
        (words._time(0.25), "0.25 s"),
        (words._time(12.3), "12 s"),
        (words._time(59.0), "59 s"),
        (words._time(89.0), "1.5 min"),
        (words._time(300.0), "5 min"),
        (words._time(4680.0), "1.3 h"),
        (words._time(36e6), "1.1 years"),
        (words._time(float("inf")), "without end"),
        (words.size(12), "12 bytes"),
        (words.size(2_400_000), "2.4 MB"),
        (words.size(999_999), "1000 kB"),
        (words._number(88_800_000.0), "8.88e7"),
        (words._number(100000.0), "1e5"),
        (words._number(1234.5), "1234"),
        (words._number(0.5), "0.5"),
        (words._number(1e-4), "1e-4"),
        (words._number(100), "100"),
        (words._number("erf"), "erf"),
    ],
)
def test_people_get_their_units(found, text):
    assert found == text


def test_an_export_to_netcdf_reads_back(filled, tmp_path):
    cwd, known = filled
    assert sweep(cwd, "export", known, tmp_path / "out.nc").code == DONE
    with (
        xr.open_dataset(tmp_path / "out.nc", engine="scipy") as found,
        xr.open_zarr(cwd / "sweep-data" / "sweeps" / f"{known}.zarr", chunks=None) as stored,
    ):
        assert set(found.variables) == set(stored.variables)
        for name, variable in stored.variables.items():
            assert found[name].dims == variable.dims
            np.testing.assert_array_equal(found[name].values.astype(variable.dtype), variable.values)
            assert found[name].attrs["long_name"] == variable.attrs["long_name"]
        assert found.attrs["spec"] == stored.attrs["spec"]
    assert os.listdir(tmp_path) == ["out.nc"]


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_an_export_to_csv_has_a_line_for_each_run_and_time(filled, tmp_path):
    cwd, known = filled
    assert sweep(cwd, "export", known, tmp_path / "out.csv").code == DONE
    rows = rows_of(tmp_path / "out.csv")
    assert list(rows[0])[:10] == [
        "source", "d", "p", "gamma", "delta_t", "gamma_over_p", "regime", "seed", "repeat", "time"
    ]  # fmt: skip
    seen = set()
    with xr.open_zarr(cwd / "sweep-data" / "sweeps" / f"{known}.zarr", chunks=None) as stored:
        stored.load()
        assert len(rows) == stored.sgd_risk.size + stored.ode_risk.size
        for row in rows:
            at = {name: int(row[name]) for name in ("d", "p", "seed")} | {"gamma": float(row["gamma"])}
            if row["source"] == "sgd":
                at |= {"repeat": int(row["repeat"])}
                assert row["regime"] == ""
                assert int(row["steps"]) == stored.sgd_steps.sel(at)
            else:
                at |= {"regime": row["regime"]}
                assert (row["source"], row["repeat"], row["steps"]) == ("ode", "", "")
            assert row["status"] == "done"
            assert float(row["delta_t"]) == at["gamma"] / (at["p"] * at["d"])
            at |= {"time": float(row["time"])}
            for name in ("risk", "cosine"):
                assert float(row[name]) == stored[f"{row['source']}_{name}"].sel(at)
            seen.add((row["source"], *at.values()))
    assert len(seen) == len(rows)


def test_an_export_to_csv_goes_block_by_block(tmp_path, monkeypatch):
    """Of points that are no product, with a regime that was chosen and one that is skipped somewhere."""
    points = [{"d": d, "p": 4, "gamma": gamma} for d, gamma in ((2, 0.1), (8, 0.5), (8, 500.0))]
    spec = {
        "points": points, "axes": {"regime": ["auto", "mean_field_projected"]}, "seeds": 3,
        "fixed": {"k": 2, "activation": "square"}, "time": {"max": 200.0, "samples": 3},
    }  # fmt: skip
    about = sweep(tmp_path, "run", "-", "--json", text=spec).json
    dataset = Path(about["path"])
    exporting.exported(dataset, tmp_path / "whole.csv")
    monkeypatch.setattr(exporting, "LINES", 5)
    with xr.open_zarr(dataset, chunks=None) as found:
        for kind in ("sgd", "ode"):
            sizes = [np.prod(list(block.sizes.values())) for block in exporting._blocks(found, kind)]
            assert max(sizes) <= 5
            assert sum(sizes) == found[f"{kind}_risk"].size
    exporting.exported(dataset, tmp_path / "blocks.csv")
    assert (tmp_path / "blocks.csv").read_text() == (tmp_path / "whole.csv").read_text()
    rows = rows_of(tmp_path / "whole.csv")
    assert len(rows) == (9 + 18) * 4
    counts = Counter(row["status"] for row in rows if row["time"] == "0.0")
    assert counts == about["counts"]
    assert counts["skipped"] > 0
    assert counts["diverged"] > 0
    assert "nan" not in (tmp_path / "whole.csv").read_text()
    for row in rows:
        chosen = row["source"] == "ode" and row["status"] != "skipped"
        assert row["regime_chosen"] in (REGIMES if chosen else [""]), row


def test_an_export_without_observables_still_has_its_runs(tmp_path):
    about = sweep(tmp_path, "run", "-", "--json", text={**SMALL, "observables": ["overlaps"]}).json
    assert sweep(tmp_path, "export", about["id"], "out.csv").code == DONE
    rows = rows_of(tmp_path / "out.csv")
    assert len(rows) == 24 * 5
    assert {row["status"] for row in rows} == {"done"}


def test_an_export_to_json_is_json_and_changes_no_text(tmp_path):
    wild = {
        "axes": {**SMALL["axes"], "gamma": [0.1, 500.0]},
        "fixed": {**SMALL["fixed"], "activation": "square"},
    }
    spec = {**SMALL, **wild, "name": "why NaN?", "time": {"max": 2000.0, "samples": 4}}
    known = sweep(tmp_path, "run", "-", "--json", text=spec).json["id"]
    assert sweep(tmp_path, "export", known, "out.json").code == DONE
    found = json.loads((tmp_path / "out.json").read_text("utf-8"), parse_constant=_no_constant)
    assert found["attrs"]["title"] == "why NaN?"
    values = np.array(found["data_vars"]["sgd_risk"]["data"], dtype=float)
    with xr.open_zarr(tmp_path / "sweep-data" / "sweeps" / f"{known}.zarr", chunks=None) as stored:
        assert np.any(np.isnan(stored.sgd_risk))
        np.testing.assert_array_equal(values, stored.sgd_risk.values)


@pytest.mark.parametrize("output", ["out.xlsx", "out", "no/such/folder/out.csv", "."])
def test_an_export_that_cannot_be_written_is_refused(filled, tmp_path, output):
    cwd, known = filled
    data = cwd / "sweep-data"
    assert_refused(sweep(tmp_path, "export", known, output, "--data", data))
    assert trace_of(tmp_path) == []


@pytest.mark.parametrize("run", ["sgd", "sgd-", "sgd-16", "sgd--1", "sgd-²", "sgd-x", "-3", "x-1", "ode-1.5"])
def test_a_run_that_is_not_there_cannot_be_rerun(filled, run):
    cwd, known = filled
    assert_refused(sweep(cwd, "rerun", known, "--", run), "run")


def test_a_failed_run_is_told_of_and_its_command_reproduces_it(tmp_path):
    answer = sweep(tmp_path, "run", "-", "--json", text=SMALL, before=FAIL)
    assert answer.code == FAILED
    assert answer.json["state"] == "incomplete"
    assert answer.json["counts"] == {"done": 20, "failed": 4}
    failures = answer.json["failures"]
    assert [len(one["runs"]) for one in failures] == [2, 2]  # one theory for both d
    assert sweep(tmp_path, "run", "-", text=SMALL).code == FAILED  # the same sweep, as it is
    command = failures[0]["command"].split()
    assert command[0] == "sweep"
    again = sweep(tmp_path, *command[1:], "--json", before=FAIL)
    assert again.code == FAILED
    assert "out of order" in again.json["trace"]
    mended = sweep(tmp_path, *command[1:])
    assert (mended.code, mended.out) == (DONE, "done\n")


def test_what_failed_is_told_with_what_to_do(tmp_path):
    answer = sweep(tmp_path, "run", "-", "--data", "my data", text=SMALL, before=FAIL)
    (known,) = [one["id"] for one in sweep(tmp_path, "list", "--data", "my data", "--json").json]
    assert answer.code == FAILED
    assert answer.out.startswith("incomplete: 24 runs: 20 done, 4 failed\n")
    assert "the first error: RuntimeError: out of order" in answer.out
    assert f"{tmp_path}/my data/sweeps/{known}.failures" in answer.out
    commands = [shlex.split(line) for line in answer.out.splitlines() if line.startswith("    sweep ")]
    assert [command[1] for command in commands] == ["rerun", "retry"]
    shown = sweep(tmp_path, "show", known, "--data", "my data").out
    assert "4 failed runs" in shown
    assert shown.count("    sweep rerun") == 2
    assert "None" not in shown
    assert "…" not in shown  # all are there
    rerun, retry = commands
    assert sweep(tmp_path, *rerun[1:]).code == DONE
    mended = sweep(tmp_path, *retry[1:])
    assert mended.code == DONE
    assert mended.out.startswith("completed: 24 runs: 24 done\n")
    assert sweep(tmp_path, "show", known, "--data", "my data", "--json").json["failures"] == []


def test_people_are_shown_a_few_failures_and_programs_all(tmp_path):
    fail = FAIL.replace('options["seed"] == 1', "True")
    some = {**SMALL, "simulate": False, "seeds": 4}  # 8 theories at 16 places
    known = sweep(tmp_path, "run", "-", "--json", text=some, before=fail).json["id"]
    shown = sweep(tmp_path, "show", known).out
    assert shown.count("    sweep rerun") == FEW_FAILURES
    assert f"… all of them in {tmp_path}/sweep-data/sweeps/{known}.failures" in shown
    assert len(sweep(tmp_path, "show", known, "--json").json["failures"]) == 8


def in_ledger(folder, statement, *values):
    with closing(sqlite3.connect(Path(folder) / "ledger.sqlite")) as ledger, ledger:
        ledger.execute(statement, values)


def test_a_sweep_that_could_not_go_on_says_why(tmp_path):
    known = sweep(tmp_path, "run", "-", "--json", text=SMALL).json["id"]
    in_ledger(tmp_path / "sweep-data", "UPDATE sweeps SET state = 'failed', reason = 'its keys are damaged'")
    shutil.rmtree(tmp_path / "sweep-data" / "sweeps" / f"{known}.zarr")
    answer = sweep(tmp_path, "run", "-", text=SMALL)
    assert answer.code == FAILED
    assert answer.out.startswith("failed: its keys are damaged\n")
    shown = sweep(tmp_path, "show", known)
    assert shown.code == DONE
    assert "failed: its keys are damaged" in shown.out


@pytest.mark.slow
def test_an_extension_with_failed_runs_says_so(tmp_path):
    known = sweep(tmp_path, "run", "-", "--json", text=SMALL).json["id"]
    answer = sweep(tmp_path, "extend", known, "-", "--json", text={"axes": {"gamma": [0.9]}}, before=FAIL)
    assert answer.json["state"] == "incomplete"
    assert answer.json["extends"] == known
    assert answer.code == FAILED


def test_the_doctor_measures_and_finds_lost_sweeps(tmp_path):
    known = sweep(tmp_path, "run", "-", "--json", text=SMALL).json["id"]
    for path in (tmp_path / "sweep-data").glob("ledger.sqlite*"):
        path.unlink()
    assert sweep(tmp_path, "list", "--json").json == []
    found = sweep(tmp_path, "doctor", "--rebuild", "--json").json
    assert found["adopted"] == [known]
    assert all(factor > 0 for factor in found["calibration"].values())
    assert json.loads((tmp_path / "sweep-data" / "calibration.json").read_text()) == found["calibration"]
    assert sweep(tmp_path, "list", "--json").json[0]["state"] == "completed"
    assert sweep(tmp_path, "run", "-", "--json", text=SMALL).json["id"] == known


# ---- exit codes 2 and 3


@pytest.mark.slow
def test_a_sweep_is_named_by_the_beginning_of_its_id_only(tmp_path):
    first = sweep(tmp_path, "run", "-", "--json", text=SMALL).json["id"]
    sweep(tmp_path, "run", "-", text={**SMALL, "seeds": 1})
    assert_refused(sweep(tmp_path, "show", first[:4]), "2 sweeps begin with")
    assert_refused(sweep(tmp_path, "show", "nope"), "no sweep begins with 'nope'")
    for path in ("../../x", "/", "."):
        assert_refused(sweep(tmp_path, "rm", path), "no sweep")
    assert len(sweep(tmp_path, "list", "--json").json) == 2
    sweep(tmp_path, "rm", first)
    assert_refused(sweep(tmp_path, "rm", ""), "")  # the only one, but not named
    assert len(sweep(tmp_path, "list", "--json").json) == 1


def test_a_wrong_command_line_is_usage(tmp_path):
    for argv in (["frobnicate"], ["run"], ["run", "-", "--bogus"], ["show"]):
        answer = sweep(tmp_path, *argv)
        assert (answer.code, answer.out) == (REFUSED, "")
        assert "Traceback" not in answer.err
    assert trace_of(tmp_path) == []


def test_a_cancelled_sweep_is_not_reported_as_done(tmp_path):
    child = nursery().start(tmp_path, "run", "-", "--json", text=LONG)
    begun(tmp_path)
    child.kill(signal.SIGINT)
    assert child.wait().code == INTERRUPTED
    known = sweep(tmp_path, "list", "--json").json[0]["id"]
    assert sweep(tmp_path, "cancel", known, "--json").json["state"] == "cancelled"
    assert not list(tmp_path.rglob("*.checkpoint"))
    answer = sweep(tmp_path, "run", "-", text=LONG)
    assert answer.code == INTERRUPTED
    assert answer.out.startswith("cancelled: 1 run: 1 cancelled\n")
    assert f"go on:\n    sweep retry {known}" in answer.out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_an_interrupted_run_is_paused_and_says_how_to_go_on(tmp_path, number, as_json):
    child = nursery().start(tmp_path, "run", "-", *["--json"] * as_json, text=LONG)
    begun(tmp_path)
    child.kill(number)
    answer = child.wait()
    assert answer.code == INTERRUPTED
    assert "Traceback" not in answer.err
    if as_json:
        assert answer.json["state"] == "paused"
        assert answer.err == ""
    else:
        assert "interrupted: the same command goes on from here" in answer.err
    assert sweep(tmp_path, "list", "--json").json[0]["state"] == "paused"


@pytest.mark.slow
def test_an_interrupted_run_goes_on_by_its_spec_or_its_id(tmp_path):
    for argv in (["run", "-"], ["retry", "2"]):
        child = nursery().start(tmp_path, "run", "-", text=LONG)
        begun(tmp_path)
        child.kill(signal.SIGINT)
        assert child.wait().code == INTERRUPTED
        assert sweep(tmp_path, *argv, "--json", text=LONG).json["state"] == "completed"
        assert sweep(tmp_path, "rm", "2").code == DONE


WAIT = """
import os, time
def wait(*_, **__):
    open("busy", "w").close()
    time.sleep(60)
    os._exit(99)
"""
PLACES = {
    "run": "import sweep_service.grids as g\ng.Grid.points = property(wait)",
    "estimate": "import sweep_service.submission as s\ns.Submission.look = wait",
    "doctor": "import sweep_service.doctor as d\nd.measure = wait",
    "list": "import sweep_service.store.folder as f\nf.DataFolder.has_ledger = wait",
}


@pytest.mark.parametrize("name", PLACES)
def test_what_computes_nothing_ends_at_once(tmp_path, name):
    child = nursery().start(tmp_path, *COMMANDS[name], text=INPUT.get(name, ""), before=WAIT + PLACES[name])
    until((tmp_path / "busy").exists)
    child.kill(signal.SIGINT)
    answer = child.wait()
    assert (answer.code, answer.out) == (INTERRUPTED, "")
    assert answer.err == "sweep: interrupted: the same command begins again\n"
    assert trace_of(tmp_path) == ["busy", *["sweep-data"] * (name == "doctor")]


def test_a_second_interrupt_ends_the_process(tmp_path):
    before = WAIT + "import sweep_service.conductor as c\nc.Conductor.pause = wait"
    child = nursery().start(tmp_path, "run", "-", text=LONG, before=before)
    begun(tmp_path)
    child.kill(signal.SIGINT)
    until((tmp_path / "busy").exists)
    child.kill(signal.SIGINT)
    assert child.wait().code == INTERRUPTED


# ---- the bar


class Slowly:
    """A conductor whose sweep of 1000 predicted seconds has 400 behind it, and merges 100 each minute."""

    executor = None

    def __init__(self, now):
        self.now, self.done, self.ledger, self.seen = now, 400.0, self, []

    def totals(self, _):
        return {"cost_done": self.done, "cost_left": 1000.0 - self.done, "counts": {"done": int(self.done)}}

    def run(self, sweep, watch):
        one = Sweep("id", "", "slow", State.RUNNING, "", "", None, "", 1000, 0)
        for _ in range(3):
            self.now[0] += 60.0
            self.done += 100.0
            watch(one)
            task = self.bar.tasks[0]
            self.seen.append((task.percentage, task.time_remaining, task.fields["speed"]))
        self.now[0] += 1.0
        watch(one)
        self.seen.append((task.percentage, task.time_remaining, task.fields["speed"]))
        return one


def test_the_bar_goes_on_where_a_sweep_was_and_knows_long_bundles(monkeypatch):
    import rich.console
    import rich.progress

    now = [0.0]
    slowly = Slowly(now)
    plain = rich.progress.Progress.add_task

    def add_task(bar, *arguments, **options):
        slowly.bar = bar
        found = plain(bar, *arguments, **options)
        slowly.began = bar.tasks[0].percentage
        return found

    monkeypatch.setattr(rich.console, "monotonic", lambda: now[0])
    monkeypatch.setattr(rich.progress.Progress, "add_task", add_task)
    one = Sweep("id", "", "slow", State.RUNNING, "", "", None, "", 1000, 0)
    cli._watched(slowly, one, quiet=True)
    assert slowly.began == 40.0
    assert [seen[0] for seen in slowly.seen] == [50.0, 60.0, 70.0, 70.0]
    assert slowly.seen[-1] == (70.0, 180, "1.7 core-s/s")  # 300 seconds of work at 100 a minute


@pytest.mark.slow
def test_an_interrupted_extension_says_so_in_json(tmp_path):
    short = {**LONG, "time": {"max": 1e-3, "samples": 2}}
    known = sweep(tmp_path, "run", "-", "--json", text=short).json["id"]
    slow = "import sweep_service.task as t\nplain = t.compute\nimport time\n"
    slow += "t.compute = lambda *a: (open('busy', 'w').close(), time.sleep(0.5), plain(*a))[2]\n"
    change = {"axes": {"gamma": [0.01]}}
    child = nursery().start(tmp_path, "extend", known, "-", "--json", text=change, before=slow)
    until((tmp_path / "busy").exists)
    child.kill(signal.SIGINT)
    answer = child.wait()
    assert answer.code == INTERRUPTED
    assert (answer.json["state"], answer.json["extends"]) == ("paused", known)


def test_a_second_process_is_told_that_the_folder_is_in_use(tmp_path):
    child = nursery().start(tmp_path, "run", "-", "--json", text=LONG)
    try:
        begun(tmp_path)
        assert_refused(sweep(tmp_path, "run", "-", text=SMALL), f"in use by process {child.pid}")
        assert_refused(sweep(tmp_path, "cancel", "2"), "in use")
        (one,) = sweep(tmp_path, "list", "--json").json  # readers are not kept out
        assert sweep(tmp_path, "show", one["id"], "--json").json["state"] in ("queued", "running")
        assert sweep(tmp_path, "export", one["id"], "out.csv").code == DONE
    finally:
        child.kill()
        child.wait()
    assert sweep(tmp_path, "run", "-", text=SMALL, before="import sweep_service.conductor").code == DONE


def test_a_data_folder_that_cannot_be_one_is_refused(tmp_path):
    (tmp_path / "file").write_text("mine")
    assert_refused(sweep(tmp_path, "run", "-", "--data", "file", text=SMALL), "file")
    assert_refused(sweep(tmp_path, "run", "-", "--data", "s3://bucket/sweeps", text=SMALL), "s3")
    assert trace_of(tmp_path) == ["file"]


def bad(**change):
    return json.dumps({**SMALL, **change})


def bad_axis(**change):
    return bad(axes={**SMALL["axes"], **change})


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]\n" for n in range(12)
)
BAD = {
    "an unknown key": (bad(axs={}), "axs", "axes"),
    "an unknown axis": (bad_axis(gama=1.0), "gama", "gamma"),
    "an unknown regime": (bad_axis(regime="clasical"), "clasical", "classical"),
    "a negative gamma": (bad_axis(gamma=-0.1), "gamma = -0.1"),
    "d = 0": (bad_axis(d=0), "d = 0"),
    "an empty axis": (bad_axis(gamma=[]), "axes.gamma", "0 values"),
    "a value twice": (bad_axis(gamma=[0.1, 0.1]), "axes.gamma"),
    "NaN": (bad_axis(gamma=float("nan")), "axes.gamma = nan"),
    "infinity": (bad_axis(gamma=[1.0, float("inf")]), "axes.gamma = inf"),
    "a billion points": (
        bad_axis(**{name: {"lin": [100, 9e4, 1000]} for name in ("d", "p", "gamma")}), "1000000000 points"
    ),
    "ten billion runs": (bad(seeds={"init": 100_000, "repeat": 100_000}), "runs"),
    "steps without end": (bad_axis(gamma=1e-320), ""),
    "a million core hours": (bad(time={"max": 1e12, "samples": 3}), "core_hours"),
    "no time": (json.dumps({name: value for name, value in SMALL.items() if name != "time"}), "time"),
    "a name without end": (bad(name="x" * 1000), "name"),
    "a bomb": (BOMB, "alias"),
    "nesting without end": ("[" * 100_000, "neither JSON nor YAML"),
    "neither JSON nor YAML": ("{]", "neither JSON nor YAML"),
    "nothing": ("", "must be a mapping"),
    "a list": ("[1, 2]", "must be a mapping"),
    "100 MB": (" " * 100_000_000, f"at most {LARGEST_SPEC}"),
}  # fmt: skip


@pytest.mark.parametrize("command", ["run", pytest.param("estimate", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", BAD)
def test_a_bad_spec_is_refused_and_leaves_no_trace(tmp_path, name, command):
    if command == "estimate" and name in ("a million core hours", "steps without end"):
        pytest.skip("an estimate may tell")
    text, *words = BAD[name]
    limit = "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (20, 20))"  # none may take long
    answer = sweep(tmp_path, command, "-", "--json", text=text, before=limit)
    assert_refused(answer, *words)
    assert trace_of(tmp_path) == []


@pytest.mark.parametrize("name", ["a negative gamma", "a million core hours", "ten billion runs"])
def test_a_bad_spec_leaves_no_trace_in_a_folder_that_is_there(tmp_path, name):
    (tmp_path / "sweep-data").mkdir()
    assert_refused(sweep(tmp_path, "run", "-", text=BAD[name][0]), *BAD[name][1:])
    assert list((tmp_path / "sweep-data").iterdir()) == []


def test_an_endless_cost_is_still_json(tmp_path):
    answer = sweep(tmp_path, "estimate", "-", "--json", text=bad_axis(gamma=1e-320))
    assert answer.code in (DONE, REFUSED)
    if answer.code == DONE:
        assert answer.json["points"] == 2


def test_a_name_like_a_path_stays_a_name(tmp_path):
    name = "../../../outside\n\x1b[31m"
    answer = sweep(tmp_path, "run", "-", "--json", text=bad(name=name))
    assert answer.code in (DONE, REFUSED)
    assert set(trace_of(tmp_path)) <= {"sweep-data"}
    assert not (tmp_path.parent / "outside").exists()
    if answer.code == DONE:
        assert len(sweep(tmp_path, "list").out.splitlines()) == 1


def test_a_bad_change_is_refused_and_adds_no_sweep(filled):
    cwd, known = filled
    for text, word in (
        ("{}", ""), ('{"time": {"max": 3}}', "time"), ('{"axes": {"gamma": [-1]}}', "gamma"),
        ('{"axes": {"gamma": []}}', "gamma"), ("[]", "change"),
    ):  # fmt: skip
        answer = sweep(cwd, "extend", known, "-", text=text)
        if text != "{}":
            assert_refused(answer, word)
        assert len(sweep(cwd, "list", "--json").json) == 1


# ---- how good an estimate is


RANDOM = 5


def random_spec(seed):
    """Around ten seconds of work somewhere in the plane that sweeps are made for."""
    rng = np.random.default_rng(seed)
    d, p = int(rng.integers(5, 300)), int(rng.integers(2, 40))
    gamma = float(np.round(10.0 ** rng.uniform(-1.5, 0.0), 3))
    regimes = rng.choice(["classical_noise", "high_dimensional", "mean_field", "classical"], 2, replace=False)
    steps = 2e6 / (1 + p * d / 300)
    return {
        "axes": {"d": [d, 2 * d], "p": p, "gamma": [gamma, 2 * gamma], "regime": regimes.tolist()},
        "fixed": {"k": 2, "noise": 1e-3},
        "init": {"kind": "gaussian", "orthonormal_teacher": True},
        "seeds": {"init": int(rng.integers(1, 5)), "repeat": int(rng.integers(1, 5))},
        "time": {"max": float(f"{steps * gamma / (p * d):.3g}"), "samples": 40},
    }


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("wanted", [*PRESETS, *range(RANDOM)])
def test_an_estimate_is_within_a_factor_of_two_after_the_doctor(tmp_path, wanted):
    """Of what the runs report themselves, as the machine is shared."""
    text = preset_text(wanted) if isinstance(wanted, str) else random_spec(wanted)
    assert sweep(tmp_path, "doctor", "--json").code == DONE
    predicted = sweep(tmp_path, "estimate", "-", "--json", text=text).json["core_seconds"]
    about = sweep(tmp_path, "run", "-", "--json", text=text).json
    measured = about["seconds"]
    print(
        f"{wanted}: measured {measured:.2f} s, predicted {predicted:.2f} s, ratio {measured / predicted:.2f}"
    )
    assert 0.5 < measured / predicted < 2.0
