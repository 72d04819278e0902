"""Dynamics of SGD in two-layer networks: exact simulation, limiting ODEs, and sweeps over both.

Names are imported when they are first used, so that `import sweep_service` stays fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sweep_service.analysis.registration import register
from sweep_service.version import __version__

if TYPE_CHECKING:
    from sweep_service.client.atlas import atlas
    from sweep_service.client.client import AsyncClient, Client, open
    from sweep_service.client.compare import compare
    from sweep_service.dynamics.integrate import integrate
    from sweep_service.errors import InvalidInput, RegimeUndefined, Stopped
    from sweep_service.planning.spec import SweepSpec
    from sweep_service.runner import estimate, run, sweeps
    from sweep_service.simulators.simulate import simulate

__all__ = [
    "AsyncClient",
    "Client",
    "InvalidInput",
    "RegimeUndefined",
    "Stopped",
    "SweepSpec",
    "__version__",
    "atlas",
    "compare",
    "estimate",
    "integrate",
    "open",
    "run",
    "simulate",
    "sweeps",
]

_MODULES = {
    "AsyncClient": "sweep_service.client.client",
    "Client": "sweep_service.client.client",
    "InvalidInput": "sweep_service.errors",
    "RegimeUndefined": "sweep_service.errors",
    "Stopped": "sweep_service.errors",
    "atlas": "sweep_service.client.atlas",
    "compare": "sweep_service.client.compare",
    "SweepSpec": "sweep_service.planning.spec",
    "estimate": "sweep_service.runner",
    "integrate": "sweep_service.dynamics.integrate",
    "open": "sweep_service.client.client",
    "run": "sweep_service.runner",
    "simulate": "sweep_service.simulators.simulate",
    "sweeps": "sweep_service.runner",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    from sweep_service.plugins import load_plugins

    load_plugins()
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__


register()  # ds.sweep
