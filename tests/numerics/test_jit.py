"""Compiled kernels: a cache per state of the sources, equal bits compiled and loaded, and work time without
compilation."""

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
from sweep_service.numerics.jit import thread_work_seconds

PACKAGE = Path(sweep_service.__file__).parent
PRINT_FOLDER = "from sweep_service.numerics.jit import cache_folder; print(cache_folder())"


def run(root: Path, code: str, **environment: str) -> str:
    """Output of code that imports the package from `root`."""
    inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    command = [sys.executable, "-c", code]
    env = {**inherited, "PYTHONDONTWRITEBYTECODE": "1", **environment}
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def copy(tmp_path):
    """A copy of the package, which `python -c` imports instead of the installed one."""
    shutil.copytree(PACKAGE, tmp_path / "sweep_service", ignore=shutil.ignore_patterns("__pycache__"))
    file = run(tmp_path, "import sweep_service; print(sweep_service.__file__)")
    assert Path(file).is_relative_to(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "module",
    [
        "model/averages/closed_forms.py",
        "numerics/simd.py",  # intrinsics, which are not decorated by `kernel`
        "numerics/vector_math.py",
        "simulators/step_loop.py",
        "dynamics/compiled_overlap_flow.py",
        "analysis/quantities/interpolation.py",
    ],
)
def test_editing_kernel_starts_new_cache(copy, module):
    before = run(copy, PRINT_FOLDER)
    assert run(copy, PRINT_FOLDER) == before
    source = copy / "sweep_service" / module
    source.write_text(source.read_text("utf-8") + "\n# edited\n", "utf-8")
    assert run(copy, PRINT_FOLDER) != before


def test_editing_other_code_keeps_cache(copy):
    before = run(copy, PRINT_FOLDER)
    source = copy / "sweep_service" / "errors.py"
    source.write_text(source.read_text("utf-8") + "\n# edited\n", "utf-8")
    assert run(copy, PRINT_FOLDER) == before


def test_cache_folder_can_be_set(tmp_path):
    code = (
        "import numpy as np, numba\n"
        "before = numba.config.CACHE_DIR\n"
        "from sweep_service.model.averages.closed_forms import value_pair\n"
        "assert numba.config.CACHE_DIR == before, 'the setting of other users of numba changed'\n"
        "print(value_pair(1, 2.0, 3.0, 0.5))"
    )
    cache = tmp_path / "kernels"
    assert float(run(PACKAGE.parent, code, SWEEP_KERNEL_CACHE=str(cache))) == 2.0 * 3.0 + 2.0 * 0.5**2
    folder = run(PACKAGE.parent, PRINT_FOLDER, SWEEP_KERNEL_CACHE=str(cache))
    assert Path(folder).parent == cache
    assert list(Path(folder).rglob("*value_pair*.nbi"))


def test_default_is_user_cache(tmp_path):
    folder = run(PACKAGE.parent, PRINT_FOLDER, XDG_CACHE_HOME=str(tmp_path))
    assert Path(folder).parent == tmp_path / "sweep-service" / "kernels"


def test_read_only_home_uses_temporary_folder(tmp_path):
    home = tmp_path / "home"
    home.write_text("a file, in which even root can make no folder")
    folder = Path(run(PACKAGE.parent, PRINT_FOLDER, HOME=str(home)))
    assert folder.is_relative_to(tempfile.gettempdir())
    assert not folder.is_relative_to(home)


# Bits

DEFINITIONS = """
import hashlib, sys
import numpy as np
import sweep_service as ss

def print_digest(option, name, **changes):
    point = {"d": 20, "p": 4, "k": 2, "gamma": 0.5, "noise": 1e-3, **changes}
    arguments = {"times": np.geomspace(0.5, 20.0, 8), "seed": 0}
    call = ss.integrate if option == "regime" else ss.simulate
    result = call(point, **{option: name}, **arguments)
    digest = hashlib.sha256(result["risk"].values.tobytes()).hexdigest()[:12]
    print(option, name, *changes.values(), digest)
"""
ONE_REGIME = DEFINITIONS + 'print_digest("regime", "high_dimensional")\n'
ALL_CASES = (
    DEFINITIONS
    + """
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.simulators.selection import SIMULATORS

cases = [("regime", name, {"activation": act}) for act in ("erf", "square", "relu") for name in REGIMES]
cases += [("engine", name, {"activation": act}) for act in ("erf", "square", "tanh") for name in SIMULATORS]
cases = [case for case in cases if case[1] not in ("mean_field_projected", "S4")]
cases.append(("regime", "mean_field_projected", {"init": {"kind": "informed"}}))
cases.append(("engine", "S4", {"activation": "square"}))
cases.append(("regime", "mean_field", {"p": 150, "k": 1}))  # by nodes
cases.append(("regime", "high_dimensional", {"teacher_activation": "tanh"}))  # tilted, by Mehler's series
"""
)
FORWARD = ALL_CASES + "for case in cases: print_digest(case[0], case[1], **case[2])\n"
BACKWARD = ALL_CASES + "for case in reversed(cases): print_digest(case[0], case[1], **case[2])\n"
# Compiled code must not contain functions with relaxed arithmetic that another copy may replace, even if
# their bits happen to agree.
PRINT_SHARED = r"""
import re
from numba.core.dispatcher import Dispatcher

relaxed = re.compile(r" f(add|sub|mul|div|neg) ([a-z]+ )*(reassoc|contract|arcp|fast) ")
modules = [module for name, module in sys.modules.items() if name.startswith("sweep_service")]
kernels = {value for module in modules for value in vars(module).values() if isinstance(value, Dispatcher)}
compiled = [(kernel.__name__, result.library) for kernel in kernels for result in kernel.overloads.values()]
defined = [(name, function) for name, library in compiled for function in library.get_defined_functions()]
assert any(relaxed.search(str(function)) for _, function in defined), "nothing was compiled"
for name, function in defined:
    if function.linkage.name.startswith(("linkonce", "weak")) and relaxed.search(str(function)):
        print("shared", name, function.name)
"""


@pytest.mark.slow
def test_compiled_and_loaded_kernels_give_same_bits(tmp_path):
    compiled = run(PACKAGE.parent, ONE_REGIME + PRINT_SHARED, SWEEP_KERNEL_CACHE=str(tmp_path)).splitlines()
    loaded = run(PACKAGE.parent, ONE_REGIME, SWEEP_KERNEL_CACHE=str(tmp_path)).splitlines()
    assert compiled[0].startswith("regime high_dimensional")
    assert compiled[0] == loaded[0]
    assert compiled[1:] == []


@pytest.mark.slow
def test_bits_do_not_depend_on_cache_or_compilation_order(tmp_path):
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    compiled = run(PACKAGE.parent, FORWARD + PRINT_SHARED, SWEEP_KERNEL_CACHE=first).splitlines()
    assert not [line for line in compiled if line.startswith("shared")]
    loaded = run(PACKAGE.parent, FORWARD, SWEEP_KERNEL_CACHE=first).splitlines()
    backward = run(PACKAGE.parent, BACKWARD, SWEEP_KERNEL_CACHE=second).splitlines()
    assert len(compiled) > 30
    assert compiled == loaded == backward[::-1]


# Work


def compile_something():
    """Compile a new function that is not in any cache."""

    @numba.njit
    def compute(n):
        total = 0.0
        for i in range(n):
            for j in range(i):
                total += (i - j) ** 0.5
        return total

    compute(2)


def measure(call):
    """Processor seconds and work seconds of this thread during a call."""
    thread, work = time.thread_time(), thread_work_seconds()
    call()
    return time.thread_time() - thread, thread_work_seconds() - work


def test_compilation_is_not_counted():
    thread, work = measure(compile_something)
    assert 0 <= work < 0.5 * thread  # measured 0.2 %


def test_computation_is_counted():
    thread, work = measure(lambda: (compile_something(), sum(range(2_000_000))))
    alone, _ = measure(lambda: sum(range(2_000_000)))
    assert 0.3 * alone < work < thread  # equal up to noise of the machine


def test_sleeping_is_not_counted():
    _, work = measure(lambda: time.sleep(0.1))
    assert work < 0.05


def test_compilation_in_other_threads_is_ignored():
    other_seconds = []
    other = threading.Thread(target=lambda: other_seconds.extend(measure(compile_something)))

    def wait():
        other.start()
        other.join()

    thread, work = measure(wait)
    assert (
        abs(work - thread) < 0.1 * other_seconds[0]
    )  # the other thread's time is neither added nor subtracted
    assert other_seconds[1] < 0.5 * other_seconds[0]
