"""The connections of a client, which perform the steps of its operations."""

from __future__ import annotations

import re
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, closing
from typing import Any, TypeVar

import httpx2

from sweep_service.client import DEFAULT_URL
from sweep_service.client.retries import CONNECT_TIMEOUT_SECONDS
from sweep_service.client.steps import Item, Operation, Progression, Session
from sweep_service.errors import InvalidInput

RESPONSE_TIMEOUT_SECONDS = 300.0  # the service needs time for a large spec
# No proxy reaches a service of this machine, whatever HTTP_PROXY says.
WITHOUT_PROXY = dict.fromkeys(("all://localhost", "all://127.0.0.1", "all://[::1]"))

Result = TypeVar("Result")
Http = TypeVar("Http", httpx2.Client, httpx2.AsyncClient)


class Connection:
    """Performs operations in the thread of the caller."""

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        self.url = url
        self._http = _make_http(httpx2.Client, url, headers)
        weakref.finalize(self, self._http.close)  # if the caller does not close it

    def close(self) -> None:
        self._http.close()

    def run(self, operation: Operation[Result]) -> Result:
        """Perform an operation and return its result."""
        progression = Progression(operation)
        for _ in self._perform(progression):
            pass
        return progression.result

    def iterate(self, operation: Operation[Any], make: Callable[[Any], Any]) -> Iterator[Any]:
        """Yield what `make` returns for the items of an operation, while it is performed."""
        return map(make, self._perform(Progression(operation)))

    def _perform(self, progression: Progression[Any]) -> Iterator[Any]:
        with closing(Session(self._http, self.url)) as session, closing(progression.operation):
            while (step := progression.next_step()) is not None:
                if isinstance(step, Item):
                    yield step.value
                    progression.answer(None)
                else:
                    with progression.passing_errors():
                        progression.answer(step.run(session))


class AsyncConnection:
    """Performs operations in the event loop of the caller."""

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        self.url = url
        self._http = _make_http(httpx2.AsyncClient, url, headers)

    async def aclose(self) -> None:
        await self._http.aclose()

    async def run(self, operation: Operation[Result]) -> Result:
        """Perform an operation and return its result."""
        progression = Progression(operation)
        async for _ in self._perform(progression):
            pass
        return progression.result

    async def iterate(self, operation: Operation[Any], make: Callable[[Any], Any]) -> AsyncIterator[Any]:
        """Yield what `make` returns for the items of an operation, while it is performed."""
        async for item in self._perform(Progression(operation)):
            yield make(item)

    async def _perform(self, progression: Progression[Any]) -> AsyncIterator[Any]:
        async with aclosing(Session(self._http, self.url)) as session:
            with closing(progression.operation):
                while (step := progression.next_step()) is not None:
                    if isinstance(step, Item):
                        yield step.value
                        progression.answer(None)
                    else:
                        with progression.passing_errors():
                            progression.answer(await step.run_async(session))


def _make_http(kind: type[Http], url: str, headers: dict[str, str]) -> Http:
    try:
        if not re.match(r"https?://[^/]", url):
            raise httpx2.InvalidURL("")
        return kind(
            base_url=url,
            headers=headers,
            timeout=httpx2.Timeout(RESPONSE_TIMEOUT_SECONDS, connect=CONNECT_TIMEOUT_SECONDS),
            mounts=WITHOUT_PROXY,
        )
    except httpx2.InvalidURL:
        raise InvalidInput("url", url, f"must have the form {DEFAULT_URL}") from None
