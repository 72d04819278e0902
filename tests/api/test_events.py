"""Server-sent events: in order, each once, resumed by id, and over when nothing can follow."""

import queue
import threading
import time as clock
from contextlib import contextmanager

import httpx
import pytest

import sweep_service.api.events as events
from sweep_service.execution.conductor import Conductor
from tests.api.served import another, assert_problem, gated, serving, told, until

DEADLINE = 30.0


class Reader:
    """Reads a stream in a thread of its own, as a page would."""

    def __init__(self, service, sweep, after=None):
        self.url, self.headers = f"{service.url}/v1/sweeps/{sweep}/events", {}
        if after is not None:
            self.headers["Last-Event-ID"] = str(after)
        self.lines, self.found = queue.SimpleQueue(), []
        self.gone, self.begun = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.read)
        self.thread.start()
        assert self.begun.wait(DEADLINE)

    def read(self):
        with httpx.Client(timeout=DEADLINE) as client:
            try:
                with client.stream("GET", self.url, headers=self.headers) as answer:
                    self.answer = answer
                    self.begun.set()
                    for line in answer.iter_lines():
                        self.lines.put(line)
                        if self.gone.is_set():
                            return
            except httpx.TransportError as error:  # the service broke it off
                self.lines.put(error)
            finally:
                self.begun.set()
                self.lines.put(None)

    def __iter__(self):
        """Lines as they come, to the end of the stream."""
        while (line := self.lines.get(timeout=DEADLINE)) is not None:
            if isinstance(line, Exception):
                raise line
            yield line

    def next(self):
        """The next event."""
        self.events = getattr(self, "events", None) or told(self)
        return next(self.events)

    def rest(self):
        self.events = getattr(self, "events", None) or told(self)
        return list(self.events)

    def until(self, condition):
        found = self.next()
        while not condition(found):
            found = self.next()
        return found


@contextmanager
def reading(service, sweep, after=None):
    reader = Reader(service, sweep, after)
    try:
        yield reader
    finally:
        reader.gone.set()
        reader.thread.join(DEADLINE)
        assert not reader.thread.is_alive()


def history(service, sweep, after=None):
    """All events of a stream that ends."""
    headers = {} if after is None else {"Last-Event-ID": after}
    answer = service.get(f"/v1/sweeps/{sweep}/events", headers=headers)
    assert answer.status_code == 200
    return list(told(answer.text.splitlines()))


@pytest.fixture(scope="module")
def done(gate):
    return gate.done(another(1))


def test_all_that_happened_in_its_order(gate, done):
    answer = gate.get(f"/v1/sweeps/{done}/events")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["x-accel-buffering"] == "no"
    assert "content-length" not in answer.headers
    found = list(told(answer.text.splitlines()))
    assert [one.data["state"] for one in found if one.kind == "state"] == ["queued", "running", "completed"]
    assert {one.kind for one in found} == {"state", "progress"}
    ids = [one.id for one in found]
    assert ids == sorted(set(ids))
    now = gate.sweep(done)
    now.pop("links")
    for one in found:  # the sweep as it is now, but for what an event says by itself
        assert {**one.data, "state": "completed", "reason": ""} == {**now, "time": one.data["time"]}
    times = [one.data["time"] for one in found]
    assert times == sorted(times)


def test_a_reader_goes_on_where_it_was(gate, done):
    whole = history(gate, done)
    for place, one in enumerate(whole[:-1]):
        assert history(gate, done, str(one.id)) == whole[place + 1 :]


def test_who_has_seen_all_need_not_come_again(gate, done):
    last = history(gate, done)[-1].id
    for after in (last, last + 1, 10**18, 2**63 - 1, 2**63, int("9" * 40)):
        answer = gate.get(f"/v1/sweeps/{done}/events", headers={"Last-Event-ID": str(after)})
        assert (answer.status_code, answer.content) == (204, b"")


@pytest.mark.parametrize("after", ["0", "odd", "-1", "1.5", "0x1", "", "²", "1e3", "+1"])
def test_an_id_that_is_none_is_no_id(gate, done, after):
    assert history(gate, done, after.encode()) == history(gate, done)


def test_too_long_an_id_is_refused(gate, done):
    answer = gate.get(f"/v1/sweeps/{done}/events", headers={"Last-Event-ID": "7" * 41})
    assert_problem(answer, 422, without=["777"])


def test_events_come_when_they_happen(held):
    sweep = held.submit(another(2))
    with reading(held, sweep) as reader:
        assert reader.next().data["state"] == "queued"
        held.executor.let(computes=0)
        assert reader.next().data["state"] == "running"
        held.executor.let(computes=1)
        part = reader.next()
        assert (part.kind, part.data["counts"]) == ("progress", {"pending": 2, "done": 2})
        assert 0 < part.data["progress"] < 1
        held.post(f"/v1/sweeps/{sweep}/pause")
        assert reader.until(lambda one: one.kind == "state").data["state"] == "paused"
        held.post(f"/v1/sweeps/{sweep}/resume")
        assert reader.next().data["state"] == "queued"
        held.executor.let()
        rest = reader.rest()  # it ends by itself
        assert rest[-1].data["state"] == "completed"
        assert rest[-1].data["counts"] == {"done": 4}


def test_a_new_event_is_not_waited_for(held):
    """The bell wakes readers: they need not look again and again."""
    sweep = held.submit(another(3))
    with reading(held, sweep) as reader:
        reader.next()
        began = clock.monotonic()
        held.post(f"/v1/sweeps/{sweep}/pause")
        assert reader.next().data["state"] == "paused"
        assert clock.monotonic() - began < 5  # of 15, after which a reader looks by itself
        held.post(f"/v1/sweeps/{sweep}/cancel")


def test_an_event_is_never_newer_than_the_sweep_it_brings(held, monkeypatch):
    """While the conductor is busy with others after it, and has told nobody yet."""
    sweep = held.submit(another(13))
    plain, ended, go = Conductor._finish, threading.Event(), threading.Event()

    def slow(conductor, one):
        plain(conductor, one)
        if conductor.ledger.sweep(one).state.ended:
            ended.set()
            go.wait(DEADLINE)

    monkeypatch.setattr(Conductor, "_finish", slow)
    held.executor.let(computes=1)  # of two
    until(lambda: held.executor.computes == 0)
    held.engine.ask(lambda conductor: conductor.step())
    assert held.sweep(sweep)["state"] == "running"  # as which it is known, now that all was told
    held.executor.let()
    assert ended.wait(DEADLINE)
    try:
        found = history(held, sweep)
    finally:
        go.set()
    assert [one.data["state"] for one in found if one.kind == "state"][-1] == "completed"
    assert found[-1].data["counts"] == {"done": 4}


def test_several_readers_are_told_the_same(held):
    one, other = held.submit(another(4)), held.submit(another(5))
    readers = [Reader(held, one) for _ in range(5)] + [Reader(held, other)]
    held.executor.let()
    found = [reader.rest() for reader in readers]
    for reader in readers:
        reader.thread.join(DEADLINE)
    for each in found:
        ids = [event.id for event in each]
        assert ids == sorted(set(ids))
        assert [event.data["state"] for event in each if event.kind == "state"][-1] == "completed"
    states = [[event.id for event in each if event.kind == "state"] for each in found]
    assert states[:5] == [states[0]] * 5
    assert {event.data["id"] for event in found[0]} == {one}
    assert {event.data["id"] for event in found[5]} == {other}


def test_readers_that_go_are_forgotten(held):
    sweep = held.submit(another(6))
    with reading(held, sweep) as reader:
        reader.next()
        assert sweep in held.engine.bell.waiting
        reader.gone.set()
        held.post(f"/v1/sweeps/{sweep}/pause")
    until(lambda: sweep not in held.engine.bell.waiting)


def test_a_cancel_ends_the_stream(held):
    sweep = held.submit(another(7))
    with reading(held, sweep) as reader:
        reader.next()
        held.post(f"/v1/sweeps/{sweep}/cancel")
        (last,) = reader.rest()
    assert (last.kind, last.data["state"], last.data["counts"]) == ("state", "cancelled", {"cancelled": 4})


def test_a_reader_is_told_that_a_sweep_was_removed(held):
    sweep = held.submit(another(8))
    with reading(held, sweep) as reader:
        reader.next()
        held.delete(f"/v1/sweeps/{sweep}")
        (last,) = reader.rest()
    assert (last.kind, last.data, last.id) == ("removed", {"id": sweep}, None)
    assert_problem(held.get(f"/v1/sweeps/{sweep}/events"), 404)


def test_a_sweep_that_begins_again_is_followed_again(held):
    """An end in its past does not end the stream."""
    sweep = held.submit(another(9))
    held.post(f"/v1/sweeps/{sweep}/cancel")
    last = history(held, sweep)[-1].id
    held.post(f"/v1/sweeps/{sweep}/retry")
    with reading(held, sweep) as reader, reading(held, sweep, last) as later:
        held.executor.let()
        states = [one.data["state"] for one in reader.rest() if one.kind == "state"]
        assert states == ["queued", "cancelled", "queued", "running", "completed"]
        states = [one.data["state"] for one in later.rest() if one.kind == "state"]
        assert states == ["queued", "running", "completed"]


def test_a_silent_stream_says_that_it_is_there(held, monkeypatch):
    monkeypatch.setattr(events, "KEEP_ALIVE", 0.02)
    sweep = held.submit(another(10))
    held.post(f"/v1/sweeps/{sweep}/pause")
    with reading(held, sweep) as reader:
        lines = iter(reader)
        comments = 0
        while comments < 3:
            comments += next(lines).startswith(": ")
        held.post(f"/v1/sweeps/{sweep}/cancel")
        assert [one.data["state"] for one in told(lines)] == ["cancelled"]  # comments are no events


def test_streams_end_with_the_service_and_go_on_with_the_next(tmp_path):
    with serving(tmp_path, executor=gated) as service:
        service.executor.let(takes=False)
        sweep = service.submit(another(1))
        reader = Reader(service, sweep)
        first = reader.next()
        began = clock.monotonic()
    assert clock.monotonic() - began < 5
    assert reader.rest() == []  # whole to its end, with no word of one
    reader.thread.join(DEADLINE)
    with serving(tmp_path, executor=gated) as service:
        service.ended(sweep)
        found = history(service, sweep, str(first.id))
        assert [one.data["state"] for one in found if one.kind == "state"][-2:] == ["running", "completed"]
        assert all(one.id > first.id for one in found)


def test_ids_are_never_used_again(held):
    """Or a reader of a removed sweep would miss what happens to the next."""
    sweep = held.submit(another(11))
    last = held.engine.ledger.events(sweep)[-1].id
    held.delete(f"/v1/sweeps/{sweep}")
    again = held.submit(another(12))
    assert held.engine.ledger.events(again)[0].id > last
