"""Rate limits per client: token buckets, of which a bounded number is kept."""

from __future__ import annotations

import asyncio
import ipaddress
import math
import time as clock
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Hashable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

BURST_SECONDS = 20.0  # an idle client may send the requests of this many seconds at once
MAX_TRACKED_CLIENTS = 10_000  # the least recent one is dropped; its bucket is full again by then anyway


@dataclass(frozen=True)
class ClientLimits:
    """Limits for one client, in addition to the request rates of the settings."""

    token_guesses: float = 100.0  # wrong tokens from one address at once,
    seconds_per_token_guess: float = 6.0  # and one more after this time
    open_streams: int = 200  # event streams and websockets
    body_chunk_seconds: float = 30.0  # between two chunks of a request body
    body_seconds: float = 120.0  # for a whole request body


@dataclass(slots=True)
class _Bucket:
    tokens: float
    updated: float  # time of the last refill


class RateLimiter:
    """A token bucket for each client: `rate` requests per second, and `burst` at once."""

    def __init__(self, rate: float, burst: float) -> None:
        self.rate, self.burst = rate, burst
        self._buckets: OrderedDict[Hashable, _Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def seconds_to_wait(self, client: Hashable) -> float:
        """Return the seconds until the client may send a request; 0.0 if it may now."""
        if self.rate <= 0:
            return 0.0
        return max(0.0, (1.0 - self._refill(client).tokens) / self.rate)

    def take(self, client: Hashable) -> float:
        """Count a request if it is allowed now; return the seconds to wait otherwise."""
        seconds = self.seconds_to_wait(client)
        if seconds == 0.0 and self.rate > 0:
            self._buckets[client].tokens -= 1.0
        return seconds

    def _refill(self, client: Hashable) -> _Bucket:
        now = clock.monotonic()
        bucket = self._buckets.get(client)
        if bucket is None:
            bucket = self._buckets[client] = _Bucket(self.burst, now)
            while len(self._buckets) > MAX_TRACKED_CLIENTS:
                self._buckets.popitem(last=False)
        else:
            bucket.tokens = min(self.burst, bucket.tokens + (now - bucket.updated) * self.rate)
            bucket.updated = now
            self._buckets.move_to_end(client)
        return bucket


class RateLimits:
    """The rate limits of a service. Not thread-safe: used only in the event loop."""

    def __init__(self, rate: float, heavy_rate: float, limits: ClientLimits) -> None:
        self.light = RateLimiter(rate, max(1.0, BURST_SECONDS * rate))
        self.heavy = RateLimiter(heavy_rate, max(1.0, BURST_SECONDS * heavy_rate))
        self.token_guesses = RateLimiter(1 / limits.seconds_per_token_guess, limits.token_guesses)
        self._max_open_streams = limits.open_streams
        self._open_streams: Counter[Hashable] = Counter()
        self._trusted: OrderedDict[Hashable, None] = OrderedDict()

    def trust(self, address: str, token: Hashable) -> None:
        """Remember a valid token with its address, so that wrong guesses from there do not lock it out."""
        self._trusted[address, token] = None
        self._trusted.move_to_end((address, token))
        while len(self._trusted) > MAX_TRACKED_CLIENTS:
            self._trusted.popitem(last=False)

    def is_trusted(self, address: str, token: Hashable) -> bool:
        return (address, token) in self._trusted

    @contextmanager
    def open_stream(self, client: Hashable) -> Iterator[bool]:
        """Count an open stream of a client; yield whether it exceeds the limit."""
        self._open_streams[client] += 1
        try:
            yield self._open_streams[client] > self._max_open_streams
        finally:
            self._open_streams[client] -= 1
            if not self._open_streams[client]:
                del self._open_streams[client]


class ClientSlots:
    """Bounds how many slow requests of one client run at once; further ones of that client wait.

    Not thread-safe: used only in the event loop.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._semaphores: dict[Hashable, asyncio.Semaphore] = {}
        self._requests: Counter[Hashable] = Counter()

    def __len__(self) -> int:
        return len(self._semaphores)

    @asynccontextmanager
    async def slot(self, client: Hashable) -> AsyncIterator[None]:
        """Wait for one of the slots of a client and hold it."""
        semaphore = self._semaphores.setdefault(client, asyncio.Semaphore(self.limit))
        self._requests[client] += 1
        try:
            async with semaphore:
                yield
        finally:
            self._requests[client] -= 1
            if not self._requests[client]:
                del self._requests[client], self._semaphores[client]


def client_network(address: str) -> str:
    """Return an IPv4 address, or the /64 network of an IPv6 address, all of which one client may use."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            return str(ip.ipv4_mapped)
        return str(ipaddress.ip_network((ip, 64), strict=False))
    return str(ip)


def retry_after(seconds: float) -> dict[str, str]:
    """Return a Retry-After header."""
    return {"Retry-After": str(max(1, math.ceil(seconds)))}
