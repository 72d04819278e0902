"""The time left of a sweep: the bundles that are left, in their order on the threads of the workers.

The stretch, the time that passes in a processor second, contains whatever else the machine does. It is that
of the recent bundles, averaged over about as long a time as the sweep will still take. When the running
bundles began follows from when others ended.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

from sweep_service.execution.remaining import PRIOR_SPREAD, Remaining
from sweep_service.store.ledger import EMPTY_QUEUE, EndedBundle, Queue

MIN_HORIZON_SECONDS = 30.0  # the stretch of a shorter time is noise
LOAD_SPREAD = 0.1  # by which the load of a machine changes, in addition to what was seen
RANGE_DEVIATIONS = 1.64  # of a range that holds nine times out of ten
# A bundle that takes far longer than predicted will take about a quarter of that time more.
OVERDUE_SHARE = 0.25
# After this time, a bundle that has ended is merged: the interval of merges, and the time of a merge.
MERGE_DELAY_SECONDS = 2.5
OVERLAP_SECONDS = 0.5  # by which bundles of one thread may seem to overlap: their end is noticed later


@dataclass(frozen=True)
class Activity:
    """What is known of a sweep that is computing. Times are in seconds, since the same moment."""

    now: float = 0.0
    started: float = 0.0  # computing, after it was queued or paused
    merged: float = 0.0  # the last time; what had ended by then is merged
    queue: Queue = EMPTY_QUEUE
    recent: Sequence[EndedBundle] = ()  # the last first


@dataclass(frozen=True)
class Stretch:
    """Time that passes in a processor second, and how much that varies."""

    value: float
    spread: float = PRIOR_SPREAD


def predict_time_left(remaining: Remaining, activity: Activity, threads: float) -> tuple[float, float, float]:
    """Return the expected, the least and the largest time left on some threads, perhaps a share of them."""
    if not remaining.bundles:
        return 0.0, 0.0, 0.0
    share = min(threads, remaining.bundles)
    horizon = remaining.core_seconds * remaining.stretch / share
    stretch = measure_stretch(activity, max(horizon, MIN_HORIZON_SECONDS), remaining.stretch)
    end, excess = _schedule(remaining, activity, threads, stretch.value)
    expected = max(end - activity.now, 0.0)
    deviation = math.hypot(
        stretch.value * remaining.deviation / share, stretch.spread * expected, 0.5 * MERGE_DELAY_SECONDS
    )
    margin = max(RANGE_DEVIATIONS * deviation, excess)
    return expected, max(expected - margin, 0.0), expected + margin


def measure_stretch(activity: Activity, horizon: float, default: float) -> Stretch:
    """Return the stretch of recent bundles, whose weight falls by e in each horizon."""
    elapsed = seconds = squares = 0.0
    for bundle in activity.recent:
        if bundle.seconds > 0.0:
            age = activity.now - bundle.ended + 0.5 * bundle.elapsed  # of the middle of its computation
            weight = math.exp(-max(age, 0.0) / horizon)
            elapsed, seconds = elapsed + weight * bundle.elapsed, seconds + weight * bundle.seconds
            squares += weight * bundle.elapsed**2 / bundle.seconds
    if not seconds:
        return Stretch(default)
    value = elapsed / seconds
    variance = max(squares / seconds - value**2, 0.0) / value**2
    return Stretch(value, math.sqrt(variance + LOAD_SPREAD**2))


def _schedule(
    remaining: Remaining, activity: Activity, threads: float, stretch: float
) -> tuple[float, float]:
    """Return when the last bundle ends, and the largest time by which a running bundle is overdue."""
    size = math.ceil(threads)
    stretch *= size / threads  # other sweeps use a share of the threads
    first, last = (
        [stretch * remaining.bundle_seconds(*bundle) for bundle in bundles] for bundles in activity.queue
    )
    ends, excess = [], 0.0
    # by then, what has ended is merged
    seen = max(activity.merged, activity.now - MERGE_DELAY_SECONDS)
    for began, seconds in zip(find_starts(activity, size), first, strict=False):
        age = max(seen - began, 0.0)
        ends.append(began + max(seconds, age * (1.0 + OVERDUE_SHARE)))
        excess = max(excess, age - seconds)
    between = stretch * remaining.core_seconds - sum(first) - sum(last)
    ends = _assign(ends + [activity.now] * (size - len(ends)), first[len(ends) :])
    ends = [end + max(between, 0.0) / size for end in ends]
    return max(_assign(ends, last)), excess


def _assign(ends: list[float], bundles: Sequence[float]) -> list[float]:
    """Let the thread that is free first compute the next bundle; return when each thread is free."""
    heapq.heapify(ends)
    for seconds in bundles:
        heapq.heapreplace(ends, ends[0] + seconds)
    return ends


def find_starts(activity: Activity, size: int) -> list[float]:
    """Return when the running bundle of each thread began, which is when the one before it ended.

    Going back in time, a bundle that ended before another began may have had the same thread.
    """
    free_before: list[float] = []  # by thread, the beginning of its earliest bundle so far
    starts: list[float] = []
    for bundle in activity.recent:
        began = bundle.ended - bundle.elapsed
        fits = [index for index, time in enumerate(free_before) if bundle.ended <= time + OVERLAP_SECONDS]
        if fits:
            free_before[min(fits, key=free_before.__getitem__)] = began
            continue
        free_before.append(began)
        starts.append(min(max(bundle.ended, activity.started), activity.now))
        if len(starts) == size:
            break
    return sorted(starts + [activity.started] * (size - len(starts)))
