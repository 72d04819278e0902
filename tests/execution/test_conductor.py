"""The conductor: what it stores is what direct calls give; what is there is never computed again."""

import errno
import json
import shlex
import shutil
from collections import Counter
from contextlib import contextmanager

import numpy as np
import pytest
import sqlalchemy as sa
import xarray as xr

import sweep_service as ss
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.errors import InUse, LimitExceeded, RegimeUndefined, Stopped
from sweep_service.execution import compute as computing
from sweep_service.execution import conductor as conducting_module
from sweep_service.execution import submission as submitting
from sweep_service.execution import task as tasks
from sweep_service.execution.conductor import MOST_ATTEMPTS, Conductor
from sweep_service.execution.executors import Receipt, SerialExecutor
from sweep_service.planning import bundles as bundling
from sweep_service.planning.estimate import Limits
from sweep_service.planning.keys import Copies
from sweep_service.planning.spec import SweepSpec
from sweep_service.status import Status
from sweep_service.store.folder import DataFolder
from sweep_service.store.ledger import State

SMALL = {
    "axes": {"d": [5, 8], "p": 4, "gamma": [0.1, 0.5], "regime": ["classical", "high_dimensional"]},
    "fixed": {"k": 2, "noise": 1e-3},
    "init": {"kind": "informed", "shared": True},
    "seeds": {"init": 2, "repeat": 2},
    "time": {"max": 2.0, "samples": 4},
}
FEW = {"axes": {**SMALL["axes"], "gamma": 0.1}, "seeds": {"init": 2, "repeat": 1}}  # for bundles of one run


def spec(**change):
    return SweepSpec.parse({**SMALL, **change})


def with_axes(**change):
    return spec(axes={**SMALL["axes"], **change})


@contextmanager
def conducting(root, stopped=None, limits=None):
    with Conductor(DataFolder(root), SerialExecutor(stopped), limits) as conductor:
        yield conductor


@pytest.fixture
def conductor(tmp_path):
    with conducting(tmp_path / "data") as found:
        yield found


@pytest.fixture
def computed(monkeypatch):
    """Every job that is computed from here on, with the sweep's points told apart by their values."""
    jobs = []
    plain = tasks.compute

    def counted(plan, job, *rest):
        jobs.append((plan.grid.key.digest, job))
        return plain(plan, job, *rest)

    monkeypatch.setattr(tasks, "compute", counted)
    return jobs


@pytest.fixture
def small_bundles(monkeypatch):
    """One run in each bundle, merged when it ends."""
    monkeypatch.setattr(bundling, "AIM", 0.0)
    monkeypatch.setattr(conducting_module, "MERGE_EVERY", -1.0)


def runs_in(jobs):
    return Counter(
        (key, job.kind, job.point, job.regime, seed, repeat)
        for key, job in jobs
        for seed in job.seeds
        for repeat in job.repeats
    )


def done(conductor, wanted, extends=None):
    sweep, _ = conductor.submit(wanted, extends)
    return conductor.run(sweep.id)


def stored(conductor, sweep):
    with xr.open_zarr(conductor.folder.dataset_path(sweep.id), chunks=None) as found:
        return found.load()


def results(dataset):
    return dataset.drop_vars(["sgd_seconds", "ode_seconds"], errors="ignore")


def failing(monkeypatch, engine, seed):
    """Make SGD or ODE runs fail for one seed, inside sweeps only."""
    plain = getattr(computing, engine)

    def broken(point, **options):
        if seed in options.get("seeds", [options.get("seed")]):
            raise RuntimeError(f"seed {seed} is out of order")
        return plain(point, **options)

    monkeypatch.setattr(computing, engine, broken)


def leftovers(root):
    """What must not be there when nothing is in flight."""
    endings = (".partial", ".npz", ".checkpoint")
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.name.endswith(endings))


# ---- values


def placed(dataset, grid, index, extra):
    """The part of a dataset that belongs to one point, by labels."""
    if not grid.is_product:
        return dataset.isel(point=index).sel(extra)
    return dataset.sel(
        {name: value for name, value in grid.row(index).items() if name in dataset.dims} | extra
    )


def assert_holds(there, found, kind, names):
    """All values of a run, bit for bit; what lies beyond its students and teachers is NaN."""
    for name in names:
        ours = there[f"{kind}_{name}"].values
        if name not in found or "particle" in found[name].dims:  # points of the p = ∞ law are no neurons
            assert np.all(np.isnan(ours)), name
            continue
        theirs = found[name].values
        corner = tuple(slice(0, size) for size in theirs.shape)
        assert theirs.ndim == ours.ndim
        np.testing.assert_array_equal(ours[corner], theirs, err_msg=name)
        rest = np.ones(ours.shape, bool)
        rest[corner] = False
        assert np.all(np.isnan(ours[rest])), name


def assert_equals_direct_calls(conductor, sweep):
    dataset, plan = stored(conductor, sweep), conductor.folder.plan(sweep.id)
    grid, checked = plan.grid, 0
    bookkeeping = {"status", "steps", "seconds", "regime"}
    for index, point in enumerate(grid.points):
        asked = {"times": grid.times, "observables": grid.observables, "overlaps": grid.overlaps}
        for kind in plan.schema.variables:
            names = set(plan.schema.variables[kind]) - bookkeeping
            inner = grid.repeats if kind == "sgd" else grid.regimes
            for seed in grid.seeds:
                for other in inner:
                    extra = {"seed": seed, "repeat" if kind == "sgd" else "regime": other}
                    there = placed(dataset, grid, index, extra)
                    checked += 1
                    try:
                        if kind == "sgd":
                            found = ss.simulate(point, seed=seed, repeat=other, **asked)
                        else:
                            found = ss.integrate(
                                point, seed=seed, regime=other, regime_options=grid.options.content(), **asked
                            )
                    except RegimeUndefined:
                        assert there.ode_status == Status.SKIPPED
                        assert all(np.all(np.isnan(there[f"ode_{name}"])) for name in names)
                        continue
                    assert there[f"{kind}_status"] == Status[found.attrs["status"].upper()]
                    if kind == "sgd":
                        assert there.sgd_steps == found.attrs["steps"]
                    if other == "auto":
                        assert list(REGIMES)[int(there.ode_regime)] == found.attrs["regime"]
                    assert_holds(there, found, kind, names)
    assert checked == sweep.runs
    return dataset


def test_a_grid_of_27_points_holds_what_direct_calls_give(conductor):
    axes = {
        "d": [5, 8, 12], "p": [2, 4, 6], "gamma": [0.05, 0.2, 0.8],
        "regime": ["classical", "high_dimensional"],
    }  # fmt: skip
    everything = ["risk", "cosine", "overlaps"]
    sweep = done(conductor, spec(axes=axes, observables=everything))
    dataset = assert_equals_direct_calls(conductor, sweep)
    assert sweep.runs == 27 * (4 + 4)
    assert dataset.sgd_risk.dims == ("d", "p", "gamma", "seed", "repeat", "time")
    assert dataset.ode_risk.dims == ("d", "p", "gamma", "regime", "seed", "time")


@pytest.mark.parametrize(
    "change",
    [
        {"axes": {"d": [6, 9], "gamma": [0.1, 0.4], "p": 4, "regime": "classical"}, "zip": [["d", "gamma"]]},
        {
            "axes": {"regime": ["classical", "mean_field"]},
            "points": [{"d": 6, "p": 2, "gamma": 0.1}, {"d": 9, "p": 5, "gamma": 0.3}],
            "observables": ["risk", "overlaps"],
        },
        {
            "axes": {**SMALL["axes"], "p": [2, 5, 3], "activation": ["erf", "relu"], "gamma": 0.2},
            "init": {"kind": "gaussian"},
            "observables": ["risk", "overlaps"],
            "seeds": 1,
        },
        {"axes": {**SMALL["axes"], "regime": ["auto", "mean_field_high_dimensional"]}, "seeds": 2},
        {"axes": {"d": [6, 9], "p": 4, "gamma": [0.1, 40.0]}},
        {
            "simulate": False,
            "axes": {**SMALL["axes"], "init.epsilon": [0.1, 0.3]},
            "init": {"kind": "planted", "shared": True},
        },
    ],
    ids=["zip", "ragged points", "activations and ragged p", "auto", "divergence, no theory", "theory only"],
)  # fmt: skip
def test_every_design_holds_what_direct_calls_give(conductor, change):
    sweep = done(conductor, spec(**change))
    assert sweep.state is State.COMPLETED
    assert_equals_direct_calls(conductor, sweep)


def test_a_regime_that_is_undefined_somewhere_is_skipped_there(conductor):
    """Also where the same theory, which does not look at d, is defined for another d."""
    wanted = spec(
        axes={"d": [2, 6], "p": 4, "gamma": 0.1, "regime": list(REGIMES)},
        init={"kind": "gaussian"},
        seeds=1,
    )
    sweep = done(conductor, wanted)
    assert sweep.state is State.COMPLETED
    assert Status.SKIPPED in stored(conductor, sweep).ode_status
    assert_equals_direct_calls(conductor, sweep)


# ---- reuse


def test_runs_that_are_equal_inside_a_sweep_are_computed_once(conductor, computed):
    """From a shared start the high-dimensional limit of a classical theory does not look at d."""
    sweep = done(conductor, spec(simulate=False, axes={**SMALL["axes"], "regime": "high_dimensional"}))
    grid = conductor.folder.plan(sweep.id).grid
    keys = conductor.folder.keys(sweep.id)["ode"]
    assert len(Copies(keys).unique()) == len(keys) // len(grid.axes["d"])
    assert sum(runs_in(computed).values()) == len(keys) // 2
    assert_equals_direct_calls(conductor, sweep)


def test_an_overlapping_sweep_computes_only_what_is_new(conductor, computed):
    first = done(conductor, spec())
    before = stored(conductor, first)
    computed.clear()
    second = done(conductor, with_axes(d=[8, 5, 11]))
    assert {job.point // 2 for _, job in computed} == {2}  # two gammas for each d; the third d is new
    new = stored(conductor, second)
    assert second.reused >= first.runs  # theories that do not look at d are there for the new one
    xr.testing.assert_equal(new.sel(d=[5, 8]), before.sel(d=[5, 8]))  # copies, so the seconds too
    assert_equals_direct_calls(conductor, second)


def test_a_sweep_within_an_old_one_is_complete_at_once(conductor, computed):
    done(conductor, spec())
    computed.clear()
    sweep, new = conductor.submit(with_axes(d=5))
    assert (new, sweep.state, computed) == (True, State.COMPLETED, [])
    assert conductor.counts(sweep.id) == {Status.DONE: sweep.runs}
    assert_equals_direct_calls(conductor, sweep)


@pytest.mark.parametrize("left", ["sgd", "ode"])
def test_a_sweep_may_lack_one_kind_only(conductor, computed, left):
    """All of the other kind is stored."""
    done(conductor, spec(simulate=False) if left == "sgd" else with_axes(regime="classical"))
    computed.clear()
    done(conductor, spec())
    assert {job.kind for _, job in computed} == {left}


def test_the_same_spec_is_answered_with_the_sweep_there_is(conductor):
    first = done(conductor, spec(name="one"))
    again, new = conductor.submit(spec(name="another", axes={**SMALL["axes"], "gamma": [0.1, 0.5]}))
    assert (again.id, new) == (first.id, False)
    assert len(conductor.ledger.sweeps()) == 1


def test_a_run_is_reused_only_with_the_observables_that_are_asked_for(conductor, computed):
    done(conductor, spec(observables=["risk"]))
    computed.clear()
    more = done(conductor, spec(observables=["risk", "cosine", "overlaps"]))
    assert more.reused == 0
    assert len(computed) > 0
    computed.clear()
    less = done(conductor, spec(observables=["risk", "cosine"]))
    assert less.reused == less.runs
    assert computed == []
    assert_equals_direct_calls(conductor, less)


@pytest.mark.parametrize("regime", ["classical_noise", "mean_field", "auto"])
def test_another_regime_leaves_old_runs_reusable(conductor, computed, regime):
    """What a mean field would store beside the overlaps is not asked of the other regimes."""
    first = done(conductor, spec())
    computed.clear()
    second = done(conductor, with_axes(regime=["classical", "high_dimensional", regime]))
    assert second.reused == first.runs
    assert {job.regime for _, job in computed} == {2}
    assert_equals_direct_calls(conductor, second)


def test_reuse_in_many_blocks_is_reuse_in_one(conductor, computed, monkeypatch):
    """Of two sweeps, of runs with copies, from wider arrays in another order."""

    def wanted(**axes):
        axes = {**SMALL["axes"], "regime": "high_dimensional", **axes}
        return spec(axes=axes, seeds=1, observables=["risk", "overlaps"])

    done(conductor, wanted(d=5, p=[6, 4]))
    done(conductor, wanted(d=8))
    computed.clear()
    found = []
    for size in (submitting.MERGE_BYTES, 1):
        monkeypatch.setattr(submitting, "MERGE_BYTES", size)
        sweep, new = conductor.submit(wanted(d=[5, 8], gamma=[0.5, 0.1]))
        assert (new, sweep.state, sweep.reused) == (True, State.COMPLETED, sweep.runs)
        found.append(stored(conductor, sweep).drop_attrs())
        conductor.remove(sweep.id)
    assert computed == []
    xr.testing.assert_identical(*found)


def test_a_failed_run_is_not_reused(conductor, computed, monkeypatch):
    with monkeypatch.context() as patch:
        failing(patch, "integrate_run", seed=1)
        assert done(conductor, spec()).state is State.INCOMPLETE
    computed.clear()
    second = done(conductor, with_axes(gamma=[0.1, 0.5, 0.7]))
    assert second.state is State.COMPLETED
    again = {(job.point % 3, job.seeds) for _, job in computed if job.kind == "ode"}
    assert {(0, (1,)), (1, (1,)), (2, (0, 1))} <= again
    assert_equals_direct_calls(conductor, second)


def test_an_extension_is_a_new_sweep_and_leaves_its_parent_alone(conductor, computed):
    parent = done(conductor, spec(name="parent"))
    before = stored(conductor, parent)
    computed.clear()
    wider = conductor.folder.spec(parent.id).extended(json.dumps({"axes": {"gamma": [0.9]}, "seeds": 3}))
    child = done(conductor, wider, extends=parent.id)
    assert child.extends == parent.id
    assert child.reused >= parent.runs
    assert conductor.ledger.sweep(parent.id) == parent
    xr.testing.assert_identical(stored(conductor, parent), before)
    assert runs_in(computed).total() < child.runs - parent.runs + 1
    assert_equals_direct_calls(conductor, child)


# ---- states


class Stop:
    """Asks to stop after so many jobs."""

    def __init__(self, computed, after):
        self.computed, self.after = computed, after

    def __call__(self):
        return len(self.computed) > self.after


def interrupted(root, computed, after=2):
    """A sweep that was stopped early, in a folder of its own."""
    with conducting(root, Stop(computed, after)) as conductor:
        sweep, _ = conductor.submit(spec(**FEW))
        with pytest.raises(Stopped):
            conductor.run(sweep.id)
        assert 0 < conductor.counts(sweep.id)[Status.PENDING] < sweep.runs
        return sweep


def test_cancelling_keeps_what_is_computed(tmp_path, computed, small_bundles):
    sweep = interrupted(tmp_path, computed)
    with conducting(tmp_path) as conductor:
        before = stored(conductor, sweep)
        assert conductor.cancel(sweep.id).state is State.CANCELLED
        after = stored(conductor, sweep)
        counts = conductor.counts(sweep.id)
        assert set(counts) == {Status.DONE, Status.CANCELLED}
        done_before = before.sgd_status == Status.DONE
        xr.testing.assert_equal(after.where(done_before).sgd_risk, before.where(done_before).sgd_risk)
        jobs = len(computed)
        assert conductor.tick() is False
        assert conductor.run(sweep.id).state is State.CANCELLED
        assert len(computed) == jobs
        assert leftovers(tmp_path) == []


def test_cancelled_runs_can_be_computed_after_all(tmp_path, computed, small_bundles):
    sweep = interrupted(tmp_path, computed)
    with conducting(tmp_path) as conductor:
        conductor.cancel(sweep.id)
        kept, before = conductor.counts(sweep.id)[Status.DONE], len(computed)
        conductor.retry(sweep.id)
        ended = conductor.run(sweep.id)
        assert ended.state is State.COMPLETED
        assert len(computed) - before <= sweep.runs - kept
        assert_equals_direct_calls(conductor, ended)


def test_a_paused_sweep_rests_until_it_is_resumed(tmp_path, computed, small_bundles):
    sweep = interrupted(tmp_path, computed)
    with conducting(tmp_path) as conductor:
        assert conductor.pause(sweep.id).state is State.PAUSED
        jobs = len(computed)
        assert conductor.run(sweep.id).state is State.PAUSED
        assert conductor.tick() is False
        assert len(computed) == jobs
    with conducting(tmp_path) as conductor:
        assert conductor.ledger.sweep(sweep.id).state is State.PAUSED
        conductor.resume(sweep.id)
        assert conductor.run(sweep.id).state is State.COMPLETED
        assert conductor.resume(sweep.id).state is State.COMPLETED


def test_a_small_sweep_does_not_wait_for_all_of_a_large_one(conductor, small_bundles):
    """The window is shared by the sweeps that run."""
    large, _ = conductor.submit(spec(**{**FEW, "seeds": 6}))
    little, _ = conductor.submit(spec(axes={"d": 7, "p": 3, "gamma": 0.3}, seeds=1))
    conductor.run(little.id)
    assert conductor.ledger.totals(large.id)["bundles_left"] > 0


@pytest.mark.parametrize("engine", ["run_chains", "integrate_run"])
def test_failed_runs_leave_capsules_and_can_be_retried(
    conductor, computed, monkeypatch, small_bundles, engine
):
    kind = "sgd" if engine == "run_chains" else "ode"
    with monkeypatch.context() as patch:
        failing(patch, engine, seed=1)
        sweep = done(conductor, spec(**FEW))
    assert sweep.state is State.INCOMPLETE
    broken = conductor.folder.dataset(sweep.id).status(kind) == Status.FAILED
    dataset = stored(conductor, sweep)
    assert np.all(dataset[f"{kind}_status"].sel(seed=1) == Status.FAILED)
    assert np.all(dataset[f"{kind}_status"].sel(seed=0) == Status.DONE)
    assert np.all(np.isnan(dataset[f"{kind}_risk"].sel(seed=1)))
    capsules = [json.loads(conductor.folder.objects.get(name)) for name in capsules_of(conductor, sweep)]
    first = {int(n) for n in np.flatnonzero(broken)} & set(
        Copies(conductor.folder.keys(sweep.id)[kind]).unique().tolist()
    )
    assert {capsule["number"] for capsule in capsules} == first
    assert all("seed 1 is out of order" in c["error"] and "RuntimeError" in c["trace"] for c in capsules)

    computed.clear()
    conductor.retry(sweep.id)
    assert conductor.counts(sweep.id)[Status.PENDING] == int(broken.sum())
    ended = conductor.run(sweep.id)
    assert ended.state is State.COMPLETED
    assert set(runs_in(computed).values()) == {1}
    assert {(job.kind, job.seeds) for _, job in computed} == {(kind, (1,))}
    assert capsules_of(conductor, sweep) == []
    assert (
        conductor.ledger.totals(sweep.id)["counts"] == conductor.counts(sweep.id) == {Status.DONE: sweep.runs}
    )
    assert_equals_direct_calls(conductor, ended)


def test_the_ledger_counts_a_retried_run_once(conductor, monkeypatch):
    """Also where the bundle of a failed run holds runs that are done."""
    with monkeypatch.context() as patch:
        failing(patch, "integrate_run", seed=1)
        sweep = done(conductor, spec())
    assert conductor.ledger.totals(sweep.id)["counts"] == conductor.counts(sweep.id)
    conductor.retry(sweep.id)
    conductor.run(sweep.id)
    assert conductor.ledger.totals(sweep.id)["counts"] == {Status.DONE: sweep.runs}


def capsules_of(conductor, sweep):
    return list(conductor.folder.objects.list(f"{sweep.id}.failures/"))


def test_the_command_of_a_capsule_names_the_run_and_the_folder(tmp_path, monkeypatch):
    """It is typed into a shell, wherever one is."""
    failing(monkeypatch, "integrate_run", seed=1)
    monkeypatch.chdir(tmp_path)
    with conducting("my data") as conductor:
        sweep = done(conductor, spec())
        capsule = json.loads(conductor.folder.objects.get(capsules_of(conductor, sweep)[0]))
    command = shlex.split(capsule["command"])
    run = f"{capsule['kind']}-{capsule['number']}"
    assert command == ["sweep", "rerun", sweep.id, run, "--data", str(tmp_path / "my data")]


def test_a_bundle_that_breaks_its_task_is_tried_again_and_then_given_up(
    conductor, monkeypatch, small_bundles
):
    plain, tries = tasks.compute, Counter()

    def broken(plan, job, *rest):
        tries[job] += 1
        if job.kind == "sgd" and job.point == 1:
            raise MemoryError("no more")
        return plain(plan, job, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(tasks, "compute", broken)
        sweep = done(conductor, spec(**FEW))
    assert sweep.state is State.INCOMPLETE
    assert {tries[job] for job in tries if job.kind == "sgd" and job.point == 1} == {MOST_ATTEMPTS}
    assert {tries[job] for job in tries if job.kind == "ode" or job.point != 1} == {1}
    assert conductor.counts(sweep.id) == {Status.DONE: sweep.runs - 2, Status.FAILED: 2}
    capsules = [json.loads(conductor.folder.objects.get(name)) for name in capsules_of(conductor, sweep)]
    assert [c["error"] for c in capsules] == ["MemoryError: no more"] * 2
    conductor.retry(sweep.id)
    assert conductor.run(sweep.id).state is State.COMPLETED
    assert_equals_direct_calls(conductor, sweep)


def test_a_bundle_that_breaks_once_is_not_given_up(conductor, monkeypatch):
    plain, tries = tasks.compute, []

    def broken(*given):
        tries.append(given)
        if len(tries) == 1:
            raise MemoryError("no more")
        return plain(*given)

    monkeypatch.setattr(tasks, "compute", broken)
    assert done(conductor, spec()).state is State.COMPLETED


def test_a_damaged_checkpoint_costs_time_but_no_run(conductor):
    sweep, _ = conductor.submit(spec(axes={"d": 5, "p": 4, "gamma": 0.1}, seeds=1))
    (bundle,) = conductor.ledger.pending(sweep.id, 9)
    conductor.folder.objects.put(f"{sweep.id}.parts/{bundle.key}.0.checkpoint", b"of another version")
    assert conductor.run(sweep.id).state is State.COMPLETED
    assert leftovers(conductor.folder.root) == []


def test_removing_a_sweep_leaves_nothing_of_it(conductor):
    keep = done(conductor, spec())
    gone, _ = conductor.submit(with_axes(d=[6, 7]))
    conductor.remove(gone.id)
    assert [sweep.id for sweep in conductor.ledger.sweeps()] == [keep.id]
    assert not list(conductor.folder.root.rglob(f"{gone.id}*"))
    fresh = done(conductor, with_axes(d=[6, 7]))
    assert fresh.state is State.COMPLETED
    assert_equals_direct_calls(conductor, fresh)


def test_one_process_at_a_time_conducts_a_folder(conductor):
    with pytest.raises(InUse, match=r"in use by process \d+"), conducting(conductor.folder.root):
        pass


# ---- limits


@pytest.mark.parametrize(
    ("limits", "field"),
    [
        (Limits(points=3), "points"), (Limits(runs=31), "runs"),
        (Limits(core_hours=1e-9), "core_hours"), (Limits(bytes=1000), "bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_sweep_beyond_a_limit_is_refused_before_anything_is_written(tmp_path, limits, field):
    with conducting(tmp_path, limits=limits) as conductor:
        with pytest.raises(LimitExceeded) as refused:
            conductor.submit(spec())
        assert refused.value.field == field
        assert conductor.ledger.sweeps() == []
        assert list((tmp_path / "sweeps").iterdir()) == []


def test_what_the_disk_has_no_room_for_is_refused(conductor, monkeypatch):
    monkeypatch.setattr(DataFolder, "free_bytes", lambda self: 1000)
    with pytest.raises(LimitExceeded, match="bytes"):
        conductor.submit(spec())
    assert list((conductor.folder.root / "sweeps").iterdir()) == []


# ---- after a crash


def lose_ledger(root):
    for path in root.glob("ledger.sqlite*"):
        path.unlink()


def test_a_lost_ledger_is_made_again_without_computing_anything_twice(tmp_path, computed, small_bundles):
    sweep = interrupted(tmp_path, computed, after=5)
    early = runs_in(computed[:-1])  # the last one was stopped
    lose_ledger(tmp_path)
    with conducting(tmp_path) as conductor:
        assert conductor.ledger.sweeps() == []
        before = conductor.counts(sweep.id)
        computed.clear()
        assert conductor.rebuild() == [sweep.id]
        assert conductor.counts(sweep.id) == before
        ended = conductor.run(sweep.id)
        assert (ended.state, ended.name, ended.runs) == (State.COMPLETED, sweep.name, sweep.runs)
        assert not early & runs_in(computed)
        assert conductor.rebuild() == []
        assert_equals_direct_calls(conductor, ended)


def test_a_part_that_is_not_merged_survives_the_loss_of_the_ledger(tmp_path, computed):
    """All parts are there, nothing of them is merged."""
    with conducting(tmp_path) as conductor:
        sweep, _ = conductor.submit(spec())
        conductor._dispatch([sweep])
        while conductor.executor.poll():
            conductor._dispatch([sweep])
    assert [path for path in leftovers(tmp_path) if path.endswith(".npz")]
    lose_ledger(tmp_path)
    computed.clear()
    with conducting(tmp_path) as conductor:
        conductor.rebuild()
        assert conductor.run(sweep.id).state is State.COMPLETED
        assert computed == []
        assert leftovers(tmp_path) == []


@pytest.mark.parametrize("state", [State.COMPLETED, State.INCOMPLETE, State.CANCELLED])
def test_a_sweep_that_had_ended_ends_the_same_after_a_rebuild(tmp_path, monkeypatch, state):
    with conducting(tmp_path) as conductor, monkeypatch.context() as patch:
        if state is State.INCOMPLETE:
            failing(patch, "integrate_run", seed=1)
        sweep, _ = conductor.submit(spec(name="ended"))
        ended = conductor.cancel(sweep.id) if state is State.CANCELLED else conductor.run(sweep.id)
        assert ended.state is state
        counts, capsules = conductor.counts(sweep.id), capsules_of(conductor, sweep)
    lose_ledger(tmp_path)
    with conducting(tmp_path) as conductor:
        conductor.rebuild()
        assert conductor.run(sweep.id).state is state
        assert conductor.counts(sweep.id) == counts
        assert capsules_of(conductor, sweep) == capsules


def test_a_rebuild_keeps_when_sweeps_were_created_and_what_they_extend(tmp_path, monkeypatch):
    days = iter(["2001-01-01T00:00:00.000+00:00", "2002-02-02T00:00:00.000+00:00"])
    with conducting(tmp_path) as conductor, monkeypatch.context() as patch:
        patch.setattr("sweep_service.store.provenance.utc_now", lambda: next(days))
        parent, _ = conductor.submit(spec(**FEW))
        child, _ = conductor.submit(spec(**FEW, name="child", observables=["risk"]), parent.id)
    lose_ledger(tmp_path)
    with conducting(tmp_path) as conductor:
        assert sorted(conductor.rebuild()) == sorted([parent.id, child.id])
        after = {sweep.id: sweep for sweep in conductor.ledger.sweeps()}
    assert list(after) == [child.id, parent.id]
    assert [after[sweep.id].created[:4] for sweep in (parent, child)] == ["2001", "2002"]
    assert [after[sweep.id].extends for sweep in (parent, child)] == [None, parent.id]


def test_a_submission_that_died_is_forgotten(tmp_path):
    with conducting(tmp_path) as conductor:
        done(conductor, spec())
        dead, _ = conductor.submit(with_axes(d=[6, 7]))
        conductor.ledger.remove(dead.id)
    (tmp_path / "sweeps" / f"{dead.id}.unowned").touch()
    half = tmp_path / "sweeps" / "20200101-000000-0badcafe.zarr.partial" / "sgd_risk"  # died in `create`
    half.mkdir(parents=True)
    (half / "zarr.json").write_text("{")
    with conducting(tmp_path) as conductor:
        assert not list((tmp_path / "sweeps").glob(f"{dead.id}*"))
        assert not list((tmp_path / "sweeps").glob("*0badcafe*"))
        assert conductor.rebuild() == []


def test_an_acknowledged_sweep_is_kept_without_its_ledger(tmp_path):
    with conducting(tmp_path) as conductor:
        sweep = done(conductor, spec())
        before = stored(conductor, sweep)
    lose_ledger(tmp_path)
    with conducting(tmp_path) as conductor:
        assert conductor.strangers() == [sweep.id]
    with conducting(tmp_path) as conductor:
        xr.testing.assert_identical(stored(conductor, sweep), before)


def test_files_that_are_nobodys_sweep_are_left_alone(tmp_path):
    """A note, a copy of a dataset, what a file manager leaves."""
    with conducting(tmp_path) as conductor:
        sweep = done(conductor, spec())
        shutil.copytree(conductor.folder.dataset_path(sweep.id), tmp_path / "sweeps" / "copy.zarr")
    for name in (".DS_Store", "notes.json"):
        (tmp_path / "sweeps" / name).write_text("mine")
    with conducting(tmp_path) as conductor:
        assert done(conductor, spec()).id == sweep.id
    assert {".DS_Store", "notes.json", "copy.zarr"} <= {path.name for path in (tmp_path / "sweeps").iterdir()}


def dying(*given, **options):
    raise KeyboardInterrupt("as good as a crash between two writes")


@pytest.mark.parametrize("step", ["_mark", "ledger.set_state"])
def test_a_cancellation_that_dies_can_be_given_again(tmp_path, monkeypatch, step):
    with conducting(tmp_path) as conductor, monkeypatch.context() as patch:
        sweep, _ = conductor.submit(spec())
        patch.setattr(*((conductor, "_mark") if step == "_mark" else (conductor.ledger, "set_state")), dying)
        with pytest.raises(KeyboardInterrupt):
            conductor.cancel(sweep.id)
    with conducting(tmp_path) as conductor:
        conductor.tick()
        assert conductor.cancel(sweep.id).state in (State.CANCELLED, State.COMPLETED)
        assert Status.PENDING not in conductor.counts(sweep.id)


def test_a_removal_that_dies_harms_no_rebuild(tmp_path, monkeypatch):
    with conducting(tmp_path) as conductor, monkeypatch.context() as patch:
        sweep = done(conductor, spec())
        patch.setattr(conductor.folder.objects, "delete", dying)
        with pytest.raises(KeyboardInterrupt):
            conductor.remove(sweep.id)
    with conducting(tmp_path) as conductor:
        conductor.rebuild()
        assert done(conductor, spec()).state is State.COMPLETED


def test_a_retry_that_dies_can_be_given_again(tmp_path, monkeypatch):
    with conducting(tmp_path) as conductor:
        with monkeypatch.context() as patch:
            failing(patch, "run_chains", seed=1)
            sweep = done(conductor, spec())
        with monkeypatch.context() as patch:
            patch.setattr(conductor, "_requeue", dying)
            with pytest.raises(KeyboardInterrupt):
                conductor.retry(sweep.id)
    with conducting(tmp_path) as conductor:
        conductor.retry(sweep.id)
        assert conductor.run(sweep.id).state is State.COMPLETED
        assert_equals_direct_calls(conductor, sweep)


# ---- a full disk, as the calls see it


@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "No space left on device"), OSError(122, "Disk quota exceeded"),
        sa.exc.OperationalError("insert", {}, Exception("database or disk is full")),
    ],
    ids=["no space", "quota", "ledger"],
)  # fmt: skip
def test_a_full_disk_is_waited_for_and_nothing_is_computed_twice(conductor, computed, monkeypatch, error):
    plain, tries, reasons = conductor.merger._store, [], []

    def full(*given):
        tries.append(given)
        if len(tries) < 3:
            raise error
        return plain(*given)

    monkeypatch.setattr(conductor.merger, "_store", full)
    monkeypatch.setattr(conductor.executor, "rest", lambda seconds: None)
    sweep, _ = conductor.submit(spec())
    ended = conductor.run(sweep.id, lambda now: reasons.append(now.reason))
    assert ended.state is State.COMPLETED
    assert sum("waiting for room" in reason for reason in reasons) == 2
    assert ended.reason == ""
    assert set(runs_in(computed).values()) == {1}
    assert_equals_direct_calls(conductor, ended)


def test_a_full_disk_does_not_fail_the_run_that_meets_it(conductor, monkeypatch):
    """Where a long run would save its checkpoint."""
    plain, tries = tasks.ObjectCheckpoint.save, []

    def full(self, content):
        tries.append(self)
        if len(tries) == 1:
            raise OSError(28, "No space left on device")
        plain(self, content)

    monkeypatch.setattr(tasks.ObjectCheckpoint, "save", full)
    monkeypatch.setattr("sweep_service.simulators.run.SAVE_EVERY", 0.0)
    monkeypatch.setattr(conductor.executor, "rest", lambda seconds: None)
    assert done(conductor, spec()).state is State.COMPLETED
    assert tries


def test_another_error_of_the_disk_is_raised(conductor, monkeypatch):
    monkeypatch.setattr(conductor.merger, "_store", lambda *given: dying_disk())
    sweep, _ = conductor.submit(spec())
    with pytest.raises(OSError, match="denied"):
        conductor.run(sweep.id)


def dying_disk():
    raise OSError(errno.EACCES, "permission denied")


# One sweep's trouble is not another's


def test_a_damaged_sweep_stops_no_other_and_can_be_removed(tmp_path, computed, small_bundles):
    with conducting(tmp_path) as conductor:
        whole = done(conductor, with_axes(d=[6, 7]))
    hurt = interrupted(tmp_path, computed)
    shutil.rmtree(tmp_path / "sweeps" / f"{hurt.id}.zarr")
    with conducting(tmp_path) as conductor:
        other = done(conductor, with_axes(d=[7, 8]))
        assert other.state is State.COMPLETED
        assert other.reused > 0  # of the one that is whole
        found = conductor.run(hurt.id)
        assert found.state is State.FAILED
        assert f"{hurt.id}.zarr cannot be read" in found.reason
        conductor.remove(hurt.id)
        assert {sweep.id for sweep in conductor.ledger.sweeps()} == {whole.id, other.id}
    assert not list((tmp_path / "sweeps").glob(f"{hurt.id}*"))


def test_a_dataset_that_came_from_elsewhere_is_left_alone(tmp_path):
    with conducting(tmp_path / "one") as conductor:
        guest = done(conductor, spec())
    with conducting(tmp_path / "other") as conductor:
        done(conductor, with_axes(d=[6, 7]))
    name = f"{guest.id}.zarr"
    shutil.copytree(tmp_path / "one" / "sweeps" / name, tmp_path / "other" / "sweeps" / name)
    with conducting(tmp_path / "other") as conductor:
        assert conductor.strangers() == [guest.id]
    assert (tmp_path / "other" / "sweeps" / name).exists()


@pytest.mark.parametrize("point", ["remove:disown", "remove:ledger"])
def test_a_removal_that_dies_is_done_or_not_begun(tmp_path, monkeypatch, point):
    with conducting(tmp_path) as conductor:
        sweep = done(conductor, spec())
        before = stored(conductor, sweep)

    def dies(name):
        if name == point:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, conducting(tmp_path) as conductor, pytest.raises(KeyboardInterrupt):
        patch.setattr(conducting_module, "fault", dies)
        conductor.remove(sweep.id)
    with conducting(tmp_path) as conductor:
        left = [one.id for one in conductor.ledger.sweeps()]
        assert conductor.rebuild() == []
        if point == "remove:disown":
            xr.testing.assert_identical(stored(conductor, sweep), before)
            assert left == [sweep.id]
        else:
            assert left == []
            assert not list((tmp_path / "sweeps").glob(f"{sweep.id}*"))


def test_a_part_for_which_there_was_no_room_is_not_computed_again(tmp_path, computed, monkeypatch):
    with conducting(tmp_path) as conductor:
        sweep, _ = conductor.submit(spec())
        put, refusals = conductor.folder.objects.__class__.put, [3]

        def full(objects, name, content):
            if name.endswith(".npz") and refusals[0]:
                refusals[0] -= 1
                raise OSError(errno.ENOSPC, "no space left")
            put(objects, name, content)

        monkeypatch.setattr(conductor.folder.objects.__class__, "put", full)
        monkeypatch.setattr(conductor.executor, "rest", lambda seconds: None)
        assert conductor.run(sweep.id).state is State.COMPLETED
    assert refusals == [0]
    assert max(runs_in(computed).values()) == 1


def test_a_sweep_is_run_without_the_others(tmp_path, computed, small_bundles):
    other = interrupted(tmp_path, computed)
    with conducting(tmp_path) as conductor:
        before = conductor.counts(other.id)
        assert done(conductor, with_axes(d=[60, 70])).state is State.COMPLETED
        assert conductor.counts(other.id) == before
        assert conductor.ledger.sweep(other.id).state is State.QUEUED  # nobody runs it


def test_a_cancelled_sweep_keeps_what_was_computed_but_not_merged(tmp_path, small_bundles, monkeypatch):
    monkeypatch.setattr(conducting_module, "MERGE_EVERY", 1e9)
    with conducting(tmp_path) as conductor:
        sweep, _ = conductor.submit(spec())
        for _ in range(3):
            conductor.tick()
        assert conductor.counts(sweep.id) == {Status.PENDING: sweep.runs}
        conductor.cancel(sweep.id)
        assert conductor.counts(sweep.id)[Status.DONE] >= 3


def test_a_capsule_names_the_copies_of_its_run(tmp_path, monkeypatch):
    failing(monkeypatch, "integrate_run", 1)
    shared = spec(init={"kind": "informed", "shared": True})
    with conducting(tmp_path) as conductor:
        sweep = done(conductor, shared)
        failed = np.flatnonzero(conductor.folder.dataset(sweep.id).status("ode") == Status.FAILED)
        objects = conductor.folder.objects
        capsules = [json.loads(objects.get(name)) for name in objects.list(f"{sweep.id}.failures/")]
        named = sorted(run for capsule in capsules for run in capsule["runs"])
        assert named == failed.tolist()
        assert len(capsules) < len(named)


def test_retried_runs_are_counted_once_beside_reused_ones(tmp_path, monkeypatch):
    with conducting(tmp_path) as conductor:
        done(conductor, spec())
        with monkeypatch.context() as patch:
            failing(patch, "run_chains", 1)
            more = done(conductor, with_axes(d=[*spec().axes["d"], 60]))
        assert more.reused > 0
        ended = conductor.run(conductor.retry(more.id).id)
        assert sum(conductor.ledger.totals(more.id)["counts"].values()) == ended.runs


class Several(SerialExecutor):
    """Many bundles end between two looks, as with a cluster; the first fails once."""

    failed = False

    def room(self, sweep):
        return len(self.waiting) < 4

    def poll(self):
        found, tasks_, self.waiting = [], self.waiting, []
        for task in tasks_:
            error, self.failed = ("" if self.failed else "KilledWorker: once"), True
            if not error:
                tasks.run_task(task)
            found.append(Receipt(task.sweep, task.bundle.key, error))
        return found

    def rest(self, seconds):
        pass


def test_a_receipt_that_cannot_be_taken_in_takes_no_other_along(tmp_path, small_bundles, monkeypatch):
    with Conductor(DataFolder(tmp_path), Several()) as conductor:
        plain, full = conductor.ledger.tried, [sa.exc.OperationalError("", {}, Exception("disk is full"))]

        def tried(*given):
            if full:
                raise full.pop()
            return plain(*given)

        monkeypatch.setattr(conductor.ledger, "tried", tried)
        sweep, _ = conductor.submit(spec(**FEW))
        conductor.step()
        assert "room on the disk" in conductor.waiting
        for _ in range(10):
            conductor.step()
        assert conductor.ledger.sweep(sweep.id).state is State.COMPLETED
        assert conductor.receipts == []


def test_what_was_computed_when_it_was_paused_is_not_computed_again(tmp_path, computed, monkeypatch):
    monkeypatch.setattr(bundling, "AIM", 0.0)
    monkeypatch.setattr(conducting_module, "MERGE_EVERY", 60.0)
    with conducting(tmp_path) as conductor:
        sweep, _ = conductor.submit(spec(**FEW))
        for _ in range(3):
            conductor.tick()
        conductor.pause(sweep.id)
        assert conductor.counts(sweep.id).keys() == {Status.PENDING}  # nothing is merged yet
        conductor.resume(sweep.id)
        assert conductor.run(sweep.id).state is State.COMPLETED
    assert set(runs_in(computed).values()) == {1}


def test_who_hears_that_a_sweep_is_cancelled_can_count(tmp_path, monkeypatch):
    with conducting(tmp_path) as conductor:
        sweep, _ = conductor.submit(spec())
        plain, counts = conductor.ledger.set_state, []

        def told(name, state, reason=""):
            counts.append(conductor.ledger.totals(name)["counts"])
            plain(name, state, reason)

        monkeypatch.setattr(conductor.ledger, "set_state", told)
        conductor.cancel(sweep.id)
        assert counts == [{Status.CANCELLED: sweep.runs}]


def test_there_is_nothing_to_compute_again_in_a_whole_sweep(conductor):
    before = done(conductor, spec())
    assert conductor.retry(before.id) == before
    path = conductor.folder.objects.root / f"{before.id}.zarr" / "sgd_status" / "c"
    shutil.rmtree(path)  # but there is now
    assert conductor.retry(before.id).state is State.QUEUED
    assert conductor.run(before.id).state is State.COMPLETED
    assert conductor.counts(before.id) == {Status.DONE: before.runs}


def test_a_submission_that_fails_leaves_nothing(conductor, monkeypatch):
    def full(*given):
        raise OSError(errno.ENOSPC, "no room")

    with monkeypatch.context() as patch:
        patch.setattr(conductor.ledger, "add", full)
        with pytest.raises(OSError, match="no room"):
            conductor.submit(spec())
    assert list(conductor.folder.objects.root.iterdir()) == []
    sweep = done(conductor, spec())
    again, _ = conductor.submit(spec(seeds={"init": 2, "repeat": 1}))
    assert (sweep.state, again.state) == (State.COMPLETED, State.COMPLETED)
    assert conductor.merger._copies == {}


def test_a_part_that_found_no_room_is_not_kept_if_a_run_failed(conductor, monkeypatch):
    """Or it would come back after the reason was mended, and the run was tried again."""
    objects, put = type(conductor.folder.objects), type(conductor.folder.objects).put

    def full(self, name, content):
        if name.endswith(".npz"):
            raise OSError(errno.ENOSPC, "no room")
        put(self, name, content)

    for seed, kept in ((0, 0), (99, 1)):  # there is no seed 99
        sweep, _ = conductor.submit(
            spec(seeds={"init": 1, "repeat": 1}, time={"max": 1.0 + kept, "samples": 4})
        )
        (bundle, *_) = [one for one in conductor.ledger.pending(sweep.id, 9) if one.jobs[0].kind == "sgd"]
        with monkeypatch.context() as patch:
            failing(patch, "run_chains", seed)
            patch.setattr(objects, "put", full)
            with pytest.raises(OSError, match="no room"):
                tasks.run_task(tasks.Task(conductor.folder.where, sweep.id, bundle))
        assert len(tasks._unwritten) == kept
    tasks._unwritten.clear()


def test_a_start_does_not_ask_for_each_sweep_alone(tmp_path, monkeypatch):
    """In a bucket each question is a journey."""
    with conducting(tmp_path) as conductor:
        for d in (5, 6, 7):
            done(conductor, with_axes(d=d))
    objects, asked = type(conductor.folder.objects), []
    for name in ("delete", "clear", "put", "get", "exists", "list"):
        monkeypatch.setattr(objects, name, lambda self, *given, name=name: asked.append((name, given)))
    with conducting(tmp_path):
        assert asked == []
