"""What `sweep doctor` looks at from here; who works for a scheduler is asked by `workers.report`."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sweep_service.doctor.checks import certificates, machine, store
from sweep_service.doctor.checks.verdict import Check, wrong
from sweep_service.store.folder import DataFolder

Look = Callable[[DataFolder], Iterable[Check]]
LOOKS: tuple[Look, ...] = (
    store.holder, store.store, store.file_systems, store.ledger,
    machine.disks, machine.kernels, machine.cores, machine.memory, machine.open_files,
    certificates.certificates,
)  # fmt: skip


def local(folder: DataFolder) -> list[Check]:
    return [check for look in LOOKS for check in looked(look, folder)]


def looked(look: Look, folder: DataFolder) -> list[Check]:
    try:
        return list(look(folder))
    except Exception as error:  # a doctor does not die of what a patient has
        found = f"{type(error).__name__}: {error}"
        return [wrong(look.__name__.replace("_", " "), found, "report it, if that tells you nothing")]
