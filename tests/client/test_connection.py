"""Requests to services that are away, that answer nonsense, or whose lines go dead."""

import http.server
import json
import math
import threading
import time as clock

import pytest

import sweep_service as ss
from sweep_service.client import connection
from sweep_service.client.connection import MEDIA_TYPE, _lines, _parsed
from sweep_service.errors import Denied, InvalidInput, NotFound, SweepError, TooManySweeps, Unreachable
from tests.service import free_port

SPEC = {"axes": {"d": 5, "p": 4, "gamma": 0.1}, "fixed": {"k": 2}, "time": {"max": 1.0}}


HANG = b"hang"


class Odd(http.server.BaseHTTPRequestHandler):
    """Answers what the test says, one after the other, the last one for ever."""

    def answer(self):
        length = int(self.headers.get("Content-Length", 0))
        self.server.seen.append((dict(self.headers), self.rfile.read(length)))
        status, kind, body = self.server.answers[0]
        if len(self.server.answers) > 1:
            del self.server.answers[0]
        if status is None:  # the line goes dead
            return
        if body is HANG:
            self.server.go.wait()
            return
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in self.server.more.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_DELETE = answer

    def log_message(self, *_):
        pass


@pytest.fixture
def odd():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Odd) as server:
        server.seen, server.answers, server.more, server.go = [], [], {}, threading.Event()
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        with ss.Client(f"http://127.0.0.1:{server.server_port}") as server.client:
            yield server
        server.shutdown()
        thread.join()


A_SWEEP = (202, "application/json", json.dumps({"id": "x", "links": {"self": "/v1/sweeps/x"}}).encode())


def test_a_submission_whose_answer_is_lost_is_sent_again_with_its_key(odd):
    gone, away = (None, "", b""), (503, "text/html", b"")
    odd.answers = [gone, away, A_SWEEP]
    assert odd.client.submit(SPEC)["id"] == "x"
    keys = {headers["Idempotency-Key"] for headers, _ in odd.seen}
    bodies = {body for _, body in odd.seen}
    assert (len(odd.seen), len(keys), len(bodies)) == (3, 1, 1)
    odd.client.submit(SPEC)
    assert odd.seen[-1][0]["Idempotency-Key"] not in keys


def test_a_removal_whose_answer_is_lost_is_done(odd):
    missing = (404, MEDIA_TYPE, b'{"detail": "no sweep named x"}')
    odd.answers = [A_SWEEP, (None, "", b""), missing]
    odd.client.remove("x")
    with pytest.raises(NotFound):
        odd.client.remove("x")


@pytest.mark.parametrize(
    ("answer", "error", "word"),
    [
        ((200, "text/html", b"<h1>hello</h1>"), Unreachable, "not as a sweep service"),
        ((404, "text/html", b"<h1>hello</h1>"), Unreachable, "answers 404"),
        ((302, "text/html", b""), Unreachable, "answers 302"),
        ((403, "text/html", b""), Denied, "answers 403"),
        (
            (500, MEDIA_TYPE, b'{"detail": "a bug", "request_id": "7"}'),
            SweepError,
            "a bug .request 7",
        ),
        ((507, MEDIA_TYPE, b'{"detail": "no room", "request_id": "7"}'), SweepError, "no room"),
    ],
)
def test_nonsense_is_an_error_of_ours(odd, answer, error, word):
    odd.answers = [answer]
    with pytest.raises(error, match=word):
        odd.client.sweep("x")
    assert len(odd.seen) == 1


def test_nobody_is_waited_for_for_a_while(monkeypatch):
    monkeypatch.setattr(connection, "PATIENCE", 0.7)
    with ss.Client(f"http://127.0.0.1:{free_port()}") as client:
        began = clock.monotonic()
        with pytest.raises(Unreachable, match=rf"no service answers at {client.url}"):
            client.submit(SPEC)
        assert 0.2 < clock.monotonic() - began < 5.0
        with pytest.raises(TimeoutError, match=r"x is out of reach after 0\.5 s"):
            client.wait("x", timeout=0.5)


def test_a_service_that_hangs_does_not_hold_who_waits(odd):
    odd.answers = [(200, "application/json", HANG)]
    began = clock.monotonic()
    with pytest.raises(TimeoutError, match="x is out of reach"):
        odd.client.wait("x", timeout=0.5)
    assert clock.monotonic() - began < 5.0
    odd.go.set()


def test_a_service_that_stays_away_says_why(odd, monkeypatch):
    monkeypatch.setattr(connection, "PATIENCE", 0.5)
    odd.answers = [(503, MEDIA_TYPE, b'{"detail": "the service is stopping"}')]
    with pytest.raises(Unreachable, match="the service is stopping"):
        odd.client.sweep("x")
    assert len(odd.seen) >= 2


FOUND = (200, "application/json", b'{"links": {}}')
LATER = (429, MEDIA_TYPE, b'{"detail": "too many requests"}')


@pytest.mark.parametrize("status", [429, 503])
def test_who_asks_for_a_pause_gets_it(odd, monkeypatch, status):
    paused = []
    monkeypatch.setattr(connection.clock, "sleep", paused.append)
    odd.answers, odd.more = [(status, *LATER[1:]), FOUND], {"Retry-After": "3"}
    assert odd.client.sweep("x") == {"links": {}}
    assert paused == [3.0]


def test_pauses_that_are_none_are_our_own(odd, monkeypatch):
    paused = []
    monkeypatch.setattr(connection.clock, "sleep", paused.append)
    for odd_text in ("", "soon", "-5", "1e9", "99999", "Wed, 21 Oct 2026 07:28:00 GMT", "²"):
        odd.answers = [LATER, FOUND]
        odd.more = {"Retry-After": odd_text}
        assert odd.client.sweep("x") == {"links": {}}
    assert paused == [connection.FIRST_PAUSE] * 7


def test_who_always_asks_for_a_pause_is_left(odd, monkeypatch):
    monkeypatch.setattr(connection, "LONGEST_BUSY", 0.5)
    odd.answers = [LATER]
    with pytest.raises(Unreachable, match="too many requests"):
        odd.client.sweep("x")
    assert len(odd.seen) >= 2


def test_too_many_sweeps_are_told_at_once(odd):
    body = b'{"detail": "active: at most 2", "field": "active", "allowed": "at most 2"}'
    odd.answers, odd.more = [(429, MEDIA_TYPE, body)], {"Retry-After": "10"}
    with pytest.raises(TooManySweeps):
        odd.client.submit(SPEC)
    assert len(odd.seen) == 1


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://host", "http://", "http://[::1", "tcp://x:1", "x"])
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(InvalidInput, match="must be such as http"):
        ss.Client(url)


def test_a_token_is_not_shown(monkeypatch):
    with pytest.raises(InvalidInput) as error:
        ss.Client(token="se\ncret")
    assert "cret" not in str(error.value)


# ---- server-sent events, as they come over the line


def test_events_are_read_however_they_are_cut():
    text = (
        ': hello\n\nid: 1\nevent: state\ndata: {"a": "é"}\n\n: still there\n\n'
        'id: 2\r\nevent:progress\r\ndata:{"a": 2}\r\n\r\nretry: 5\n\nid: 3\ndata: {"cut": '
    ).encode()
    for size in (1, 2, 3, 7, len(text)):
        blocks = [text[at : at + size] for at in range(0, len(text), size)]
        found = list(_parsed(_lines(blocks, math.inf)))
        assert [(one.id, one.kind, one.data) for one in found] == [
            ("1", "state", {"a": "é"}), ("2", "progress", {"a": 2})
        ]  # fmt: skip


def test_a_quiet_stream_ends_at_the_time_that_was_given():
    with pytest.raises(TimeoutError):
        list(_lines([b": still there\n\n"], clock.monotonic() - 1.0))
