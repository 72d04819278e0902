"""Methods made of operations: of a client or of a sweep, blocking or to be awaited.

Each operation is written and documented once. A method has its parameters, without the service, and as a
method of a sweep also without the sweep. What runs is the same for `Client` and `AsyncClient`, because
`Connection.run` returns the result and `AsyncConnection.run` an awaitable; only the types differ.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from sweep_service.client.event_stream import Event
from sweep_service.client.requests import Json
from sweep_service.client.steps import Operation

Given = ParamSpec("Given")
Result = TypeVar("Result")
Kind = TypeVar("Kind")
Method: TypeAlias = Callable[Concatenate[Any, Given], Result]
OfClient: TypeAlias = Callable[Concatenate[Any, Given], Operation[Result]]  # of the service, …
OfSweep: TypeAlias = Callable[Concatenate[Any, Any, Given], Operation[Result]]  # of the service, the sweep, …
Make: TypeAlias = Callable[[Any, Any], Kind]  # from the owner of the method, and the result

_SWEEP_PARAMETER = re.compile(r"    id\n(?:        .*\n)+")
_EMPTY_PARAMETERS = re.compile(r"    Parameters\n    -+\n(?=\n)\n")


def _same(owner: Any, result: Any) -> Any:
    return result


def as_fields(owner: Any, item: Json) -> Json:
    """Return an item that has no verbs, such as a failure."""
    return item


def as_event(owner: Any, item: Event) -> Event:
    return item


# ---- methods of a client


def blocking(operation: OfClient[Given, Result]) -> Method[Given, Result]:
    """Return the method of `Client` that returns the result of an operation."""
    return _client_method(operation)


def awaiting(operation: OfClient[Given, Result]) -> Method[Given, Awaitable[Result]]:
    """Return the method of `AsyncClient` whose result is that of an operation."""
    return _client_method(operation)


def blocking_as(make: Make[Kind], operation: OfClient[Given, Any]) -> Method[Given, Kind]:
    """Return a method of `Client` that makes an object of the result."""
    return _client_method(operation, make)


def awaiting_as(make: Make[Kind], operation: OfClient[Given, Any]) -> Method[Given, Awaitable[Kind]]:
    """Return a method of `AsyncClient` that makes an object of the result."""
    return _client_method(operation, make)


def iterating(operation: OfClient[Given, None], make: Make[Kind]) -> Method[Given, Iterator[Kind]]:
    """Return a method of `Client` that iterates over the items of an operation."""
    return _client_method(operation, make, iterates=True)


def async_iterating(operation: OfClient[Given, None], make: Make[Kind]) -> Method[Given, AsyncIterator[Kind]]:
    """Return a method of `AsyncClient` that iterates over the items of an operation."""
    return _client_method(operation, make, iterates=True)


# ---- methods of a sweep


def own(operation: OfSweep[Given, Result]) -> Method[Given, Result]:
    """Return the method of `Sweep` that returns the result of an operation on it."""
    return _sweep_method(operation)


def async_own(operation: OfSweep[Given, Result]) -> Method[Given, Awaitable[Result]]:
    """Return the method of `AsyncSweep` whose result is that of an operation on it."""
    return _sweep_method(operation)


def own_as(make: Make[Kind], operation: OfSweep[Given, Any]) -> Method[Given, Kind]:
    """Return a method of `Sweep` that makes an object of the result."""
    return _sweep_method(operation, make)


def async_own_as(make: Make[Kind], operation: OfSweep[Given, Any]) -> Method[Given, Awaitable[Kind]]:
    """Return a method of `AsyncSweep` that makes an object of the result."""
    return _sweep_method(operation, make)


def own_iterating(operation: OfSweep[Given, None], make: Make[Kind]) -> Method[Given, Iterator[Kind]]:
    """Return a method of `Sweep` that iterates over the items of an operation on it."""
    return _sweep_method(operation, make, iterates=True)


def async_own_iterating(
    operation: OfSweep[Given, None], make: Make[Kind]
) -> Method[Given, AsyncIterator[Kind]]:
    """Return a method of `AsyncSweep` that iterates over the items of an operation on it."""
    return _sweep_method(operation, make, iterates=True)


# ---- what they share


def _client_method(operation: Any, make: Make[Any] = _same, iterates: bool = False) -> Any:
    def method(self: Any, *arguments: Any, **options: Any) -> Any:
        return _start(self, self, operation(self, *arguments, **options), make, iterates)

    return _document(method, operation, ("service",), operation.__doc__)


def _sweep_method(operation: Any, make: Make[Any] = _same, iterates: bool = False) -> Any:
    def method(self: Any, *arguments: Any, **options: Any) -> Any:
        steps = operation(self.client, self["id"], *arguments, **options)
        return _start(self.client, self, steps, make, iterates)

    text = _EMPTY_PARAMETERS.sub("", _SWEEP_PARAMETER.sub("", operation.__doc__))
    return _document(method, operation, ("service", "id"), text)


def _start(client: Any, owner: Any, steps: Operation[Any], make: Make[Any], iterates: bool) -> Any:
    make_of_owner = functools.partial(make, owner)
    if iterates:
        return client.connection.iterate(steps, make_of_owner)
    return client.connection.run(_converted(steps, make_of_owner))


def _converted(operation: Operation[Any], make: Callable[[Any], Kind]) -> Operation[Kind]:
    return make((yield from operation))


def _document(method: Any, operation: Any, replaced: tuple[str, ...], text: str) -> Any:
    """Give a method the name, the documentation and the parameters of its operation."""
    functools.update_wrapper(method, operation, updated=())
    del method.__wrapped__
    signature = inspect.signature(operation)
    itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    others = [parameter for name, parameter in signature.parameters.items() if name not in replaced]
    method.__signature__ = inspect.Signature([itself, *others])
    method.__doc__ = text
    return method
