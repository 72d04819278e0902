"""Progress and time left of mixed sweeps, replayed with prices that differ from the predicted ones."""

import heapq
from datetime import UTC, datetime
from types import SimpleNamespace

import numpy as np
import pytest

from sweep_service.execution.remaining import predict_remaining
from sweep_service.execution.time_left import Activity, predict_time_left
from sweep_service.planning.bundles import make_bundles
from sweep_service.planning.costs import Calibration
from sweep_service.planning.grids import Grid
from sweep_service.planning.keys import CopyGroups
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.spec import SweepSpec
from sweep_service.status import Status
from sweep_service.store.ledger import Ledger, Queue, State, SweepRecord, WorkTotals

MERGE_SECONDS = 2.0
THREADS = 4
MIXED = {
    "axes": {
        "d": [20, 200], "p": [4, 8, 40], "gamma": {"log": [0.05, 1.0, 6]}, "activation": ["erf", "relu"],
        "regime": ["classical_noise", "high_dimensional", "mean_field"],
    },
    "fixed": {"k": 2, "noise": 1e-3},
    "init": {"kind": "gaussian", "orthonormal_teacher": True},
    "seeds": 24,
    "time": {"max": 30.0, "samples": 30},
}  # fmt: skip
SWEEP = SweepRecord("s", "key", "", State.RUNNING, "2026-01-01", "2026-01-01", None, "", 1, 0)


def replay(tmp_path, slowdown, first=1.0, later=1.0, reopen=False):
    """Run the bundles of a mixed sweep on a simulated clock; return what was shown at each merge.

    A bundle of class c takes slowdown(c) times its predicted seconds, with a scatter of 20 %. `first` is the
    time that passes in a second of processor time on a busy machine, and `later` that after an eighth of the
    bundles.
    """
    sweep_plan, ledger = SweepPlan(Grid.of(SweepSpec.parse(MIXED))), Ledger(tmp_path / "ledger.sqlite")
    wanted = {kind: CopyGroups(sweep_plan.keys[kind]).first_runs() for kind in sweep_plan.runs.kinds}
    bundles = make_bundles(sweep_plan, wanted, Calibration())
    ledger.add(SWEEP, bundles)
    rng, now, waiting, running, ended = np.random.default_rng(1), 0.0, list(bundles), [], []
    shown, next_merge, merged, done = [], MERGE_SECONDS, 0.0, 0
    while waiting or running or ended:
        while waiting and len(running) < THREADS:
            bundle = waiting.pop(0)
            seconds = bundle.cost * slowdown(bundle.work_class) * rng.lognormal(0.0, 0.2)
            stretch = later if done > len(bundles) // 8 else first
            heapq.heappush(running, (now + stretch * seconds, bundle.key, seconds, stretch * seconds))
        if running and running[0][0] <= next_merge:
            ended.append(heapq.heappop(running))
            now, done = ended[-1][0], done + 1
            continue
        now, next_merge = next_merge, next_merge + MERGE_SECONDS
        if ended:
            merge(ledger, ended)
            ended, merged = [], now
        if reopen:  # as after a restart of the service
            ledger.close()
            ledger = Ledger(tmp_path / "ledger.sqlite")
        shown.append(predict(ledger, now, 0.0, merged, THREADS))
    ledger.close()
    return shown


def merge(ledger, ended):
    """Mark bundles as merged, given as (time of the end, key, processor seconds, elapsed seconds)."""
    ledger.mark_merged(
        "s",
        {key: (seconds, {Status.DONE: 1}) for _, key, seconds, _ in ended},
        {key: elapsed for _, key, _, elapsed in ended},
        {key: datetime.fromtimestamp(time, UTC).isoformat() for time, key, _, _ in ended},
    )


def predict(ledger, now, started, merged, threads):
    totals = ledger.progress_totals(["s"])["s"]
    remaining = predict_remaining(totals["work"])
    activity = Activity(now, started, merged, totals["queue"], totals["recent"])
    eta = predict_time_left(remaining, activity, threads)
    return SimpleNamespace(time=now, remaining=remaining, eta=eta, seconds=totals["seconds"])


def second_half(shown, end, stretch=1.0):
    """What was shown in the second half, with the true time left; without the last merges."""
    late = (now for now in shown if now.time >= 0.5 * end)
    # Of less than that, a fifth is the time until a merge, or the scatter of the last bundle.
    return [(now, end - now.time) for now in late if end - now.time > 5 * MERGE_SECONDS * stretch]


def five_times_one_regime(work_class):
    return 5.0 if work_class.endswith("mean_field") else 1.0


def four_times_relu(work_class):
    return 4.0 if "/relu/" in work_class else 0.5 if work_class.startswith("sgd") else 2.0


@pytest.mark.parametrize("slowdown", [five_times_one_regime, four_times_relu])
@pytest.mark.parametrize(
    ("first", "later"), [(1.0, 1.0), (2.5, 2.5), (1.0, 2.5)], ids=["idle", "busy", "busy later"]
)
def test_time_left_is_within_30_percent_over_the_second_half(tmp_path, slowdown, first, later):
    shown = replay(tmp_path, slowdown, first, later)
    shown = second_half(shown, shown[-1].time, later)
    assert len(shown) > 5
    assert all(abs(now.eta[0] - left) < 0.3 * left for now, left in shown)
    inside = [now.eta[1] <= left <= now.eta[2] for now, left in shown]
    assert np.mean(inside) > 0.8


def test_time_left_survives_restarts(tmp_path):
    (tmp_path / "other").mkdir()
    once, again = replay(tmp_path, four_times_relu), replay(tmp_path / "other", four_times_relu, reopen=True)
    assert [now.eta for now in again] == [now.eta for now in once]


def test_progress_is_the_fraction_of_the_time(tmp_path):
    shown = replay(tmp_path, five_times_one_regime)
    end = shown[-1].time
    for now in shown[len(shown) // 2 :]:
        # what runs is not counted: four bundles of about a hundred
        assert now.remaining.progress == pytest.approx(now.time / end, abs=0.1)
    assert shown[-1].remaining.progress == 1.0


def test_progress_is_never_almost_complete_while_a_slow_class_is_left():
    """143 runs of one regime are left, and the two that are done took 300 times as long as predicted."""
    work = {
        "sgd/S1": WorkTotals(bundles=50, cost_done=500.0, seconds=500.0, elapsed=520.0, squares=545.0),
        "ode/small/relu/high_dimensional": WorkTotals(
            bundles=2,
            cost_done=0.01,
            seconds=3.0,
            elapsed=3.2,
            squares=1100.0,
            bundles_left=140,
            cost_left=0.7,
        ),
    }
    remaining = predict_remaining(work)
    assert remaining.progress < 0.8
    expected, low, high = predict_time_left(remaining, Activity(), 1.0)
    assert expected == pytest.approx(0.7 / 0.01 * 3.2, rel=0.3)  # the prediction still has a small weight
    assert low < expected < high


def test_time_left_of_a_bundle_that_is_overdue_does_not_vanish():
    remaining = predict_remaining({"sgd/S1": WorkTotals(bundles_left=1, cost_left=10.0)})
    assert remaining.progress == 0.0

    def predict_after(seconds):
        return predict_time_left(remaining, Activity(seconds, queue=Queue([("sgd/S1", 10.0)], [])), 2.0)

    assert predict_after(0.0)[0] == 10.0
    assert predict_after(5.0)[0] == 5.0
    expected, low, high = predict_after(100.0)
    assert 20.0 < expected < 25.0  # a quarter of the time that it has taken so far
    assert (low, high > 100.0) == (0.0, True)
