"""One dataset has one set of versions: an unfinished sweep of other versions waits for a resume."""

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

from sweep_service.dynamics.regimes import REGIMES
from sweep_service.execution import compute as computing
from sweep_service.execution import conductor as conducting_module
from sweep_service.execution import restart as restarting
from sweep_service.execution import submission as submitting
from sweep_service.execution.task import ObjectCheckpoint, Task, run_task
from sweep_service.planning.keys import run_keys
from sweep_service.simulators.selection import SIMULATORS
from sweep_service.status import Status
from sweep_service.store import provenance
from sweep_service.store.ledger import State
from sweep_service.store.metadata import seal_metadata
from tests.execution.conducting import (
    FEW,
    delete_ledger,
    find_leftovers,
    interrupt_sweep,
    list_failure_records,
    load_dataset,
    make_runs_fail,
    make_spec,
    open_conductor,
    raise_interrupt,
    run_sweep,
)
from tests.stored import ONE_RUN_PER_BUNDLE

SIMULATOR, REGIME = "simulator S1", "regime classical"
OFFSET = 1000.0  # what the newer versions add to every risk


@pytest.fixture(autouse=True)
def first_versions(monkeypatch):
    """Begin with first versions, whatever they are now."""
    for registry in (SIMULATORS, REGIMES):
        for name in registry:
            monkeypatch.setitem(vars(registry[name]), "version", 1)


def raise_versions(patch, *names, to=2):
    """Install newer versions of simulators and regimes, which give other numbers."""
    for name in names:
        kind, _, engine = name.partition(" ")
        registry = SIMULATORS if kind == "simulator" else REGIMES
        patch.setitem(vars(registry[engine]), "version", to)
    run_chains, integrate_run = computing.run_chains, computing.integrate_run

    def new_chains(point, **options):
        simulation = run_chains(point, **options)
        simulation.values["risk"][...] += OFFSET * (SIMULATOR in names)
        return simulation

    def new_integration(point, **options):
        solution = integrate_run(point, **options)
        dims, risk = solution.variables["risk"]
        is_new = f"regime {options['regime']}" in names
        variables = {**solution.variables, "risk": (dims, risk + OFFSET * is_new)}
        return replace(solution, variables=variables)

    patch.setattr(computing, "run_chains", new_chains)
    patch.setattr(computing, "integrate_run", new_integration)


def release(patch, version):
    """Install another version of the package."""
    for module in (conducting_module, restarting, submitting, provenance):
        patch.setattr(module, "__version__", version)


def fine(root):
    return open_conductor(root, settings=ONE_RUN_PER_BUNDLE)


def assert_one_version(conductor, sweep, *names):
    """Check that all runs, keys and attributes are of the newer versions of `names`, and of no others."""
    dataset, plan = load_dataset(conductor, sweep), conductor.folder.plan(sweep.id)
    new_regimes = [f"regime {regime}" in names for regime in plan.grid.regimes]
    is_new = {"sgd": SIMULATOR in names, "ode": xr.DataArray(new_regimes, dims="regime")}
    for kind in ("sgd", "ode"):
        assert np.all(dataset[f"{kind}_status"] == Status.DONE)
        assert np.all((dataset[f"{kind}_risk"] > OFFSET / 2) == is_new[kind])
    versions = json.loads(dataset.attrs["versions"])
    assert {name for name, version in versions.items() if version > 1} == set(names)
    row = conductor.ledger.sweep(sweep.id)
    assert (row.versions, row.key) == (versions, dataset.attrs["key"])
    stored = conductor.folder.keys(sweep.id)
    assert all(np.array_equal(keys, stored[kind]) for kind, keys in run_keys(plan.grid).items())
    return dataset


@pytest.mark.parametrize("names", [(SIMULATOR,), pytest.param((REGIME,), marks=pytest.mark.slow)])
def test_unfinished_sweep_of_other_versions_is_paused_until_resumed(
    tmp_path, computed_jobs, monkeypatch, names
):
    sweep = interrupt_sweep(tmp_path, computed_jobs, after=5)
    with fine(tmp_path) as conductor:
        before = load_dataset(conductor, sweep)
    raise_versions(monkeypatch, *names)
    with fine(tmp_path) as conductor:
        held = conductor.ledger.sweep(sweep.id)
        assert held.state is State.PAUSED
        assert f"{names[0]} had version 1 and has 2: resume" in held.reason
        conductor.tick()
        xr.testing.assert_identical(load_dataset(conductor, sweep), before)
    with fine(tmp_path) as conductor:
        assert conductor.ledger.sweep(sweep.id) == held  # another start changes nothing
        computed_jobs.clear()
        resumed = conductor.resume(sweep.id)
        assert (resumed.state, resumed.reason) == (
            State.QUEUED,
            f"restarted: {names[0]} had version 1 and has 2",
        )
        event = conductor.ledger.events(sweep.id)[-1]
        assert (event.kind, event.state, event.reason) == ("state", State.QUEUED, resumed.reason)
        ended = conductor.run(sweep.id)
        assert (ended.state, ended.reason) == (State.COMPLETED, "")
        assert conductor.ledger.totals(sweep.id)["counts"] == {Status.DONE: sweep.runs}
        assert_one_version(conductor, sweep, *names)
        assert not conductor.folder.is_restarting(sweep.id)
    assert find_leftovers(tmp_path) == []


@pytest.mark.slow
def test_only_runs_of_changed_versions_are_computed_again(tmp_path, computed_jobs, monkeypatch):
    sweep = interrupt_sweep(tmp_path, computed_jobs, after=5)
    with fine(tmp_path) as conductor:
        done = load_dataset(conductor, sweep).sgd_status == Status.DONE
        assert done.any()
    raise_versions(monkeypatch, REGIME)
    with fine(tmp_path) as conductor:
        computed_jobs.clear()
        conductor.resume(sweep.id)
        xr.testing.assert_equal(load_dataset(conductor, sweep).sgd_status == Status.DONE, done)
        conductor.run(sweep.id)
        kinds = Counter(job.kind for _, job in computed_jobs)
        assert kinds["sgd"] == done.size - int(done.sum())


def test_reset_runs_have_no_values(tmp_path, computed_jobs, monkeypatch):
    sweep = interrupt_sweep(tmp_path, computed_jobs, after=5)
    raise_versions(monkeypatch, SIMULATOR, REGIME, "regime high_dimensional")
    with fine(tmp_path) as conductor:
        conductor.resume(sweep.id)
        dataset = load_dataset(conductor, sweep)
        assert conductor.counts(sweep.id) == {Status.PENDING: sweep.runs}
        for name in ("sgd_risk", "ode_risk", "sgd_seconds", "ode_seconds"):
            assert np.all(np.isnan(dataset[name])), name
        assert conductor.ledger.totals(sweep.id)["counts"] == {}


@pytest.mark.parametrize("names", [pytest.param((SIMULATOR,), marks=pytest.mark.slow), (REGIME,)])
def test_spec_sent_after_a_change_of_version_is_a_new_sweep(tmp_path, computed_jobs, monkeypatch, names):
    with open_conductor(tmp_path) as conductor:
        old = run_sweep(conductor, make_spec())
        before = load_dataset(conductor, old)
    raise_versions(monkeypatch, *names)
    with open_conductor(tmp_path) as conductor:
        assert conductor.ledger.sweep(old.id) == old  # a completed sweep stays as it is
        new, is_new = conductor.submit(make_spec())
        assert is_new
        assert new.key != old.key
        assert 0 < new.reused < new.runs  # runs of other simulators and regimes
        new = conductor.run(new.id)
        assert_one_version(conductor, new, *names)
        assert conductor.submit(make_spec(name="again")) == (new, False)
        xr.testing.assert_identical(load_dataset(conductor, old), before)


@pytest.mark.slow
def test_other_engines_do_not_matter(tmp_path, computed_jobs, monkeypatch):
    """A version of a simulator or regime that a sweep does not use changes nothing."""
    unfinished = interrupt_sweep(tmp_path, computed_jobs)
    raise_versions(monkeypatch, "simulator S2", "regime mean_field")
    with fine(tmp_path) as conductor:
        assert conductor.ledger.sweep(unfinished.id).state is State.QUEUED
        assert conductor.submit(make_spec(**FEW)) == (conductor.ledger.sweep(unfinished.id), False)
        assert conductor.run(unfinished.id).state is State.COMPLETED
        assert_one_version(conductor, unfinished)


def test_another_package_version_is_only_recorded(tmp_path, computed_jobs, monkeypatch):
    sweep = interrupt_sweep(tmp_path, computed_jobs)
    first = conducting_module.__version__
    release(monkeypatch, "9.9")
    with fine(tmp_path) as conductor:
        assert conductor.ledger.sweep(sweep.id) == replace(
            sweep, state=State.QUEUED, package="9.9", updated=conductor.ledger.sweep(sweep.id).updated
        )
        assert conductor.run(sweep.id).state is State.COMPLETED
        dataset = assert_one_version(conductor, sweep)
        assert dataset.attrs["sweep_service_version"] == f"{first}, 9.9"
        assert conductor.submit(make_spec(**FEW))[1] is False


@pytest.mark.slow
def test_choice_of_another_simulator_is_noticed_with_a_new_package(tmp_path, computed_jobs, monkeypatch):
    sweep = interrupt_sweep(tmp_path, computed_jobs, after=5)
    release(monkeypatch, "9.9")
    monkeypatch.setitem(SIMULATORS, "S1", replace(SIMULATORS["S1"], suits=lambda case: ""))
    conducting_module.DataFolder(tmp_path).plan(sweep.id).grid.__dict__.pop("simulators", None)
    with fine(tmp_path) as conductor:
        held = conductor.ledger.sweep(sweep.id)
        assert held.state is State.PAUSED
        assert held.reason.startswith("other simulators are chosen for its points")
        assert conductor.submit(make_spec(**FEW)) == (held, False)
        conductor.resume(sweep.id)
        assert conductor.run(sweep.id).state is State.COMPLETED
        assert "simulator S2" in json.loads(load_dataset(conductor, sweep).attrs["versions"])


@pytest.mark.slow
def test_return_to_the_first_versions_needs_no_restart(tmp_path, computed_jobs, monkeypatch):
    sweep = interrupt_sweep(tmp_path, computed_jobs, after=5)
    with monkeypatch.context() as patch:
        raise_versions(patch, SIMULATOR)
        with fine(tmp_path) as conductor:
            assert conductor.ledger.sweep(sweep.id).reason
    with fine(tmp_path) as conductor:
        done = conductor.counts(sweep.id)[Status.DONE]
        row = conductor.ledger.sweep(sweep.id)
        assert (row.state, row.reason) == (State.PAUSED, "")
        conductor.resume(sweep.id)
        assert conductor.counts(sweep.id)[Status.DONE] == done
        assert conductor.run(sweep.id).state is State.COMPLETED
        assert_one_version(conductor, sweep)


def write_part(conductor, sweep, bundle):
    run_task(Task(str(conductor.folder.root), sweep.id, bundle))
    name = f"{sweep.id}.parts/{bundle.key}.0.checkpoint"
    ObjectCheckpoint(conductor.folder.objects, name).save(b"of the old version")


def test_parts_of_the_old_versions_are_merged_before_the_pause_and_never_after(tmp_path, monkeypatch):
    with fine(tmp_path) as conductor:
        sweep, _ = conductor.submit(make_spec(**FEW))
        early, *_, late = conductor.ledger.pending_bundles(sweep.id, 100)
        write_part(conductor, sweep, early)
    with monkeypatch.context() as patch:
        raise_versions(patch, SIMULATOR, REGIME, "regime high_dimensional")
        with fine(tmp_path) as conductor:
            assert conductor.counts(sweep.id)[Status.DONE] >= 1  # the part of the old version
            conductor.resume(sweep.id)
            patch.undo()  # a worker of the old version was cut off, and writes its part only now
            write_part(conductor, sweep, late)
        raise_versions(patch, SIMULATOR, REGIME, "regime high_dimensional")
        with fine(tmp_path) as conductor:
            assert conductor.counts(sweep.id) == {Status.PENDING: sweep.runs}
            assert conductor.run(sweep.id).state is State.COMPLETED
            assert_one_version(conductor, sweep, SIMULATOR, REGIME, "regime high_dimensional")


def test_all_runs_stored_by_the_old_version_are_a_completed_sweep(tmp_path, monkeypatch):
    with fine(tmp_path) as conductor:
        sweep, _ = conductor.submit(make_spec(**FEW))
        for bundle in conductor.ledger.pending_bundles(sweep.id, 100):
            run_task(Task(str(conductor.folder.root), sweep.id, bundle))
    raise_versions(monkeypatch, SIMULATOR)
    with fine(tmp_path) as conductor:
        assert conductor.ledger.sweep(sweep.id).state is State.COMPLETED
        assert json.loads(load_dataset(conductor, sweep).attrs["versions"])[SIMULATOR] == 1


@pytest.mark.parametrize("how", ["failed", pytest.param("cancelled", marks=pytest.mark.slow)])
def test_retry_does_not_mix_versions(tmp_path, computed_jobs, monkeypatch, how):
    with open_conductor(tmp_path) as conductor, monkeypatch.context() as patch:
        if how == "failed":
            make_runs_fail(patch, "integrate_run", seed=1)
        sweep, _ = conductor.submit(make_spec(**FEW))
        conductor.run(sweep.id) if how == "failed" else conductor.cancel(sweep.id)
        before = load_dataset(conductor, sweep)
    raise_versions(monkeypatch, SIMULATOR)
    with open_conductor(tmp_path) as conductor:
        assert conductor.ledger.sweep(sweep.id).state.has_ended
        held = conductor.retry(sweep.id)
        assert (held.state, SIMULATOR in held.reason) == (State.PAUSED, True)
        xr.testing.assert_identical(load_dataset(conductor, sweep), before)
    with open_conductor(tmp_path) as conductor:
        assert conductor.ledger.sweep(sweep.id) == held
        conductor.resume(sweep.id)
        assert conductor.run(sweep.id).state is State.COMPLETED
        assert list_failure_records(conductor, sweep) == []
        assert_one_version(conductor, sweep, SIMULATOR)


@pytest.mark.slow
def test_rebuilt_ledger_knows_the_versions(tmp_path, computed_jobs, monkeypatch):
    sweep = interrupt_sweep(tmp_path, computed_jobs, after=5)
    with fine(tmp_path) as conductor:
        ended = run_sweep(conductor, make_spec(**FEW, observables=["risk"]))
    delete_ledger(tmp_path)
    raise_versions(monkeypatch, SIMULATOR)
    with fine(tmp_path) as conductor:
        assert sorted(conductor.rebuild()) == sorted([sweep.id, ended.id])
        rows = {row.id: row for row in conductor.ledger.sweeps()}
        assert (rows[ended.id].state, rows[ended.id].versions) == (State.COMPLETED, ended.versions)
        assert (rows[sweep.id].state, rows[sweep.id].key) == (State.PAUSED, sweep.key)
        assert rows[sweep.id].reason.startswith(f"{SIMULATOR} had version 1 and has 2")
        conductor.resume(sweep.id)
        assert conductor.run(sweep.id).state is State.COMPLETED
        assert_one_version(conductor, sweep, SIMULATOR)


@pytest.mark.slow
def test_sweep_without_recorded_versions_has_the_first(tmp_path, computed_jobs, monkeypatch):
    """As ledgers and datasets of earlier versions are."""
    sweep = interrupt_sweep(tmp_path, computed_jobs, after=5)
    with fine(tmp_path) as conductor:
        conductor.ledger.set_versions(sweep.id, {}, "")
    with fine(tmp_path) as conductor:
        assert conductor.ledger.sweep(sweep.id).state is State.QUEUED
        assert conductor.ledger.sweep(sweep.id).versions == sweep.versions
        conductor.ledger.set_versions(sweep.id, {}, "")
    raise_versions(monkeypatch, REGIME)
    with fine(tmp_path) as conductor:
        assert conductor.ledger.sweep(sweep.id).reason.startswith(f"{REGIME} had version 1 and has 2")
        conductor.resume(sweep.id)
        assert conductor.run(sweep.id).state is State.COMPLETED
        assert_one_version(conductor, sweep, REGIME)


@pytest.mark.slow
def test_sweep_of_a_newer_layout_waits_for_the_version_that_wrote_it(tmp_path, computed_jobs):
    sweep = interrupt_sweep(tmp_path, computed_jobs)

    def set_layout(number):
        with fine(tmp_path) as conductor:
            conductor.folder.dataset(sweep.id).update_attributes({"layout_version": number})

    set_layout(99)
    for _ in range(2):
        with fine(tmp_path) as conductor:
            held = conductor.run(sweep.id)
            assert (held.state, "has layout 99" in held.reason) == (State.PAUSED, True)
    metadata = tmp_path / "sweeps" / f"{sweep.id}.zarr" / "zarr.json"
    older = metadata.read_bytes().replace(b'"layout_version": 99', b'"layout_version": 1')
    metadata.write_bytes(seal_metadata(older))
    with fine(tmp_path) as conductor:
        assert conductor.ledger.sweep(sweep.id).reason == ""
        conductor.resume(sweep.id)
        assert conductor.run(sweep.id).state is State.COMPLETED


SLOW_STEPS = [pytest.param(step, marks=pytest.mark.slow) for step in ("clear_parts", "mark_restarted")]


@pytest.mark.parametrize("step", ["put_keys", *SLOW_STEPS])
def test_failed_restart_can_be_repeated_or_cancelled(tmp_path, computed_jobs, monkeypatch, step):
    sweep = interrupt_sweep(tmp_path, computed_jobs, after=5)
    raise_versions(monkeypatch, SIMULATOR)
    with fine(tmp_path) as conductor:
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(conductor.folder, step, raise_interrupt)
            conductor.resume(sweep.id)
        assert conductor.folder.is_restarting(sweep.id)
        if step == "put_keys":
            assert conductor.ledger.sweep(sweep.id).state is State.PAUSED
            assert conductor.cancel(sweep.id).state is State.CANCELLED
    with fine(tmp_path) as conductor:
        assert not conductor.folder.is_restarting(sweep.id)
        row = conductor.ledger.sweep(sweep.id)
        assert row.state is (State.CANCELLED if step == "put_keys" else State.QUEUED)
        if step == "put_keys":
            conductor.resume(conductor.retry(sweep.id).id)
        assert conductor.run(sweep.id).state is State.COMPLETED
        assert_one_version(conductor, sweep, SIMULATOR)
