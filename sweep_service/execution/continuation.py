"""SGD runs that continue shorter ones of earlier sweeps: found at submission, and read by tasks.

A continued run has the same bits as one that is computed from t = 0. Whatever is missing or damaged when a
task needs it, a sweep that was removed or a state that is lost, therefore costs time and nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from sweep_service.abandonment import check_abandoned
from sweep_service.errors import UNREADABLE_SWEEP
from sweep_service.numerics.types import AnyArray, Array
from sweep_service.planning.growth.kept_state import ContinuedRuns
from sweep_service.planning.jobs import Job, number_jobs
from sweep_service.planning.keys import match_keys
from sweep_service.planning.plan import SweepPlan
from sweep_service.status import Status
from sweep_service.store.folder import DataFolder
from sweep_service.store.kept_states import KeptStates

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EarlierRun:
    """A run that can be continued: its recorded samples, its last state and its values by variable."""

    samples: int
    state: Array
    values: Mapping[str, AnyArray]


@dataclass
class ShorterRuns:
    """What a submission finds of the first part of its SGD runs."""

    continued: ContinuedRuns | None = None
    diverged: list[tuple[str, AnyArray, AnyArray]] = field(default_factory=list)  # sweep, numbers there, here
    without_state: int = 0  # runs that are stored up to an earlier time, but cannot be continued


@dataclass(frozen=True)
class Match:
    """Runs of an earlier sweep that have recorded so many samples of runs of this one."""

    samples: int
    source: str
    theirs: AnyArray
    ours: AnyArray
    keys: AnyArray


def find_shorter_runs(
    folder: DataFolder,
    plan: SweepPlan,
    waiting: AnyArray,
    required: set[str],
    find_candidates: Callable[[AnyArray, AnyArray], Sequence[str]],
) -> ShorterRuns:
    """Find what SGD runs can continue, the longest runs first.

    `waiting` are the numbers of runs that are not stored, `required` the variables that an earlier run must
    have, and `find_candidates` returns the sweeps that may hold runs with some keys and numbers.
    """
    found, matches, stateless = ShorterRuns(), list[Match](), np.empty(0, np.int64)
    ends = list(zip(plan.grid.segments, plan.sgd_keys, strict=False)) if plan.grid.segments else []
    for samples, keys in reversed(ends):
        for source in find_candidates(keys, waiting):
            check_abandoned()
            try:
                match, status, has_state = _match_sweep(folder, source, samples, keys, waiting, required)
            except UNREADABLE_SWEEP as error:
                log.warning("%s cannot be continued: %s", source, error)
                continue
            has_ended, is_usable = status == Status.DIVERGED, (status == Status.DONE) & has_state
            if np.any(has_ended):
                found.diverged.append((source, match.theirs[has_ended], match.ours[has_ended]))
            if np.any(is_usable):
                columns = (column[is_usable] for column in (match.theirs, match.ours, match.keys))
                matches.append(Match(samples, source, *columns))
            stateless = np.union1d(stateless, match.ours[(status == Status.DONE) & ~has_state])
            waiting = np.setdiff1d(waiting, match.ours[has_ended | is_usable])
    found.without_state = len(np.intersect1d(stateless, waiting))
    found.continued = _join(matches)
    return found


def _match_sweep(
    folder: DataFolder, source: str, samples: int, keys: AnyArray, waiting: AnyArray, required: set[str]
) -> tuple[Match, AnyArray, AnyArray]:
    """Return the runs of a sweep with these keys, their statuses, and whether their states are kept."""
    dataset = folder.dataset(source)
    ours, theirs = match_keys(keys[waiting], folder.keys(source)["sgd"])
    if not required <= set(dataset.plan.schema.variables.get("sgd", {})):
        ours, theirs = ours[:0], theirs[:0]
    kept = KeptStates(folder.objects, source).read_list() if len(ours) else None
    has_state = np.zeros(len(theirs), bool) if kept is None else kept.is_kept[theirs]
    status = dataset.status("sgd")[theirs] if len(ours) else np.empty(0, np.int8)
    numbers = waiting[ours]
    return Match(samples, source, theirs, numbers, keys[numbers]), status, has_state


def _join(matches: Sequence[Match]) -> ContinuedRuns | None:
    if not matches:
        return None
    sources = tuple(dict.fromkeys(match.source for match in matches))
    samples = np.concatenate([np.full(len(match.ours), match.samples) for match in matches])
    place = np.concatenate([np.full(len(match.ours), sources.index(match.source)) for match in matches])
    ours, theirs, keys = (
        np.concatenate([getattr(match, name) for match in matches]) for name in ("ours", "theirs", "keys")
    )
    order = np.argsort(ours)
    return ContinuedRuns(ours[order], samples[order], place[order], theirs[order], keys[order], sources)


EarlierRuns = Mapping[int, EarlierRun]  # by the number of the run that continues it


def read_earlier_runs(
    folder: DataFolder, plan: SweepPlan, sweep_id: str, jobs: Sequence[Job]
) -> dict[int, EarlierRun]:
    """Return what the runs of these jobs continue, by run number, as far as it is stored."""
    continued = folder.continued(sweep_id)
    jobs = [job for job in jobs if job.kind == "sgd"]
    if continued is None or not jobs:
        return {}
    rows = continued.rows(number_jobs(plan.runs, "sgd", jobs))
    earlier: dict[int, EarlierRun] = {}
    for place in np.unique(continued.source[rows]).tolist():
        source = continued.sources[place]
        try:
            earlier |= _read_source(folder, plan, source, continued, rows[continued.source[rows] == place])
        except (*UNREADABLE_SWEEP, OSError) as error:
            log.warning("the runs of %s cannot be continued: %s", source, error)
    return earlier


def _read_source(
    folder: DataFolder, plan: SweepPlan, source: str, continued: ContinuedRuns, rows: AnyArray
) -> dict[int, EarlierRun]:
    theirs = continued.source_numbers[rows]
    states = KeptStates(folder.objects, source).read(theirs)
    values = folder.dataset(source).read("sgd", theirs, plan.schema.variables["sgd"])
    earlier = {}
    for place, row in enumerate(rows.tolist()):
        state = states.get(int(theirs[place]))
        is_done = values["status"][place] == Status.DONE
        if state is not None and is_done and state.key == continued.keys[row].tobytes():
            of_run = {name: array[place] for name, array in values.items()}
            samples = int(continued.samples[row])
            earlier[int(continued.numbers[row])] = EarlierRun(samples, state.values, of_run)
    return earlier
