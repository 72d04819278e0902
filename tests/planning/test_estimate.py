"""Estimates: counts, costs, warnings and limits."""

import math

import numpy as np
import pytest

from sweep_service.doctor import calibration
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.errors import InvalidInput, LimitExceeded
from sweep_service.execution.submission import Submission
from sweep_service.model.activations import ACTIVATIONS
from sweep_service.model.point import Point
from sweep_service.planning.bundles import make_bundles
from sweep_service.planning.costs import RECORDING_WORK_CLASS, Calibration, SgdCost, ode_work_class
from sweep_service.planning.estimate import Estimate, Limits, estimate
from sweep_service.planning.grids import Grid
from sweep_service.planning.keys import CopyGroups
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.spec import SweepSpec
from sweep_service.store.folder import DataFolder

BASE = {
    "axes": {"d": [10, 40], "p": [2, 8], "gamma": 0.1, "regime": ["classical", "high_dimensional"]},
    "fixed": {"k": 2},
    "seeds": {"init": 3, "repeat": 2},
    "time": {"max": 10.0, "samples": 5},
    "observables": ["risk", "cosine"],
}


def grid(**change):
    return Grid.of(SweepSpec.parse({**BASE, **change}))


def estimate_all(sweep_grid, known):
    """Estimate a sweep of which no run is stored."""
    plan = SweepPlan(sweep_grid)
    wanted = {kind: CopyGroups(plan.keys[kind]).first_runs() for kind in plan.schema.variables}
    return estimate(plan, wanted, sum(map(len, wanted.values())), known)


def estimate_spec(**change):
    return estimate_all(grid(**change), Calibration())


# Counts


def test_points_and_runs_are_counted():
    result = estimate_spec()
    assert result.points == 4
    assert result.runs == 4 * 3 * 2 + 4 * 2 * 3


@pytest.mark.parametrize(
    ("change", "runs"),
    [({"simulate": False}, 24), ({"axes": {"d": 10, "p": 2, "gamma": 0.1}}, 6), ({"seeds": 1}, 4 + 8)],
)
def test_only_requested_runs_are_counted(change, runs):
    assert estimate_spec(**change).runs == runs


def test_steps_are_summed_over_chains():
    steps = sum(10.0 / (0.1 / (p * d)) for d in (10, 40) for p in (2, 8)) * 6
    assert estimate_spec().sgd_steps == pytest.approx(steps, rel=1e-12)
    assert estimate_spec(simulate=False).sgd_steps == 0


@pytest.mark.parametrize(
    "change",
    [{}, {"observables": ["overlaps"]}, {"simulate": False}, {"axes": {**BASE["axes"], "regime": "auto"}}],
    ids=repr,
)
def test_bytes_equal_the_size_of_the_arrays(change):
    plan = SweepPlan(grid(**change))
    variables = [
        variable
        for variables_of_kind in plan.schema.variables.values()
        for variable in variables_of_kind.values()
    ]
    arrays = sum(np.zeros(variable.shape, variable.dtype).nbytes for variable in variables)
    assert estimate_spec(**change).bytes == plan.schema.bytes == arrays


def test_bytes_of_a_small_sweep_equal_a_manual_count():
    result = estimate_spec(axes={"d": 10, "p": 2, "gamma": 0.1}, observables=["risk"], seeds=3)
    # for each run: the risk at six times, seconds, steps, status, the quantity that diverged
    assert result.bytes == 3 * (6 * 8 + 8 + 8 + 1 + 1)


def test_copies_are_computed_once():
    result = estimate_spec(init={"kind": "informed", "shared": True}, seeds=2)
    # the two regimes do not depend on d: half of 16 runs
    assert result.copies == 8
    assert result.reused == 0
    assert result.runs == 8 + 16


def test_stored_runs_cost_nothing():
    plan = SweepPlan(grid())
    everything = {kind: CopyGroups(plan.keys[kind]).first_runs() for kind in plan.schema.variables}
    nothing = {kind: numbers[:0] for kind, numbers in everything.items()}
    full, half, none = (
        estimate(plan, wanted, sum(map(len, everything.values())), Calibration())
        for wanted in (everything, {**everything, "sgd": everything["sgd"][:12]}, nothing)
    )
    assert (none.core_seconds, none.sgd_steps) == (0.0, 0.0)
    assert none.reused == none.runs == full.runs
    assert full.reused == full.copies == none.copies == 0
    assert half.reused == 12
    assert 0 < half.core_seconds < full.core_seconds
    assert 0 < half.sgd_steps < full.sgd_steps
    assert none.bytes == full.bytes


def test_core_seconds_equal_the_cost_of_the_bundles():
    plan = SweepPlan(grid())
    wanted = {kind: CopyGroups(plan.keys[kind]).first_runs() for kind in plan.schema.variables}
    total = sum(bundle.cost for bundle in make_bundles(plan, wanted, Calibration()))
    assert estimate_spec().core_seconds == pytest.approx(total, rel=1e-9)


def test_slow_machine_increases_the_cost():
    slow = Calibration({"sgd/S1": 10.0, "sgd/S2": 10.0, "sgd/S3": 10.0})
    assert estimate_all(grid(), slow).core_seconds > 1.5 * estimate_spec().core_seconds


def test_doctor_measures_every_class_of_work(tmp_path):
    few = [(given, steps // 50, chains) for given, steps, chains in calibration.SGD_CASES]
    folder = DataFolder(tmp_path / "new")
    folder.put_calibration(Calibration({"of/another": 3.0}))
    factors = calibration.measure(folder, sgd_cases=few, repeats=1)
    used = {ode_work_class(point, regime) for point in POINTS for regime in ("auto", *REGIMES)}
    used |= {RECORDING_WORK_CLASS, *(SgdCost(point, 1.0, 1).work_class for point in POINTS)}
    assert used | {"of/another"} <= set(factors)
    assert all(math.isfinite(factor) and factor > 0.0 for factor in factors.values())
    assert folder.calibration().factors == factors
    result = estimate_all(grid(), folder.calibration())
    assert math.isfinite(result.core_seconds)
    assert result.core_seconds > 0.0


POINTS = [
    Point.parse({"d": d, "p": p, "k": k, "gamma": 1.0, "activation": activation})
    for d, p in ((5, 2), (5, 400), (20, 20), (300, 10), (2000, 100))
    for k in (1, 2, 3)
    for activation in ACTIVATIONS
]


def test_most_expensive_point_is_named():
    dearest = estimate_spec().dearest
    assert (dearest["d"], dearest["p"]) == (40, 8)
    assert 0 < dearest["core_seconds"] <= estimate_spec().core_seconds


def test_estimate_converts_to_a_dict():
    content = estimate_spec().to_dict()
    assert set(content) == set(Estimate.__dataclass_fields__)
    assert content["points"] == 4


# Warnings


def axes(regime="classical", **change):
    return {"axes": {"d": 100, "p": 4, "gamma": 0.1, **change, "regime": regime}}


WARNED = [
    ("δt = 0.25 > 0.1: no guarantee", axes(d=10, p=2, gamma=5.0)),
    ("p = 3 is not a multiple of k = 2", axes(p=3)),
    ("gradient flow departs from SGD", axes(gamma=0.8)),
    ("mean field at p = 4", axes("mean_field")),
    ("mean field neglects the sampling term", axes("mean_field", gamma=0.8)),
    ("label noise enters as γΔ/p", {**axes("mean_field_pde"), "fixed": {"k": 2, "noise": 0.1}}),
    (
        "label noise moves neurons out of the teacher's span",
        {**axes("mean_field_projected"), "fixed": {"k": 2, "noise": 1}},
    ),
]


@pytest.mark.parametrize(("text", "change"), WARNED)
def test_regime_outside_its_range_gives_a_warning(text, change):
    (warning,) = [message for message in estimate_spec(**change).warnings if text in message]
    assert "points" not in warning  # a single point is not counted


@pytest.mark.parametrize("regime", ["classical", "high_dimensional", "classical_noise"])
def test_regime_within_its_range_gives_no_warning(regime):
    assert estimate_spec(**axes(regime)).warnings == ()


@pytest.mark.parametrize("regime", [["classical"], ["classical", "high_dimensional"]], ids=["one", "two"])
def test_warning_counts_its_points(regime):
    warnings = estimate_spec(**axes(regime, d=[5, 50, 100], p=2, gamma=2.0)).warnings
    (steps,) = [message for message in warnings if "δt" in message]
    assert steps.endswith("(at 1 of 3 points)")


def test_warnings_that_differ_only_in_numbers_are_merged():
    warnings = estimate_spec(**axes(p=[3, 5, 7, 8])).warnings
    (uneven,) = [message for message in warnings if "multiple" in message]
    assert uneven.endswith("(at 3 of 4 points)")


@pytest.mark.parametrize(
    ("text", "change", "regime"),
    [
        ("multiple of k", {"p": 3}, None),
        ("multiple of k", {"p": 3}, "auto"),
        ("δt", {"d": 10, "p": 2, "gamma": 5.0}, "auto"),
    ],
)
def test_point_warnings_do_not_depend_on_the_regimes(text, change, regime):
    written = {name: value for name, value in axes(regime, **change)["axes"].items() if value is not None}
    assert any(text in message for message in estimate_spec(axes=written).warnings)


# Parts of the cost, and cheaper alternatives


def test_breakdown_shows_sgd_and_each_regime_apart():
    result = estimate_spec()
    assert [entry["name"] for entry in result.breakdown] == ["sgd", "classical", "high_dimensional"]
    assert [entry["runs"] for entry in result.breakdown] == [24, 12, 12]
    total = sum(entry["core_seconds"] for entry in result.breakdown)
    assert total == pytest.approx(result.core_seconds, rel=1e-12)
    alone = estimate_spec(simulate=False, axes={**BASE["axes"], "regime": "classical"})
    assert alone.breakdown == (result.breakdown[1],)


def advise(regime=None, activation="erf", init=None, **change):
    """Alternatives of a sweep of hours, at one point."""
    chosen = {"axes": {"d": 1000, "p": 8, "gamma": 0.4, **change} | ({"regime": regime} if regime else {})}
    chosen |= {"fixed": {"k": 2, "activation": activation}, "time": {"max": 1e5, "samples": 50}}
    return estimate_spec(**chosen, init=init or {"kind": "gaussian"}, seeds=20).alternatives


def test_cheaper_regime_is_named_with_its_predicted_error():
    (advice,) = advise()
    assert (advice["instead_of"], advice["regime"]) == ("sgd", "classical")
    assert advice["error"] == pytest.approx(0.075 * 0.4 / 8)  # of leaving out the sampling term
    assert advice["run_seconds"] < 0.01 * advice["instead_of_run_seconds"]


def test_accurate_regime_is_named_where_the_cheapest_one_is_not_accurate():
    (advice,) = advise(gamma=40.0)
    assert (advice["regime"], advice["error"]) == ("high_dimensional", 0.0)


def test_regime_of_the_sweep_is_not_an_alternative():
    advised = {advice["regime"] for advice in advise(regime=["classical", "high_dimensional"])}
    assert advised == {"classical_noise"}


def test_no_regime_is_advised_where_none_is_valid():
    assert advise(d=20, p=2, gamma=8.0) == ()  # δt = 0.2


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("init", ["gaussian", "spherical", "informed"])
@pytest.mark.parametrize("p", [2, 8, 24])
@pytest.mark.parametrize("gamma_over_p", [0.01, 3.0])
def test_mean_field_is_never_advised_for_small_p_and_large_d(activation, init, p, gamma_over_p):
    kind = {"kind": init}
    for advice in advise(activation=activation, init=kind, d=100_000, p=p, gamma=gamma_over_p * p):
        assert "mean_field" not in advice["regime"]


def test_runs_of_hours_give_a_warning():
    warnings = estimate_spec(axes={"d": 10**5, "p": 1000, "gamma": 0.1}, time={"max": 1e3}).warnings
    assert any("an SGD run takes" in message and "hours" in message for message in warnings)
    assert not any("mean_field" in message for message in warnings)


# Limits

ESTIMATE = Estimate(
    points=10, runs=100, reused=0, copies=0, sgd_steps=1.0, core_seconds=3600.0, bytes=1000, dearest={},
    warnings=(),
)  # fmt: skip
EXACT = {"points": 10, "runs": 100, "core_hours": 1.0, "bytes": 1000}


def test_sweep_at_the_limits_is_accepted():
    ESTIMATE.check_limits(Limits(**EXACT), free_bytes=1000)


@pytest.mark.parametrize("name", EXACT)
def test_error_names_the_exceeded_limit(name):
    with pytest.raises(LimitExceeded) as info:
        ESTIMATE.check_limits(Limits(**{**EXACT, name: EXACT[name] * 0.9}), free_bytes=1000)
    assert info.value.field == name
    assert f"must be at most {EXACT[name] * 0.9:.6g}" in info.value.allowed
    assert isinstance(info.value, InvalidInput)


def test_free_disk_space_is_a_limit():
    with pytest.raises(LimitExceeded) as info:
        ESTIMATE.check_limits(Limits(), free_bytes=999)
    assert info.value.field == "bytes"


def test_default_limits_accept_the_base_sweep():
    estimate_spec().check_limits(Limits(), free_bytes=1 << 30)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"seeds": {"init": 100_000, "repeat": 100_000}}, "runs"),
        ({"axes": {"d": {"lin": [5, 3400, 3396]}, "p": {"lin": [1, 300, 300]}, "gamma": 0.1}}, "points"),
        ({"seeds": 1000, "time": {"max": 1.0, "samples": 100_000}, "observables": ["overlaps"]}, "bytes"),
    ],
)
def test_counts_are_checked_before_expansion(change, name, monkeypatch):
    monkeypatch.setattr(Grid, "expand", lambda *given: pytest.fail("expanded"))
    with pytest.raises(LimitExceeded) as info:
        Submission(SweepSpec.parse({**BASE, **change}), Limits(bytes=1 << 20))
    assert info.value.field == name
