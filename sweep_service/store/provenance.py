"""The provenance of a dataset, stored in its attributes."""

from __future__ import annotations

import json
import platform
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sweep_service.planning.grids import Grid
from sweep_service.planning.notes import collect_notes
from sweep_service.planning.spec import SweepSpec
from sweep_service.planning.versions import engine_versions, sweep_key
from sweep_service.store.ledger import utc_now
from sweep_service.version import __version__

PACKAGES = ("numpy", "scipy", "numba", "xarray", "zarr")


def collect_provenance(spec: SweepSpec, grid: Grid, extends: str | None = None) -> dict[str, Any]:
    """Return attributes of a new dataset: spec, versions of code and packages, time of creation."""
    return {
        "title": spec.name or "sweep",
        "spec": spec.model_dump_json(),
        **collect_versions(grid),
        "created": utc_now(),
        **({"extends": extends} if extends else {}),
        **({"notes": "; ".join(notes)} if (notes := collect_notes(spec, grid)) else {}),
    }


def collect_versions(grid: Grid) -> dict[str, Any]:
    """Return the attributes that depend on the code: the key, and versions of code and packages."""
    return {
        "key": sweep_key(grid),
        "versions": json.dumps(engine_versions(grid)),
        "sweep_service_version": __version__,
        "git": git_state(),
        "environment": json.dumps(_environment()),
    }


@cache  # reading the versions takes longer than everything else here
def _environment() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
        **{name: version(name) for name in PACKAGES},
    }


@cache
def git_state() -> str:
    """Return the commit of the code if it is a checkout, and not installed inside another repository."""
    try:
        _git("ls-files", "--error-unmatch", Path(__file__).name)
        return _git("describe", "--always", "--dirty")
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def _git(*command: str) -> str:
    result = subprocess.run(
        ["git", *command], cwd=Path(__file__).parent, capture_output=True, text=True, timeout=5.0, check=True
    )
    return result.stdout.strip()
