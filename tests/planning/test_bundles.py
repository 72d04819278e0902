"""Bundles: every wanted run in exactly one job, in tasks of about equal cost, the dearest first."""

from dataclasses import asdict
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep_service.planning import bundles as module
from sweep_service.planning.bundles import AIM, CHEAP, ENOUGH, LEAST, MOST_BYTES, MOST_RUNS, Bundle, bundles
from sweep_service.planning.costs import (
    LANES,
    LONGEST_OF_LANES,
    RECORDING,
    Calibration,
    SgdCost,
    ode_seconds,
    ode_work,
)
from sweep_service.planning.grids import Grid
from sweep_service.planning.jobs import Job
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.spec import SweepSpec
from sweep_service.simulators.selection import FEW_CHAINS

NONE = np.empty(0, dtype=np.int64)


def plan(**change):
    spec = {
        "axes": {"d": [5, 30], "p": [2, 8], "gamma": [0.1, 1.0], "regime": ["classical", "auto"]},
        "fixed": {"k": 2},
        "seeds": {"init": 3, "repeat": 2},
        "time": {"max": 10.0, "samples": 5},
    }
    return SweepPlan(Grid.of(SweepSpec.parse({**spec, **change})))


def everything(found):
    return {kind: np.arange(found.runs.count(kind)) for kind in found.schema.variables}


def numbers(found, some, kind):
    jobs = [job for bundle in some for job in bundle.jobs if job.kind == kind]
    return np.concatenate([NONE, *(job.numbers(found.runs) for job in jobs)])


def has_lanes(found, machine, bundle):
    """Is it one job of chains that share vectors, for which a bundle may be longer?"""
    job, point = bundle.jobs[0], found.grid.point(bundle.jobs[0].point)
    steps, samples = found.grid.times[-1] / point.delta_t, len(found.grid.times)
    alone = len(bundle.jobs) == 1 and job.kind == "sgd" and FEW_CHAINS <= runs(bundle) <= LANES
    return alone and SgdCost(point, steps, samples, machine).in_lanes(runs(bundle))


def runs(bundle):
    return sum(len(job.seeds) * len(job.repeats) for job in bundle.jobs)


class SlowMachine(Calibration):
    """Everything takes so many times as long."""

    def __call__(self, work):
        return self.factors["all"]


@st.composite
def work(draw):
    """A small grid, a subset of its runs, and a machine on which they cost anything from nothing to hours."""
    regimes = draw(st.lists(st.sampled_from(["classical", "mean_field", "auto"]), max_size=2, unique=True))
    found = plan(
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
        kind: chance.permutation(np.flatnonzero(chance.random(found.runs.count(kind)) < share))
        for kind in found.schema.variables
    }
    return found, wanted, SlowMachine({"all": 10.0 ** draw(st.integers(-2, 5))})


thorough = settings(max_examples=150, deadline=None, derandomize=True)


@thorough
@given(work())
def test_jobs_hold_every_wanted_run_exactly_once(drawn):
    found, wanted, machine = drawn
    some = bundles(found, wanted, machine)
    for kind in wanted:
        assert sorted(numbers(found, some, kind)) == sorted(wanted[kind])


@thorough
@given(work())
def test_bundles_are_never_empty_nor_too_large_and_the_dearest_come_first(drawn):
    some = bundles(*drawn)
    assert all(bundle.jobs for bundle in some)
    assert all(runs(bundle) <= MOST_RUNS or len(bundle.jobs) == 1 for bundle in some)
    for bundle, following in pairwise(some):
        assert following.cost <= 2.01 * max(bundle.cost, 1e-3)  # or it is of a dearer class


@thorough
@given(work())
def test_bundles_cost_about_the_aim_where_there_is_enough_work(drawn):
    found, _, machine = drawn
    some = bundles(*drawn)
    for bundle in some:
        longest = LONGEST_OF_LANES if has_lanes(found, machine, bundle) else AIM
        assert bundle.cost <= longest * (1 + 1e-9) or runs(bundle) == 1
    total, count = sum(bundle.cost for bundle in some), sum(map(runs, some))
    # neighbours are more than a bundle together, in either class of cost, or they would have been one
    classes = len({bundle.work for bundle in some})
    aim = min(AIM, max(LEAST, total / ENOUGH))
    assert len(some) <= 2 * (total / aim + count / MOST_RUNS) + 2 * classes


@thorough
@given(work())
def test_bundles_depend_on_which_runs_are_wanted_and_not_on_their_order(drawn):
    found, wanted, machine = drawn
    again = bundles(found, {kind: np.sort(some) for kind, some in wanted.items()}, machine)
    assert bundles(found, wanted, machine) == again


@thorough
@given(work())
def test_keys_tell_bundles_apart_and_survive_their_text(drawn):
    some = bundles(*drawn)
    assert len({bundle.key for bundle in some}) == len(some)
    for bundle in some:
        again = Bundle.of(bundle.text, bundle.cost, bundle.work)
        assert again == bundle
        assert again.key == bundle.key
        assert asdict(again) == asdict(bundle)


def test_the_key_of_a_bundle_is_that_of_its_jobs_and_not_of_their_price():
    job, other = Job("sgd", 0, 0, (0, 1), (0,)), Job("sgd", 0, 0, (0,), (0, 1))
    assert Bundle((job,), 1.0).key == Bundle((job,), 2.0).key
    assert len({Bundle(jobs, 1.0).key for jobs in [(job,), (other,), (job, other), (other, job)]}) == 4


def test_points_are_in_the_order_of_the_grid_within_a_bundle():
    found = plan()
    for bundle in bundles(found, everything(found), Calibration()):
        for kind in ("sgd", "ode"):
            order = [(job.point, job.regime) for job in bundle.jobs if job.kind == kind]
            assert order == sorted(order)


@pytest.mark.parametrize("empty", ["sgd", "ode"])
def test_a_kind_of_which_nothing_is_wanted_adds_no_bundle(empty):
    """As when all of its runs are stored already."""
    found = plan()
    wanted = {**everything(found), empty: NONE}
    some = bundles(found, wanted, Calibration())
    assert {job.kind for bundle in some for job in bundle.jobs} == {"sgd", "ode"} - {empty}


def test_nothing_wanted_is_no_bundle():
    assert bundles(plan(), {}, Calibration()) == []
    assert bundles(plan(), {"sgd": NONE, "ode": NONE}, Calibration()) == []


def test_runs_of_one_point_go_together():
    found = plan(simulate=True, seeds={"init": 4, "repeat": 2})
    some = bundles(found, {"sgd": np.arange(found.runs.count("sgd"))}, Calibration())
    jobs = [job for bundle in some for job in bundle.jobs]
    assert [job.seeds for job in jobs] == [(0, 1, 2, 3)] * len(found.grid)
    assert [job.repeats for job in jobs] == [(0, 1)] * len(found.grid)


def test_a_ragged_set_of_runs_is_cut_into_rectangles():
    found = plan(axes={"d": 5, "p": 2, "gamma": 0.1}, seeds={"init": 3, "repeat": 3})
    wanted = np.array([0, 1, 3, 4, 8])  # repeats 0 and 1 of two seeds, the last of the third
    (bundle,) = bundles(found, {"sgd": wanted}, Calibration())
    assert {(job.seeds, job.repeats) for job in bundle.jobs} == {((0, 1), (0, 1)), ((2,), (2,))}


def test_dear_runs_are_alone():
    found = plan(axes={"d": 5, "p": 2, "gamma": 0.1, "regime": "classical"})
    some = bundles(found, everything(found), SlowMachine({"all": 1e6}))
    assert all(runs(bundle) == 1 for bundle in some)
    assert len(some) == found.runs.count("sgd") + found.runs.count("ode")


def test_cheap_jobs_and_dear_ones_are_not_mixed():
    found = plan(axes={"d": [5, 300], "p": [2, 50], "gamma": [0.01], "regime": ["classical"]}, seeds=1)
    machine = SlowMachine({"all": 3.0})
    price = {}
    for kind, index in ((kind, index) for kind in ("sgd", "ode") for index in range(len(found.grid))):
        (alone,) = bundles(found, {kind: np.array([index])}, machine)
        price[kind, index] = alone.cost
    assert min(price.values()) < CHEAP < max(price.values())
    for bundle in bundles(found, everything(found), machine):
        assert len({price[job.kind, job.point] < CHEAP for job in bundle.jobs}) == 1


@pytest.mark.parametrize(("init", "repeat"), [(2000, 1), (1, 2000), (400, 400), (30, 1000)])
def test_no_job_has_more_runs_than_a_bundle_may(init, repeat):
    found = plan(
        axes={"d": 5, "p": 2, "gamma": 0.1}, seeds={"init": init, "repeat": repeat},
        time={"max": 0.01, "samples": 1},
    )  # fmt: skip
    some = bundles(found, everything(found), Calibration())
    assert max(map(runs, some)) <= MOST_RUNS


def size(found, bundle):
    """Bytes of its part."""
    return sum(len(job.seeds) * len(job.repeats) * found.schema.run_bytes(job.kind) for job in bundle.jobs)


@thorough
@given(work(), st.floats(0.1, 300.0))
def test_no_bundle_has_more_bytes_than_a_part_may_but_of_one_run(drawn, share):
    found, wanted, machine = drawn
    most = int(share * max(found.schema.run_bytes(kind) for kind in wanted))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MOST_BYTES", most)
        some = bundles(found, wanted, machine)
    assert all(size(found, bundle) <= most or runs(bundle) == 1 for bundle in some)
    assert sum(map(runs, some)) == sum(map(len, wanted.values()))


@pytest.mark.parametrize(("p", "samples"), [(60, 120), (200, 120), (200, 3), (400, 250)])
def test_wide_runs_with_their_overlaps_fill_a_part_and_no_more(p, samples):
    """They cost next to nothing, so that their bytes alone keep them apart."""
    found = plan(
        axes={"d": 500, "p": p, "gamma": [0.1, 0.2], "regime": "classical"},
        seeds={"init": 20, "repeat": 2}, observables=["risk", "overlaps"],
        time={"max": 0.01, "samples": samples},
    )  # fmt: skip
    some = bundles(found, everything(found), SlowMachine({"all": 1e-9}))
    assert all(size(found, bundle) <= MOST_BYTES or runs(bundle) == 1 for bundle in some)
    assert sum(size(found, bundle) for bundle in some) == found.schema.bytes
    if found.schema.run_bytes("sgd") > MOST_BYTES / 2:
        assert all(runs(bundle) == 1 for bundle in some)


def test_the_cost_of_a_bundle_is_that_of_its_runs():
    found = plan(axes={"d": 30, "p": 8, "gamma": 0.1, "regime": "classical"}, seeds=3)
    point, times, known = found.grid.point(0), found.grid.times, Calibration()
    sgd = SgdCost(point, times[-1] / point.delta_t, len(times), known).seconds(3)
    ode = ode_seconds(point, "classical", times[-1], len(times), known)
    total = sum(bundle.cost for bundle in bundles(found, everything(found), known))
    assert total == pytest.approx(3 * sgd + 3 * ode, rel=1e-12)


# Lanes: chains that share vectors cost less together, and are priced as they are cut


def chains(steps, **seeds):
    """Of a point at which eight share vectors, so many steps each."""
    found = plan(axes={"d": 10, "p": 8, "gamma": 0.1}, seeds=seeds, time={"max": 1.0, "samples": 3})
    point = found.grid.point(0)
    known = SlowMachine({"all": steps * point.delta_t})
    return found, known, SgdCost(point, 1.0 / point.delta_t, len(found.grid.times), known).price


def sizes(found, known):
    return sorted(job.runs for one in bundles(found, everything(found), known) for job in one.jobs)


@pytest.mark.parametrize(
    "seeds", [{"init": 16, "repeat": 1}, {"init": 4, "repeat": 4}, {"init": 1, "repeat": 16}]
)
def test_chains_of_some_seconds_stay_in_their_lanes(seeds):
    found, known, price = chains(2e7, **seeds)
    assert LEAST < 8 * price(8) < LONGEST_OF_LANES
    assert sizes(found, known) == [8, 8]
    assert sum(one.cost for one in bundles(found, everything(found), known)) == pytest.approx(16 * price(8))


def test_chains_of_a_minute_are_worth_a_core_each():
    found, known, price = chains(1e9, init=16, repeat=1)
    assert sizes(found, known) == [1] * 16
    assert price(8) == price(1)


def test_chains_that_are_left_over_are_alone_and_so_is_their_price():
    found, known, price = chains(2e7, init=11, repeat=1)
    assert sizes(found, known) == [1, 1, 1, 8]
    assert price(3) > 1.5 * price(8)
    total = sum(one.cost for one in bundles(found, everything(found), known))
    assert total == pytest.approx(8 * price(8) + 3 * price(1))


# Costs


@pytest.mark.parametrize("activation", ["erf", "relu", "square", "tanh"])
@pytest.mark.parametrize(("d", "p"), [(5, 2), (5, 40), (2000, 4), (300, 300)])
def test_costs_are_positive_and_grow_with_the_work(activation, d, p):
    found = plan(axes={"d": d, "p": p, "gamma": 0.1}, fixed={"k": 2, "activation": activation})
    point, known = found.grid.point(0), Calibration()
    assert 0 < SgdCost(point, 1e3, 5, known).seconds(1) < SgdCost(point, 1e6, 5, known).seconds(1)
    assert SgdCost(point, 1e3, 5, known).seconds(1) < SgdCost(point, 1e3, 500, known).seconds(1)
    for regime in ("classical", "mean_field", "auto"):
        assert 0 < ode_seconds(point, regime, 1.0, 5, known) < ode_seconds(point, regime, 1e4, 5, known)


def test_a_slower_machine_makes_its_own_class_of_work_dearer():
    found = plan(axes={"d": 30, "p": 8, "gamma": 0.1})
    point, known = found.grid.point(0), Calibration()
    slow, slow_to_record = Calibration({SgdCost(point, 1e4, 5).work: 2.0}), Calibration({RECORDING: 2.0})
    plain, steps, records = (
        SgdCost(point, 1e4, 5, known).seconds(1),
        SgdCost(point, 1e4, 5).stepping(1),
        SgdCost(point, 1e4, 5).recording(1),
    )
    assert plain == pytest.approx(steps + records)
    assert SgdCost(point, 1e4, 5, slow).seconds(1) == pytest.approx(2 * steps + records)
    assert SgdCost(point, 1e4, 5, slow_to_record).seconds(1) == pytest.approx(steps + 2 * records)
    assert ode_seconds(point, "classical", 1.0, 5, slow) == ode_seconds(point, "classical", 1.0, 5, known)
    assert ode_work(point, "classical") != SgdCost(point, 1e4, 5).work


def test_a_calibration_learns_half_way_and_from_enough_work_only():
    known = Calibration({"a": 1.0, "b": 2.0})
    learned = known.learned({"a": (4.0, 1.0), "b": (0.1, 0.01), "c": (9.0, 1.0), "d": (1.0, 0.0)})
    assert dict(learned.factors) == {"a": 2.0, "b": 2.0, "c": 3.0}
    for _ in range(30):
        learned = learned.learned({"a": (4.0, 1.0)})
    assert learned("a") == pytest.approx(4.0, abs=1e-3)  # factors are rounded to four places
