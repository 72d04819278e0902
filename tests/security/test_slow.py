"""Who sends a byte a minute, sends without end, or never reads: nobody else waits for him."""

import json
import os
import resource
import socket
import time as clock
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

import sweep_service.api.serve as serve
from sweep_service.api import connection_limits, security
from tests.api.served import JSON, TINY, another, assert_problem, gated, serving, until
from tests.security.wire import get, line_to, rest_of, status, talk

BODY = json.dumps(TINY).encode()
POST = b"POST /v1/estimate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def drip(line, pieces, pause):
    """One after the other, until the other side has had enough; the time that took."""
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
    """A service that waits for tenths of seconds where others wait for minutes."""
    with pytest.MonkeyPatch.context() as patch:
        for place, name, seconds in (
            (security, "BETWEEN", 0.3), (security, "WHOLE", 0.6), (connection_limits, "HEAD_SECONDS", 0.4),
            (connection_limits, "MESSAGE_SECONDS", 3.0), (connection_limits, "STALLED_SECONDS", 0.4),
        ):  # fmt: skip
            patch.setattr(place, name, seconds)
        with serving(tmp_path_factory.mktemp("hasty"), executor=gated) as found:
            yield found


@pytest.mark.parametrize("length", [b"Content-Length: %d\r\n" % len(BODY), b"Transfer-Encoding: chunked\r\n"])
def test_a_body_that_does_not_come_is_not_waited_for(hasty, length):
    with line_to(hasty) as line:
        line.sendall(POST + length + b"\r\n")
        answer = rest_of(line)
    assert status(answer) == 408
    assert b"application/problem+json" in answer
    assert b"connection: close" in answer.lower()


def test_a_body_that_comes_byte_by_byte_has_an_end(hasty):
    with line_to(hasty) as line:
        line.sendall(POST + b"Content-Length: %d\r\n\r\n" % len(BODY))
        drip(line, [b" "] * 12, 0.1)  # each in time for the last one
        answer = rest_of(line)
    assert answer == b"" or status(answer) == 408  # it may be gone before it is read
    assert hasty.get("/healthz").status_code == 200


def test_a_body_in_a_few_pieces_is_welcome(hasty, monkeypatch):
    for name in ("BETWEEN", "WHOLE"):  # as many as a busy machine may need
        monkeypatch.setattr(security, name, 30.0)

    def pieces():
        for at in range(0, len(BODY), 50):
            yield BODY[at : at + 50]
            clock.sleep(0.05)

    assert hasty.post("/v1/estimate", content=pieces(), headers=JSON).json()["runs"] == 4


def test_a_body_that_nobody_reads_is_not_waited_for_either(hasty):
    """The answer is there before it, and the line would be kept for what is still to come."""
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


def test_a_head_that_does_not_end_is_not_waited_for(hasty):
    def closed(pieces):
        with line_to(hasty) as line:
            return drip(line, pieces, 0.1) < 5.5 and rest_of(line) == b""

    with ThreadPoolExecutor(len(HEADS)) as pool:
        found = dict(zip(HEADS, pool.map(closed, HEADS.values()), strict=True))
    assert found == dict.fromkeys(HEADS, True)


def test_the_second_request_of_a_line_has_no_more_time(hasty):
    with line_to(hasty) as line:
        line.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert status(line.recv(1 << 16)) == 200
        assert drip(line, [b"\r\n"] * 60, 0.1) < 5.5
        assert rest_of(line) == b""


def test_what_takes_its_time_to_answer_has_it(hasty):
    """Limits are on what comes, not on how long somebody listens."""
    hasty.executor.let(takes=False)
    sweep = hasty.submit(another(1))
    with hasty.client.stream("GET", f"/v1/sweeps/{sweep}/events") as events:
        clock.sleep(1.2)
        hasty.executor.let()
        assert b"completed" in b"".join(events.iter_bytes())


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="open files are counted in /proc")
def test_an_answer_that_nobody_takes_is_given_up(hasty):
    sweep = hasty.done(TINY)
    large = hasty.folder.dataset_path(sweep) / "large"
    with open(large, "wb") as file:
        file.truncate(64 << 20)

    with line_to(hasty) as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.sendall(get(f"/v1/sweeps/{sweep}/zarr/large"))
        until(lambda: is_open(large))
        until(lambda: not is_open(large), 30.0)  # while we hold the line and read nothing


def is_open(path):
    """By this process, in which the service is."""
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
def test_what_is_not_the_body_has_its_length_too(service, name):
    answer = talk(service, ENDLESS[name])
    assert answer == b"" or status(answer) == 400, answer[:200]
    assert service.get("/healthz").status_code == 200


def test_a_trailer_is_no_header(service):
    """Or what was checked would not be what is used."""
    head = b"POST /v1/estimate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = b"%x\r\n%s\r\n0\r\nX-Request-Id: late\r\nOrigin: http://evil.example\r\n\r\n" % (len(BODY), BODY)
    answer = talk(service, head + body)
    assert status(answer) == 200
    assert b"late" not in answer


def test_more_lines_than_there_is_room_for(tmp_path, monkeypatch):
    """The files of the store can be opened, whoever knocks; and who has gone makes room."""
    monkeypatch.setattr(serve, "most_connections", lambda: 5)
    with serving(tmp_path) as service:
        held = [line_to(service) for _ in range(6)]
        for one in held:
            one.__enter__()
        assert until(lambda: service.get("/v1/sweeps").status_code == 503)
        for one in held:
            one.__exit__(None, None, None)
        assert until(lambda: service.get("/v1/sweeps").status_code == 200)


def test_room_is_left_for_the_store():
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert 16 <= connection_limits.most_connections() <= max(16, soft // 2)


@pytest.mark.slow
def test_a_thousand_slow_lines_keep_nobody_waiting(service):
    held = [line_to(service) for _ in range(1000)]
    for number, one in enumerate(held):
        line = one.__enter__()
        line.sendall(POST + b"Content-Length: 100\r\n\r\n" if number % 2 else b"GET / HT")
    for _ in range(50):
        assert_problem(service.get("/nowhere"), 404)
    until(lambda: service.get("/healthz").status_code == 200)
    for one in held:
        one.__exit__(None, None, None)
