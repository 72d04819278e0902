"""Activations of users, compiled from their NumPy functions, against the same ones evaluated in Python."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import special

import sweep_service as ss
from sweep_service.errors import InvalidInput
from sweep_service.model.activations import ACTIVATIONS, Activation, Kink
from sweep_service.model.user_kernels import compile_activation, explain_uncompiled, kernel_code
from tests.simulators.users import InPython, evaluated_in_python

SOFTPLUS = Activation(
    name="softplus", formula="ln(1 + eˣ)", value=lambda x: np.logaddexp(0.0, x), slope=special.expit,
    curvature=lambda x: special.expit(x) * special.expit(-x),
)  # fmt: skip
SINE = Activation(
    name="sine", formula="sin(x)", value=np.sin, slope=np.cos, curvature=lambda x: -np.sin(x), odd=True
)
LEAKY = Activation(
    name="leaky", formula="x for x > 0, else x/10", value=lambda x: np.where(x > 0.0, x, 0.1 * x),
    slope=lambda x: np.where(x > 0.0, 1.0, 0.1), curvature=lambda x: 0.0 * x, kinks=(Kink(0.0, 0.9),),
)  # fmt: skip
# Vectors do not know asinh, so it is called for one lane after another.
ASINH = Activation(
    name="asinh", formula="asinh(x)", value=np.arcsinh, slope=lambda x: 1.0 / np.sqrt(1.0 + x * x),
    curvature=lambda x: -x / (1.0 + x * x) ** 1.5, odd=True,
)  # fmt: skip
EVERYTHING = {
    "second_layer": {"init": [1.2, 0.8, -0.7, 0.5, 1.0]}, "teacher": {"second_layer": {"init": [1.0, 0.6]}},
    "weight_decay": 0.1, "schedule": {"power": {"t0": 5.0, "alpha": 0.5}},
}  # fmt: skip


def simulate(monkeypatch, act, engine, **change):
    monkeypatch.setitem(ACTIVATIONS, act.name, act)
    point = {
        "d": 40, "p": 5, "k": 2, "gamma": 0.3, "noise": 0.1, "activation": act.name,
        "init": {"kind": "gaussian", "teacher": "orthonormal"}, **change,
    }  # fmt: skip
    times = np.array([0, 1, 2, 50, 300]) * (point["gamma"] / (point["p"] * point["d"]))
    return ss.simulate(point, times=times, engine=engine, repeat=range(3), overlaps=True)


def assert_same_path(compiled, plain, names=("overlap_student", "overlap_student_teacher", "risk")):
    assert compiled.attrs["warnings"] == ""
    assert "no compiled kernel" in plain.attrs["warnings"]
    for name in names:
        # rounding of 300 steps; libm and NumPy differ in the last place
        np.testing.assert_allclose(compiled[name], plain[name], rtol=1e-10, atol=1e-11, err_msg=name)


@pytest.mark.parametrize("change", [{}, EVERYTHING, {"batch": 3}], ids=["default", "everything", "batch"])
@pytest.mark.parametrize("act", [SOFTPLUS, SINE, LEAKY, ASINH], ids=lambda act: act.name)
def test_kernels_follow_the_path_of_numpy_functions(act, change, monkeypatch):
    """Of softplus, σ(0) is not 0, and p = 5 is not a multiple of a vector."""
    plain = simulate(monkeypatch, evaluated_in_python(act), "S2", **change)
    for engine in ("S1", "S2"):
        compiled = simulate(monkeypatch, act, engine, **change)
        assert compiled.attrs["engine"] == engine
        assert_same_path(compiled, plain)


@pytest.mark.parametrize("engine", ["S3", "S3-factored"])
def test_overlap_process_has_the_same_law(engine, monkeypatch):
    """Its first moments after one step, from four thousand chains."""
    monkeypatch.setitem(ACTIVATIONS, SOFTPLUS.name, SOFTPLUS)
    point = {
        "d": 30, "p": 3, "k": 2, "gamma": 2.0, "noise": 0.1, "activation": SOFTPLUS.name,
        "init": {"kind": "gaussian", "teacher": "orthonormal"},
    }  # fmt: skip
    times = [0.0, point["gamma"] / (point["p"] * point["d"])]
    change = {}
    for name in ("S1", engine):
        ds = ss.simulate(point, times=times, engine=name, repeat=range(4000), overlaps=True)
        moved = (ds.overlap_student - ds.overlap_student.isel(time=0)).isel(time=1)
        change[name] = moved.mean("repeat").values, moved.var("repeat").values / 4000
    (mean, variance), (other_mean, other_variance) = change.values()
    # nine numbers: 4.5 standard errors are exceeded by chance once in 16,000, and the seeds are fixed
    assert np.max(np.abs(mean - other_mean) / np.sqrt(variance + other_variance)) < 4.5


@pytest.mark.parametrize("chains", [1, 2, 4, 8])
def test_lanes_do_not_change_bits(chains, monkeypatch):
    monkeypatch.setitem(ACTIVATIONS, SOFTPLUS.name, SOFTPLUS)
    point = {"d": 7, "p": 5, "k": 3, "gamma": 0.3, "activation": SOFTPLUS.name}
    together = ss.simulate(point, times=[0.0, 1.0], engine="S1", repeat=range(chains), overlaps=True)
    alone = ss.simulate(point, times=[0.0, 1.0], engine="S1", repeat=[chains - 1], overlaps=True)
    for name in ("risk", "overlap_student"):
        np.testing.assert_array_equal(together[name].isel(repeat=-1), alone[name].isel(repeat=0))


def test_learned_second_layer_with_an_offset_runs_in_python(monkeypatch):
    """Rows that pad a vector would learn."""
    learned = simulate(monkeypatch, SOFTPLUS, "auto", second_layer_rate=1.0)
    assert "because σ(0) is not 0" in learned.attrs["warnings"]
    with pytest.raises(InvalidInput, match="compiled kernel"):
        simulate(monkeypatch, SOFTPLUS, "S1", second_layer_rate=1.0)
    compiled = simulate(monkeypatch, SINE, "S1", second_layer_rate=1.0)
    plain = simulate(monkeypatch, evaluated_in_python(SINE), "S2", second_layer_rate=1.0)
    assert_same_path(compiled, plain)


def test_functions_are_compiled_for_vectors_where_possible():
    gelu = replace(SINE, value=lambda x: x * special.ndtr(x), slope=lambda x: np.where(x > 0.0, 1.0, 0.0))
    for act, is_vectorised in {SOFTPLUS: True, SINE: True, LEAKY: True, gelu: True, ASINH: False}.items():
        kernel = compile_activation(act)
        assert kernel.reason == ""
        assert kernel.is_vectorised == is_vectorised


def test_vectors_that_lose_nan_are_not_used():
    """A chain that has diverged must stay so: here the lanes would go on."""
    act = replace(SINE, value=lambda x: np.where(x != x, 0.0, np.sin(x)))
    assert compile_activation(act).is_vectorised  # as the function itself
    steep = replace(SINE, value=lambda x: np.sin(x * 1e300))
    assert not compile_activation(steep).is_vectorised  # reduced differently from NumPy


def test_reason_says_what_cannot_be_compiled():
    cases = {
        "numpy.polyval": lambda x: np.polyval([1.0, 0.0], x),
        "gamma": lambda x: special.gamma(x),
        "InPython": InPython(np.sin),
    }
    for words, function in cases.items():
        for field, symbol in (("value", "σ "), ("slope", "σ' ")):
            reason = compile_activation(replace(SINE, **{field: function})).reason
            assert reason.startswith(f"numba cannot compile {symbol}")
            assert words in reason


BIG = 2**62


def test_function_that_changes_when_compiled_is_not_used():
    """Integers overflow in compiled code only."""
    act = replace(SINE, value=lambda x: x * float(4 * BIG % 7))
    assert compile_activation(act).reason == "σ compiled by numba differs from the function"
    assert kernel_code(act) is None
    assert "sine has no compiled kernel" in explain_uncompiled(act, SINE, False)


def test_function_of_arrays_only():
    def value(x):
        y = np.copy(x)
        y[x < 0.0] = 0.0
        return y

    assert compile_activation(replace(LEAKY, value=value)).reason == ""


@pytest.mark.parametrize("name", ["erf", "erfc", "expit", "ndtr"])
def test_functions_of_scipy(name):
    function = getattr(special, name)
    assert compile_activation(replace(SINE, value=function)).reason == ""
    assert compile_activation(replace(SINE, value=lambda x: function(2.0 * x))).reason == ""
