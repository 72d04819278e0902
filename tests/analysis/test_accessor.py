"""`ds.sweep` is registered in any import order and has every definition and view."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import sweep_service  # noqa: F401  registers it
from sweep_service.analysis.accessor import METHODS
from sweep_service.analysis.view_plots import PLOTS
from sweep_service.analysis.views import VIEWS
from tests.analysis.synthetic import make_dataset
from tests.stored import compute_dataset

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
def test_accessor_is_registered_in_any_import_order(imports):
    assert "final_risk" in run(f"{imports}\nprint(xarray.Dataset().sweep)")


def test_registration_does_not_import_xarray():
    code = "import sys, sweep_service, json, pathlib\nprint('xarray' in sys.modules, 'numpy' in sys.modules)"
    assert run(code).split() == ["False", "False"]


def test_accessor_has_the_documented_methods():
    assert set(CONTRACT) <= set(METHODS)
    assert list(PLOTS) == list(VIEWS)
    assert {f"plot_{name.replace('-', '_')}" for name in VIEWS} <= set(METHODS)
    text = PAGE.read_text("utf-8")
    assert [name for name in METHODS if not re.search(rf"`\.{name}\b", text)] == []


def test_methods_call_the_functions():
    dataset = make_dataset(flat, {"d": [5, 10]}, seeds=2)
    for name in ("final_risk", "plateaus", "bounded"):
        if name == "bounded":
            dataset = dataset.assign(sgd_largest_norm=dataset["sgd_risk"])
        method = getattr(dataset.sweep, name)
        assert method().identical(METHODS[name](dataset))
        assert method.__doc__ == METHODS[name].__doc__
        assert "dataset" not in inspect.signature(method).parameters
    assert np.allclose(dataset.sel(d=[5]).sweep.final_risk()["final_risk"], 0.1)


GRID = {
    "axes": {"d": [10, 20, 40], "p": 4, "gamma": [0.2, 0.5], "regime": ["classical", "high_dimensional"]},
    "fixed": {"k": 2, "noise": 1e-2},
    "init": {"kind": "informed", "shared": True},
    "seeds": {"init": 1, "repeat": 3},
    "time": {"max": 5.0, "samples": 20},
    "fluctuations": True,
}
OTHER = {**GRID, "fluctuations": False}
TRIANGLE = {**OTHER, "axes": {"regime": "classical"}, "triangle": {"delta_t": 0.01, "resolution": 2}}
SCALING = {
    **OTHER,
    "axes": {"d": [10, 20, 40], "kappa": 0.0, "delta": [0.0, 0.5], "regime": "classical"},
    "scaling": {"p0": 4, "gamma0": 1},
}
TARGET = {
    **OTHER,
    "axes": {"d": 10, "p": 4, "gamma": [0.2, 0.5]},
    "seeds": 5,
    "target_error": {"value": "risk", "relative": 0.2, "max_seeds": 8},
}
ONE = {"gamma": [0.2], "regime": ["classical"]}
# Arguments and sweep of each method; the others are called without arguments on the grid.
CALLS = {
    "phase_diagram": ("grid", {}, {"x": "gamma", "y": "d", "value": "discrepancy", "regime": "classical"}),
    "triangle": ("triangle", {}, {"value": "relative_discrepancy"}),
    "exponent": ("grid", {}, {"of": "discrepancy", "along": "delta_t", "b": "classical"}),
    "collapse": ("grid", ONE, {}),
    "scaling_phase": ("scaling", {}, {}),
    "time_to": ("grid", {}, {"risk": 0.05}),
    "validity": ("grid", {}, {"regime": "classical"}),
    "target_estimates": ("target", {}, {}),
    "plot_curves": ("grid", ONE, {}),
    "plot_phase_diagram": ("grid", {}, {"x": "gamma", "y": "d", "value": "sgd_phase"}),
    "plot_triangle": ("triangle", {}, {"value": "discrepancy"}),
    "plot_plane": ("scaling", {}, {}),
    "plot_rates": ("grid", {}, {"b": "classical"}),
    "plot_collapse": ("grid", ONE, {}),
    "plot_cosines": ("grid", {**ONE, "d": [10]}, {}),
    "plot_histograms": ("grid", {**ONE, "d": [10]}, {"time": "0,5"}),
}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    specs = {"grid": GRID, "triangle": TRIANGLE, "scaling": SCALING, "target": TARGET}
    return {name: compute_dataset(tmp_path_factory.mktemp(name), spec) for name, spec in specs.items()}


def test_export_of_datasets_opened_in_every_way(stored, tmp_path):
    dataset = stored["grid"].sel(d=[10])
    for name, opened in (("plain", dataset), ("lazy", dataset.chunk())):
        opened.sweep.export(str(tmp_path / f"{name}.csv"))
    assert (tmp_path / "plain.csv").read_text() == (tmp_path / "lazy.csv").read_text() != ""


@pytest.mark.parametrize("name", [name for name in METHODS if name != "export"])
def test_every_method_on_datasets_opened_in_every_way(stored, name):
    """Dask arrays, as `xr.open_zarr` makes them by default, give the same results as plain ones."""
    which, part, options = CALLS.get(name, ("grid", {}, {}))
    dataset = stored[which].sel(part)
    result, lazy = (getattr(opened.sweep, name)(**options) for opened in (dataset, dataset.chunk()))
    if name.startswith("plot_"):
        assert result.axes
        assert lazy.axes
    else:
        xr.testing.assert_identical(lazy, result)
