"""Requests to services that are unavailable, answer nonsense, or drop the connection."""

import http.server
import json
import threading
import time as clock

import pytest

import sweep_service as ss
from sweep_service.client import retries
from sweep_service.client.event_stream import EventParser, EventReader
from sweep_service.client.responses import PROBLEM_MEDIA_TYPE
from sweep_service.client.retries import FIRST_PAUSE_SECONDS
from sweep_service.client.steps import ReadBlock
from sweep_service.errors import Denied, InvalidInput, NotFound, SweepError, TooManySweeps, Unreachable
from tests.service import free_port

ID = "20261119-120000-0123abcd"
SPEC = {"axes": {"d": 5, "p": 4, "gamma": 0.1}, "fixed": {"k": 2}, "time": {"max": 1.0}}


HANG = b"hang"


class FakeHandler(http.server.BaseHTTPRequestHandler):
    """Sends the responses of the test in order, and repeats the last one."""

    def respond(self):
        length = int(self.headers.get("Content-Length", 0))
        self.server.requests.append((dict(self.headers), self.rfile.read(length)))
        status, kind, body = self.server.responses[0]
        if len(self.server.responses) > 1:
            del self.server.responses[0]
        if status is None:  # drop the connection
            return
        if body is HANG:
            self.server.release.wait()
            return
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_DELETE = respond

    def log_message(self, *_):
        pass


@pytest.fixture
def fake_service():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), FakeHandler) as server:
        server.requests, server.responses, server.headers, server.release = [], [], {}, threading.Event()
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        with ss.Client(f"http://127.0.0.1:{server.server_port}") as server.client:
            yield server
        server.shutdown()
        thread.join()


SWEEP_RESPONSE = (
    202,
    "application/json",
    json.dumps({"id": ID, "links": {"self": f"/v1/sweeps/{ID}"}}).encode(),
)


def test_lost_submission_is_sent_again_with_its_key(fake_service):
    dropped, unavailable = (None, "", b""), (503, "text/html", b"")
    fake_service.responses = [dropped, unavailable, SWEEP_RESPONSE]
    assert fake_service.client.submit(SPEC)["id"] == ID
    keys = {headers["Idempotency-Key"] for headers, _ in fake_service.requests}
    bodies = {body for _, body in fake_service.requests}
    assert (len(fake_service.requests), len(keys), len(bodies)) == (3, 1, 1)
    fake_service.client.submit(SPEC)
    assert fake_service.requests[-1][0]["Idempotency-Key"] not in keys


def test_lost_removal_succeeds(fake_service):
    missing = (404, PROBLEM_MEDIA_TYPE, b'{"detail": "no sweep of this id"}')
    fake_service.responses = [SWEEP_RESPONSE, (None, "", b""), missing]
    fake_service.client.remove(ID)
    with pytest.raises(NotFound):
        fake_service.client.remove(ID)


@pytest.mark.parametrize(
    ("response", "error", "message"),
    [
        ((200, "text/html", b"<h1>hello</h1>"), Unreachable, "is not a sweep service"),
        ((404, "text/html", b"<h1>hello</h1>"), Unreachable, "answers 404"),
        ((302, "text/html", b""), Unreachable, "answers 302"),
        ((403, "text/html", b""), Denied, "answers 403"),
        (
            (500, PROBLEM_MEDIA_TYPE, b'{"detail": "a bug", "request_id": "7"}'),
            SweepError,
            "a bug .request 7",
        ),
        ((507, PROBLEM_MEDIA_TYPE, b'{"detail": "no room", "request_id": "7"}'), SweepError, "no room"),
    ],
)
def test_unexpected_response_is_an_error_of_the_package(fake_service, response, error, message):
    fake_service.responses = [response]
    with pytest.raises(error, match=message):
        fake_service.client.sweep(ID)
    assert len(fake_service.requests) == 1


def test_unreachable_service_is_retried_for_a_while(monkeypatch):
    monkeypatch.setattr(retries, "RETRY_SECONDS", 0.7)
    url = f"http://127.0.0.1:{free_port()}"
    began = clock.monotonic()
    with ss.Client(url) as client:
        with pytest.raises(Unreachable, match=rf"no service answers at {url}"):
            client.submit(SPEC)
        assert 0.2 < clock.monotonic() - began < 5.0
    with ss.Client(url) as client, pytest.raises(TimeoutError, match=rf"{ID} is out of reach after 0\.5 s"):
        client.wait(ID, timeout=0.5)


def test_wait_times_out_if_the_service_hangs(fake_service):
    fake_service.responses = [(200, "application/json", HANG)]
    began = clock.monotonic()
    with pytest.raises(TimeoutError, match="is out of reach"):
        fake_service.client.wait(ID, timeout=0.5)
    assert clock.monotonic() - began < 5.0
    fake_service.release.set()


def test_unavailable_service_gives_the_reason(fake_service, monkeypatch):
    monkeypatch.setattr(retries, "RETRY_SECONDS", 0.5)
    fake_service.responses = [(503, PROBLEM_MEDIA_TYPE, b'{"detail": "the service is stopping"}')]
    with pytest.raises(Unreachable, match="the service is stopping"):
        fake_service.client.sweep(ID)
    assert len(fake_service.requests) >= 2


EMPTY_SWEEP = (200, "application/json", b'{"links": {}}')
RATE_LIMITED = (429, PROBLEM_MEDIA_TYPE, b'{"detail": "too many requests"}')


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_respected(fake_service, monkeypatch, status):
    pauses = []
    monkeypatch.setattr(clock, "sleep", pauses.append)
    fake_service.responses, fake_service.headers = (
        [(status, *RATE_LIMITED[1:]), EMPTY_SWEEP],
        {"Retry-After": "3"},
    )
    assert fake_service.client.sweep(ID) == {"links": {}}
    assert pauses == [3.0]


def test_invalid_retry_after_is_ignored(fake_service, monkeypatch):
    pauses = []
    monkeypatch.setattr(clock, "sleep", pauses.append)
    for text in ("", "soon", "-5", "1e9", "99999", "Wed, 21 Oct 2026 07:28:00 GMT", "²"):
        fake_service.responses = [RATE_LIMITED, EMPTY_SWEEP]
        fake_service.headers = {"Retry-After": text}
        assert fake_service.client.sweep(ID) == {"links": {}}
    assert pauses == [FIRST_PAUSE_SECONDS] * 7


def test_busy_service_is_given_up_in_the_end(fake_service, monkeypatch):
    monkeypatch.setattr(retries, "BUSY_RETRY_SECONDS", 0.5)
    fake_service.responses = [RATE_LIMITED]
    with pytest.raises(Unreachable, match="too many requests"):
        fake_service.client.sweep(ID)
    assert len(fake_service.requests) >= 2


def test_too_many_sweeps_is_not_retried(fake_service):
    body = b'{"detail": "active: at most 2", "field": "active", "allowed": "at most 2"}'
    fake_service.responses, fake_service.headers = [(429, PROBLEM_MEDIA_TYPE, body)], {"Retry-After": "10"}
    with pytest.raises(TooManySweeps):
        fake_service.client.submit(SPEC)
    assert len(fake_service.requests) == 1


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://host", "http://", "http://[::1", "tcp://x:1", "x"])
def test_invalid_url_is_rejected(url):
    with pytest.raises(InvalidInput, match="must have the form http"):
        ss.Client(url)


def test_token_is_not_shown_in_errors():
    with pytest.raises(InvalidInput) as error:
        ss.Client(token="se\ncret")
    assert "cret" not in str(error.value)


# ---- parsing of server-sent events


def test_events_are_parsed_from_any_blocks():
    text = (
        ': hello\n\nid: 1\nevent: state\ndata: {"a": "é"}\n\n: still there\n\n'
        'id: 2\r\nevent:progress\r\ndata:{"a": 2}\r\n\r\nretry: 5\n\nid: 3\ndata: {"cut": '
    ).encode()
    for size in (1, 2, 3, 7, len(text)):
        blocks = [text[start : start + size] for start in range(0, len(text), size)]
        parser = EventParser()
        events = [event for block in blocks for event in parser.parse(block)]
        assert [(event.id, event.kind, event.data) for event in events] == [
            ("1", "state", {"a": "é"}), ("2", "progress", {"a": 2})
        ]  # fmt: skip


class SilentStream:
    """A stream that sends comments only."""

    status_code = 200

    def answer(self, step):
        return b": still there\n\n" if isinstance(step, ReadBlock) else self


def test_stream_without_events_times_out():
    stream, reading = SilentStream(), EventReader("/", None, clock.monotonic() + 0.1).read()
    with pytest.raises(TimeoutError):
        step = next(reading)
        while True:
            step = reading.send(stream.answer(step))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_service_of_this_machine_is_reached_without_proxy(fake_service, monkeypatch, host):
    """HTTP_PROXY is for other hosts; the proxy of this test does not answer."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    fake_service.responses[:] = [(200, "application/json", b'{"status": "ok"}')]
    url = f"http://{host}:{fake_service.server_port}"
    monkeypatch.setattr(retries, "RETRY_SECONDS", 0.0)
    with ss.Client(url) as client:
        assert client.catalogue() == {"status": "ok"}
