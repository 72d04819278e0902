"""The worker check: a process may compute for a data folder if it reads the same store with the same code."""

from __future__ import annotations

import uuid
from contextlib import suppress
from functools import partial
from typing import Any

from sweep_service.dynamics.integrate import integrate
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.errors import NotFound, StoreGone, is_temporary
from sweep_service.numerics.kernel_cache import NotCompiled, only_loading
from sweep_service.planning.schema import LAYOUT_VERSION
from sweep_service.simulators.selection import SIMULATORS
from sweep_service.simulators.simulate import simulate
from sweep_service.store.folder import DataFolder
from sweep_service.version import __version__

NONCE = "nonce"
VERSIONS = {
    "sweep_service": __version__,
    "layout": LAYOUT_VERSION,
    **{f"simulator {name}": simulator.version for name, simulator in SIMULATORS.items()},
    **{f"regime {name}": regime.version for name, regime in REGIMES.items()},
}
_POINT = {"d": 5, "p": 4, "k": 2, "gamma": 0.1, "noise": 1e-3}


def worker_requirements(folder: DataFolder, fresh: bool = True) -> dict[str, Any]:
    """Return what a worker must match: the nonce stored in the folder, and versions.

    A process that does not hold the folder must pass `fresh=False` to keep an existing nonce, because the
    service that holds it requires that one from workers that join.
    """
    nonce = uuid.uuid4().hex.encode()
    if fresh:
        folder.objects.put(NONCE, nonce)
    elif not folder.objects.create(NONCE, nonce):
        nonce = folder.objects.get(NONCE)
    return {"root": folder.location, "nonce": nonce.decode(), "versions": VERSIONS}


# The nonces that this process has read, so that it need not read the store for each task.
_verified: set[tuple[str, str]] = set()


def problem(requirements: dict[str, Any]) -> str:
    """Return why this process fails the check, or "". Raise StoreGone if the reason may be temporary.

    Services of other versions call this function too: its name and the keys of `requirements` must stay.
    """
    for name, required in requirements["versions"].items():
        if VERSIONS.get(name) != required:
            return f"its version of {name} is {VERSIONS.get(name)}, but the service has {required}"
    return _find_store_problem(requirements["root"], requirements["nonce"])


def _find_store_problem(root: str, nonce: str) -> str:
    message = f"it cannot read the data folder {root}"
    if (root, nonce) in _verified:
        return ""
    try:
        stored = DataFolder(root).objects.get(NONCE).decode()
    except (NotFound, OSError) as error:
        if is_temporary(error):
            raise StoreGone(f"{message}: {error}") from error
        stored = ""
    if stored != nonce:
        return message
    _verified.add((root, nonce))
    return ""


def load_kernels() -> None:
    """Load the most common kernels, so that the first bundle does not wait for them.

    Kernels that are not in the cache are left to the sweeps that need them.
    """
    calls = [partial(simulate, _POINT)]
    calls += [partial(integrate, _POINT, regime=regime) for regime in ("classical_noise", "high_dimensional")]
    with only_loading():
        for call in calls:
            with suppress(NotCompiled):
                call(times=[0.0, 0.1])
