"""Power loss: whatever the disk kept, the folder recovers, and nothing that was acknowledged is lost.

A scenario is recorded call by call. Then it is cut at many calls, and what was not flushed by then is
dropped, torn or reordered. After each cut a new conductor opens the folder and finishes every sweep.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import xarray as xr

from sweep_service.execution.conductor import Conductor
from sweep_service.planning.runs import KINDS
from sweep_service.planning.spec import SweepSpec
from sweep_service.status import Status
from sweep_service.store import files
from sweep_service.store import folder as folders
from sweep_service.store.files import sync
from sweep_service.store.ledger import Request, State
from tests.chaos.power import LOSSES, Cut, marks_before, read_tree, rebuild, write_tree
from tests.chaos.system_calls import Mark, Record, Recorder
from tests.execution.conducting import load_dataset, make_runs_fail, open_conductor
from tests.stored import ONE_RUN_PER_BUNDLE

BASE = {
    "axes": {"d": 5, "p": 2, "gamma": [0.1, 0.5], "regime": ["classical"]},
    "fixed": {"k": 2},
    "init": {"kind": "informed", "shared": True},
    "seeds": [1, 2],
    "time": {"max": 0.5, "samples": 2},
    "observables": ["risk"],
}
SGD_ONLY = {"d": 6, "p": 2, "gamma": [0.1, 0.5]}
SPECS = {
    "computed": BASE,
    "failing": {**BASE, "axes": {**SGD_ONLY, "d": 7}},
    "cancelled": {**BASE, "axes": SGD_ONLY},
    "extended": {**BASE, "axes": {**BASE["axes"], "gamma": [0.1, 0.5, 0.9]}},
    "removed": {**BASE, "axes": {**SGD_ONLY, "d": 8}},
}
REQUEST = Request("key", "digest")
ABSENT = "absent"
ACTIVE = ["queued", "completed", "incomplete"]  # of a sweep that is submitted; a conductor queues it again
FEW_CUTS, MANY_CUTS = 20, 160  # many of each kind of loss


class Scenario:
    """Calls of a conductor. Marks record what was acknowledged: allowed states of a sweep, and done runs."""

    def __init__(self, conductor: Conductor, recorder: Recorder) -> None:
        self.conductor, self.recorder = conductor, recorder

    def tell(self, label: str, sweep_id: str, states: list[str]) -> None:
        totals = self.conductor.ledger.totals(sweep_id)["counts"]
        done = totals.get(Status.DONE, 0)
        self.recorder.mark(json.dumps({"label": label, "id": sweep_id, "states": states, "done": done}))

    def submit(self, label: str, extends: str | None = None, request: Request | None = None) -> str:
        spec = SweepSpec.parse(SPECS[label])
        sweep, _ = self.conductor.submit(spec, extends, request=request)
        self.tell(label, sweep.id, ACTIVE)
        return sweep.id

    def step(self, label: str, sweep_id: str, times: int) -> None:
        for _ in range(times):
            self.conductor.step(sweep_id)
            self.tell(label, sweep_id, ACTIVE)

    def run(self, label: str, sweep_id: str, state: str) -> None:
        ended = self.conductor.run(sweep_id, lambda _: self.tell(label, sweep_id, ACTIVE))
        assert ended.state == state
        self.tell(label, sweep_id, [state])

    def call(self, name: str, label: str, sweep_id: str, before: list[str], after: list[str]) -> None:
        """Call a method of the conductor, before whose answer either is allowed."""
        self.tell(label, sweep_id, [*before, *after])
        getattr(self.conductor, name)(sweep_id)
        self.tell(label, sweep_id, after)


def die_before_names_are_synced(path: Path) -> None:
    """Stands for a process that dies after it has renamed the chunks of statuses."""
    if path.is_dir() and "sgd_status" in str(path):
        raise KeyboardInterrupt
    sync(path)


def play(root: Path, recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Submit, merge, fail, cancel, retry, extend, pause, resume, remove, and restart in between."""
    with open_conductor(root, settings=ONE_RUN_PER_BUNDLE) as conductor:
        does = Scenario(conductor, recorder)
        computed = does.submit("computed", request=REQUEST)
        does.run("computed", computed, "completed")
        with monkeypatch.context() as patch:
            make_runs_fail(patch, "run_chains", seed=2)
            failing = does.submit("failing")
            does.run("failing", failing, "incomplete")
        cancelled = does.submit("cancelled")
        does.step("cancelled", cancelled, 2)
    with open_conductor(root, settings=ONE_RUN_PER_BUNDLE) as conductor, monkeypatch.context() as patch:
        Scenario(conductor, recorder).tell("cancelled", cancelled, [*ACTIVE, "cancelled"])
        patch.setattr(files, "sync", die_before_names_are_synced)
        with pytest.raises(KeyboardInterrupt):
            conductor.cancel(cancelled)
    with open_conductor(root, settings=ONE_RUN_PER_BUNDLE) as conductor:
        does = Scenario(conductor, recorder)
        does.call("cancel", "cancelled", cancelled, ACTIVE, ["cancelled"])
        does.call("retry", "failing", failing, ["incomplete"], ACTIVE)
        does.run("failing", failing, "completed")
        extended = does.submit("extended", extends=computed)
        does.step("extended", extended, 1)
        does.call("pause", "extended", extended, ACTIVE, ["paused"])
        does.call("retry", "cancelled", cancelled, ["cancelled"], ACTIVE)
        does.run("cancelled", cancelled, "completed")
        does.call("resume", "extended", extended, ["paused"], ACTIVE)
        does.run("extended", extended, "completed")
        removed = does.submit("removed")
        does.step("removed", removed, 2)
        does.call("remove", "removed", removed, ACTIVE, [ABSENT])
        does.call("remove", "computed", computed, ["completed"], [ABSENT])


@pytest.fixture(scope="module")
def memory() -> Iterator[Path]:
    """A folder in memory where there is one: what is flushed is known from the record."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def record(memory: Path) -> Record:
    disk = memory / "recorded" / "disk"
    disk.mkdir(parents=True)
    with pytest.MonkeyPatch.context() as monkeypatch, Recorder(disk) as recorder:
        play(disk / "data", recorder, monkeypatch)
    record = recorder.read()
    tree = rebuild(record, Cut(len(record.operations), "killed"))
    assert tree == read_tree(disk)  # nothing was missed
    return record


@pytest.fixture(scope="module")
def twins(memory: Path) -> dict[str, xr.Dataset]:
    """The datasets of sweeps that nothing disturbed, by the digest of the spec."""
    twins = {}
    with open_conductor(memory / "twins") as conductor:
        for spec in SPECS.values():
            sweep, _ = conductor.submit(SweepSpec.parse(spec))
            assert conductor.run(sweep.id).state == "completed"
            twins[sweep.key] = load_dataset(conductor, sweep)
    return twins


def choose_cuts(record: Record, losses: Collection[str], count: int) -> Iterator[Cut]:
    """Choose cuts all over the record that leave different files or acknowledgements."""
    rng, seen = np.random.default_rng(0), set()
    last_mark = max(index for index, operation in enumerate(record.operations) if isinstance(operation, Mark))
    cuts = [Cut(length, loss) for length in range(last_mark + 2) for loss in losses]
    for index in rng.permutation(len(cuts)):
        state = repr((sorted(rebuild(record, cuts[index]).items()), marks_before(record, cuts[index])))
        digest = hashlib.sha256(state.encode()).digest()
        if digest not in seen:
            seen.add(digest)
            yield cuts[index]
            if len(seen) == count:
                return


def assert_equal_where_done(stored: xr.Dataset, twin: xr.Dataset) -> None:
    """Check values bit for bit in all runs that are done; measured durations differ."""
    for name in twin.data_vars:
        kind, _, quantity = name.partition("_")
        if kind in KINDS and quantity not in ("seconds", "status"):
            is_done = stored[f"{kind}_status"] == Status.DONE
            expected, values = (data[name].where(is_done).values for data in (twin, stored))
            np.testing.assert_array_equal(values, expected, err_msg=name)


@contextmanager
def after(record: Record, cut: Cut, folder: Path) -> Iterator[Conductor]:
    """Open a folder as it is after a cut, in a new place."""
    write_tree(rebuild(record, cut), folder)
    folders._read_plan.cache_clear()
    with open_conductor(folder / "data") as conductor, conductor.ledger.engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2  # FULL
        yield conductor


def check_acknowledged(conductor: Conductor, promises: dict[str, dict], twins: dict) -> None:
    """Check that sweeps are in a state that was acknowledged, with all acknowledged runs."""
    sweeps = {sweep.id: sweep for sweep in conductor.ledger.sweeps()}
    for sweep_id, promise in promises.items():
        sweep = sweeps.get(sweep_id)
        state = sweep.state.value if sweep else ABSENT
        assert state in promise["states"], (promise["label"], state, sweep and sweep.reason)
        if sweep is not None:
            counts = conductor.counts(sweep_id)
            assert counts[Status.DONE] >= promise["done"], promise["label"]
            assert promise["states"] != ["cancelled"] or Status.PENDING not in counts
            assert conductor.ledger.totals(sweep_id)["counts"].get(Status.DONE, 0) >= promise["done"]
            assert_equal_where_done(load_dataset(conductor, sweep), twins[sweep.key])
            if promise["states"] == ["incomplete"]:
                assert list(conductor.folder.objects.list(f"{sweep_id}.failures/"))
    if promises and ABSENT not in next(iter(promises.values()))["states"]:
        repeated, _ = conductor.submit(SweepSpec.parse(SPECS["computed"]), request=REQUEST)
        assert repeated.id == next(iter(promises))


def finish(conductor: Conductor, twins: dict) -> None:
    """Finish every sweep: all values must equal those of the undisturbed twins, and no other file is left."""
    conductor.submit(SweepSpec.parse(SPECS["computed"]))
    for sweep in conductor.ledger.sweeps():
        conductor.resume(sweep.id)
        conductor.run(sweep.id)
        conductor.retry(sweep.id)  # runs that failed or were cancelled before the cut
        assert conductor.run(sweep.id).state is State.COMPLETED, sweep
        stored, twin = load_dataset(conductor, sweep), twins[sweep.key]
        assert np.all(twin.sgd_status == stored.sgd_status)
        assert_equal_where_done(stored, twin)
        assert not list(conductor.folder.objects.list(f"{sweep.id}.failures/"))
    assert conductor.unknown_sweeps() == []
    endings = (".partial", ".npz", ".checkpoint", ".crumb", ".unowned")
    root = conductor.folder.root
    assert not [path for path in root.rglob("*") if path.name.endswith(endings)]


def check_cut(record: Record, cut: Cut, folder: Path, twins: dict) -> None:
    marks = [json.loads(text) for text in marks_before(record, cut)]
    promises = {mark["id"]: mark for mark in marks}
    with after(record, cut, folder) as conductor:
        check_acknowledged(conductor, promises, twins)
        finish(conductor, twins)


def check_cuts(record: Record, cuts: Iterable[Cut], memory: Path, twins: dict) -> None:
    results: dict[Cut, Exception | None] = {}
    for cut in cuts:
        results[cut] = None
        try:
            check_cut(record, cut, memory / "cut", twins)
        except Exception as error:
            results[cut] = error
        shutil.rmtree(memory / "cut")
    failures = {cut: error for cut, error in results.items() if error is not None}
    print(f"{len(results)} cuts of {len(record.operations)} operations, {len(failures)} failures")
    assert results
    assert not failures


def test_nothing_acknowledged_is_lost(record, twins, memory):
    check_cuts(record, choose_cuts(record, LOSSES, FEW_CUTS), memory, twins)


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
def test_nothing_acknowledged_is_lost_at_many_cuts(record, twins, memory, loss):
    check_cuts(record, choose_cuts(record, [loss], MANY_CUTS), memory, twins)
