"""The checks of `sweep doctor` on this machine; those of a cluster are in `workers.report`."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sweep_service.doctor.checks import certificates, machine, store
from sweep_service.doctor.checks.verdict import Check, wrong
from sweep_service.store.folder import DataFolder

CheckFunction = Callable[[DataFolder], Iterable[Check]]
CHECKS: tuple[CheckFunction, ...] = (
    store.check_lock_holder, store.check_store, store.check_file_systems, store.check_permissions,
    store.check_ledger,
    machine.check_disks, machine.check_kernels, machine.check_cores, machine.check_memory,
    machine.check_open_files, machine.check_plugins, certificates.check_certificates,
)  # fmt: skip


def run_checks(folder: DataFolder) -> list[Check]:
    """Run all checks of this machine and a data folder."""
    return [check for function in CHECKS for check in run_check(function, folder)]


def run_check(function: CheckFunction, folder: DataFolder) -> list[Check]:
    """Run a check; an unexpected error becomes a finding, so that the other checks still run."""
    try:
        return list(function(folder))
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
        name = function.__name__.removeprefix("check_").replace("_", " ")
        return [wrong(name, found, "this may be a bug of the check: please report it")]
