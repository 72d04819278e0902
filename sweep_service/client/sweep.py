"""Sweeps of a service as objects: the fields of the REST API, and the verbs of a client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from sweep_service.client.binding import (
    as_event,
    as_fields,
    async_own,
    async_own_as,
    async_own_iterating,
    own,
    own_as,
    own_iterating,
)
from sweep_service.client.requests import Json
from sweep_service.client.verbs import control, following, listing, results, submission
from sweep_service.display import format_sweep_html

if TYPE_CHECKING:
    from typing import Self


class _Client(Protocol):
    """The client that a sweep belongs to, blocking or not."""

    url: str
    connection: Any


class SweepFields(dict[str, Any]):
    """The fields of a sweep, as the REST API returns them: `id`, `name`, `state`, `counts` and more."""

    def __init__(self, client: _Client, fields: Json) -> None:
        super().__init__(fields)
        self.client = client

    def __repr__(self) -> str:
        name = f" {self['name']!r}" if self.get("name") else ""
        return f"<{type(self).__name__} {self.get('id')}{name} {self.get('state')}>"

    def _repr_html_(self) -> str:
        return format_sweep_html(self)

    def __reduce__(self) -> Any:
        return dict, (dict(self),)  # a copy in another process has no connection

    @property
    def id(self) -> str:
        """The id of the sweep."""
        return self["id"]

    def _renew(self, fields: Json) -> Self:
        """Replace all fields by later ones."""
        self.clear()
        self.update(fields)
        return self

    def _derive(self, fields: Json) -> Self:
        """Return another sweep of the same service."""
        return type(self)(self.client, fields)


class Sweep(SweepFields):
    """A sweep of a service: a dictionary with the fields of the REST API, and verbs.

    The fields are those of the last response; `wait`, `show` and the verbs that change the sweep renew them
    and return the sweep itself. `refresh` is another name of `show`.
    """

    show = refresh = own_as(SweepFields._renew, listing.sweep)
    spec = own(listing.spec)
    rounds = own(listing.rounds)
    failures = own_iterating(listing.failures, as_fields)
    wait = own_as(SweepFields._renew, following.wait)
    follow = own_iterating(following.follow, SweepFields._renew)
    events = own_iterating(following.events, as_event)
    extend = own_as(SweepFields._derive, submission.extend)
    estimate_extension = own(submission.estimate_extension)
    cancel = own_as(SweepFields._renew, control.cancel)
    pause = own_as(SweepFields._renew, control.pause)
    resume = own_as(SweepFields._renew, control.resume)
    retry = own_as(SweepFields._renew, control.retry)
    annotate = own_as(SweepFields._renew, control.update)
    remove = own(control.remove)
    open = own(results.open)
    plot = own(results.plot)
    export = own(results.export)
    contents = own(results.contents)
    map = own(results.map)
    curves = own(results.curves)
    seeds = own(results.seeds)
    phase_diagram = own(results.phase_diagram)
    figure = own(results.figure)


class AsyncSweep(SweepFields):
    """A sweep of an `AsyncClient`: the same fields, and the verbs of `Sweep` to be awaited."""

    show = refresh = async_own_as(SweepFields._renew, listing.sweep)
    spec = async_own(listing.spec)
    rounds = async_own(listing.rounds)
    failures = async_own_iterating(listing.failures, as_fields)
    wait = async_own_as(SweepFields._renew, following.wait)
    follow = async_own_iterating(following.follow, SweepFields._renew)
    events = async_own_iterating(following.events, as_event)
    extend = async_own_as(SweepFields._derive, submission.extend)
    estimate_extension = async_own(submission.estimate_extension)
    cancel = async_own_as(SweepFields._renew, control.cancel)
    pause = async_own_as(SweepFields._renew, control.pause)
    resume = async_own_as(SweepFields._renew, control.resume)
    retry = async_own_as(SweepFields._renew, control.retry)
    annotate = async_own_as(SweepFields._renew, control.update)
    remove = async_own(control.remove)
    open = async_own(results.open)
    plot = async_own(results.plot)
    export = async_own(results.export)
    contents = async_own(results.contents)
    map = async_own(results.map)
    curves = async_own(results.curves)
    seeds = async_own(results.seeds)
    phase_diagram = async_own(results.phase_diagram)
    figure = async_own(results.figure)
