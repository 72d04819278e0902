"""A Dask client that connects or fails within a known time, and leaves no threads behind."""

from __future__ import annotations

import asyncio
from typing import Any

from distributed import Client

CLOSE_TIMEOUT_SECONDS = 2.0
# Dask applies its timeout to each step of a connection: the socket, the handshake, and the registration.
CONNECTION_STEPS = 3


class SchedulerTimeout(TimeoutError):
    """The scheduler does not answer, although the connection seems to exist."""


class NotAScheduler(OSError):
    """The server at the address does not speak the protocol of this version of Dask."""


class Connection(Client):
    def start(self, **options: Any) -> None:
        try:
            super().start(**options)
        except Exception:
            self._stop_loop()  # otherwise Dask leaves a thread behind for each attempt
            raise

    def close(self, timeout: float = CLOSE_TIMEOUT_SECONDS) -> None:
        try:
            super().close(timeout)
        finally:
            self._stop_loop()  # also if the connection was lost or does not close in time

    def _stop_loop(self) -> None:
        """Stop the event loop if it runs.

        The check avoids Dask's lock, which another client may hold while this one is garbage-collected.
        """
        if self._loop_runner.is_started():
            self._loop_runner.stop()

    async def _reconnect(self) -> None:
        """Close instead of reconnecting: the next scheduler may be another one, with unchecked workers."""
        await self._close()

    async def _ensure_connected(self, timeout: float | None = None) -> None:
        """Connect with an overall timeout: Dask waits without limit for the first message of the server."""
        limit = None if timeout is None else CONNECTION_STEPS * timeout
        try:
            await asyncio.wait_for(super()._ensure_connected(timeout), limit)
        except TimeoutError:
            raise SchedulerTimeout(f"no answer in {limit} s") from None
        except (OSError, RuntimeError, ImportError):
            raise
        except Exception as error:  # any type: other protocols are misread as lengths, frames and messages
            raise NotAScheduler(f"{type(error).__name__}: {error}") from error
