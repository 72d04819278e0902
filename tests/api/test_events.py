"""Server-sent events: in order, each once, resumable by id, and ending when none can follow."""

import queue
import threading
import time as clock
from contextlib import contextmanager

import httpx2
import pytest
from numba.core import event as numba_event

import sweep_service.api.events as events
from sweep_service.execution.conductor import Conductor
from tests.api.served import assert_problem, gated, parse_events, recorded, serving, until
from tests.new_kernels import compile_in_runs, import_kernels
from tests.specs import distinct_spec

DEADLINE = 30.0


class Reader:
    """Reads a stream in its own thread."""

    def __init__(self, service, sweep_id, after=None):
        self.url, self.headers = f"{service.url}/v1/sweeps/{sweep_id}/events", {}
        if after is not None:
            self.headers["Last-Event-ID"] = str(after)
        self.lines = queue.SimpleQueue()
        self.gone, self.begun = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.read)
        self.thread.start()
        assert self.begun.wait(DEADLINE)

    def read(self):
        with httpx2.Client(timeout=DEADLINE) as client:
            try:
                with client.stream("GET", self.url, headers=self.headers) as answer:
                    self.answer = answer
                    self.begun.set()
                    for line in answer.iter_lines():
                        self.lines.put(line)
                        if self.gone.is_set():
                            return
            except httpx2.TransportError as error:  # the service aborted the stream
                self.lines.put(error)
            finally:
                self.begun.set()
                self.lines.put(None)

    def __iter__(self):
        """Yield lines as they arrive, until the stream ends."""
        while (line := self.lines.get(timeout=DEADLINE)) is not None:
            if isinstance(line, Exception):
                raise line
            yield line

    def next(self):
        """Return the next event."""
        self.events = getattr(self, "events", None) or parse_events(self)
        return next(self.events)

    def rest(self):
        self.events = getattr(self, "events", None) or parse_events(self)
        return list(self.events)

    def until(self, condition):
        received = self.next()
        while not condition(received):
            received = self.next()
        return received


@contextmanager
def reading(service, sweep_id, after=None):
    reader = Reader(service, sweep_id, after)
    try:
        yield reader
    finally:
        reader.gone.set()
        reader.thread.join(DEADLINE)
        assert not reader.thread.is_alive()


def history(service, sweep_id, after=None):
    """Return all events of a stream that ends."""
    headers = {} if after is None else {"Last-Event-ID": after}
    answer = service.get(f"/v1/sweeps/{sweep_id}/events", headers=headers)
    assert answer.status_code == 200
    return list(parse_events(answer.text.splitlines()))


@pytest.fixture(scope="module")
def done(gate):
    return gate.complete(distinct_spec(1))


def test_events_are_in_order(gate, done):
    answer = gate.get(f"/v1/sweeps/{done}/events")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["x-accel-buffering"] == "no"
    assert "content-length" not in answer.headers
    items = list(parse_events(answer.text.splitlines()))
    assert [event.data["state"] for event in items if event.kind == "state"] == [
        "queued",
        "running",
        "completed",
    ]
    assert {event.kind for event in items} == {"state", "progress"}
    ids = [event.id for event in items]
    assert ids == sorted(set(ids))
    now = gate.sweep(done)
    now.pop("links")
    for event in items:  # the current sweep, except for the fields of the event
        assert {**event.data, "state": "completed", "reason": ""} == {**now, "time": event.data["time"]}
    times = [event.data["time"] for event in items]
    assert times == sorted(times)


def test_stream_resumes_after_last_event_id(gate, done):
    whole = history(gate, done)
    for index, event in enumerate(whole[:-1]):
        assert history(gate, done, str(event.id)) == whole[index + 1 :]


def test_no_content_after_last_event(gate, done):
    last = history(gate, done)[-1].id
    for after in (last, last + 1, 10**18, 2**63 - 1, 2**63, int("9" * 40)):
        answer = gate.get(f"/v1/sweeps/{done}/events", headers={"Last-Event-ID": str(after)})
        assert (answer.status_code, answer.content) == (204, b"")


@pytest.mark.parametrize("after", ["0", "odd", "-1", "1.5", "0x1", "", "²", "1e3", "+1"])
def test_invalid_last_event_id_is_ignored(gate, done, after):
    assert history(gate, done, after.encode()) == history(gate, done)


def test_long_last_event_id_is_rejected(gate, done):
    answer = gate.get(f"/v1/sweeps/{done}/events", headers={"Last-Event-ID": "7" * 41})
    assert_problem(answer, 422, without=["777"])


def test_events_are_sent_as_they_happen(held):
    sweep_id = held.submit(distinct_spec(2))
    with reading(held, sweep_id) as reader:
        assert reader.next().data["state"] == "queued"
        held.executor.let(computes=0)
        assert reader.next().data["state"] == "running"
        held.executor.let(computes=1)
        part = reader.next()
        assert (part.kind, part.data["counts"]) == ("progress", {"pending": 2, "done": 2})
        assert 0 < part.data["progress"] < 1
        held.post(f"/v1/sweeps/{sweep_id}/pause")
        assert reader.until(lambda event: event.kind == "state").data["state"] == "paused"
        held.post(f"/v1/sweeps/{sweep_id}/resume")
        assert reader.next().data["state"] == "queued"
        held.executor.let()
        rest = reader.rest()  # the stream ends by itself
        assert rest[-1].data["state"] == "completed"
        assert rest[-1].data["counts"] == {"done": 4}


def test_compilation_is_an_event_and_a_field(held, tmp_path, monkeypatch):
    compile_in_runs(import_kernels(tmp_path, monkeypatch), monkeypatch)
    sweep_id, is_seen = held.submit(distinct_spec(16)), threading.Event()

    class Hold(numba_event.Listener):
        def on_start(self, _):
            assert is_seen.wait(DEADLINE)

        def on_end(self, _):
            pass

    with numba_event.install_listener("numba:compile", Hold()), reading(held, sweep_id) as reader:
        assert reader.next().data["compiling"] is False
        held.executor.let()
        reader.until(lambda received: received.data["compiling"])
        assert held.sweep(sweep_id)["compiling"] is True
        is_seen.set()
        rest = reader.rest()
    assert {received.id for received in rest if received.kind == "compiling"} <= {None}
    assert (rest[-1].data["state"], rest[-1].data["compiling"]) == ("completed", False)


def test_new_event_is_sent_at_once(held):
    """The notifier wakes streams, so they need not poll."""
    sweep_id = held.submit(distinct_spec(3))
    with reading(held, sweep_id) as reader:
        reader.next()
        began = clock.monotonic()
        held.post(f"/v1/sweeps/{sweep_id}/pause")
        assert reader.next().data["state"] == "paused"
        assert clock.monotonic() - began < 5  # less than the keep-alive interval of 15 s
        held.post(f"/v1/sweeps/{sweep_id}/cancel")


def test_event_is_never_newer_than_its_sweep(held, monkeypatch):
    """Even while the conductor is busy with other sweeps and has not sent the notification."""
    sweep_id = held.submit(distinct_spec(13))
    plain, ended, go = Conductor._finish, threading.Event(), threading.Event()

    def slow(conductor, sweep_id):
        plain(conductor, sweep_id)
        if conductor.ledger.sweep(sweep_id).state.has_ended:
            ended.set()
            go.wait(DEADLINE)

    monkeypatch.setattr(Conductor, "_finish", slow)
    held.executor.let(computes=1)  # of two bundles
    until(lambda: held.executor.computes == 0)
    held.conductor_thread.call(lambda conductor: conductor.step())
    assert held.sweep(sweep_id)["state"] == "running"  # which is cached now
    held.executor.let()
    assert ended.wait(DEADLINE)
    try:
        received = history(held, sweep_id)
    finally:
        go.set()
    assert [event.data["state"] for event in received if event.kind == "state"][-1] == "completed"
    assert received[-1].data["counts"] == {"done": 4}


def test_all_streams_get_the_same_events(held):
    first_id, other_id = held.submit(distinct_spec(4)), held.submit(distinct_spec(5))
    readers = [Reader(held, first_id) for _ in range(5)] + [Reader(held, other_id)]
    held.executor.let()
    items = [recorded(reader.rest()) for reader in readers]
    for reader in readers:
        reader.thread.join(DEADLINE)
    for each in items:
        ids = [event.id for event in each]
        assert ids == sorted(set(ids))
        assert [event.data["state"] for event in each if event.kind == "state"][-1] == "completed"
    states = [[event.id for event in each if event.kind == "state"] for each in items]
    assert states[:5] == [states[0]] * 5
    assert {event.data["id"] for event in items[0]} == {first_id}
    assert {event.data["id"] for event in items[5]} == {other_id}


def test_closed_streams_are_unsubscribed(held):
    sweep_id = held.submit(distinct_spec(6))
    with reading(held, sweep_id) as reader:
        reader.next()
        assert sweep_id in held.conductor_thread.notifier.subscribers
        reader.gone.set()
        held.post(f"/v1/sweeps/{sweep_id}/pause")
    until(lambda: sweep_id not in held.conductor_thread.notifier.subscribers)


def test_cancelling_ends_stream(held):
    sweep_id = held.submit(distinct_spec(7))
    with reading(held, sweep_id) as reader:
        reader.next()
        held.post(f"/v1/sweeps/{sweep_id}/cancel")
        (last,) = reader.rest()
    assert (last.kind, last.data["state"], last.data["counts"]) == ("state", "cancelled", {"cancelled": 4})


def test_removal_is_an_event(held):
    sweep_id = held.submit(distinct_spec(8))
    with reading(held, sweep_id) as reader:
        reader.next()
        held.delete(f"/v1/sweeps/{sweep_id}")
        (last,) = reader.rest()
    assert (last.kind, last.data, last.id) == ("removed", {"id": sweep_id}, None)
    assert_problem(held.get(f"/v1/sweeps/{sweep_id}/events"), 404)


def test_retried_sweep_can_be_followed_again(held):
    """An earlier end of the sweep does not end the stream."""
    sweep_id = held.submit(distinct_spec(9))
    held.post(f"/v1/sweeps/{sweep_id}/cancel")
    last = history(held, sweep_id)[-1].id
    held.post(f"/v1/sweeps/{sweep_id}/retry")
    with reading(held, sweep_id) as reader, reading(held, sweep_id, last) as later:
        held.executor.let()
        states = [event.data["state"] for event in reader.rest() if event.kind == "state"]
        assert states == ["queued", "cancelled", "queued", "running", "completed"]
        states = [event.data["state"] for event in later.rest() if event.kind == "state"]
        assert states == ["queued", "running", "completed"]


def test_silent_stream_sends_keep_alive(held, monkeypatch):
    monkeypatch.setattr(events, "KEEP_ALIVE_SECONDS", 0.02)
    sweep_id = held.submit(distinct_spec(10))
    held.post(f"/v1/sweeps/{sweep_id}/pause")
    with reading(held, sweep_id) as reader:
        lines = iter(reader)
        comments = 0
        while comments < 3:
            comments += next(lines).startswith(": ")
        held.post(f"/v1/sweeps/{sweep_id}/cancel")
        assert [event.data["state"] for event in parse_events(lines)] == [
            "cancelled"
        ]  # comments are not events


def test_stream_ends_with_service_and_resumes_with_next(tmp_path):
    with serving(tmp_path, executor=gated) as service:
        service.executor.let(takes=False)
        sweep_id = service.submit(distinct_spec(1))
        reader = Reader(service, sweep_id)
        first = reader.next()
        began = clock.monotonic()
    assert clock.monotonic() - began < 5
    assert reader.rest() == []  # it ended cleanly, without a further event
    reader.thread.join(DEADLINE)
    with serving(tmp_path, executor=gated) as service:
        service.wait_until_ended(sweep_id)
        received = history(service, sweep_id, str(first.id))
        assert [event.data["state"] for event in received if event.kind == "state"][-2:] == [
            "running",
            "completed",
        ]
        assert all(event.id > first.id for event in received)


def test_event_ids_are_never_reused(held):
    """Otherwise a client that followed a removed sweep would miss events of the next."""
    sweep_id = held.submit(distinct_spec(11))
    last = held.conductor_thread.ledger.events(sweep_id)[-1].id
    held.delete(f"/v1/sweeps/{sweep_id}")
    again = held.submit(distinct_spec(12))
    assert held.conductor_thread.ledger.events(again)[0].id > last
