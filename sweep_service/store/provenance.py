"""Where a dataset comes from, in its attributes."""

from __future__ import annotations

import json
import platform
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sweep_service.planning.grids import Grid
from sweep_service.planning.spec import SweepSpec
from sweep_service.store.ledger import utc_now
from sweep_service.version import __version__

PACKAGES = ("numpy", "scipy", "numba", "xarray", "zarr")


def provenance(spec: SweepSpec, grid: Grid, extends: str | None = None) -> dict[str, Any]:
    environment = {
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
        **{name: version(name) for name in PACKAGES},
    }
    return {
        "title": spec.name or "sweep",
        "spec": spec.model_dump_json(),
        "key": grid.key.digest,
        "sweep_service_version": __version__,
        "git": git_state(),
        "environment": json.dumps(environment),
        "created": utc_now(),
        **({"extends": extends} if extends else {}),
    }


@cache
def git_state() -> str:
    """The commit of the code, where it is a checkout and not installed inside somebody else's."""
    try:
        _git("ls-files", "--error-unmatch", Path(__file__).name)
        return _git("describe", "--always", "--dirty")
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def _git(*command: str) -> str:
    found = subprocess.run(
        ["git", *command], cwd=Path(__file__).parent, capture_output=True, text=True, timeout=5.0, check=True
    )
    return found.stdout.strip()
