"""The way to the dashboard leads there, and nowhere else."""

import http.server
import threading
from contextlib import contextmanager, suppress

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.sync.server import serve

from sweep_service.api.security import COOKIE
from tests.api.served import serving
from tests.security.wire import get, status, talk

TOKEN = "open-sesame-4711"


class Board(http.server.BaseHTTPRequestHandler):
    """Says who it is, and remembers what it was asked."""

    def do_GET(self):
        self.server.seen.append((self.path, dict(self.headers)))
        where = self.server.leads_to
        self.send_response(302 if where else 200)
        if where:
            self.send_header("Location", where)
        self.send_header("Content-Length", str(len(self.server.name)))
        self.end_headers()
        self.wfile.write(self.server.name)

    def log_message(self, *_):
        pass


@contextmanager
def board(name):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Board) as server:
        server.name, server.seen, server.leads_to = name, [], ""
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    with board(b"the dashboard") as there, serving(tmp_path_factory.mktemp("shown"), tokens=TOKEN) as service:
        service.executor.dashboard = f"http://127.0.0.1:{there.server_port}/status"
        service.board = there
        yield service


def ask(service, path, *headers):
    return talk(service, get(path, f"Authorization: Bearer {TOKEN}", *headers))


def test_no_path_leads_to_another_host(shown):
    with board(b"another") as other:
        there = f"127.0.0.1:{other.server_port}"
        for path in (
            f"/{there}/", f"//{there}/", f"http://{there}/", f"http:%2f%2f{there}%2f", f"@{there}/",
            f":80@{there}/", f"%40{there}/", f"\\{there}/", f"..//{there}/", f"..%2f..%2f@{there}/",
            f"status?url=http://{there}/", f"%0d%0aHost:%20{there}", f"x%20HTTP/1.1%0d%0aHost:%20{there}",
            f"proxy/{there}/status", f"%23@{there}/", f"%3f@{there}/", f";@{there}/", f"%00@{there}/",
            "x" * 70_000,
        ):  # fmt: skip
            before = len(shown.board.seen)
            answer = ask(shown, f"/dask/{path}")
            assert b"another" not in answer, path
            assert status(answer) in (200, 302, 400, 404), path[:80]
            for _, headers in shown.board.seen[before:]:
                assert headers["Host"] == f"127.0.0.1:{shown.board.server_port}", path
        assert other.seen == []
        before = len(shown.board.seen)
        for path in (
            "proxy",
            "proxy/80/there/x",
            "/proxy/80/there/",
            "%70roxy/80/there/",
            "proxy%2f80%2fthere",
        ):
            assert status(ask(shown, f"/dask/{path}")) == 404, path
        assert len(shown.board.seen) == before  # by which a scheduler leads to other machines


@pytest.mark.parametrize(
    "where",
    [
        "http://evil.example/x",
        "//evil.example/x",
        "/x",
        "x",
        "http://evil.example",
        "javascript:alert(1)",
        "http://[",
    ],
)
def test_the_dashboard_sends_nobody_elsewhere(shown, where):
    shown.board.leads_to = where
    try:
        answer = ask(shown, "/dask/status")
    finally:
        shown.board.leads_to = ""
    locations = [line for line in answer.split(b"\r\n") if line.lower().startswith(b"location:")]
    assert (status(answer), len(locations)) in ((302, 1), (503, 0))
    assert all(line.split(b": ")[1].startswith(b"/dask/") for line in locations)


def test_the_dashboard_is_told_no_secrets(shown):
    ask(shown, "/dask/status", f"Cookie: {COOKIE}=1.2; other=x", "Origin: http://localhost")
    path, headers = shown.board.seen[-1]
    assert path.rstrip("?") == "/status"
    assert TOKEN not in str(headers)
    assert not {name.lower() for name in headers} & {"authorization", "cookie", "origin"}


def test_a_websocket_leads_to_the_dashboard_alone(tmp_path):
    seen = []

    def heard(socket):
        seen.append((socket.request.path, dict(socket.request.headers.raw_items())))
        socket.send("the dashboard")

    with serve(heard, "127.0.0.1", 0) as there, serving(tmp_path, tokens=TOKEN) as service:
        threading.Thread(target=there.serve_forever, daemon=True).start()
        port = there.socket.getsockname()[1]
        service.executor.dashboard = f"http://127.0.0.1:{port}/status"
        base = service.url.replace("http", "ws", 1)
        for path in (
            "status/ws", "/127.0.0.1:1/", "@127.0.0.1:1/", "%40127.0.0.1:1/", "http:%2f%2f127.0.0.1:1%2f",
            "x%0d%0aX-Evil:%20yes", "x%20HTTP/1.1%0d%0aX-Evil:%20yes%0d%0a", "%23@127.0.0.1:1/",
            "x?a=%0d%0aX-Evil:1", "proxy/80/127.0.0.1/ws", "/proxy/80/127.0.0.1/ws",
        ):  # fmt: skip
            headers = {"Authorization": f"Bearer {TOKEN}"}
            with (
                suppress(InvalidStatus),
                connect(f"{base}/dask/{path}", additional_headers=headers) as socket,
            ):
                assert socket.recv(timeout=20) == "the dashboard"  # or it leads nowhere
        there.shutdown()
    assert seen[0][0] == "/status/ws"
    assert not [path for path, _ in seen if "proxy" in path]
    for path, headers in seen:
        names = {name.lower() for name in headers}
        assert headers["Host"] == f"127.0.0.1:{port}", path
        assert not names & {"x-evil", "authorization", "cookie"}, path
        assert TOKEN not in str(headers)
