"""Bundles: every requested run in exactly one job, bundles of similar cost, the most expensive first."""

from dataclasses import asdict
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep_service.model.point import Point
from sweep_service.planning.bundles import DEFAULT_LIMITS, Bundle, BundleLimits, make_bundles
from sweep_service.planning.costs import (
    LANES,
    MAX_VECTOR_SECONDS,
    RECORDING_WORK_CLASS,
    Calibration,
    SgdCost,
    ode_seconds,
    ode_work_class,
)
from sweep_service.planning.grids import Grid
from sweep_service.planning.jobs import Job
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.spec import SweepSpec
from sweep_service.simulators.selection import MIN_CHAINS_PER_VECTOR

NO_RUNS = np.empty(0, dtype=np.int64)


def plan(**change):
    spec = {
        "axes": {"d": [5, 30], "p": [2, 8], "gamma": [0.1, 1.0], "regime": ["classical", "auto"]},
        "fixed": {"k": 2},
        "seeds": {"init": 3, "repeat": 2},
        "time": {"max": 10.0, "samples": 5},
    }
    return SweepPlan(Grid.of(SweepSpec.parse({**spec, **change})))


def everything(sweep_plan):
    return {kind: np.arange(sweep_plan.runs.count(kind)) for kind in sweep_plan.schema.variables}


def numbers(sweep_plan, bundles, kind):
    jobs = [job for bundle in bundles for job in bundle.jobs if job.kind == kind]
    return np.concatenate([NO_RUNS, *(job.numbers(sweep_plan.runs) for job in jobs)])


def has_lanes(sweep_plan, machine, bundle):
    """Return whether a bundle is one job of chains that share vectors, which may take longer."""
    job, point = bundle.jobs[0], sweep_plan.grid.point(bundle.jobs[0].point)
    steps, samples = sweep_plan.grid.times[-1] / point.delta_t, len(sweep_plan.grid.times)
    alone = len(bundle.jobs) == 1 and job.kind == "sgd" and MIN_CHAINS_PER_VECTOR <= runs(bundle) <= LANES
    return alone and SgdCost(point, steps, samples, machine).uses_lanes(runs(bundle))


def runs(bundle):
    return sum(len(job.seeds) * len(job.repeats) for job in bundle.jobs)


class SlowMachine(Calibration):
    """A machine with one factor for all classes of work."""

    def __call__(self, work):
        return self.factors["all"]


@st.composite
def work(draw):
    """A small grid, a subset of its runs, and a machine on which they take from no time to hours."""
    regimes = draw(st.lists(st.sampled_from(["classical", "mean_field", "auto"]), max_size=2, unique=True))
    sweep_plan = plan(
        axes={
            "d": draw(st.sampled_from([[5], [5, 300]])),
            "p": draw(st.sampled_from([[2], [2, 4, 30]])),
            "gamma": draw(st.sampled_from([[0.1], [0.01, 1.0]])),
            **({"regime": regimes} if regimes else {}),
        },
        seeds={"init": draw(st.integers(1, 20)), "repeat": draw(st.integers(1, 12))},
        simulate=not regimes or draw(st.booleans()),
        time={"max": draw(st.sampled_from([0.1, 100.0])), "samples": 3},
    )
    chance = np.random.default_rng(draw(st.integers(0, 2**32)))
    share = draw(st.sampled_from([0.0, 0.1, 0.9, 1.0]))
    wanted = {
        kind: chance.permutation(np.flatnonzero(chance.random(sweep_plan.runs.count(kind)) < share))
        for kind in sweep_plan.schema.variables
    }
    return sweep_plan, wanted, SlowMachine({"all": 10.0 ** draw(st.integers(-2, 5))})


thorough = settings(max_examples=150, deadline=None, derandomize=True)


@thorough
@given(work())
def test_jobs_contain_every_requested_run_exactly_once(drawn):
    sweep_plan, wanted, machine = drawn
    bundles = make_bundles(sweep_plan, wanted, machine)
    for kind in wanted:
        assert sorted(numbers(sweep_plan, bundles, kind)) == sorted(wanted[kind])


@thorough
@given(work())
def test_bundles_are_not_empty_nor_too_large_and_sorted_by_cost(drawn):
    bundles = make_bundles(*drawn)
    assert all(bundle.jobs for bundle in bundles)
    assert all(runs(bundle) <= DEFAULT_LIMITS.max_runs or len(bundle.jobs) == 1 for bundle in bundles)
    pilots = 3 * len({bundle.work_class for bundle in bundles})
    for bundle, following in pairwise(bundles[pilots:]):
        assert following.cost <= 2.01 * max(
            bundle.cost, 1e-3
        )  # otherwise a more expensive bundle would come later


@thorough
@given(work())
def test_bundles_cost_about_the_target(drawn):
    sweep_plan, _, machine = drawn
    bundles = make_bundles(*drawn)
    for bundle in bundles:
        longest = (
            MAX_VECTOR_SECONDS if has_lanes(sweep_plan, machine, bundle) else DEFAULT_LIMITS.target_seconds
        )
        assert bundle.cost <= longest * (1 + 1e-9) or runs(bundle) == 1
    total, count = sum(bundle.cost for bundle in bundles), sum(map(runs, bundles))
    # two consecutive bundles of a class exceed a bundle together, otherwise they would be one
    classes = len({bundle.work_class for bundle in bundles})
    seconds = DEFAULT_LIMITS.seconds(total)
    assert len(bundles) <= 2 * (total / seconds + count / DEFAULT_LIMITS.max_runs) + 2 * classes


@thorough
@given(work())
def test_bundles_do_not_depend_on_the_order_of_runs(drawn):
    sweep_plan, wanted, machine = drawn
    again = make_bundles(sweep_plan, {kind: np.sort(numbers) for kind, numbers in wanted.items()}, machine)
    assert make_bundles(sweep_plan, wanted, machine) == again


@thorough
@given(work())
def test_bundle_keys_are_unique_and_survive_serialisation(drawn):
    bundles = make_bundles(*drawn)
    assert len({bundle.key for bundle in bundles}) == len(bundles)
    for bundle in bundles:
        again = Bundle.from_json(bundle.jobs_json, bundle.cost, bundle.work_class)
        assert again == bundle
        assert again.key == bundle.key
        assert asdict(again) == asdict(bundle)


def test_first_bundles_are_of_every_class_of_work():
    regimes = ["classical", "high_dimensional", "mean_field"]
    sweep_plan = plan(axes={"d": [5, 300], "p": [4, 12], "gamma": [0.1, 0.2], "regime": regimes}, seeds=8)
    bundles = make_bundles(sweep_plan, everything(sweep_plan), SlowMachine({"all": 1e4}))
    classes = {bundle.work_class for bundle in bundles}
    assert {name.rpartition("/")[2] for name in classes} >= {*regimes, "S1", "S3"}
    assert len(bundles) > 6 * len(classes)
    assert {bundle.work_class for bundle in bundles[: 3 * len(classes)]} == classes


def test_bundle_key_depends_on_jobs_but_not_on_cost():
    job, other = Job("sgd", 0, 0, (0, 1), (0,)), Job("sgd", 0, 0, (0,), (0, 1))
    assert Bundle((job,), 1.0).key == Bundle((job,), 2.0).key
    assert len({Bundle(jobs, 1.0).key for jobs in [(job,), (other,), (job, other), (other, job)]}) == 4


def test_points_of_a_bundle_are_in_grid_order():
    sweep_plan = plan()
    for bundle in make_bundles(sweep_plan, everything(sweep_plan), Calibration()):
        for kind in ("sgd", "ode"):
            order = [(job.point, job.regime) for job in bundle.jobs if job.kind == kind]
            assert order == sorted(order)


@pytest.mark.parametrize("empty", ["sgd", "ode"])
def test_kind_without_runs_adds_no_bundle(empty):
    """As if all of its runs were stored."""
    sweep_plan = plan()
    wanted = {**everything(sweep_plan), empty: NO_RUNS}
    bundles = make_bundles(sweep_plan, wanted, Calibration())
    assert {job.kind for bundle in bundles for job in bundle.jobs} == {"sgd", "ode"} - {empty}


def test_no_runs_give_no_bundles():
    assert make_bundles(plan(), {}, Calibration()) == []
    assert make_bundles(plan(), {"sgd": NO_RUNS, "ode": NO_RUNS}, Calibration()) == []


def test_runs_of_a_point_are_in_one_job():
    sweep_plan = plan(simulate=True, seeds={"init": 4, "repeat": 2})
    bundles = make_bundles(sweep_plan, {"sgd": np.arange(sweep_plan.runs.count("sgd"))}, Calibration())
    jobs = [job for bundle in bundles for job in bundle.jobs]
    assert [job.seeds for job in jobs] == [(0, 1, 2, 3)] * len(sweep_plan.grid)
    assert [job.repeats for job in jobs] == [(0, 1)] * len(sweep_plan.grid)


def test_ragged_set_of_runs_is_split_into_rectangles():
    sweep_plan = plan(axes={"d": 5, "p": 2, "gamma": 0.1}, seeds={"init": 3, "repeat": 3})
    wanted = np.array([0, 1, 3, 4, 8])  # repeats 0 and 1 of two seeds, the last repeat of the third
    (bundle,) = make_bundles(sweep_plan, {"sgd": wanted}, Calibration())
    assert {(job.seeds, job.repeats) for job in bundle.jobs} == {((0, 1), (0, 1)), ((2,), (2,))}


def test_expensive_runs_have_their_own_bundles():
    sweep_plan = plan(axes={"d": 5, "p": 2, "gamma": 0.1, "regime": "classical"})
    bundles = make_bundles(sweep_plan, everything(sweep_plan), SlowMachine({"all": 1e6}))
    assert all(runs(bundle) == 1 for bundle in bundles)
    assert len(bundles) == sweep_plan.runs.count("sgd") + sweep_plan.runs.count("ode")


def test_cheap_and_expensive_jobs_are_not_mixed():
    sweep_plan = plan(axes={"d": [5, 300], "p": [2, 50], "gamma": [0.01], "regime": ["classical"]}, seeds=1)
    machine = SlowMachine({"all": 3.0})
    price = {}
    for kind, index in ((kind, index) for kind in ("sgd", "ode") for index in range(len(sweep_plan.grid))):
        (alone,) = make_bundles(sweep_plan, {kind: np.array([index])}, machine)
        price[kind, index] = alone.cost
    assert min(price.values()) < DEFAULT_LIMITS.cheap_job_seconds < max(price.values())
    for bundle in make_bundles(sweep_plan, everything(sweep_plan), machine):
        assert (
            len({price[job.kind, job.point] < DEFAULT_LIMITS.cheap_job_seconds for job in bundle.jobs}) == 1
        )


@pytest.mark.parametrize(("init", "repeat"), [(2000, 1), (1, 2000), (400, 400), (30, 1000)])
def test_no_bundle_exceeds_the_maximal_number_of_runs(init, repeat):
    sweep_plan = plan(
        axes={"d": 5, "p": 2, "gamma": 0.1}, seeds={"init": init, "repeat": repeat},
        time={"max": 0.01, "samples": 1},
    )  # fmt: skip
    bundles = make_bundles(sweep_plan, everything(sweep_plan), Calibration())
    assert max(map(runs, bundles)) <= DEFAULT_LIMITS.max_runs


def size(sweep_plan, bundle):
    """Return the bytes of its part."""
    return sum(
        len(job.seeds) * len(job.repeats) * sweep_plan.schema.run_bytes(job.kind) for job in bundle.jobs
    )


@thorough
@given(work(), st.floats(0.1, 300.0))
def test_only_bundles_of_one_run_exceed_the_maximal_part_size(drawn, share):
    sweep_plan, wanted, machine = drawn
    max_bytes = int(share * max(sweep_plan.schema.run_bytes(kind) for kind in wanted))
    bundles = make_bundles(sweep_plan, wanted, machine, BundleLimits(max_part_bytes=max_bytes))
    assert all(size(sweep_plan, bundle) <= max_bytes or runs(bundle) == 1 for bundle in bundles)
    assert sum(map(runs, bundles)) == sum(map(len, wanted.values()))


@pytest.mark.parametrize(("p", "samples"), [(60, 120), (200, 120), (200, 3), (400, 250)])
def test_wide_runs_with_overlaps_are_bundled_by_bytes(p, samples):
    """They cost almost nothing, so that only their bytes limit bundles."""
    sweep_plan = plan(
        axes={"d": 500, "p": p, "gamma": [0.1, 0.2], "regime": "classical"},
        seeds={"init": 20, "repeat": 2}, observables=["risk", "overlaps"],
        time={"max": 0.01, "samples": samples},
    )  # fmt: skip
    bundles = make_bundles(sweep_plan, everything(sweep_plan), SlowMachine({"all": 1e-9}))
    assert all(
        size(sweep_plan, bundle) <= DEFAULT_LIMITS.max_part_bytes or runs(bundle) == 1 for bundle in bundles
    )
    assert sum(size(sweep_plan, bundle) for bundle in bundles) == sweep_plan.schema.bytes
    if sweep_plan.schema.run_bytes("sgd") > DEFAULT_LIMITS.max_part_bytes / 2:
        assert all(runs(bundle) == 1 for bundle in bundles)


def test_cost_of_a_bundle_is_the_sum_over_its_runs():
    sweep_plan = plan(axes={"d": 30, "p": 8, "gamma": 0.1, "regime": "classical"}, seeds=3)
    point, times, known = sweep_plan.grid.point(0), sweep_plan.grid.times, Calibration()
    sgd = SgdCost(point, times[-1] / point.delta_t, len(times), known).seconds(3)
    ode = ode_seconds(point, "classical", times[-1], len(times), known)
    total = sum(bundle.cost for bundle in make_bundles(sweep_plan, everything(sweep_plan), known))
    assert total == pytest.approx(3 * sgd + 3 * ode, rel=1e-12)


# Chains that share vectors cost less together, and their cost depends on how they are split


def chains(steps, **seeds):
    """Return a plan of chains with this many steps that share vectors, its calibration and cost function."""
    sweep_plan = plan(axes={"d": 10, "p": 8, "gamma": 0.1}, seeds=seeds, time={"max": 1.0, "samples": 3})
    point = sweep_plan.grid.point(0)
    known = SlowMachine({"all": steps * point.delta_t})
    return (
        sweep_plan,
        known,
        SgdCost(point, 1.0 / point.delta_t, len(sweep_plan.grid.times), known).bundled_seconds,
    )


def sizes(sweep_plan, known):
    return sorted(
        job.runs for bundle in make_bundles(sweep_plan, everything(sweep_plan), known) for job in bundle.jobs
    )


@pytest.mark.parametrize(
    "seeds", [{"init": 16, "repeat": 1}, {"init": 4, "repeat": 4}, {"init": 1, "repeat": 16}]
)
def test_chains_of_some_seconds_share_vectors(seeds):
    sweep_plan, known, price = chains(2e7, **seeds)
    assert DEFAULT_LIMITS.min_seconds < 8 * price(8) < MAX_VECTOR_SECONDS
    assert sizes(sweep_plan, known) == [8, 8]
    assert sum(
        bundle.cost for bundle in make_bundles(sweep_plan, everything(sweep_plan), known)
    ) == pytest.approx(16 * price(8))


def test_chains_of_a_minute_are_computed_one_by_one():
    sweep_plan, known, price = chains(1e9, init=16, repeat=1)
    assert sizes(sweep_plan, known) == [1] * 16
    assert price(8) == price(1)


def test_remaining_chains_are_computed_and_costed_one_by_one():
    sweep_plan, known, price = chains(2e7, init=11, repeat=1)
    assert sizes(sweep_plan, known) == [1, 1, 1, 8]
    assert price(1) > 1.5 * price(8)
    total = sum(bundle.cost for bundle in make_bundles(sweep_plan, everything(sweep_plan), known))
    assert total == pytest.approx(8 * price(8) + 3 * price(1))


# Costs


@pytest.mark.parametrize("activation", ["erf", "relu", "square", "tanh"])
@pytest.mark.parametrize(("d", "p"), [(5, 2), (5, 40), (2000, 4), (300, 300)])
def test_costs_are_positive_and_increase_with_steps_and_samples(activation, d, p):
    sweep_plan = plan(axes={"d": d, "p": p, "gamma": 0.1}, fixed={"k": 2, "activation": activation})
    point, known = sweep_plan.grid.point(0), Calibration()
    assert 0 < SgdCost(point, 1e3, 5, known).seconds(1) < SgdCost(point, 1e6, 5, known).seconds(1)
    assert SgdCost(point, 1e3, 5, known).seconds(1) < SgdCost(point, 1e3, 500, known).seconds(1)
    for regime in ("classical", "mean_field", "auto"):
        assert 0 < ode_seconds(point, regime, 1.0, 5, known) < ode_seconds(point, regime, 1e4, 5, known)


def test_calibration_factor_applies_only_to_its_class_of_work():
    sweep_plan = plan(axes={"d": 30, "p": 8, "gamma": 0.1})
    point, known = sweep_plan.grid.point(0), Calibration()
    slow = Calibration({SgdCost(point, 1e4, 5).work_class: 2.0})
    slow_to_record = Calibration({RECORDING_WORK_CLASS: 2.0})
    plain, steps, records = (
        SgdCost(point, 1e4, 5, known).seconds(1),
        SgdCost(point, 1e4, 5).stepping_seconds(1),
        SgdCost(point, 1e4, 5).recording_seconds(1),
    )
    assert plain == pytest.approx(steps + records)
    assert SgdCost(point, 1e4, 5, slow).seconds(1) == pytest.approx(2 * steps + records)
    assert SgdCost(point, 1e4, 5, slow_to_record).seconds(1) == pytest.approx(steps + 2 * records)
    assert ode_seconds(point, "classical", 1.0, 5, slow) == ode_seconds(point, "classical", 1.0, 5, known)
    assert ode_work_class(point, "classical") != SgdCost(point, 1e4, 5).work_class


def test_calibration_moves_half_way_and_ignores_short_measurements():
    known = Calibration({"a": 1.0, "b": 2.0})
    learned = known.update({"a": (4.0, 1.0), "b": (0.1, 0.01), "c": (9.0, 1.0), "d": (1.0, 0.0)})
    assert dict(learned.factors) == {"a": 2.0, "b": 2.0, "c": 3.0}
    for _ in range(30):
        learned = learned.update({"a": (4.0, 1.0)})
    assert learned("a") == pytest.approx(4.0, abs=1e-3)  # factors are rounded to four places


@pytest.mark.parametrize("size", [{"d": 3, "p": 10}, {"d": 60, "p": 40}, {"d": 1000, "p": 10}])
def test_learned_second_layer_costs_a_little(size):
    def stepping(**change):
        point = Point.parse({**size, "k": 2, "gamma": 1.0, **change})
        return SgdCost(point, 1e4, 5).stepping_seconds(8)

    assert stepping() < stepping(second_layer_rate=1.0) < 1.3 * stepping()
    assert stepping(weight_decay=0.1) == stepping()
    assert stepping(second_layer={"init": "gaussian"}) == stepping()


@pytest.mark.parametrize("p", [2, 10, 50])
def test_large_batches_of_overlaps_cost_less_per_sample(p):
    costs = []
    for batch in (1, 4, 1000):
        point = Point.parse({"d": 2000, "p": p, "k": 2, "gamma": 1.0, "batch": batch})
        costs.append(SgdCost(point, 1e4, 5).stepping_seconds(1) / batch)
    assert costs[0] == pytest.approx(costs[1])
    assert 0.2 * costs[0] < costs[2] < 0.75 * costs[0]
