"""The atlas of a service, kept in memory and brought up to date when sweeps change."""

from __future__ import annotations

import hashlib
import json
import threading
import time as clock
from typing import TYPE_CHECKING, NamedTuple

from sweep_service.store.ledger import State
from sweep_service.version import __version__

if TYPE_CHECKING:
    from sweep_service.analysis.atlas.atlas import Atlas
    from sweep_service.analysis.atlas.folder import FolderAtlas
    from sweep_service.api.conductor_thread import ConductorThread

LIVE_SECONDS = 10.0  # a sweep that runs is read again after this time
LIVE_STATES = (State.QUEUED, State.RUNNING)


class CurrentAtlas(NamedTuple):
    """An atlas, and a tag that changes with its runs."""

    atlas: Atlas
    tag: str


class AtlasCache:
    """The atlas of all sweeps of a service. New, ended and removed sweeps count at once."""

    def __init__(self, service: ConductorThread) -> None:
        self.service = service
        self._folder_atlas: FolderAtlas | None = None
        self._lock = threading.Lock()

    def current(self) -> CurrentAtlas:
        """Return the atlas of the sweeps that the ledger has now. The first call reads all indexes."""
        from sweep_service.analysis.atlas.folder import FolderAtlas

        with self._lock:
            if self._folder_atlas is None:
                self._folder_atlas = FolderAtlas(self.service.folder, self.service.request_index)
        period = int(clock.monotonic() / LIVE_SECONDS)
        versions = {
            sweep.id: (sweep.state.value, period if sweep.state in LIVE_STATES else sweep.updated)
            for sweep in self.service.ledger.sweeps()
        }
        tag = hashlib.sha256(json.dumps([versions, __version__], sort_keys=True).encode()).hexdigest()[:32]
        return CurrentAtlas(self._folder_atlas.refresh(versions), tag)
