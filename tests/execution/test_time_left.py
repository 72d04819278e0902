"""The time left of real sweeps, replayed from records of mixed sweeps on two workers of a busy machine.

The records are those of `benchmarks/time_left.py`, with the bundles in the order in which they began. During
both, tests and other computations ran on the same two cores. In `steady-load`, a processor second took 3.1 to
4.8 seconds; in `varying-load` 4 to 12, which nothing can predict.
"""

import json
import math
from bisect import bisect_left
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest

from sweep_service.execution.time_left import LOAD_SPREAD, Activity, find_starts, measure_stretch
from sweep_service.planning.bundles import Bundle
from sweep_service.planning.jobs import Job
from sweep_service.store.ledger import EndedBundle, Ledger
from tests.execution.test_remaining import SWEEP, merge, predict

COURSES = Path(__file__).with_name("courses")
THREADS = 2
SAMPLE_SECONDS = 2.0
MIN_SECONDS_LEFT = 5.0  # as in the benchmark: results are merged every two seconds


def replay(tmp_path, name):
    """Return the record of a sweep, and what is shown every two seconds, with the true time left."""
    course = json.loads((COURSES / f"{name}.json").read_text())
    ledger = Ledger(tmp_path / "ledger.sqlite")
    bundles = [
        Bundle((Job("sgd", place, 0, (0,), (0,)),), cost, work)
        for place, (work, cost, *_) in enumerate(course["bundles"])
    ]
    ledger.add(SWEEP, bundles)
    ends = sorted(
        (ended, bundle.key, seconds, elapsed)
        for bundle, (_, _, seconds, elapsed, ended) in zip(bundles, course["bundles"], strict=True)
    )
    merges = course["merges"]
    batches = {
        merges[place]: list(batch)
        for place, batch in groupby(ends, lambda end: min(bisect_left(merges, end[0]), len(merges) - 1))
    }
    shown, merged = [], course["started"]
    for now in np.arange(course["started"], course["end"], SAMPLE_SECONDS):
        for time in [time for time in batches if time <= now]:
            merge(ledger, batches.pop(time))
            merged = time
        shown.append((course["end"] - now, predict(ledger, now, course["started"], merged, THREADS)))
    ledger.close()
    return course, shown


def second_half(course, shown):
    return [(left, now) for left, now in shown if MIN_SECONDS_LEFT < left < 0.5 * course["end"]]


# In the second, three bundles met a burst of other work shortly before the end.
@pytest.mark.parametrize(("name", "share"), [("steady-load", 1.0), ("varying-load", 0.9)])
def test_time_left_of_recorded_sweeps_is_within_30_percent(tmp_path, name, share):
    course, shown = replay(tmp_path, name)
    late = second_half(course, shown)
    assert len(late) > 40
    errors = [abs(now.eta[0] / left - 1.0) for left, now in late]
    assert np.mean(np.array(errors) < 0.3) >= share
    assert np.median(errors) < 0.15
    inside = [now.eta[1] <= left <= now.eta[2] for left, now in late]
    assert np.mean(inside) > 0.7


@pytest.mark.parametrize("name", ["steady-load", "varying-load"])
def test_processor_seconds_left_do_not_depend_on_the_load(tmp_path, name):
    course, shown = replay(tmp_path, name)
    total = sum(seconds for _, _, seconds, _, _ in course["bundles"])
    late = second_half(course, shown)
    for _, now in late:
        assert now.remaining.core_seconds == pytest.approx(total - now.seconds, rel=0.15)


def test_running_bundles_began_when_others_of_their_thread_ended():
    """Three bundles on two threads: the long one from 0 to 9, the others from 0 to 4 and from 4 to 7."""
    recent = [EndedBundle(9.0, 1.0, 9.0), EndedBundle(7.0, 1.0, 3.0), EndedBundle(4.0, 1.0, 4.0)]
    assert find_starts(Activity(10.0, 0.0, 9.0, recent=recent), 2) == [7.0, 9.0]
    # the bundle from 4 to 7 preceded the one from 7 to 8, so the other thread has been busy since 0
    recent = [EndedBundle(8.0, 1.0, 1.0), EndedBundle(7.0, 1.0, 3.0)]
    assert find_starts(Activity(10.0, 0.0, 9.0, recent=recent), 2) == [0.0, 8.0]
    assert find_starts(Activity(10.0, 7.5, 9.0, recent=recent), 3) == [7.5, 7.5, 8.0]


def test_stretch_is_that_of_as_long_a_time_as_the_sweep_will_take():
    """The machine was idle until 100, and is busy since."""
    recent = [EndedBundle(float(end), 1.0, 3.0 if end > 100 else 1.0) for end in range(200, 0, -1)]
    activity = Activity(200.0, recent=recent)
    assert measure_stretch(activity, 20.0, 1.0).value == pytest.approx(3.0, abs=0.03)
    long = measure_stretch(activity, 1e6, 1.0)
    assert long.value == pytest.approx(2.0, abs=0.01)
    # half of the processor seconds took 1 s and half 3 s
    assert long.spread == pytest.approx(math.hypot(0.5, LOAD_SPREAD), abs=0.01)
    assert measure_stretch(Activity(), 20.0, 1.7).value == 1.7
