"""Invalid input: always one error that names the field, its value and what is allowed."""

import math

import numpy as np
import pytest

from sweep_service import integrate
from sweep_service.dynamics.options import RegimeOptions
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.errors import InvalidInput, RegimeUndefined
from sweep_service.model.activations import ACTIVATIONS
from sweep_service.model.initial import EXPLICIT_KINDS, INITS
from sweep_service.model.parameters import parameter_names
from sweep_service.model.point import Point

POINT = {"d": 6, "p": 4, "k": 2, "gamma": 0.1}
M, Q, P = np.full((4, 2), 0.1).tolist(), np.eye(4).tolist(), np.eye(2).tolist()
OVERLAPS = {"kind": "overlaps", "M": M, "Q": Q, "P": P}
WEIGHTS = {"kind": "weights", "W": np.ones((4, 6)).tolist(), "W_star": np.eye(6)[:2].tolist()}
INDEFINITE = [[1.0, 2.0], [2.0, 1.0]]
NOT_NUMBERS = (True, "1", None, [1.0], math.nan, math.inf, -math.inf, 10**400)


def bad(change, field, value, allowed, error=InvalidInput, **call):
    return pytest.param(change, call, field, value, allowed, error, id=f"{field}={value!r}"[:60])


def init(kind, **rest):
    return {"init": {"kind": kind, **rest}}


def teacher(**choice):
    return init("gaussian", teacher=choice)


def given_start(start, **change):
    return {"init": {**start, **change}}


def spoilt(rows, entry):
    """The matrix with its first entry replaced."""
    return [[entry, *rows[0][1:]], *rows[1:]]


def outside(bounds):
    """A number just outside each bound."""
    steps = {"above": 0.0, "least": -1e-9, "most": 1e-9}
    return [limit + steps[name] * max(1.0, abs(limit)) for name, limit in bounds.items()]


BAD = [
    # numbers of the point
    *(bad({name: value}, name, value, "whole number >= 1") for name in "dpk" for value in (0, -1, 1.5)),
    *(bad({name: value}, name, value, "whole number") for name in "dpk" for value in NOT_NUMBERS),
    *(bad({"gamma": value}, "gamma", value, "finite number > 0") for value in (0.0, -0.1, *NOT_NUMBERS)),
    *(bad({"noise": value}, "noise", value, "finite number >= 0") for value in (-1e-3, *NOT_NUMBERS)),
    bad({"d": 1}, "d", 1, ">= k = 2"),
    bad({"d": 1, "init": {"kind": "gaussian", "orthonormal_teacher": True}}, "d", 1, "orthonormal"),
    bad({"d": 1}, "d", 1, ">= k = 2", regime="mean_field"),
    bad({"d": 5, "init": {"kind": "symmetric"}}, "d", 5, ">= p + k = 6"),
    # numbers of the start
    *(
        bad({**init(kind.name, **{name: value}), "d": 8}, f"init.{name}", value, "must be a finite number")
        for kind in INITS.values()
        for name, (_, bounds) in kind.parameters.items()
        for value in (*outside(bounds), *NOT_NUMBERS)
    ),
    # names, with the nearest one
    *(bad({"activation": f"{name}x"}, "activation", f"{name}x", repr(name)) for name in ACTIVATIONS),
    *(bad({"teacher_activation": f"{n}x"}, "teacher_activation", f"{n}x", repr(n)) for n in ACTIVATIONS),
    *(bad(init(f"{n}x"), "init.kind", f"{n}x", repr(n)) for n in (*INITS, *EXPLICIT_KINDS)),
    *(bad({}, "regime", f"{name}x", repr(name), regime=f"{name}x") for name in ("auto", *REGIMES)),
    *(bad({"activation": value}, "activation", value, "one of") for value in ([], 1, None, "")),
    *(bad({"teacher_activation": x}, "teacher_activation", x, "one of") for x in ([], 0, False, "")),
    *(bad(init(value), "init.kind", value, "one of") for value in ([], {}, 1, None)),
    *(bad({}, "regime", value, "one of", regime=value) for value in ([], {}, 1, None, "")),
    bad(teacher(rhoo=0.1), "init.teacher (key)", "rhoo", "'rho'"),
    bad(init("gaussian", teacher="orthonormall"), "init.teacher", "orthonormall", "'orthonormal'"),
    bad(init("gaussian", shared={"d": 9}), "init.shared (key)", "d", "'d0'"),
    *(
        bad({f"{key}x": 1}, "point (key)", f"{key}x", repr(key))
        for key in (*parameter_names(), "init")
        if len(key) > 1
    ),
    *(
        bad({"init": {"kind": kind.name, f"{key}x": 1}, "d": 8}, "init (key)", f"{key}x", repr(key))
        for kind in INITS.values()
        for key in (*kind.parameters, "teacher", "shared")
    ),
    *(
        bad({}, "regime_options (key)", f"{key}s_", repr(key), regime_options={f"{key}s_": 1})
        for key in RegimeOptions().content()
    ),
    # teachers
    bad(teacher(gram=INDEFINITE), "init.teacher.gram", INDEFINITE, "positive semi-definite"),
    bad(teacher(gram=[[1.0, 0.5], [0.4, 1.0]]), "init.teacher.gram", [[1.0, 0.5], [0.4, 1.0]], "symmetric"),
    bad(teacher(gram=np.eye(3).tolist()), "init.teacher.gram", (3, 3), "2 by 2"),
    bad(teacher(gram=P, rho=0.1), "init.teacher", {"gram": P, "rho": 0.1}, "alone"),
    *(bad(teacher(rho=rho), "init.teacher.rho", rho, "[-1, 1]") for rho in (1.5, -1.5)),
    *(bad(teacher(rho=value), "init.teacher.rho", value, "finite number") for value in NOT_NUMBERS),
    bad(teacher(norms=[1.0, 0.0]), "init.teacher.norms", [1.0, 0.0], "from 1e-8"),
    bad(teacher(norms=[1.0]), "init.teacher.norms", [1.0], "2 entries"),
    *(bad(teacher(norms=[1.0, x]), "init.teacher.norms", [1.0, x], "number") for x in NOT_NUMBERS),
    bad(init("symmetric", teacher="random"), "init.teacher", "random", "'orthonormal'"),
    # given numbers
    bad(given_start(OVERLAPS, P=INDEFINITE), "init.P", INDEFINITE, "positive semi-definite"),
    bad(given_start(OVERLAPS, Q=(-np.eye(4)).tolist()), "init.Q", (-np.eye(4)).tolist(), "semi-definite"),
    bad(given_start(OVERLAPS, M=np.ones((4, 2)).tolist()), "init.Q", Q, "semi-definite"),
    bad(given_start(OVERLAPS, M=M[:3]), "init.M", "shape (3, 2)", "shape (4, 2)"),
    bad(given_start(OVERLAPS, Q=Q[:3]), "init.Q", "shape (3, 4)", "shape (4, 4)"),
    bad(given_start(OVERLAPS, P=[[1.0]]), "init.P", "shape (1, 1)", "shape (2, 2)"),
    bad(given_start(OVERLAPS, M=[[0.1], [0.1, 0.2]]), "init.M", [[0.1], [0.1, 0.2]], "matrix"),
    bad(given_start(OVERLAPS, M=[]), "init.M", [], "matrix"),
    bad({**given_start(OVERLAPS), "d": 5}, "d", 5, ">= 6, the rank"),
    bad({"init": {"kind": "overlaps", "M": M, "Q": Q}}, "init.P", None, "required"),
    bad(given_start(WEIGHTS, W=[[1.0] * 5] * 4), "init.W", "shape (4, 5)", "shape (4, 6)"),
    bad(given_start(WEIGHTS, W_star=[[1.0] * 6]), "init.W_star", "shape (1, 6)", "shape (2, 6)"),
    *(
        bad(given_start(start, **{name: value}), f"init.{name}", value, "must ")
        for start in (OVERLAPS, WEIGHTS)
        for name in EXPLICIT_KINDS[start["kind"]]
        for value in (spoilt(start[name], entry) for entry in NOT_NUMBERS)
    ),
    # times
    *(
        bad({}, "times", value, ">= 0 and strictly increasing", times=value)
        for value in ([0.0, 1.0, 1.0], [1.0, 0.5], [-1.0, 0.0], [1e15, -1e15])
    ),
    *(bad({}, "times", [0.0, x], "number", times=[0.0, x]) for x in NOT_NUMBERS),
    *(bad({}, "times", x, "number", times=x) for x in ([], "1", None, [[0.0, 1.0]], {"a": 1}, True)),
    # seeds
    *(bad({}, "seed", x, "whole number >= 0", seed=x) for x in (-1, 0.5, [], *NOT_NUMBERS) if x != [1.0]),
    bad({}, "seed", -1, "whole number >= 0", seed=[0, -1]),
    bad({}, "seed", [1, 1], "not repeat", seed=[1, 1]),
    # sharing
    *(
        bad(init(kind.name, shared=True), "init.shared", True, "{d0: N}")
        for kind in INITS.values()
        if not kind.fixed_overlaps
    ),
    bad(init("informed", shared={"d0": 9}), "init.shared", {"d0": 9}, "true or false"),
    bad(init("gaussian", shared={"d0": 1}), "init.shared.d0", 1, ">= 2"),
    bad(init("gaussian", shared={}), "init.shared.d0", None, "whole number"),
    bad({"init": {"kind": "gaussian", "shared": {"d0": 9}}, "d": 5}, "d", 5, ">= 6, the rank"),
    bad(init("informed", shared="yes"), "init.shared", "yes", "true or false"),
    bad(init("gaussian", orthonormal_teacher=1), "init.orthonormal_teacher", 1, "true or false"),
    # regimes that do not exist there
    *(
        bad(init("symmetric"), "init.kind", "symmetric", "invariant", RegimeUndefined, regime=name)
        for name, regime in REGIMES.items()
        if regime.mean_field and name != "mean_field_high_dimensional"
    ),
    # options
    *(
        bad({}, f"regime_options.{name}", 1, "true or false", regime_options={name: 1})
        for name in ("finite_d_factor", "self_terms")
    ),
    *(
        bad({}, f"regime_options.{name}", value, allowed, regime_options={name: value})
        for name in ("qmc_points", "particles")
        for value, allowed in (
            (8, ">= 16"), (100, "power of two"), (1 << 21, "power of two"), ("64", "whole"), (1.5, "whole")
        )
    ),
    bad({}, "regime_options", [1], "mapping", regime_options=[1]),
    # shapes of the mappings themselves
    bad({"init": "gaussian"}, "init", "gaussian", "mapping"),
    bad({"init": None}, "init", None, "mapping"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "call", "field", "value", "allowed", "error"), BAD)
def test_invalid_input_names_field_value_and_allowed(change, call, field, value, allowed, error):
    call = {"regime": "classical", "times": [0.0, 1.0], **call}
    with pytest.raises(InvalidInput) as info:
        integrate({**POINT, **change}, **call)
    result = info.value
    assert type(result) is error
    assert (result.field, repr(result.value)) == (field, repr(value))
    assert allowed in result.allowed
    shown = " ".join(repr(value).split())
    assert field in str(result)
    assert (shown if len(shown) <= 80 else shown[:70]) in str(result)
    assert allowed in str(result)
    assert result.__cause__ is None  # one error, not a chain of them
    assert result.__context__ is None or result.__suppress_context__


@pytest.mark.parametrize("missing", ["d", "p", "k", "gamma"])
def test_required_fields_are_named(missing):
    with pytest.raises(InvalidInput, match=f"^{missing} = None: is required$"):
        Point.parse({name: value for name, value in POINT.items() if name != missing})


def test_zero_teacher_error_names_its_weights():
    with pytest.raises(InvalidInput, match="not zero") as info:
        Point.parse({**POINT, **given_start(WEIGHTS, W_star=[[0.0] * 6] * 2)})
    assert info.value.field == "init.W_star"


def test_projected_mean_field_error_states_orthogonal_part():
    with pytest.raises(RegimeUndefined) as info:
        integrate(POINT, regime="mean_field_projected", times=[1.0])
    total = Point.parse(POINT).start(0).overlaps.orthogonal_norms.sum()
    assert info.value.field == "init"
    assert info.value.value == f"tr Q⊥(0) = {total:.3g}"
    assert "Q⊥(0) = 0" in info.value.allowed


@pytest.mark.parametrize(
    "init",
    [
        {"kind": "gaussian", "scale": 1e200},
        {"kind": "gaussian", "teacher": {"norms": [1e200, 1e200]}},
        {"kind": "gaussian", "teacher": {"norms": [1e-200, 1e-200]}},
        {**OVERLAPS, "Q": (1.5e308 * np.eye(4)).tolist()},
        {**WEIGHTS, "W": [[1e200] * 6] * 4},
    ],
    ids=["scale", "large norms", "small norms", "overlaps", "weights"],
)
def test_overflowing_overlaps_are_refused(init):
    with pytest.raises(InvalidInput, match=r"^init\."):
        integrate({**POINT, "init": init}, regime="classical", times=[0.0, 1.0])
