"""A client of Dask whose connection is there or fails within a time that is known, and leaves nothing."""

from __future__ import annotations

import asyncio
from typing import Any

from distributed import Client

CLOSE = 2.0  # seconds for a farewell
STEPS = 3  # of a connection that Dask gives its timeout each: the socket, who is there, and who we are


class Silent(TimeoutError):
    """A scheduler is there, as far as is known, but does not answer."""


class Stranger(OSError):
    """What answers is no scheduler that we understand."""


class Connection(Client):
    def start(self, **words: Any) -> None:
        try:
            super().start(**words)
        except Exception:
            self._end()  # Dask would leave its thread behind, one for each attempt
            raise

    def close(self, timeout: float = CLOSE) -> None:
        try:
            super().close(timeout)
        finally:
            self._end()  # and here, of a connection that was lost or does not end

    def _end(self) -> None:
        """Of one that has ended already the garbage may be collected while another begins, under its lock."""
        if self._loop_runner.is_started():
            self._loop_runner.stop()

    async def _reconnect(self) -> None:
        """Never: who is there next may be another scheduler, whose workers nobody has looked at."""
        await self._close()

    async def _ensure_connected(self, timeout: float | None = None) -> None:
        """Dask would wait for ever for the first word of who has taken the connection."""
        limit = None if timeout is None else STEPS * timeout
        try:
            await asyncio.wait_for(super()._ensure_connected(timeout), limit)
        except TimeoutError:
            raise Silent(f"no answer in {limit} s") from None
        except (OSError, RuntimeError, ImportError):
            raise
        except Exception as error:  # of any kind: other words are read as lengths, frames and messages
            raise Stranger(f"{type(error).__name__}: {error}") from error
