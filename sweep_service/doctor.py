"""Is this machine fit: what `sweep doctor` finds out."""

from __future__ import annotations

import os
import platform
from typing import Any

from sweep_service.store.folder import DataFolder
from sweep_service.version import __version__


def diagnosis(folder: DataFolder) -> dict[str, Any]:
    return {
        "version": __version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "data": str(folder.root),
        "free_bytes": folder.free_bytes(),
    }
