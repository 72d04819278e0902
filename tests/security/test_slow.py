"""Clients that send slowly or endlessly, or never read, do not delay others."""

import json
import os
import resource
import socket
import time as clock
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

import sweep_service.api.serve as serve
from sweep_service.api import connection_limits
from sweep_service.api.rate_limit import ClientLimits
from tests.api.served import JSON, assert_problem, gated, serving, until
from tests.security.wire import get, line_to, rest_of, status, talk
from tests.specs import TINY_SPEC, distinct_spec

BODY = json.dumps(TINY_SPEC).encode()
POST = b"POST /v1/estimate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def drip(line, pieces, pause):
    """Send pieces with pauses until the connection is closed; return the elapsed seconds."""
    began = clock.monotonic()
    for piece in pieces:
        try:
            line.sendall(piece)
        except (BrokenPipeError, ConnectionResetError):
            break
        clock.sleep(pause)
    return clock.monotonic() - began


@pytest.fixture(scope="module")
def hasty(tmp_path_factory):
    """A service with timeouts of tenths of seconds instead of minutes."""
    limits = ClientLimits(body_chunk_seconds=0.3, body_seconds=0.6)
    with pytest.MonkeyPatch.context() as patch:
        for name, seconds in (
            ("HEADERS_TIMEOUT_SECONDS", 0.4),
            ("REQUEST_TIMEOUT_SECONDS", 3.0),
            ("WRITE_TIMEOUT_SECONDS", 0.4),
        ):
            patch.setattr(connection_limits, name, seconds)
        with serving(tmp_path_factory.mktemp("hasty"), executor=gated, client_limits=limits) as service:
            yield service


@pytest.mark.parametrize("length", [b"Content-Length: %d\r\n" % len(BODY), b"Transfer-Encoding: chunked\r\n"])
def test_missing_body_times_out(hasty, length):
    with line_to(hasty) as line:
        line.sendall(POST + length + b"\r\n")
        answer = rest_of(line)
    assert status(answer) == 408
    assert b"application/problem+json" in answer
    assert b"connection: close" in answer.lower()


def test_slow_body_times_out(hasty):
    with line_to(hasty) as line:
        line.sendall(POST + b"Content-Length: %d\r\n\r\n" % len(BODY))
        drip(line, [b" "] * 12, 0.1)  # each within the timeout between chunks
        answer = rest_of(line)
    assert answer == b"" or status(answer) == 408  # the connection may be reset before it is read
    assert hasty.get("/healthz").status_code == 200


def test_body_in_several_chunks_is_accepted(hasty, tmp_path):
    limits = ClientLimits(body_chunk_seconds=30.0, body_seconds=30.0)  # enough for a busy machine

    def pieces():
        for at in range(0, len(BODY), 50):
            yield BODY[at : at + 50]
            clock.sleep(0.05)

    with serving(tmp_path, executor=gated, client_limits=limits) as service:
        assert service.post("/v1/estimate", content=pieces(), headers=JSON).json()["runs"] == 4


def test_unread_body_times_out(hasty):
    """The response is sent before the body, and the connection would stay open for the rest."""
    with line_to(hasty) as line:
        line.sendall(b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n")
        assert drip(line, [b" "] * 90, 0.1) < 8.0
        assert status(rest_of(line)) in (404, 405)


HEADS = {
    "a letter": [b"G"],
    "a line": [b"GET /healthz HTTP/1.1\r\n"],
    "half": [b"GET /healthz HTTP/1.1\r\nHost: local"],
    "drops": [b"GET /healthz HTTP/1.1\r\nX: ", *[b"x"] * 60],
    "empty lines": [b"\r\n"] * 60,
    "nothing": [],
}


def test_unfinished_headers_time_out(hasty):
    def closed(pieces):
        with line_to(hasty) as line:
            return drip(line, pieces, 0.1) < 5.5 and rest_of(line) == b""

    with ThreadPoolExecutor(len(HEADS)) as pool:
        result = dict(zip(HEADS, pool.map(closed, HEADS.values()), strict=True))
    assert result == dict.fromkeys(HEADS, True)


def test_second_request_of_connection_times_out(hasty):
    with line_to(hasty) as line:
        line.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert status(line.recv(1 << 16)) == 200
        assert drip(line, [b"\r\n"] * 60, 0.1) < 5.5
        assert rest_of(line) == b""


def test_slow_responses_have_no_timeout(hasty):
    """Timeouts apply to sending, not to waiting for a response."""
    hasty.executor.let(takes=False)
    sweep_id = hasty.submit(distinct_spec(1))
    with hasty.client.stream("GET", f"/v1/sweeps/{sweep_id}/events") as events:
        clock.sleep(1.2)
        hasty.executor.let()
        assert b"completed" in b"".join(events.iter_bytes())


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="open files are counted in /proc")
def test_unread_response_is_aborted(hasty):
    sweep_id = hasty.complete(TINY_SPEC)
    large = hasty.folder.dataset_path(sweep_id) / "large"
    with open(large, "wb") as file:
        file.truncate(64 << 20)

    with line_to(hasty) as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.sendall(get(f"/v1/sweeps/{sweep_id}/zarr/large"))
        until(lambda: is_open(large))
        until(lambda: not is_open(large), 30.0)  # while the client is connected and reads nothing


def is_open(path):
    """Whether this process, which runs the service, has the file open."""
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if os.readlink(f"/proc/self/fd/{number}") == str(path):
                return True
    return False


CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
ENDLESS = {
    "a header": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * (1 << 20),
    "headers": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * (1 << 17),
    "a path": b"GET /" + b"x" * (1 << 20),
    "a trailer": CHUNKED + b"1\r\n \r\n0\r\nX: " + b"x" * (1 << 20),
    "an extension of a chunk": CHUNKED + b"1;x=" + b"x" * (1 << 20),
    "chunks of a byte": CHUNKED + b"1\r\n \r\n" * (1 << 17),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_non_body_bytes_are_limited(service, name):
    answer = talk(service, ENDLESS[name])
    assert answer == b"" or status(answer) == 400, answer[:200]
    assert service.get("/healthz").status_code == 200


def test_trailers_are_no_headers(service):
    """Otherwise they could replace headers that were checked."""
    head = b"POST /v1/estimate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = b"%x\r\n%s\r\n0\r\nX-Request-Id: late\r\nOrigin: http://evil.example\r\n\r\n" % (len(BODY), BODY)
    answer = talk(service, head + body)
    assert status(answer) == 200
    assert b"late" not in answer


def test_too_many_connections_are_rejected(tmp_path, monkeypatch):
    """The store can still open files, and closed connections make room."""
    monkeypatch.setattr(serve, "max_connections", lambda: 5)
    with serving(tmp_path) as service:
        held = [line_to(service) for _ in range(6)]
        for connection in held:
            connection.__enter__()
        assert until(lambda: service.get("/v1/sweeps").status_code == 503)
        for connection in held:
            connection.__exit__(None, None, None)
        assert until(lambda: service.get("/v1/sweeps").status_code == 200)


def test_connections_leave_files_for_store():
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert 16 <= connection_limits.max_connections() <= max(16, soft // 2)


@pytest.mark.slow
def test_thousand_slow_connections_delay_nobody(service):
    held = [line_to(service) for _ in range(1000)]
    for number, connection in enumerate(held):
        line = connection.__enter__()
        line.sendall(POST + b"Content-Length: 100\r\n\r\n" if number % 2 else b"GET / HT")
    for _ in range(50):
        assert_problem(service.get("/nowhere"), 404)
    until(lambda: service.get("/healthz").status_code == 200)
    for connection in held:
        connection.__exit__(None, None, None)
