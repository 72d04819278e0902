"""Compiled kernels: one cache for each state of their sources, the same bits compiled and loaded, and work
without the time to compile."""

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numba
import pytest

import sweep_service
from sweep_service.numerics.jit import working_time

PACKAGE = Path(sweep_service.__file__).parent
PRINT_FOLDER = "from sweep_service.numerics.jit import cache_folder; print(cache_folder())"


def run(root: Path, code: str, **environment: str) -> str:
    """The output of code with the package found in root."""
    inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    command = [sys.executable, "-c", code]
    env = {**inherited, "PYTHONDONTWRITEBYTECODE": "1", **environment}
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def copy(tmp_path):
    """A copy of the package; python -c finds it before the installed one."""
    shutil.copytree(PACKAGE, tmp_path / "sweep_service", ignore=shutil.ignore_patterns("__pycache__"))
    found = run(tmp_path, "import sweep_service; print(sweep_service.__file__)")
    assert Path(found).is_relative_to(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "module",
    [
        "model/closed_forms.py",
        "numerics/simd.py",  # intrinsics, which have no decorator of ours
        "numerics/vector_math.py",
        "simulators/step_loop.py",
        "dynamics/compiled_overlap_flow.py",
        "analysis/quantities/interpolation.py",
    ],
)
def test_an_edited_kernel_starts_a_fresh_cache(copy, module):
    before = run(copy, PRINT_FOLDER)
    assert run(copy, PRINT_FOLDER) == before
    source = copy / "sweep_service" / module
    source.write_text(source.read_text("utf-8") + "\n# edited\n", "utf-8")
    assert run(copy, PRINT_FOLDER) != before


def test_another_edit_keeps_the_cache(copy):
    before = run(copy, PRINT_FOLDER)
    source = copy / "sweep_service" / "errors.py"
    source.write_text(source.read_text("utf-8") + "\n# edited\n", "utf-8")
    assert run(copy, PRINT_FOLDER) == before


def test_the_folder_can_be_chosen_and_is_used(tmp_path):
    code = (
        "import numpy as np, numba\n"
        "before = numba.config.CACHE_DIR\n"
        "from sweep_service.model.closed_forms import value_pair\n"
        "assert numba.config.CACHE_DIR == before, 'the setting of other users of numba changed'\n"
        "print(value_pair(1, 2.0, 3.0, 0.5))"
    )
    cache = tmp_path / "kernels"
    assert float(run(PACKAGE.parent, code, SWEEP_KERNEL_CACHE=str(cache))) == 2.0 * 3.0 + 2.0 * 0.5**2
    folder = run(PACKAGE.parent, PRINT_FOLDER, SWEEP_KERNEL_CACHE=str(cache))
    assert Path(folder).parent == cache
    assert list(Path(folder).rglob("*value_pair*.nbi"))


def test_the_default_is_the_users_cache(tmp_path):
    folder = run(PACKAGE.parent, PRINT_FOLDER, XDG_CACHE_HOME=str(tmp_path))
    assert Path(folder).parent == tmp_path / "sweep-service" / "kernels"


def test_a_home_that_cannot_be_written_is_no_obstacle(tmp_path):
    home = tmp_path / "home"
    home.write_text("a file, in which even root can make no folder")
    folder = Path(run(PACKAGE.parent, PRINT_FOLDER, HOME=str(home)))
    assert folder.is_relative_to(tempfile.gettempdir())
    assert not folder.is_relative_to(home)


# Bits

HASHES = """
import hashlib, sys
import numpy as np
import sweep_service as ss

def bits(way, name, **changes):
    point = {"d": 20, "p": 4, "k": 2, "gamma": 0.5, "noise": 1e-3, **changes}
    how = {"times": np.geomspace(0.5, 20.0, 8), "seed": 0}
    call = ss.integrate if way == "regime" else ss.simulate
    found = call(point, **{way: name}, **how)
    digest = hashlib.sha256(found["risk"].values.tobytes()).hexdigest()[:12]
    print(way, name, *changes.values(), digest)
"""
NARROW = HASHES + 'bits("regime", "high_dimensional")\n'
BROAD = (
    HASHES
    + """
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.simulators.selection import SIMULATORS

cases = [("regime", name, {"activation": one}) for one in ("erf", "square", "relu") for name in REGIMES]
cases += [("engine", name, {"activation": one}) for one in ("erf", "square", "tanh") for name in SIMULATORS]
cases = [case for case in cases if case[1] not in ("mean_field_projected", "S4")]
cases.append(("regime", "mean_field_projected", {"init": {"kind": "informed"}}))
cases.append(("engine", "S4", {"activation": "square"}))
cases.append(("regime", "mean_field", {"p": 150, "k": 1}))  # by nodes
cases.append(("regime", "high_dimensional", {"teacher_activation": "tanh"}))  # tilted, by Mehler's series
"""
)
FORWARD = BROAD + "for way, name, changes in cases: bits(way, name, **changes)\n"
BACKWARD = BROAD + "for way, name, changes in reversed(cases): bits(way, name, **changes)\n"
# What this process compiled must hold no functions with relaxed arithmetic that another copy can replace:
# their bits may agree today by luck.
SHARED = r"""
import re
from numba.core.dispatcher import Dispatcher

relaxed = re.compile(r" f(add|sub|mul|div|neg) ([a-z]+ )*(reassoc|contract|arcp|fast) ")
modules = [module for name, module in sys.modules.items() if name.startswith("sweep_service")]
kernels = {one for module in modules for one in vars(module).values() if isinstance(one, Dispatcher)}
compiled = [(one.__name__, result.library) for one in kernels for result in one.overloads.values()]
defined = [(name, one) for name, library in compiled for one in library.get_defined_functions()]
assert any(relaxed.search(str(one)) for _, one in defined), "nothing was compiled here"
for name, one in defined:
    if one.linkage.name.startswith(("linkonce", "weak")) and relaxed.search(str(one)):
        print("shared", name, one.name)
"""


@pytest.mark.slow
def test_bits_are_the_same_compiled_and_loaded(tmp_path):
    compiled = run(PACKAGE.parent, NARROW + SHARED, SWEEP_KERNEL_CACHE=str(tmp_path)).splitlines()
    loaded = run(PACKAGE.parent, NARROW, SWEEP_KERNEL_CACHE=str(tmp_path)).splitlines()
    assert compiled[0].startswith("regime high_dimensional")
    assert compiled[0] == loaded[0]
    assert compiled[1:] == []


@pytest.mark.slow
def test_bits_depend_neither_on_the_cache_nor_on_the_order_of_compiling(tmp_path):
    here, there = str(tmp_path / "here"), str(tmp_path / "there")
    compiled = run(PACKAGE.parent, FORWARD + SHARED, SWEEP_KERNEL_CACHE=here).splitlines()
    assert not [line for line in compiled if line.startswith("shared")]
    loaded = run(PACKAGE.parent, FORWARD, SWEEP_KERNEL_CACHE=here).splitlines()
    otherwise = run(PACKAGE.parent, BACKWARD, SWEEP_KERNEL_CACHE=there).splitlines()
    assert len(compiled) > 30
    assert compiled == loaded == otherwise[::-1]


# Work


def compile_something():
    """A function that nobody has compiled before, nor kept in a cache."""

    @numba.njit
    def total(n):
        found = 0.0
        for i in range(n):
            for j in range(i):
                found += (i - j) ** 0.5
        return found

    total(2)


def spent(call):
    """Processor seconds of this thread, and those of its work."""
    thread, work = time.thread_time(), working_time()
    call()
    return time.thread_time() - thread, working_time() - work


def test_compiling_is_no_work():
    thread, work = spent(compile_something)
    assert 0 <= work < 0.5 * thread  # measured 0.2 %


def test_what_is_not_compiling_is_work():
    thread, work = spent(lambda: (compile_something(), sum(range(2_000_000))))
    alone, _ = spent(lambda: sum(range(2_000_000)))
    assert 0.3 * alone < work < thread  # noise of the machine apart, they are the same


def test_sleeping_is_no_work():
    _, work = spent(lambda: time.sleep(0.1))
    assert work < 0.05


def test_another_threads_compiling_changes_nothing_here():
    theirs = []
    other = threading.Thread(target=lambda: theirs.extend(spent(compile_something)))

    def wait():
        other.start()
        other.join()

    thread, work = spent(wait)
    assert abs(work - thread) < 0.1 * theirs[0]  # neither theirs is taken from ours, nor added
    assert theirs[1] < 0.5 * theirs[0]
