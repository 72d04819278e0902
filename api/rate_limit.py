"""How often one client may ask: buckets that fill by themselves, and a few thousand of them at most."""

from __future__ import annotations

import ipaddress
import math
import time as clock
from collections import Counter, OrderedDict
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

SAVED = 20.0  # seconds' worth that a client who was quiet may ask for at once
GUESSES = 100.0  # wrong tokens from one address at once,
GUESS_EVERY = 6.0  # and one more after so many seconds
MOST_CLIENTS = 10_000  # remembered: who was not seen for longest is forgotten, and has a full bucket anyway
MOST_HELD = 200  # streams of events and websockets that one client holds open


@dataclass(slots=True)
class _Bucket:
    left: float
    seen: float  # when that was so


class Budget:
    """So many per second for each client, and `saved` at once."""

    def __init__(self, rate: float, saved: float) -> None:
        self.rate, self.saved = rate, saved
        self._buckets: OrderedDict[Hashable, _Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def wait(self, client: Hashable) -> float:
        """Seconds until there is something for it; 0.0 if there is now."""
        if self.rate <= 0:
            return 0.0
        return max(0.0, (1.0 - self._filled(client).left) / self.rate)

    def take(self, client: Hashable) -> float:
        """Take one, if it need not be waited for; the seconds if it must."""
        seconds = self.wait(client)
        if seconds == 0.0 and self.rate > 0:
            self._buckets[client].left -= 1.0
        return seconds

    def _filled(self, client: Hashable) -> _Bucket:
        now = clock.monotonic()
        bucket = self._buckets.get(client)
        if bucket is None:
            bucket = self._buckets[client] = _Bucket(self.saved, now)
            while len(self._buckets) > MOST_CLIENTS:
                self._buckets.popitem(last=False)
        else:
            bucket.left = min(self.saved, bucket.left + (now - bucket.seen) * self.rate)
            bucket.seen = now
            self._buckets.move_to_end(client)
        return bucket


class Rates:
    """Of a service: what is cheap, what is dear, and guesses at tokens. Used in the event loop alone."""

    def __init__(self, rate: float, heavy_rate: float) -> None:
        self.cheap = Budget(rate, max(1.0, SAVED * rate))
        self.heavy = Budget(heavy_rate, max(1.0, SAVED * heavy_rate))
        self.guesses = Budget(1 / GUESS_EVERY, GUESSES)
        self._held: Counter[Hashable] = Counter()
        self._welcome: OrderedDict[Hashable, None] = OrderedDict()

    def welcome(self, address: str, token: Hashable) -> None:
        """This token has come from this address before: guesses of others there do not shut it out."""
        self._welcome[address, token] = None
        self._welcome.move_to_end((address, token))
        while len(self._welcome) > MOST_CLIENTS:
            self._welcome.popitem(last=False)

    def is_welcome(self, address: str, token: Hashable) -> bool:
        return (address, token) in self._welcome

    @contextmanager
    def held(self, client: Hashable) -> Iterator[bool]:
        """While something stays open for a client; whether that is one more than it may have."""
        self._held[client] += 1
        try:
            yield self._held[client] > MOST_HELD
        finally:
            self._held[client] -= 1
            if not self._held[client]:
                del self._held[client]


def household(address: str) -> str:
    """An address, or the network of one IPv6 connection, in which anybody has billions of them."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)


def retry_after(seconds: float) -> dict[str, str]:
    return {"Retry-After": str(max(1, math.ceil(seconds)))}
