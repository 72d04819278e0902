"""Writes the indexes of sweeps in a thread of its own, because reading all values of a sweep takes time.

An index is derived data. One that cannot be written now is missing until the next start, and until then the
atlas computes it from the dataset.
"""

from __future__ import annotations

import logging
import threading
import time as clock
from collections.abc import Iterable
from contextlib import suppress

from sweep_service.abandonment import abandoned_if
from sweep_service.errors import Stopped, SweepError
from sweep_service.store.folder import DataFolder

MAX_REMOVAL_WAIT_SECONDS = 10.0  # for an index that is being made; it is abandoned at its next check
log = logging.getLogger(__name__)


class IndexWriter:
    """Writes one index after another; those requested first, then those that older folders lack.

    It must be closed while the lock of the folder is still held. `wait_seconds` is how long `close` waits for
    requested indexes; the others are left for the next start.
    """

    def __init__(self, folder: DataFolder, wait_seconds: float) -> None:
        self.folder, self.wait_seconds = folder, wait_seconds
        self._requested: dict[str, None] = {}  # in order
        self._missing: dict[str, None] = {}
        self._is_busy = self._is_urgent = False  # writing an index; one that was requested
        self._removed = set[str]()
        self._current: str | None = None  # the sweep whose index is being made
        self._changed = threading.Condition()
        self._closing = False
        self._thread: threading.Thread | None = None

    def __enter__(self) -> IndexWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def request(self, sweep_id: str) -> None:
        """Write the index of a sweep that has ended or is paused, soon."""
        with self._changed:
            self._requested[sweep_id] = None
            self._start()

    def catch_up(self, sweep_ids: Iterable[str]) -> None:
        """Write the indexes of sweeps that have none, when nothing else is to be done."""
        with self._changed:
            self._missing.update(dict.fromkeys(sweep_ids))
            if self._missing:
                self._start()

    def remove(self, sweep_id: str) -> None:
        """Forget a sweep that is about to be removed; after the return its files are not used any more."""
        with self._changed:
            self._removed.add(sweep_id)
            self._requested.pop(sweep_id, None)
            self._missing.pop(sweep_id, None)
            # Opening a dataset that has just been removed would create its folder again.
            self._changed.wait_for(lambda: self._current != sweep_id, MAX_REMOVAL_WAIT_SECONDS)

    def close(self) -> None:
        """Wait for requested indexes, up to a limit, and end the thread."""
        if self._thread is None:
            return
        with self._changed:
            self._missing.clear()
            self._changed.wait_for(lambda: not self._requested and not self._is_urgent, self.wait_seconds)
            self._closing = True
            self._changed.notify_all()
        self._thread.join()

    def _start(self) -> None:
        if self._thread is None and not self._closing:
            self._thread = threading.Thread(target=self._run, name="index-writer", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _run(self) -> None:
        with abandoned_if(lambda: self._closing), suppress(Stopped):
            while (sweep_id := self._next()) is not None:
                self._write(sweep_id)
                with self._changed:
                    self._is_busy, self._is_urgent, self._current = False, False, None
                    self._changed.notify_all()

    def _next(self) -> str | None:
        """Wait for the next sweep; None when the writer is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closing or self._requested or self._missing)
            if self._closing:
                return None
            source = self._requested or self._missing
            self._is_busy, self._is_urgent = True, source is self._requested
            sweep_id = next(iter(source))
            del source[sweep_id]
            self._current = sweep_id
            return sweep_id

    def _write(self, sweep_id: str) -> None:
        from sweep_service.store.run_index.files import make_index, save_index

        began = clock.monotonic()
        try:
            with abandoned_if(lambda: self._closing or sweep_id in self._removed):
                content = make_index(self.folder, sweep_id)
            with self._changed:  # so that `remove` waits for a write that has begun
                if sweep_id in self._removed:
                    return
                save_index(self.folder, sweep_id, content)
        except Stopped:
            if self._closing:
                raise
        except (SweepError, OSError) as error:  # damaged, removed meanwhile, a full disk, a lost lock
            log.info("%s has no index: %s", sweep_id, error)
        except Exception:
            log.exception("the index of %s cannot be made", sweep_id)
        else:
            log.debug("the index of %s took %.1f s", sweep_id, clock.monotonic() - began)
