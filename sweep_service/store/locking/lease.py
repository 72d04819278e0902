"""The lease of a bucket: an object that its holder rewrites every few seconds.

Clocks of different machines are never compared. A process that wants the lease watches the object. If the
object changes, its holder is alive. If it has not changed for the duration of a lease, the process takes it
over with a conditional write, which fails if the object has changed in the meantime. A holder that could not
rewrite the object for that long stops writing data until it can again, and gives up if another process has
taken the lease by then.
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
from sweep_service.store.locking.locks import in_use_error
from sweep_service.store.s3 import Bucket

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LeaseTimes:
    """Durations in seconds. In the last `margin` before a lease ends, its holder starts no write."""

    duration: float = 20.0
    renew_interval: float = 4.0
    margin: float = 4.0


DEFAULT_TIMES = LeaseTimes()


@dataclass
class Lease:
    bucket: Bucket
    name: str
    service_url: str  # shown to a process that fails to get the lease
    holder: str
    times: LeaseTimes = DEFAULT_TIMES
    tag: str = ""
    renewals: int = 0
    renewed: float = 0.0  # when the last successful write was started
    problem: str = ""
    is_lost: bool = False

    def acquire(self, sleep: Callable[[float], None] = clock.sleep) -> None:
        """Take the lease if it is free, or if its holder shows no sign of life for `times.duration`.

        Raises InUse as soon as the holder renews it, or if another process was faster.
        """
        seen_tag, since = "", clock.monotonic()
        while not self._create():
            try:
                stored = self.bucket.fetch(self.name)
            except NotFound:  # released in the meantime
                continue
            holder = _parse(stored.content)
            if not seen_tag:
                log.info(
                    "%s has a lease of %s: checking whether it is alive", self.bucket.url, holder["process"]
                )
                seen_tag, since = stored.tag, clock.monotonic()
            elif stored.tag != seen_tag:
                raise in_use_error(self.bucket.url, holder["process"], holder["about"])
            elif clock.monotonic() - since > self.times.duration:
                self.tag = stored.tag
                if self.renew():
                    return
                raise in_use_error(self.bucket.url, "a process that was faster", "")
            sleep(self.times.renew_interval / 4)

    def _create(self) -> bool:
        began = clock.monotonic()
        tag = self.bucket.create(self.name, self._content())
        if tag is not None:
            self.tag, self.renewed = tag, began
        return tag is not None or self._is_ours()  # the response to an earlier write may have been lost

    def _content(self) -> bytes:
        """Return content that differs each time, because tags are derived from it."""
        self.renewals += 1
        process = f"process {os.getpid()} on {socket.gethostname()}"
        content = {
            "holder": self.holder,
            "process": process,
            "about": self.service_url,
            "beats": self.renewals,
        }
        return json.dumps(content).encode()

    def renew(self) -> bool:
        """Rewrite the lease; return False if another process has taken it."""
        began = clock.monotonic()
        try:
            self.tag = self.bucket.put(self.name, self._content(), self.tag)
        except (PreconditionError, NotFound):
            return self._is_ours()
        self.renewed = began
        return True

    def _is_ours(self) -> bool:
        """Return whether the stored lease is ours: a write may succeed although its response is lost."""
        began = clock.monotonic()
        with suppress(NotFound):
            stored = self.bucket.fetch(self.name)
            if _parse(stored.content)["holder"] == self.holder:
                self.tag, self.renewed = stored.tag, began
                return True
        return False

    def keep_renewing(self, stop: threading.Event) -> None:
        """Renew the lease until `stop` is set or another process has taken it."""
        while not stop.wait(self.times.renew_interval):
            try:
                if not self.renew():
                    self.is_lost = True
                    return
                self.problem = ""
            except StoreGone as error:
                self.problem = str(error)
            except Exception:  # an unexpected error must not end the lease
                log.exception("could not renew the lease of %s", self.bucket.url)

    def check_held(self) -> None:
        """Raise InUse if another process took the lease, StoreGone if it could not be renewed in time."""
        if self.is_lost:
            raise InUse(f"{self.bucket.url} was taken over by another process")
        if clock.monotonic() - self.renewed > self.times.duration - self.times.margin:
            raise StoreGone(self.problem or f"{self.bucket.url} does not answer")

    def release(self) -> None:
        with suppress(StoreGone):  # the lease then expires
            if not self.is_lost and self._is_ours():
                self.bucket.delete([self.name])


def _parse(content: bytes) -> dict[str, Any]:
    """Holder, process and service URL of a lease; placeholders if the content is damaged."""
    unknown = {"holder": "", "process": "an unknown process", "about": ""}
    try:
        values = json.loads(content)
        return unknown | {name: str(values[name]) for name in unknown}
    except (ValueError, KeyError, TypeError):
        return unknown


@contextmanager
def hold_lease(
    url: str, name: str, service_url: str, times: LeaseTimes = DEFAULT_TIMES
) -> Iterator[Callable[[], None]]:
    """Hold the lease of a bucket. Yields `Lease.check_held`."""
    lease = Lease(Bucket(url), name, service_url, uuid.uuid4().hex, times)
    lease.acquire()
    stop = threading.Event()
    thread = threading.Thread(target=lease.keep_renewing, args=(stop,), name="lease", daemon=True)
    thread.start()
    try:
        yield lease.check_held
    finally:
        stop.set()
        thread.join()
        lease.release()
