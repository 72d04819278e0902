"""The steps of an operation: what a call to a service does, in the order in which it does it.

A verb such as `submit` is written once, as a generator that yields steps and receives their results. A
`Connection` performs the steps one after another; an `AsyncConnection` awaits each of them. A step therefore
has two methods that do the same, `run` and `run_async`.
"""

from __future__ import annotations

import asyncio
import time as clock
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from sweep_service.client.responses import check_response, transport_errors

if TYPE_CHECKING:
    import httpx2

Result = TypeVar("Result")


@dataclass
class Session:
    """The connections of a client during one operation, which has at most one open stream."""

    http: Any  # httpx2.Client or httpx2.AsyncClient
    url: str
    stream: httpx2.Response | None = None
    blocks: Any = None  # of the stream

    def close(self) -> None:
        if self.stream is not None:
            self.stream.close()
            self.stream = None

    async def aclose(self) -> None:
        if self.stream is not None:
            await self.stream.aclose()
            self.stream = None


@dataclass(frozen=True)
class Send:
    """Send a request; the result is the response."""

    method: str
    path: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def run(self, session: Session) -> httpx2.Response:
        with transport_errors(session.url):
            return check_response(session.http.request(self.method, self.path, **self.options), session.url)

    async def run_async(self, session: Session) -> httpx2.Response:
        with transport_errors(session.url):
            response = await session.http.request(self.method, self.path, **self.options)
            return check_response(response, session.url)


@dataclass(frozen=True)
class OpenStream:
    """Begin to read a response whose body arrives bit by bit; the result is the response."""

    path: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def run(self, session: Session) -> httpx2.Response:
        session.close()
        with transport_errors(session.url):
            request = session.http.build_request("GET", self.path, **self.options)
            session.stream = response = session.http.send(request, stream=True)
            if not response.is_success:
                response.read()
            session.blocks = response.iter_bytes()
            return check_response(response, session.url)

    async def run_async(self, session: Session) -> httpx2.Response:
        await session.aclose()
        with transport_errors(session.url):
            request = session.http.build_request("GET", self.path, **self.options)
            session.stream = response = await session.http.send(request, stream=True)
            if not response.is_success:
                await response.aread()
            session.blocks = response.aiter_bytes()
            return check_response(response, session.url)


@dataclass(frozen=True)
class ReadBlock:
    """Read more of the open stream; the result is bytes, or None at its end."""

    def run(self, session: Session) -> bytes | None:
        with transport_errors(session.url):
            return next(session.blocks, None)

    async def run_async(self, session: Session) -> bytes | None:
        with transport_errors(session.url):
            return await anext(session.blocks, None)


@dataclass(frozen=True)
class Save:
    """Write the body of a response to a file."""

    path: str
    params: Mapping[str, str]
    file: Path

    def run(self, session: Session) -> None:
        OpenStream(self.path, {"params": self.params}).run(session)
        with transport_errors(session.url), self.file.open("wb") as output:
            for block in session.blocks:
                output.write(block)

    async def run_async(self, session: Session) -> None:
        await OpenStream(self.path, {"params": self.params}).run_async(session)
        with transport_errors(session.url), self.file.open("wb") as output:
            async for block in session.blocks:
                output.write(block)


@dataclass(frozen=True)
class Sleep:
    seconds: float

    def run(self, session: Session) -> None:
        clock.sleep(self.seconds)

    async def run_async(self, session: Session) -> None:
        await asyncio.sleep(self.seconds)


@dataclass(frozen=True)
class Call:
    """Call a function that returns at once."""

    function: Callable[[], Any]

    def run(self, session: Session) -> Any:
        return self.function()

    async def run_async(self, session: Session) -> Any:
        return self.function()


@dataclass(frozen=True)
class CallSlow(Call):
    """Call a function that takes long, such as one that reads data; asynchronously in a thread."""

    async def run_async(self, session: Session) -> Any:
        return await asyncio.to_thread(self.function)


@dataclass(frozen=True)
class Item:
    """Give a value to the caller, who iterates over the operation."""

    value: Any


Step: TypeAlias = "Send | OpenStream | ReadBlock | Save | Sleep | Call | Item"
Operation: TypeAlias = Generator[Step, Any, Result]


class Progression(Generic[Result]):
    """An operation under way: `next_step` resumes it with the result, or the error, of the last step."""

    result: Result

    def __init__(self, operation: Operation[Result]) -> None:
        self.operation = operation
        self.answer(None)

    def next_step(self) -> Step | None:
        """Return the next step, or None at the end; `result` is then that of the operation."""
        try:
            return self._resume()
        except StopIteration as end:
            self.result = end.value
            return None

    def answer(self, result: Any) -> None:
        """Keep the result of the last step for the operation."""
        self._resume: Callable[[], Step] = partial(self.operation.send, result)

    @contextmanager
    def passing_errors(self) -> Generator[None]:
        """Raise errors of the last step inside the operation, which may expect them."""
        try:
            yield
        except Exception as error:
            self._resume = partial(self.operation.throw, error)
