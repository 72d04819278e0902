"""The contract of `simulate`: names, labels, starts, the choice of simulator, divergence and memory."""

import json
import subprocess
import sys
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest

from sweep_service import InvalidInput, integrate, simulate
from sweep_service.model.activations import ACTIVATIONS, Activation
from sweep_service.model.averages.two_point import make_pairs
from sweep_service.model.initial import EXPLICIT_KINDS, INITS
from sweep_service.model.observables import OBSERVABLES, select_observables
from sweep_service.model.overlaps import Overlaps
from sweep_service.model.parameters import PARAMETERS
from sweep_service.model.point import Point
from sweep_service.model.risk import risk
from sweep_service.simulators.batch_loop import samples_per_draw
from sweep_service.simulators.selection import SIMULATORS
from tests.simulators.users import evaluated_in_python

POINT = {"d": 9, "p": 4, "k": 2, "gamma": 0.1, "noise": 1e-3}
STEPS = (0, 3, 40, 100)
POINT_COORDINATES = ("init.kind", "init.teacher", "init.scale", "delta_t", "gamma_over_p")
engines = pytest.mark.parametrize("engine", SIMULATORS)


def point(**change):
    return {**POINT, **change}


def times_of(point, steps=STEPS):
    return np.asarray(steps) * (point["gamma"] / (point["p"] * point["d"]))


def run(engine="auto", steps=STEPS, seed=0, repeat=0, observables=None, overlaps=None, **change):
    """Simulate a small point; S4 gets the activation that it needs."""
    parameters = point(**({"activation": "square"} if engine == "S4" else {}) | change)
    return simulate(
        parameters,
        times=times_of(parameters, steps),
        engine=engine,
        seed=seed,
        repeat=repeat,
        observables=observables,
        overlaps=overlaps,
    )


# ---- names, labels, attributes


@engines
@pytest.mark.parametrize("seed", [3, [3, 1, 8]], ids=["one seed", "seeds"])
@pytest.mark.parametrize("repeat", [5, [5, 0]], ids=["one repeat", "repeats"])
def test_names_dimensions_and_labels(engine, seed, repeat):
    result = run(engine, seed=seed, repeat=repeat, observables=list(OBSERVABLES))
    by_seed = ("seed",) if isinstance(seed, list) else ()
    lead = by_seed + (("repeat",) if isinstance(repeat, list) else ())
    assert {name: variable.dims for name, variable in result.data_vars.items()} == {
        **{name: (*lead, "time", *observable.dims) for name, observable in OBSERVABLES.items()},
        "overlap_student_teacher": (*lead, "time", "student", "teacher"),
        "overlap_student": (*lead, "time", "student", "student_other"),
        "overlap_teacher": (*by_seed, "teacher", "teacher_other"),
    }
    assert set(result.coords) == {
        *result.sizes, *PARAMETERS, *POINT_COORDINATES, "seed", "repeat", "step", "status",
    }  # fmt: skip
    assert result.coords["gamma"] == POINT["gamma"]
    assert result.status.dims == lead
    assert (result.status == "done").all()
    for name, variable in result.variables.items():
        assert variable.attrs["long_name"], name
        assert "units" not in variable.attrs, name  # dimensionless
    assert "without the label noise" in result.risk.attrs["long_name"]
    assert result.step.dims == ("time",)
    assert result.step.values.tolist() == list(STEPS)
    for name, value in (("seed", seed), ("repeat", repeat)):
        assert result.attrs[name] == value
        if isinstance(value, list):
            assert result[name].values.tolist() == value
    chains = np.size(seed) * np.size(repeat)
    for name, value in (("status", "done"), ("steps", STEPS[-1])):
        assert result.attrs[name] == ([value] * chains if lead else value)
    assert np.shape(result.attrs["seconds"]) == ((chains,) if lead else ())
    assert np.all(np.array(result.attrs["seconds"]) > 0)


@engines
def test_attributes_describe_computation(engine):
    attributes = run(engine, seed=7).attrs
    parsed = Point.parse(point())
    for name in ("d", "p", "k", "gamma", "noise"):
        assert attributes[name] == POINT[name]
    assert attributes["delta_t"] == parsed.delta_t
    assert attributes["gamma_over_p"] == parsed.gamma_over_p
    assert attributes["engine"] == engine
    assert attributes["engine_reason"] == "requested"
    assert attributes["engine_form"]
    assert attributes["engine_version"] >= 1
    assert attributes["block"] >= 1
    assert attributes["warnings"] == ""
    assert json.loads(attributes["init"])["kind"] == "gaussian"


@engines
@pytest.mark.parametrize("chains", [{}, {"seed": [1, 2]}, {"repeat": [1, 2]}], ids=str)
def test_dataset_can_be_written(engine, chains):
    result = run(engine, **chains)
    assert json.loads(json.dumps(result.attrs, allow_nan=False)) == result.attrs
    assert json.dumps(result.to_dict())
    if not chains:  # netCDF 3, the only format that is always available, cannot store lists of texts
        assert len(result.to_netcdf(engine="scipy")) > 1000


def test_numpy_integers_are_seeds():
    assert "seed" not in run(seed=np.int64(3), repeat=np.int32(2)).sizes
    result = run(seed=np.arange(2), repeat=range(3))
    assert (result.sizes["seed"], result.sizes["repeat"]) == (2, 3)
    assert json.dumps(result.attrs)


def test_parsed_point_is_accepted():
    parsed = Point.parse(point())
    np.testing.assert_array_equal(
        simulate(parsed, times=[0.0, 0.1]).risk, simulate(point(), times=[0.0, 0.1]).risk
    )


def test_seed_determines_start_and_repeat_determines_inputs():
    result = run(seed=[0, 1], repeat=[0, 1])
    start, later = result.risk.isel(time=0), result.risk.isel(time=-1)
    np.testing.assert_array_equal(start.isel(repeat=0), start.isel(repeat=1))
    assert start[0, 0] != start[1, 0]
    assert len(np.unique(later)) == 4


@pytest.mark.parametrize(
    ("p", "overlaps", "stored"), [(256, None, True), (257, None, False), (257, True, True), (4, False, False)]
)
def test_overlaps_of_wide_students_are_optional(p, overlaps, stored):
    result = run(p=p, steps=(0, 2), overlaps=overlaps)
    assert ("overlap_student_teacher" in result) is ("overlap_student" in result) is stored
    assert "overlap_teacher" in result


def test_simulate_returns_requested_observables():
    assert set(run(overlaps=False).data_vars) == {*select_observables(None), "overlap_teacher"}
    assert set(run(overlaps=False, observables=[]).data_vars) == {"risk", "overlap_teacher"}
    result = run(overlaps=False, observables=["cosine_histogram"])
    assert set(result.data_vars) == {"risk", "cosine_histogram", "overlap_teacher"}


# ---- times


@engines
def test_times_are_rounded_to_steps(engine):
    delta_t = times_of(POINT, [1])[0]
    times = np.array([0.0, 0.4, 0.6, 7.3, 7.4, 20.0]) * delta_t
    parameters = point(activation="square") if engine == "S4" else POINT
    result = simulate(parameters, times=times, engine=engine)
    assert result.step.values.tolist() == [0, 0, 1, 7, 7, 20]
    np.testing.assert_array_equal(result.time, times)
    for row, equal_row in ((0, 1), (3, 4)):
        for name in ("risk", "overlap_student", "overlap_student_teacher"):
            np.testing.assert_array_equal(result[name][row], result[name][equal_row])
    assert result.risk[1] != result.risk[2]
    assert result.attrs["steps"] == 20


@engines
@pytest.mark.parametrize("times", [[0], 0, [0.0], np.zeros(1)], ids=["list", "number", "float", "array"])
def test_start_alone(engine, times):
    parameters = point(activation="square") if engine == "S4" else POINT
    result = simulate(parameters, times=times, engine=engine)
    assert result.step.values.tolist() == [0]
    assert result.attrs["steps"] == 0
    assert result.attrs["status"] == "done"


# ---- starts


def starts():
    rng = np.random.default_rng(0)
    d, p, k = (POINT[name] for name in "dpk")
    W, W_star = rng.standard_normal((p, d)), rng.standard_normal((k, d))
    o = Overlaps.of(W / np.sqrt(d), W_star / np.sqrt(d))
    explicit = {
        "overlaps": {"kind": "overlaps", "M": o.M, "Q": o.Q, "P": o.P},
        "weights": {"kind": "weights", "W": W, "W_star": W_star},
    }
    assert set(explicit) == set(EXPLICIT_KINDS)
    shared = {
        f"shared {name}": {"kind": name, "shared": True if kind.fixed_overlaps else {"d0": 12}}
        for name, kind in INITS.items()
        if kind.least_d(p, k) <= d and kind.fixed_overlaps
    }
    return {name: {"kind": name} for name in INITS} | shared | explicit


@engines
@pytest.mark.parametrize("init", starts().values(), ids=list(starts()))
def test_sgd_and_theory_have_same_start(engine, init):
    activation = "square" if engine == "S4" else "erf"
    result = run(engine, steps=(0, 5), seed=[0, 4], init=init, activation=activation)
    theory = integrate(point(init=init, activation=activation), times=[0.0], regime="classical", seed=[0, 4])
    for name in ("overlap_student_teacher", "overlap_student", "risk"):
        # rounding; explicit overlaps go through a Cholesky factor and back
        np.testing.assert_allclose(
            result[name][:, 0], theory[name][:, 0], rtol=1e-11, atol=1e-12, err_msg=name
        )
    teacher = theory.overlap_teacher  # without the dimension `seed` if it is the same for every seed
    np.testing.assert_allclose(
        result.overlap_teacher, np.broadcast_to(teacher, result.overlap_teacher.shape), rtol=1e-12, atol=1e-13
    )
    assert np.all(np.isfinite(result.risk))


@pytest.mark.parametrize("engine", ["S1", "S2", "S3", "S3-factored"])
@pytest.mark.parametrize(("d", "p", "k"), [(1, 1, 1), (2, 1, 2), (2, 7, 2), (3, 5, 1), (5, 2, 3), (40, 1, 1)])
def test_smallest_shapes_run(engine, d, p, k):
    result = run(engine, d=d, p=p, k=k, seed=range(2))
    assert result.attrs["status"] == ["done"] * 2
    assert np.all(np.isfinite(result.risk))
    eigenvalues = np.linalg.eigvalsh(result.overlap_student)
    assert np.all(eigenvalues > -1e-12 * eigenvalues[..., -1:])  # rounding
    Q = result.overlap_student.values
    np.testing.assert_allclose(Q, np.swapaxes(Q, -1, -2), atol=1e-14)  # rounding


@pytest.mark.parametrize("engine", ["S1", "S2", "S3", "S3-factored"])
def test_zero_student_without_slope_does_not_move(engine):
    """relu has no slope at zero, so planted(ε = 1), W = 0, never moves."""
    result = run(engine, init={"kind": "planted", "epsilon": 1.0}, activation="relu")
    np.testing.assert_array_equal(result.overlap_student, 0.0)
    assert len(np.unique(result.risk)) == 1


# ---- activations and simulators


def simulators_for(activation):
    return [engine for engine in SIMULATORS if engine != "S4" or activation == "square"]


@pytest.mark.parametrize(
    ("activation", "engine"), [(name, engine) for name in ACTIVATIONS for engine in simulators_for(name)]
)
def test_every_activation_runs_in_every_simulator(activation, engine):
    result = run(engine, activation=activation, steps=(0, 500), seed=range(6))
    assert result.attrs["status"] == ["done"] * 6
    first, last = result.risk.mean("seed").values
    assert last < first


@pytest.mark.parametrize(("student", "teacher"), list(product(ACTIVATIONS, repeat=2)))
def test_student_and_teacher_may_differ(student, teacher):
    change = {"activation": student, "teacher_activation": teacher}
    path = run("S1", **change)
    assert path.attrs["teacher_activation"] == teacher
    two_point = make_pairs(ACTIVATIONS[student], ACTIVATIONS[teacher])
    P = path.overlap_teacher.values
    for row in range(len(STEPS)):
        o = Overlaps(path.overlap_student_teacher.values[row], path.overlap_student.values[row], P)
        assert path.risk.values[row] == pytest.approx(risk(o, two_point), rel=1e-11)  # rounding
    for engine in simulators_for(student):
        result = run(engine, **change)
        assert result.attrs["status"] == "done"
        if engine in ("S2", "S4"):  # the same path up to rounding
            np.testing.assert_allclose(result.overlap_student, path.overlap_student, rtol=1e-11, atol=1e-12)
    assert run("S1", activation=student).attrs["teacher_activation"] == student


ARCTAN = Activation(
    name="arctan",
    formula="atan(x)",
    value=np.arctan,
    slope=lambda x: 1.0 / (1.0 + x * x),
    curvature=lambda x: -2.0 * x / (1.0 + x * x) ** 2,
    odd=True,
)


@pytest.mark.parametrize("engine", ["auto", "S2", "S3", "S3-factored"])
@pytest.mark.parametrize("p", [4, 80])
@pytest.mark.parametrize("role", ["activation", "teacher_activation"])
def test_activation_without_kernel_runs_with_warning(engine, p, role, monkeypatch):
    monkeypatch.setitem(ACTIVATIONS, "arctan", evaluated_in_python(ARCTAN))
    result = run(engine, p=p, seed=range(2), **{role: "arctan"})
    assert result.attrs["status"] == ["done"] * 2
    assert np.all(np.isfinite(result.risk))
    assert result.attrs["warnings"].startswith("arctan has no compiled kernel")
    assert result.attrs["engine"] == ("S2" if engine == "auto" else engine)


def test_compiled_simulator_refuses_activation_without_kernel(monkeypatch):
    monkeypatch.setitem(ACTIVATIONS, "arctan", evaluated_in_python(ARCTAN))
    for role in ("activation", "teacher_activation"):
        with pytest.raises(InvalidInput) as info:
            run("S1", **{role: "arctan"})
        assert info.value.field == "engine"


@pytest.mark.parametrize(
    ("activation", "engine", "p"),
    [
        (name, engine, p)
        for name in ACTIVATIONS
        for engine, p in (("S2", 4), ("S2", 310), ("S3", 120), ("S3-factored", 4), ("S4", 12))
        if engine in simulators_for(name)
    ],
)
def test_activation_without_kernel_follows_same_path(activation, engine, p, monkeypatch):
    """The name and therefore the stream are the same; only rounding differs."""
    compiled = run(engine, p=p, activation=activation)
    monkeypatch.setitem(ACTIVATIONS, activation, evaluated_in_python(ACTIVATIONS[activation]))
    plain = run(engine, p=p, activation=activation)
    assert "no compiled kernel" in plain.attrs["warnings"]
    assert compiled.attrs["warnings"] == ""
    # S1 and S2 may simulate the collapsed student: blocks differ, paths do not
    for name in ("largest_norm", "mean_orthogonal_norm", "cosine"):
        np.testing.assert_allclose(plain[name], compiled[name], rtol=1e-11, atol=1e-12, err_msg=name)
    # the closed form of tanh has a relative error of 6e-9 in averages, of which the risk is a difference
    rtol = 1e-7 if activation == "tanh" else 1e-11
    np.testing.assert_allclose(plain.risk, compiled.risk, rtol=rtol, atol=1e-12)


# Far from the thresholds, which are measured and may change.
RULE = [
    (10, 2, 3, "erf", "S1"),
    (8, 4, 10, "erf", "S1"),
    (8, 4, 10, "square", "S1"),
    (2, 1, 5, "tanh", "S1"),
    (100, 5, 20, "relu", "S1"),
    (10, 5, 1000, "erf", "S3"),
    (100, 5, 1000, "erf", "S3"),
    (10, 5, 1000, "square", "S3"),
    (300, 5, 1000, "relu", "S3"),
    (10, 2, 10**6, "erf", "S3"),
    (300, 5, 300, "erf", "S2"),
    (100, 5, 150, "tanh", "S2"),
    (200, 2, 3, "square", "S4"),
    (4, 2, 3, "square", "S4"),
    (200, 5, 100, "square", "S4"),
]


@pytest.mark.parametrize(("p", "k", "d", "activation", "engine"), RULE)
def test_choice_of_simulator_depends_on_point_alone(p, k, d, activation, engine):
    for chains in ({}, {"seed": range(3)}, {"repeat": range(9)}):
        result = run(p=p, k=k, d=d, activation=activation, steps=(0, 1), overlaps=False, **chains)
        assert result.attrs["engine"] == engine
        assert result.attrs["engine_reason"]
    assert result.attrs["engine_reason"] != "requested"


def test_rule_covers_every_automatic_simulator():
    assert {row[-1] for row in RULE} == set(SIMULATORS) - {"S3-factored"}


# ---- divergence

# (engine, p, k, d, gamma) at which some of twelve chains of the square activation diverge by step 300
UNSTABLE = [
    ("S1", 4, 2, 6, 0.5),
    ("S1", 30, 2, 30, 7.5),
    ("S2", 4, 2, 6, 0.5),
    ("S2", 320, 2, 60, 120.0),
    ("S3", 4, 2, 20, 1.0),
    ("S3", 100, 2, 200, 50.0),
    ("S3-factored", 4, 2, 20, 1.0),
    ("S4", 9, 2, 4, 1.125),
    ("S4", 100, 2, 60, 37.5),
]
unstable = pytest.mark.parametrize("case", UNSTABLE, ids=lambda case: "-".join(map(str, case)))
RECORDS = np.array([0, 10, 64, 100, 300])


def run_unstable(case, repeat):
    engine, p, k, d, gamma = case
    return run(
        engine, RECORDS, repeat=repeat, p=p, k=k, d=d, gamma=gamma, activation="square",
        observables=list(OBSERVABLES),
    )  # fmt: skip


@cache
def run_twelve(case):
    return run_unstable(case, range(12))


@unstable
def test_diverged_chain_keeps_earlier_values(case):
    result = run_twelve(case)
    statuses = result.attrs["status"]
    assert set(statuses) == {"done", "diverged"}
    for repeat, (status, steps) in enumerate(zip(statuses, result.attrs["steps"], strict=True)):
        chain = result.isel(repeat=repeat)
        kept = len(RECORDS) if status == "done" else int(np.searchsorted(RECORDS, steps))
        assert kept >= 1
        for name in result.data_vars:
            if name != "overlap_teacher":
                assert np.all(np.isfinite(chain[name][:kept])), name
                assert np.all(np.isnan(chain[name][kept:])), name
        if status == "done":
            assert steps == RECORDS[-1]
        elif steps not in RECORDS:  # detected by the simulator, after a block since the last record
            interval = result.attrs["block"]
            since = RECORDS[kept - 1]
            if result.attrs["engine_form"].startswith("StepLoop"):
                interval, since = samples_per_draw(case[3]), 0
            assert (steps - since) % interval == 0


@unstable
def test_diverging_chain_does_not_change_others(case):
    together = run_twelve(case)
    for repeat in (together.attrs["status"].index("done"), together.attrs["status"].index("diverged")):
        alone = run_unstable(case, repeat)
        assert alone.attrs["status"] == together.attrs["status"][repeat]
        assert alone.attrs["steps"] == together.attrs["steps"][repeat]
        for name, values in alone.data_vars.items():
            other = together[name].isel(repeat=repeat) if "repeat" in together[name].dims else together[name]
            np.testing.assert_array_equal(other, values, err_msg=name)


@engines
@pytest.mark.parametrize("gamma", [1e3, 1e12])
def test_huge_learning_rate_diverges_without_warnings(engine, gamma):
    result = run(engine, (0, 1, 2, 50), repeat=range(9), p=9, d=6, gamma=gamma, activation="square")
    assert result.attrs["status"] == ["diverged"] * 9
    assert np.all(np.isfinite(result.risk[:, 0]))


def test_activation_without_kernel_diverges_without_warnings(monkeypatch):
    monkeypatch.setitem(ACTIVATIONS, "square", replace(ACTIVATIONS["square"], code=None))
    for engine in ("S2", "S3", "S3-factored", "S4"):
        assert run(engine, (0, 50), activation="square", gamma=1e3).attrs["status"] == "diverged"


# ---- memory

PRINT_PEAK_MEMORY = """
import resource, sys
import sweep_service as ss
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
def run(p, d, steps):
    gamma = 0.1
    times = [0.0, steps * gamma / (p * d)]
    return ss.simulate({"d": d, "p": p, "k": 2, "gamma": gamma}, times=times)
run(3, 5, 3), run(3, 100, 3), run(100, 100, 3)
before = peak()
result = run(*map(int, sys.argv[1:]))
print(result.attrs["engine"], before, peak())
"""


@pytest.mark.parametrize(
    ("p", "d", "bound"),
    # W, Q and the buffer of samples are 8 MB each at p = d = 1000; S3 holds nothing of size d
    [(1000, 1000, 200), (10, 10**6, 100)],
)
def test_memory_is_limited_to_few_matrices(p, d, bound):
    process = subprocess.run(
        [sys.executable, "-c", PRINT_PEAK_MEMORY, str(p), str(d), "300"],
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert process.returncode == 0, process.stderr
    engine, before, after = process.stdout.split()
    print(f"p = {p}, d = {d}, {engine}: {before} MB before, {after} MB at the peak")
    assert float(after) - float(before) < bound
