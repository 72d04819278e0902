"""Verbs that last as long as a sweep: wait for its end, follow its states, read its events."""

from __future__ import annotations

import math
import time as clock
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from sweep_service.client.event_stream import REMOVED, EventReader
from sweep_service.client.names import SweepName
from sweep_service.client.requests import Json, Service, find_id, sweep_path, with_full_links
from sweep_service.client.responses import Unavailable, parse_json
from sweep_service.client.retries import Pauses, timeout_until
from sweep_service.client.steps import Call, Item, Operation, Send, Step
from sweep_service.errors import NotFound

FINAL_STATES = ("completed", "incomplete", "cancelled", "failed")


def wait(
    service: Service, id: SweepName, progress: bool = True, timeout: float | None = None
) -> Operation[Json]:
    """Wait until a sweep has ended.

    Parameters
    ----------
    id
        The sweep: its id, any beginning of it that no other id has, or its name.
    progress
        Whether to show a progress bar in a terminal or a notebook.
    timeout
        Seconds to wait at most. By default there is no limit.

    Returns
    -------
    dict
        The sweep in its final state.

    Raises
    ------
    TimeoutError
        If the sweep has not ended in time.
    NotFound
        If there is no such sweep, or it is removed.
    """
    from sweep_service.client.progress import progress_bar

    with progress_bar(None if progress else False) as bar:
        sweep_id = yield from find_id(service, id)

        def show(sweep: Json) -> Call:
            return Call(partial(bar.show, sweep))

        return (yield from _Following(service, sweep_id, show, timeout).run())


def follow(service: Service, id: SweepName, timeout: float | None = None) -> Operation[None]:
    """Iterate over the states of a sweep, from the current one to the final one.

    Parameters
    ----------
    id
        The sweep: its id, any beginning of it that no other id has, or its name.
    timeout
        Seconds to follow the sweep at most. By default there is no limit.

    Yields
    ------
    dict
        The sweep after each change. While the service cannot be reached, the last known sweep with the
        `reason` that it is being waited for.

    Raises
    ------
    TimeoutError
        If the sweep has not ended in time.
    NotFound
        If there is no such sweep, or it is removed.
    """
    sweep_id = yield from find_id(service, id)
    yield from _Following(service, sweep_id, Item, timeout).run()


def events(service: Service, id: SweepName, after: str | None = None) -> Operation[None]:
    """Iterate over the events of a sweep, past and future, until it ends.

    Parameters
    ----------
    id
        The sweep: its id, any beginning of it that no other id has, or its name.
    after
        Id of an event; only later ones are returned.

    Yields
    ------
    Event
        `id`, `kind` (state, progress, notes, compiling or removed) and `data`, the sweep at that time.
    """
    path = sweep_path((yield from find_id(service, id)), "events")
    reader = EventReader(path, after, math.inf)
    while not reader.has_ended:
        event = yield from reader.read()
        if event is not None:
            yield Item(event)


@dataclass
class _Following:
    """A sweep that is followed to its end. `report` makes a step of the sweep after each change."""

    service: Service
    sweep_id: str
    report: Callable[[Json], Step]
    timeout: float | None
    sweep: Json = field(default_factory=lambda: {"state": "out of reach"})
    last_event: str | None = None

    def __post_init__(self) -> None:
        self.end = math.inf if self.timeout is None else clock.monotonic() + self.timeout

    def run(self) -> Operation[Json]:
        """Follow the sweep; returns it in its final state."""
        try:
            while True:
                yield from self._request()
                if self.sweep["state"] in FINAL_STATES:
                    return self.sweep
                yield from self._read_events()
        except TimeoutError:
            raise TimeoutError(f"{self.sweep_id} is {self.sweep['state']} after {self.timeout:g} s") from None

    def _request(self) -> Operation[None]:
        """Request the sweep until the service answers."""
        pauses = Pauses(self.end)
        while True:
            options = {"timeout": timeout_until(self.end)}
            try:
                response = yield Send("GET", sweep_path(self.sweep_id), options)
            except Unavailable as error:
                requested_seconds = error.pause
            else:
                yield from self._change(parse_json(response, self.service.url))
                return
            yield from self._report_lost_connection()
            yield from pauses.sleep(requested_seconds)

    def _read_events(self) -> Operation[None]:
        """Read events until one has another state than the sweep, or no further one can follow."""
        reader = EventReader(sweep_path(self.sweep_id, "events"), self.last_event, self.end)
        while not reader.has_ended:
            event = yield from reader.read()
            self.last_event = reader.after
            if event is None:
                if not reader.has_ended:
                    yield from self._report_lost_connection()
            elif event.kind == REMOVED:
                raise NotFound(f"{self.sweep_id} was removed")
            elif event.data["state"] != self.sweep["state"]:
                return  # a new state, or an old one from the history: only the sweep itself tells
            else:
                yield from self._change(self.sweep | event.data)

    def _change(self, sweep: Json) -> Operation[None]:
        self.sweep = with_full_links(self.service, sweep)
        yield self.report(self.sweep)

    def _report_lost_connection(self) -> Operation[None]:
        if "id" in self.sweep:  # otherwise nothing is known of the sweep yet
            yield self.report(self.sweep | {"reason": f"waiting for the service at {self.service.url}"})
