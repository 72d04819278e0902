"""The triangle: barycentric coordinates, values, and the choice of auto."""

import json

import numpy as np
import pytest

from sweep_service.analysis.phase_diagram import phase_diagram
from sweep_service.analysis.triangle import triangle, triangle_to_json
from sweep_service.dynamics.auto import choose_regime
from sweep_service.errors import InvalidInput
from sweep_service.planning.grids import Grid
from sweep_service.planning.spec import SweepSpec
from tests.stored import compute_dataset

SPEC = {
    "triangle": {"delta_t": 1e-2, "resolution": 3, "gamma_max": 2.0},
    "axes": {"regime": ["high_dimensional", "classical"], "noise": [0.0, 0.01]},
    "fixed": {"k": 2},
    "init": {"kind": "informed"},
    "seeds": 2,
    "time": {"max": 1.0, "samples": 8},
}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    return compute_dataset(tmp_path_factory.mktemp("triangle"), SPEC)


def test_coordinates_sum_to_one(stored):
    result = triangle(stored, "sgd_risk", noise=0)
    u = [result[name] for name in ("u_d", "u_p", "u_gamma")]
    np.testing.assert_allclose(sum(u), 1.0, rtol=1e-12)
    whole = np.log(2.0 / (1e-2 * 2 * 3))  # gamma_max/(δt p_min d_min)
    np.testing.assert_allclose(u[0], np.log(result["d"] / 3) / whole)
    np.testing.assert_allclose(u[1], np.log(result["p"] / 2) / whole)
    for part in u:
        assert float(part.min()) == pytest.approx(0.0, abs=1e-12)
        # γ = γ_max only if p d = γ_max/δt is possible with integers
        assert float(part.max()) > 0.97


def test_values_are_those_of_a_phase_diagram(stored):
    result = triangle(stored, "discrepancy", noise=0.01, regime="classical")
    wanted = phase_diagram(stored, "d", "p", "discrepancy", noise=0.01, regime="classical")
    np.testing.assert_array_equal(result.values, wanted.values)
    np.testing.assert_array_equal(result["standard_error"], wanted["standard_error"])
    assert result.attrs["at"] == {"regime": "classical", "noise": 0.01}


def test_auto_regime_is_the_choice_of_auto(stored):
    result = triangle(stored, "sgd_risk", noise=0.01)
    grid = Grid.of(SweepSpec.parse(SPEC))
    wanted = {(point.d, point.p): choose_regime(point, point.start(0)).regime
              for point in grid.points if point.noise == 0.01}  # fmt: skip
    rows = zip(result["d"].values, result["p"].values, result["auto_regime"].values, strict=True)
    assert {(int(d), int(p)): str(name) for d, p, name in rows} == wanted
    assert len(set(wanted.values())) > 1


def test_json(stored):
    plain = triangle_to_json(triangle(stored, "sgd_phase", noise=0))
    json.dumps(plain)
    assert plain["form"] == "triangle"
    assert plain["delta_t"] == 1e-2
    first = plain["points"][0]
    assert set(first) == {"d", "p", "gamma", "u_d", "u_p", "u_gamma", "auto_regime", "value"}
    plain = triangle_to_json(triangle(stored, "sgd_risk", noise=0))
    assert {"standard_error", "runs"} < set(plain["points"][0])


def test_invalid_triangles_are_rejected(stored):
    with pytest.raises(InvalidInput, match=r"one of 0, 0\.01") as error:
        triangle(stored)
    assert error.value.field == "noise"
    with pytest.raises(InvalidInput) as error:
        triangle(stored, "ode_risk", noise=0)
    assert error.value.field == "regime"
    with pytest.raises(InvalidInput, match="sweep over a triangle"):
        triangle(stored.drop_attrs())
