"""The contract of `integrate`: names, labels, seeds, times, options, and all combinations of entries."""

import json
from dataclasses import replace

import numpy as np
import pytest

from sweep_service import integrate
from sweep_service.dynamics.overlap_flow import drift
from sweep_service.dynamics.regimes import REGIMES, overlap_regime
from sweep_service.errors import OutOfRange, Stopped
from sweep_service.model.activations import ACTIVATIONS, Activation
from sweep_service.model.averages.two_point import make_pairs
from sweep_service.model.observables import select_observables
from sweep_service.model.overlaps import Overlaps
from sweep_service.model.parameters import FIRST_PARAMETERS, PARAMETERS, Parameter
from sweep_service.model.point import Point
from sweep_service.model.risk import risk

POINT = {"d": 6, "p": 4, "k": 2, "gamma": 0.1, "noise": 1e-3}
GAUSSIAN = {"kind": "gaussian", "orthonormal_teacher": True}
TIMES = [0.0, 0.3, 1.0]
POINT_COORDINATES = ("init.kind", "init.teacher", "delta_t", "gamma_over_p")
FULL = [name for name, regime in REGIMES.items() if not regime.mean_field]
regimes = pytest.mark.parametrize("regime", REGIMES)
activations = pytest.mark.parametrize("activation", ACTIVATIONS)


def run(regime, times=TIMES, seed=0, overlaps=None, stopped=None, options=None, **change):
    """Integrate a small point; the projected regime gets a start for which it is defined."""
    init = {"kind": "informed"} if regime == "mean_field_projected" else GAUSSIAN
    point = {**POINT, "init": init, **change}
    options = {"particles": 64, "qmc_points": 256, **(options or {})}
    return integrate(
        point,
        regime=regime,
        times=times,
        seed=seed,
        overlaps=overlaps,
        stopped=stopped,
        regime_options=options,
    )


@regimes
def test_names_dimensions_and_labels(regime):
    result = run(regime)
    unit = "particle" if regime == "mean_field_pde" else "student"
    expected = {
        **dict.fromkeys(select_observables(None), ("time",)),
        "overlap_student_teacher": ("time", unit, "teacher"),
        "overlap_teacher": ("teacher", "teacher_other"),
    }
    if REGIMES[regime].mean_field:
        expected["orthogonal_norm"] = ("time", unit)
    else:
        expected["overlap_student"] = ("time", "student", "student_other")
    assert {name: variable.dims for name, variable in result.data_vars.items()} == expected
    assert set(result.coords) == {
        *result.sizes,
        *PARAMETERS,
        *POINT_COORDINATES,
        "seed",
        "regime",
        "status",
    } | ({"init.scale"} if result["init.kind"] == "gaussian" else set())
    assert result.coords["gamma"] == POINT["gamma"]
    assert result.coords["regime"] == regime
    for name, variable in result.variables.items():
        assert variable.attrs["long_name"], name
        assert "units" not in variable.attrs, name  # dimensionless
    assert "without the label noise" in result.risk.attrs["long_name"]
    np.testing.assert_array_equal(result.time, TIMES)
    for name in ("d", "p", "k", "gamma", "noise"):
        assert result.attrs[name] == POINT[name]


@regimes
def test_attributes_describe_computation(regime):
    attributes = run(regime, seed=7).attrs
    assert attributes["regime"] == regime
    assert attributes["regime_reason"] == "requested"
    assert attributes["engine"]
    assert attributes["status"] == "done"
    assert attributes["steps"] > 0
    assert attributes["evaluations"] >= attributes["steps"]
    assert attributes["seconds"] > 0
    assert attributes["seed"] == 7
    assert attributes["delta_t"] == 0.1 / 24
    assert json.loads(attributes["regime_options"])["qmc_points"] == 256


@regimes
@pytest.mark.parametrize("seed", [3, [3, 5]])
def test_dataset_can_be_written(regime, seed):
    result = run(regime, seed=seed)
    assert json.loads(json.dumps(result.attrs, allow_nan=False)) == result.attrs
    assert json.dumps(result.to_dict())


@regimes
def test_sequence_of_seeds_equals_single_calls(regime):
    seeds = [4, 0, 11]
    together = run(regime, seed=seeds)
    assert together.seed.values.tolist() == seeds
    assert together.seed.attrs["long_name"]
    assert together.attrs["seed"] == seeds
    assert together.attrs["status"] == ["done"] * 3
    for seed in seeds:
        alone = run(regime, seed=seed)
        assert set(together.data_vars) == set(alone.data_vars)
        for name, variable in alone.data_vars.items():
            # the teacher of these starts is the same for every seed, with or without the dimension
            slice_ = together[name].sel(seed=seed) if "seed" in together[name].dims else together[name]
            assert slice_.dims == variable.dims
            np.testing.assert_array_equal(slice_, variable)
    assert dict(run(regime, seed=[3]).sizes)["seed"] == 1
    assert "seed" not in run(regime, seed=np.int64(3)).sizes


def test_random_teachers_differ_along_seed():
    result = run("classical", seed=range(2), init={"kind": "gaussian"})
    assert result.overlap_teacher.dims == ("seed", "teacher", "teacher_other")
    assert not np.allclose(result.overlap_teacher[0], result.overlap_teacher[1])


@pytest.mark.parametrize(
    ("p", "overlaps", "stored"), [(256, None, 1), (258, None, 0), (258, True, 1), (4, False, 0)]
)
def test_overlaps_of_wide_students_are_optional(p, overlaps, stored):
    result = run("mean_field", p=p, activation="square", overlaps=overlaps)
    assert ("overlap_student_teacher" in result) is ("orthogonal_norm" in result) is bool(stored)
    assert "overlap_teacher" in result


@regimes
def test_first_row_is_start(regime):
    result = run(regime, seed=2, init={"kind": "informed" if "projected" in regime else "gaussian"})
    start = Point.parse({**POINT, "init": json.loads(result.attrs["init"])}).start(2).overlaps
    np.testing.assert_array_equal(result.overlap_teacher, start.P)
    if regime == "mean_field_pde":
        return  # whose particles are not the students
    np.testing.assert_array_equal(result.overlap_student_teacher[0], start.M)
    if regime in FULL:
        np.testing.assert_array_equal(result.overlap_student[0], start.Q)
    elif regime != "mean_field_projected":  # which holds q at zero, where the start has rounding
        np.testing.assert_array_equal(result.orthogonal_norm[0], start.orthogonal_norms)


@pytest.mark.parametrize("regime", [*FULL, "mean_field_projected"])
@activations
def test_risk_agrees_with_stored_overlaps(regime, activation):
    """q ≡ 0 implies Q = M P⁻¹ Mᵀ, so the projected regime has a Q too."""
    result = run(regime, activation=activation, teacher_activation="erf")
    P = result.overlap_teacher.values
    two_point = make_pairs(ACTIVATIONS[activation], ACTIVATIONS["erf"])
    for row in range(len(TIMES)):
        M = result.overlap_student_teacher.values[row]
        Q = result.overlap_student.values[row] if regime in FULL else M @ np.linalg.solve(P, M.T)
        np.testing.assert_array_equal(Q, Q.T) if regime in FULL else None
        # rounding; where Q is formed anew, relu feels it as √eps at ρ = 1
        bound = 1e-12 if regime in FULL else 1e-7
        assert result.risk.values[row] == pytest.approx(risk(Overlaps(M, Q, P), two_point), rel=bound)


def test_weight_flow_returns_overlaps():
    """Above p = 30, gradient flow from a start of low rank integrates weights and returns overlaps."""
    result = run("classical", p=40)
    assert result.attrs["flow"] == "WeightFlow"
    start = Point.parse({**POINT, "p": 40, "init": GAUSSIAN}).start(0).overlaps
    np.testing.assert_allclose(result.overlap_student_teacher[0], start.M, atol=1e-14)  # rounding of a root
    np.testing.assert_allclose(result.overlap_student[0], start.Q, atol=1e-14)
    last = Overlaps(result.overlap_student_teacher.values[-1], result.overlap_student.values[-1], start.P)
    np.testing.assert_allclose(last.Q, last.Q.T, atol=1e-15)
    assert result.risk.values[-1] == pytest.approx(
        risk(last, make_pairs(*2 * [ACTIVATIONS["erf"]])), rel=1e-12
    )


def test_ignored_parameters_do_not_change_results():
    """Gradient flow from a shared start does not depend on d; the p = ∞ law depends on neither p nor seed."""
    shared = {"kind": "informed", "shared": True}
    first, other = (run("classical", d=d, gamma=gamma, init=shared) for d, gamma in ((6, 0.1), (500, 2.0)))
    np.testing.assert_array_equal(first.risk, other.risk)
    first, other = (run("mean_field_pde", p=p, seed=seed) for p, seed in ((4, 0), (7, 5)))
    np.testing.assert_array_equal(first.risk, other.risk)


@regimes
def test_results_do_not_depend_on_other_times(regime):
    """R(t) does not depend on the other requested times, to a hundred times the tolerance."""
    dense = run(regime, np.linspace(0.0, 2.0, 41))
    for times in ([2.0], [0.0], [0.55], [0.0, 1e-3, 0.05, 1.95, 2.0], 1.0):
        result = run(regime, times)
        again = run(regime, np.union1d(dense.time, np.atleast_1d(times)))
        bound = 1e-5 if regime == "mean_field_pde" else 1e-8  # its law is sampled, and its steps are coarser
        np.testing.assert_allclose(result.risk, again.risk.sel(time=result.time), rtol=bound)
        assert result.time.values.tolist() == np.atleast_1d(times).tolist()


@regimes
@activations
def test_every_regime_runs_with_every_activation(regime, activation):
    result = run(regime, activation=activation)
    assert result.attrs["status"] == "done"
    assert np.all(np.isfinite(result.risk))
    assert np.all(np.diff(result.risk) < 0)  # the noise floor, 1e-5, is far below


@regimes
@pytest.mark.parametrize(("student", "teacher"), [("erf", "relu"), ("relu", "tanh"), ("square", "erf")])
def test_every_regime_runs_with_mixed_activations(regime, student, teacher):
    result = run(regime, activation=student, teacher_activation=teacher)
    assert result.attrs["status"] == "done"
    assert result.risk[-1] < result.risk[0]


@activations
@pytest.mark.parametrize("p", [1, 4])
@pytest.mark.parametrize("d", [2, 3, 4])
@pytest.mark.parametrize("teacher", ["orthonormal", {"rho": 0.4, "norms": [1, 2]}])
def test_mean_field_with_few_orthogonal_dimensions(activation, p, d, teacher):
    """Without other neurons (p = 1) or without orthogonal directions (d = k) it is the gradient flow."""
    init = {"kind": "gaussian", "teacher": teacher}
    change = {"activation": activation, "p": p, "d": d, "init": init, "noise": 0.0}
    result = run("mean_field", **change)
    assert result.attrs["status"] == "done"
    assert np.all(result.orthogonal_norm >= 0)
    if d == 2:
        assert np.all(result.orthogonal_norm == 0)
    if d == 2 or p == 1:
        # relu at ρ = 1 turns a rounding of 1e-16 in Q into 1e-8; R is a difference of numbers up to 30
        np.testing.assert_allclose(result.risk, run("classical", **change).risk, rtol=1e-7, atol=1e-11)


@regimes
def test_stopped_ends_the_call(regime):
    calls = []
    with pytest.raises(Stopped):
        run(regime, [1e3], stopped=lambda: bool(calls.append(None)) or len(calls) > 5)
    assert len(calls) == 6


@pytest.mark.parametrize("regime", FULL)
def test_finite_d_factor_changes_noise_and_sampling_terms(regime):
    off, on = (run(regime, [10.0], noise=0.1, options={"finite_d_factor": x}) for x in (False, True))
    change = abs(on.risk.item() / off.risk.item() - 1)
    if regime == "high_dimensional_map":
        assert change == 0.0  # it has the factor in any case
    elif "noise" in REGIMES[regime].independent_of:
        assert change < 1e-8  # the tolerance of two differently compiled right-hand sides
    else:
        assert change > 1e-3


def test_self_terms_are_of_order_one_over_p():
    widths, changes = (4, 16, 64), []
    for p in widths:
        on, off = (run("mean_field", p=p, d=8, gamma=0.01, options={"self_terms": x}) for x in (True, False))
        changes.append(float(np.max(np.abs(on.risk - off.risk))))
    slope = np.polyfit(np.log(widths), np.log(changes), 1)[0]
    assert slope == pytest.approx(-1.0, abs=0.3)  # starts differ between widths: their spread is p^-½


def test_shared_starts_keep_the_dimension_of_their_draw_in_mean_field():
    """The orthogonal parts lie in d0 - k dimensions whatever d is: R(0) is that of the drawn overlaps."""
    point = {"p": 200, "k": 2, "gamma": 1.0, "activation": "square"}
    init = {"kind": "gaussian", "teacher": "orthonormal", "shared": {"d0": 5}}
    result = {
        (d, regime): float(integrate({**point, "d": d, "init": init}, regime=regime, times=[0.0]).risk[0])
        for d in (5, 1000)
        for regime in ("mean_field", "classical")
    }
    assert result[5, "mean_field"] == result[1000, "mean_field"]
    # Ξ fluctuates by 2√(2/p)/d ~ 0.02 about its law; with d = 1000 in its place R(0) would be 0.12 lower
    np.testing.assert_allclose(result[1000, "mean_field"], result[1000, "classical"], atol=0.05)


def test_pde_does_not_depend_on_p():
    point = {"d": 10, "k": 2, "gamma": 0.5, "init": {"kind": "gaussian"}}
    options = {"particles": 32}
    first, other = (
        integrate({**point, "p": p}, regime="mean_field_pde", times=[0.0, 1.0], regime_options=options)
        for p in (4, 8)
    )
    np.testing.assert_array_equal(first.risk, other.risk)
    np.testing.assert_array_equal(first.overlap_teacher, other.overlap_teacher)


def test_diverging_mean_field_is_status():
    """A relu neuron of norm zero has no slope, so there is no finite state to check the quadrature on."""
    lost = integrate(
        {
            "d": 5,
            "p": 4,
            "k": 2,
            "gamma": 0.1,
            "activation": "relu",
            "init": {"kind": "planted", "epsilon": 1.0},
        },
        regime="mean_field",
        times=[1.0],
    )
    assert lost.attrs["status"] == "diverged"


def test_results_can_be_stored(tmp_path):
    """Attributes are plain enough for netCDF 3, the strictest of the formats in use."""
    result = integrate(POINT, regime="mean_field", times=[0.0, 1.0])
    assert result.attrs["warnings"]
    result.to_netcdf(tmp_path / "run.nc", engine="scipy")
    assert result.attrs["sampling_term"] == "none"


def test_order_of_regimes_is_stored():
    """Datasets hold the regime that auto chose as a position, so new regimes go to the end."""
    assert list(REGIMES)[:7] == [
        "high_dimensional", "classical", "classical_noise", "mean_field", "mean_field_high_dimensional",
        "mean_field_projected", "mean_field_pde",
    ]  # fmt: skip


def damp(system, now):
    """Add a stiff linear term."""
    return -1e3 * now.M, -2e3 * now.Q


def test_stiff_added_term_is_integrated(monkeypatch):
    monkeypatch.setitem(
        REGIMES, "classical", replace(REGIMES["classical"], build=overlap_regime(drift, damp))
    )
    result = run("classical", [1.0, 20.0])
    assert result.attrs["status"] == "done"
    assert np.abs(result.overlap_student).max() < 1e-3  # balanced by a drift of order one


def test_optional_term_is_left_out_at_its_default(monkeypatch):
    """A parameter at its default must not move wide students to another flow, which has other last bits."""
    wide = {"d": 5, "p": 40, "k": 2, "gamma": 0.1}
    before = integrate(wide, regime="classical", times=[0.0, 5.0])
    parameter = Parameter("damping", "number", "c", "", "damping", "damping", default=0.0, least=0.0)
    build = overlap_regime(drift, optional={"damping": damp})
    supports = (*FIRST_PARAMETERS, "damping")
    monkeypatch.setitem(PARAMETERS, "damping", parameter)
    monkeypatch.setitem(REGIMES, "classical", replace(REGIMES["classical"], build=build, supports=supports))
    after = integrate(wide, regime="classical", times=[0.0, 5.0])
    np.testing.assert_array_equal(after.risk, before.risk)
    damped = integrate({**wide, "damping": 1.0}, regime="classical", times=[0.0, 5.0])
    assert not np.array_equal(damped.risk, before.risk)


def swish(x):
    return 0.5 * x * (1.0 + np.tanh(0.5 * x))


def swish_slope(x):
    tanh = np.tanh(0.5 * x)
    return 0.5 * (1.0 + tanh) + 0.25 * x * (1.0 - tanh**2)


def swish_curvature(x):
    tanh = np.tanh(0.5 * x)
    return (0.5 - 0.25 * x * tanh) * (1.0 - tanh**2)


@pytest.fixture
def own_activation(monkeypatch):
    act = Activation(
        name="swish", formula="x/(1 + exp(-x))", value=swish, slope=swish_slope, curvature=swish_curvature
    )
    monkeypatch.setitem(ACTIVATIONS, act.name, act)
    return act.name


def test_norms_that_mean_field_cannot_resolve_are_refused(own_activation):
    """The functions of wide neurons vary on scales that no affordable Gauss-Hermite rule resolves."""
    point = {
        "d": 10,
        "p": 2001,
        "k": 1,
        "gamma": 1.0,
        "activation": own_activation,
    }  # narrower: sums of pairs
    narrow = integrate(dict(point, init=GAUSSIAN), regime="mean_field", times=[0.0])
    assert narrow.attrs["quadrature_error"] < 1e-6
    wide = dict(point, init={"kind": "gaussian", "scale": 10.0})
    with pytest.raises(
        OutOfRange, match=r"mean_field with p = 2001 and the activation swish is not accurate"
    ):
        integrate(wide, regime="mean_field", times=[0.0])


def test_start_at_a_fixed_point_is_not_refused():
    """Its derivative vanishes, so that any error of a quadrature is large relative to it."""
    point = {"d": 10, "p": 80, "k": 1, "gamma": 1.0, "activation": "square"}
    planted = dict(point, init={"kind": "planted", "epsilon": 0.0}, teacher_activation="square")
    assert integrate(planted, regime="mean_field", times=[0.0, 1.0]).risk[-1] < 1e-12
    tanh = dict(point, activation="tanh", init={"kind": "planted", "epsilon": 0.0})
    assert integrate(tanh, regime="mean_field", times=[0.0, 1.0]).risk[-1] < 1e-9


@pytest.mark.parametrize("regime", ["classical", "classical_noise"])
@pytest.mark.parametrize("compiled", [True, False])
def test_gradient_flow_continues_after_a_neuron_vanishes(regime, compiled, monkeypatch):
    """A relu student of the wrong sign is pulled to w = 0, where the averages lose their derivatives."""
    if not compiled:
        monkeypatch.setattr("sweep_service.dynamics.compiled_overlap_flow.MAX_COMPILED_WIDTH", 0)
    point = {"d": 20, "p": 3, "k": 1, "gamma": 0.1, "activation": "relu", "init": GAUSSIAN}
    result = integrate(
        {**point, "second_layer": {"init": [1.0, -1.0, -1.0]}},
        regime=regime,
        times=[0.0, 10.0, 100.0],
        seed=1,
    )
    assert result.attrs["status"] == "done"
    assert result.attrs["evaluations"] < 10_000
    assert np.diag(result.overlap_student[-1]).min() < 1e-6
    assert result.risk[-1] < 1e-3 * result.risk[0]
