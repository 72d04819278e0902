"""Sweeps of other versions: recognised when a conductor starts, and restarted when they are resumed.

A dataset has one set of versions. An unfinished sweep whose simulators or regimes have changed since is
therefore paused, and a resume resets the runs concerned. The order of writes makes it repeatable: a marker,
statuses, values, run keys, attributes, the ledger. A start that finds the marker, and the sweep still paused,
does it all again.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sweep_service.execution.merger import Merger
from sweep_service.faults import fault_point
from sweep_service.planning.bundles import BundleLimits, make_bundles
from sweep_service.planning.keys import run_keys
from sweep_service.planning.versions import (
    FIRST_VERSION,
    changed_versions,
    describe_changes,
    engine_versions,
    sweep_key,
)
from sweep_service.status import Status
from sweep_service.store.folder import DataFolder
from sweep_service.store.ledger import Ledger, State, SweepRecord
from sweep_service.store.provenance import collect_versions
from sweep_service.version import __version__

ADVICE = "resume computes these runs again, and submitting the spec makes a new sweep"


def find_changes(folder: DataFolder, sweep: SweepRecord) -> str:
    """Return which versions of an unfinished sweep have changed, or "" if it can go on.

    Another version of the package may also choose other simulators: then all run keys are compared.
    """
    changes = changed_versions(sweep.versions)
    if changes:
        return describe_changes(changes)
    if sweep.package == __version__:
        return ""
    grid, stored = folder.plan(sweep.id).grid, folder.keys(sweep.id)
    if all(np.array_equal(keys, stored[kind]) for kind, keys in run_keys(grid).items()):
        return ""
    if not sweep.versions:
        changes = changed_versions(dict.fromkeys(engine_versions(grid), FIRST_VERSION))
    return describe_changes(changes) or "other simulators are chosen for its points"


def record_package(folder: DataFolder, ledger: Ledger, sweep: SweepRecord) -> None:
    """Record that another version of the package, with the same simulators and regimes, continues a sweep."""
    dataset, grid = folder.dataset(sweep.id), folder.plan(sweep.id).grid
    packages = dataset.attributes.get("sweep_service_version", "").split(", ")
    if __version__ not in packages:
        packages = [*filter(None, packages), __version__]
        dataset.update_attributes({"sweep_service_version": ", ".join(packages)})
    ledger.set_versions(sweep.id, engine_versions(grid), __version__)


def restart_sweep(merger: Merger, sweep: SweepRecord, limits: BundleLimits) -> None:
    """Reset the runs that other versions computed, and all failed ones, and queue them."""
    folder, grid = merger.folder, merger.folder.plan(sweep.id).grid
    changes = find_changes(folder, sweep)
    folder.mark_restarting(sweep.id)
    fault_point("restart:marked")
    folder.clear_parts(sweep.id)  # parts and checkpoints of the old versions
    folder.forget_continued(sweep.id)
    folder.forget_rounds(sweep.id)
    fault_point("restart:parts")
    dataset, keys, stored = folder.dataset(sweep.id), run_keys(grid), folder.keys(sweep.id)
    for kind in dataset.plan.runs.kinds:
        has_failed = np.isin(dataset.status(kind), (Status.FAILED, Status.CANCELLED))
        dataset.reset(kind, np.flatnonzero((keys[kind] != stored[kind]) | has_failed))
    folder.clear_failures(sweep.id)
    fault_point("restart:values")
    folder.put_keys(sweep.id, keys)
    fault_point("restart:keys")
    dataset.update_attributes(collect_versions(grid))
    fault_point("restart:attributes")
    merger.forget(sweep.id)
    bundles = make_bundles(
        dataset.plan, merger.distinct_runs(sweep.id, pending=True), folder.calibration(), limits
    )
    counts = dataset.counts()
    counts.pop(Status.PENDING, None)
    restarted = replace(
        sweep,
        key=sweep_key(grid),
        versions=engine_versions(grid),
        package=__version__,
        state=State.QUEUED,
        reason=f"restarted: {changes}" if changes else "restarted",
        reused=0,
    )
    merger.ledger.restart(restarted, bundles, counts)
    fault_point("restart:ledger")
    folder.mark_restarted(sweep.id)
