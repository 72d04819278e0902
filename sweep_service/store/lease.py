"""One process at a time changes a bucket: an object that its holder writes anew every few seconds.

No clock is compared with another. Who wants the lease looks at the object: if it changes, its holder
lives; if it has not changed for as long as a lease lasts, it is taken over, by a write that only succeeds
on what was seen. A holder that could not write for so long does not touch the data until it can again, and
gives up if somebody else has the lease by then.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time as clock
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from obstore.exceptions import PreconditionError

from sweep_service.errors import InUse, NotFound, StoreGone
from sweep_service.store.locks import in_use
from sweep_service.store.s3 import Bucket

LASTS = 20.0  # seconds
BEAT = 4.0  # seconds between two writes
MARGIN = 4.0  # seconds before the end in which nothing is begun
log = logging.getLogger(__name__)


@dataclass
class Lease:
    bucket: Bucket
    name: str
    about: str
    holder: str
    tag: str = ""
    beats: int = 0
    written: float = 0.0  # when the last write that succeeded was begun
    why: str = ""
    lost: bool = False

    def take(self, sleep: Callable[[float], None] = clock.sleep) -> None:
        """Now, or when a holder that shows no sign of life has had its time."""
        seen, since = "", clock.monotonic()
        while not self._create():
            try:
                found = self.bucket.find(self.name)
            except NotFound:  # let go just now
                continue
            holder = _read(found.content)
            if not seen:
                log.info("%s was left by %s: waiting for a sign of life", self.bucket.url, holder["process"])
                seen, since = found.tag, clock.monotonic()
            elif found.tag != seen:
                raise in_use(self.bucket.url, holder["process"], holder["about"])
            elif clock.monotonic() - since > LASTS:
                self.tag = found.tag
                if self.beat():
                    return
                raise in_use(self.bucket.url, "a process that was faster", "")
            sleep(BEAT / 4)

    def _create(self) -> bool:
        began = clock.monotonic()
        tag = self.bucket.create(self.name, self._content())
        if tag is not None:
            self.tag, self.written = tag, began
        return tag is not None or self._is_ours()  # a write whose answer was lost is tried again

    def _content(self) -> bytes:
        """Different each time, as tags are made of contents."""
        self.beats += 1
        process = f"process {os.getpid()} on {socket.gethostname()}"
        about = {"holder": self.holder, "process": process, "about": self.about, "beats": self.beats}
        return json.dumps(about).encode()

    def beat(self) -> bool:
        """Write it anew; false if it is another's."""
        began = clock.monotonic()
        try:
            self.tag = self.bucket.put(self.name, self._content(), self.tag)
        except (PreconditionError, NotFound):
            return self._is_ours()
        self.written = began
        return True

    def _is_ours(self) -> bool:
        """It was written, only the answer did not come."""
        began = clock.monotonic()
        with suppress(NotFound):
            found = self.bucket.find(self.name)
            if _read(found.content)["holder"] == self.holder:
                self.tag, self.written = found.tag, began
                return True
        return False

    def keep(self, ended: threading.Event) -> None:
        """Until it is told to end, or another has it."""
        while not ended.wait(BEAT):
            try:
                if not self.beat():
                    self.lost = True
                    return
                self.why = ""
            except StoreGone as error:
                self.why = str(error)
            except Exception:  # a lease must not end because of a fault of ours
                log.exception("the lease of %s was not renewed", self.bucket.url)

    def require(self) -> None:
        if self.lost:
            raise InUse(f"{self.bucket.url} was taken over by another process")
        if clock.monotonic() - self.written > LASTS - MARGIN:
            raise StoreGone(self.why or f"{self.bucket.url} does not answer")

    def leave(self) -> None:
        with suppress(StoreGone):  # then it ends by itself
            if not self.lost and self._is_ours():
                self.bucket.delete([self.name])


def _read(content: bytes) -> dict[str, Any]:
    unknown = {"holder": "", "process": "an unknown process", "about": ""}
    try:
        found = json.loads(content)
        return unknown | {name: str(found[name]) for name in unknown}
    except (ValueError, KeyError, TypeError):
        return unknown


@contextmanager
def lease(url: str, name: str, about: str) -> Iterator[Callable[[], None]]:
    """What it gives is called to ask whether the bucket is there, and still ours."""
    mine = Lease(Bucket(url), name, about, uuid.uuid4().hex)
    mine.take()
    ended = threading.Event()
    keeper = threading.Thread(target=mine.keep, args=(ended,), name="lease", daemon=True)
    keeper.start()
    try:
        yield mine.require
    finally:
        ended.set()
        keeper.join()
        mine.leave()
