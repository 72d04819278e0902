"""`ds.sweep`: there whatever is imported first, with every definition and every view."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sweep_service  # noqa: F401  registers it
from sweep_service.analysis.accessor import METHODS
from sweep_service.analysis.views import VIEWS
from tests.analysis.synthetic import made

CONTRACT = (
    "phase_diagram", "discrepancy", "final_risk", "plateaus", "specialisation_time", "phase", "bounded",
    "time_to", "noise_floor", "collapse", "triangle", "plot_curves", "plot_phase_diagram", "plot_triangle",
)  # fmt: skip
PAGE = Path(__file__).resolve().parents[2] / "docs" / "analysis.md"


def flat(time):
    return 0.1 + 0.0 * time


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    "imports",
    [
        "import sweep_service, xarray",
        "import xarray, sweep_service",
        "import xarray.core, sweep_service",
        "import sweep_service; from xarray import Dataset; import xarray",
        "import sweep_service, xarray; from importlib import reload; reload(sweep_service)",
    ],
)
def test_it_is_there_whatever_comes_first(imports):
    assert "final_risk" in run(f"{imports}\nprint(xarray.Dataset().sweep)")


def test_waiting_for_xarray_imports_nothing():
    code = "import sys, sweep_service, json, pathlib\nprint('xarray' in sys.modules, 'numpy' in sys.modules)"
    assert run(code).split() == ["False", "False"]


def test_it_has_what_was_promised():
    assert set(CONTRACT) <= set(METHODS)
    assert {f"plot_{name.replace('-', '_')}" for name in VIEWS} <= set(METHODS)
    text = PAGE.read_text("utf-8")
    assert [name for name in METHODS if not re.search(rf"`\.{name}\b", text)] == []


def test_methods_are_the_functions():
    dataset = made(flat, {"d": [5, 10]}, seeds=2)
    for name in ("final_risk", "plateaus", "bounded"):
        if name == "bounded":
            dataset = dataset.assign(sgd_largest_norm=dataset["sgd_risk"])
        method = getattr(dataset.sweep, name)
        assert method().identical(METHODS[name](dataset))
        assert method.__doc__ == METHODS[name].__doc__
        assert "dataset" not in inspect.signature(method).parameters
    assert np.allclose(dataset.sel(d=[5]).sweep.final_risk()["final_risk"], 0.1)
