"""Kernels are compiled once per machine, when they are needed, and a thread can follow it."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest
from numba.core import event

import sweep_service
from sweep_service.numerics.kernel_cache import NotCompiled, following_compilation, only_loading
from tests.new_kernels import SOURCE, import_kernels

PACKAGE = Path(sweep_service.__file__).parent


class Compilations(event.Listener):
    """The names of the functions that are compiled."""

    def __init__(self):
        self.names = []

    def on_start(self, event):
        self.names.append(event.data["dispatcher"].py_func.__name__)

    def on_end(self, event):
        pass


@pytest.fixture
def compiled():
    with event.install_listener("numba:compile", Compilations()) as listener:
        yield listener.names


@pytest.fixture
def make_kernels(tmp_path, monkeypatch):
    return lambda: import_kernels(tmp_path, monkeypatch)


def test_only_needed_kernels_are_compiled_and_only_once(make_kernels, compiled):
    assert make_kernels().outer(1.0) == 4.0
    assert sorted(compiled) == ["inner", "outer"]
    assert make_kernels().outer(1.0) == 4.0  # loaded
    assert sorted(compiled) == ["inner", "outer"]


def test_constants_need_no_versions_of_their_own(make_kernels, compiled):
    assert make_kernels().add_constants(5) == 6 + 7 + 7
    assert sorted(compiled) == ["add", "add_constants"]


def test_compilation_is_reported_when_it_happens(make_kernels):
    reports = []
    with following_compilation(reports.append):
        kernels = make_kernels()
        kernels.outer(1.0)
        assert reports == [True, False]
        kernels.outer(2.0)
        make_kernels().outer(1.0)
    assert reports == [True, False]
    kernels.inner(1)  # integers need a version of their own, but nobody follows
    assert reports == [True, False]


def test_kernels_can_be_loaded_without_compiling(make_kernels, compiled):
    with only_loading(), pytest.raises(NotCompiled):
        make_kernels().outer(1.0)
    assert compiled == []
    make_kernels().outer(1.0)
    with only_loading():
        assert make_kernels().outer(1.0) == 4.0
    assert sorted(compiled) == ["inner", "outer"]


def test_failed_compilation_releases_the_locks(make_kernels, tmp_path):
    reports = []
    with following_compilation(reports.append), pytest.raises(numba.TypingError):
        make_kernels().wrong(1.0)
    assert reports == [True, False]
    locks = list(tmp_path.rglob("*.lock"))
    assert {path.name.split(".")[-2] for path in locks} == {"wrong", "inner"}
    for path in locks:
        with open(path) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_read_only_cache_does_not_prevent_compiling(make_kernels, tmp_path, monkeypatch):
    (tmp_path / "kernels").write_text("a file, in which even root can make no folder")
    monkeypatch.setattr(numba.core.caching.FunctionCache, "save_overload", lambda *_: None)
    assert make_kernels().outer(1.0) == 4.0


COMPUTE = """
import sys, time
from pathlib import Path

from numba.core import event
from sweep_service.numerics.kernel_cache import following_compilation
import new_kernels_source as kernels

compiling, waiting = Path("compiling"), Path("waiting")
names, reports = [], []

def until_exists(path):
    deadline = time.monotonic() + 60.0
    while not path.exists():
        assert time.monotonic() < deadline, path
        time.sleep(0.01)

class Listener(event.Listener):
    def on_start(self, event):
        names.append(event.data["dispatcher"].py_func.__name__)
        if sys.argv[1] == "first":
            compiling.touch()
            until_exists(waiting)  # so that both processes need the kernel at the same time

    def on_end(self, event):
        pass

def report(is_compiling):
    reports.append(is_compiling)
    if sys.argv[1] == "second":
        waiting.touch()

event.register("numba:compile", Listener())
if sys.argv[1] == "second":
    until_exists(compiling)
with following_compilation(report):
    assert kernels.outer(1.0) == 4.0
print(*sorted(names), *reports)
"""


def test_processes_that_start_cold_compile_each_kernel_once(tmp_path):
    (tmp_path / "new_kernels_source.py").write_text(SOURCE)
    environment = {
        **os.environ, "SWEEP_KERNEL_CACHE": str(tmp_path / "cache"),
        "PYTHONPATH": f"{PACKAGE.parent}:{tmp_path}",
    }  # fmt: skip
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", COMPUTE, name],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("first", "second")
    ]
    outputs = [process.communicate(timeout=110)[0].split() for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert outputs == [["inner", "outer", "True", "False"], ["True", "False"]]
