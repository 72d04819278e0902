"""Values of phase diagrams and of the triangle from a stored sweep with fluctuations."""

import numpy as np
import pytest

from sweep_service.analysis.contents import describe_contents
from sweep_service.analysis.phase_diagram import diagram_to_json, phase_diagram
from sweep_service.analysis.point_values import available_values
from sweep_service.analysis.views import VIEWS
from sweep_service.errors import InvalidInput
from tests.stored import compute_dataset

VALUES = ("largest_z_score", "z_discrepancy", "validity")
SPEC = {
    "axes": {
        "d": [50, 200], "p": 2, "gamma": [0.2, 1.0], "regime": ["classical", "high_dimensional"]
    },
    "fixed": {"k": 2, "noise": 1e-2},
    "init": {"kind": "informed"},
    "seeds": {"init": 2, "repeat": 3},
    "time": {"min": 0.1, "max": 2.0, "samples": 12},
    "fluctuations": True,
}  # fmt: skip
TRIANGLE = {
    **SPEC,
    "axes": {"regime": ["classical", "high_dimensional"]},
    "init": {"kind": "gaussian"},
    "triangle": {"delta_t": 0.02, "resolution": 1, "d_min": 5, "p_min": 2, "gamma_max": 0.5},
}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    return compute_dataset(tmp_path_factory.mktemp("grid"), SPEC)


def test_diagram_of_largest_score(stored):
    """A mean over runs, without a regime; the standard error is over the seeds."""
    diagram = phase_diagram(stored, "gamma", "d", "largest_z_score")
    largest = stored.sweep.z_score()["largest"].squeeze("p", drop=True)
    np.testing.assert_allclose(diagram, largest.mean(["seed", "repeat"]), rtol=1e-12)
    error = largest.mean("repeat").std("seed", ddof=1) / np.sqrt(2)
    np.testing.assert_allclose(diagram["standard_error"], error, rtol=1e-9)
    assert (diagram["runs"] == 6).all()
    assert float(diagram.max()) < 4.0  # of some 10 independent times and 24 runs of N(0, 1): P = 1 %
    result = diagram_to_json(diagram)
    assert result["value"]["name"] == "largest_z_score"


@pytest.mark.parametrize("regime", SPEC["axes"]["regime"])
def test_diagrams_of_regimes(stored, regime):
    diagram = phase_diagram(stored, "gamma", "d", "z_discrepancy", regime=regime)
    expected = stored.sweep.discrepancy(b=regime, kind="z")["discrepancy"].squeeze("p", drop=True)
    np.testing.assert_allclose(diagram, expected, rtol=1e-12)
    labels = phase_diagram(stored, "gamma", "d", "validity", regime=regime)
    codes = stored.sweep.validity(regime)["overall"].squeeze("p", drop=True)
    meanings = codes.attrs["flag_meanings"].split()
    assert labels.values.tolist() == [[meanings[code] for code in row] for row in codes.values]


def test_small_steps_show_what_classical_lacks(stored):
    """At γ/p = 1/2 the sampling term is large, and the scatter falls with d."""
    values = phase_diagram(stored, "gamma", "d", "z_discrepancy", regime="classical").sel(gamma=1.0)
    assert values.sel(d=200) > 1.5 * values.sel(d=50)  # twice, if there were no scatter
    labels = phase_diagram(stored, "gamma", "d", "validity", regime="classical").sel(gamma=1.0)
    assert labels.sel(d=200) == "off"


def test_contents_offer_the_values(stored):
    values = {value["name"]: value["needs_regime"] for value in describe_contents(stored)["values"]}
    assert [values[name] for name in VALUES] == [False, True, True]
    assert not set(VALUES) & set(available_values(stored.drop_vars("ode_risk_std")))
    assert not set(VALUES) & set(available_values(stored.sel(regime=["classical"])))
    with pytest.raises(InvalidInput, match="value"):
        phase_diagram(stored.drop_vars("ode_risk_std"), "gamma", "d", "largest_z_score")


def test_figures(stored):
    for value in VALUES:
        options = {"x": "gamma", "y": "d", "value": value, "regime": "classical"}
        assert VIEWS["phase-diagram"].plot(stored, options).axes


def test_triangle(tmp_path):
    stored = compute_dataset(tmp_path, TRIANGLE)
    for value in VALUES:
        result = stored.sweep.triangle(value, regime="classical")
        assert result.sizes["point"] == stored.sizes["point"]
        assert result.notnull().all()
    for value in VALUES[:2]:  # as a triangle shows no labels
        assert VIEWS["triangle"].plot(stored, {"value": value, "regime": "classical"}).axes
