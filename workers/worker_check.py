"""May a process compute for a data folder? It must read the same store with the same code."""

from __future__ import annotations

import uuid
from typing import Any

from sweep_service.dynamics.integrate import integrate
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.errors import NotFound, StoreGone, is_passing
from sweep_service.planning.schema import LAYOUT_VERSION
from sweep_service.simulators.selection import SIMULATORS
from sweep_service.simulators.simulate import simulate
from sweep_service.store.folder import DataFolder
from sweep_service.version import __version__

NONCE = "nonce"
VERSIONS = {
    "sweep_service": __version__,
    "layout": LAYOUT_VERSION,
    **{f"simulator {name}": kind.version for name, kind in SIMULATORS.items()},
    **{f"regime {name}": regime.version for name, regime in REGIMES.items()},
}
_POINT = {"d": 5, "p": 4, "k": 2, "gamma": 0.1, "noise": 1e-3}


def passport(folder: DataFolder, fresh: bool = True) -> dict[str, Any]:
    """What a worker is asked to show: a number that is written in the store, and versions.

    Who does not hold the folder takes the number that is there: a service asks those who join for it.
    """
    nonce = uuid.uuid4().hex.encode()
    if fresh:
        folder.objects.put(NONCE, nonce)
    elif not folder.objects.create(NONCE, nonce):
        nonce = folder.objects.get(NONCE)
    return {"root": folder.where, "nonce": nonce.decode(), "versions": VERSIONS}


# What this process has shown: it need not read the store for each task.
_shown: set[tuple[str, str]] = set()


def problem(passport: dict[str, Any]) -> str:
    """Why this process cannot show it; nothing if it can. StoreGone if that may pass."""
    for name, wanted in passport["versions"].items():
        if VERSIONS.get(name) != wanted:
            return f"its version of {name} is {VERSIONS.get(name)}, the service has {wanted}"
    return _store_problem(passport["root"], passport["nonce"])


def _store_problem(root: str, nonce: str) -> str:
    why = f"it cannot read the data folder {root}"
    if (root, nonce) in _shown:
        return ""
    try:
        found = DataFolder(root).objects.get(NONCE).decode()
    except (NotFound, OSError) as error:
        if is_passing(error):
            raise StoreGone(f"{why}: {error}") from error
        found = ""
    if found != nonce:
        return why
    _shown.add((root, nonce))
    return ""


def warm() -> None:
    """Load the commonest kernels, so that the first bundle need not."""
    simulate(_POINT, times=[0.0, 0.1])
    for regime in ("classical_noise", "high_dimensional"):
        integrate(_POINT, times=[0.0, 0.1], regime=regime)
