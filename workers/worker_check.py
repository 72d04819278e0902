"""The worker check: a process may compute for a data folder if it reads the same store with the same code."""

from __future__ import annotations

import uuid
from contextlib import suppress
from functools import partial
from typing import Any

from sweep_service.by_value import install_entries
from sweep_service.dynamics.integrate import integrate
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.errors import InvalidInput, NotFound, StoreGone, is_temporary
from sweep_service.numerics.kernel_cache import NotCompiled, only_loading
from sweep_service.planning.schema import LAYOUT_VERSION
from sweep_service.plugins import load_plugins
from sweep_service.registries import is_built_in
from sweep_service.simulators.selection import SIMULATORS
from sweep_service.simulators.simulate import simulate
from sweep_service.store.folder import DataFolder
from sweep_service.version import __version__

NONCE = "nonce"
VERSIONS = {
    "sweep_service": __version__,
    "layout": LAYOUT_VERSION,
    **{f"simulator {name}": simulator.version for name, simulator in SIMULATORS.items()},
    **{f"regime {name}": regime.version for name, regime in REGIMES.items() if is_built_in("regime", name)},
}
SHOWN_DIGITS = 8  # of the digest of a plugin
_PLUGIN = "plugin "  # before the name of a plugin among versions
_POINT = {"d": 5, "p": 4, "k": 2, "gamma": 0.1, "noise": 1e-3}


def own_versions() -> dict[str, Any]:
    """Return the versions of this process, with the digests of its plugins."""
    return VERSIONS | {f"{_PLUGIN}{name}": plugin.digest for name, plugin in load_plugins().items()}


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
    return {"root": folder.location, "nonce": nonce.decode(), "versions": own_versions()}


# The nonces that this process has read, so that it need not read the store for each task.
_verified: set[tuple[str, str]] = set()


def problem(requirements: dict[str, Any]) -> str:
    """Return why this process fails the check, or "". Raise StoreGone if the reason may be temporary.

    Services of other versions call this function too: its name and the keys of `requirements` must stay.
    Only workers that the service has started get `entries`, which are registered in this process.
    """
    try:
        versions = own_versions()
    except InvalidInput as error:  # a plugin of this machine cannot be loaded
        return str(error)
    for name, required in requirements["versions"].items():
        if versions.get(name) != required:
            return _describe_difference(name, versions.get(name), required)
    install_entries(requirements.get("entries"))
    return _find_store_problem(requirements["root"], requirements["nonce"])


def _describe_difference(name: str, version: Any, required: Any) -> str:
    if not name.startswith(_PLUGIN):
        return f"its version of {name} is {version}, but the service has {required}"
    if version is None:
        return f"it does not have the {name}: install it, or set SWEEP_PLUGINS"
    here, there = str(version)[:SHOWN_DIGITS], str(required)[:SHOWN_DIGITS]
    return f"its {name} differs from that of the service: the digest of its files is {here}, not {there}"


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
