"""The proxy of the dashboard reaches the dashboard only."""

import http.server
import re
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import unquote

import distributed
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.sync.server import serve

from sweep_service.api.dashboard_paths import page_path, socket_path
from sweep_service.api.security import COOKIE
from tests.api.served import serving
from tests.security.wire import get, status, talk

TOKEN = "open-sesame-4711"


class StatusCache(http.server.BaseHTTPRequestHandler):
    """Returns its name and records requests."""

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
def fake_dashboard(name):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), StatusCache) as server:
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
    with (
        fake_dashboard(b"the dashboard") as dashboard,
        serving(tmp_path_factory.mktemp("shown"), tokens=TOKEN) as service,
    ):
        service.executor.dashboard = f"http://127.0.0.1:{dashboard.server_port}/status"
        service.fake_dashboard = dashboard
        yield service


def ask(service, path, *headers):
    return talk(service, get(path, f"Authorization: Bearer {TOKEN}", *headers))


def test_no_path_reaches_another_host(shown):
    with fake_dashboard(b"another") as other:
        address = f"127.0.0.1:{other.server_port}"
        for path in (
            f"/{address}/", f"//{address}/", f"http://{address}/", f"http:%2f%2f{address}%2f", f"@{address}/",
            f":80@{address}/", f"%40{address}/", f"\\{address}/", f"..//{address}/", f"..%2f..%2f@{address}/",
            f"status?url=http://{address}/", f"%0d%0aHost:%20{address}",
            f"x%20HTTP/1.1%0d%0aHost:%20{address}", f"proxy/{address}/status", f"%23@{address}/",
            f"%3f@{address}/", f";@{address}/", f"%00@{address}/",
            "x" * 70_000,
        ):  # fmt: skip
            before = len(shown.fake_dashboard.seen)
            answer = ask(shown, f"/dask/{path}")
            assert b"another" not in answer, path
            assert status(answer) in (200, 302, 400, 404), path[:80]
            for _, headers in shown.fake_dashboard.seen[before:]:
                assert headers["Host"] == f"127.0.0.1:{shown.fake_dashboard.server_port}", path
        assert other.seen == []


@pytest.mark.parametrize("path", [
    "proxy", "proxy/80/there/x", "/proxy/80/there/", "%70roxy/80/there/", "proxy%2f80%2fthere",
    "./proxy/80/there/x", "x/../proxy/80/there/x", "x/%2e%2e/proxy/80/there/x", "%2e/proxy/80/there/x",
    "status/../proxy/80/there/x", "status/%2e%2e/proxy/80/there/x", "status/..%2fproxy/80/there/x",
    "x/%252e%252e/proxy/80/there/x", "%2570roxy/80/there/x", "statics/%2e%2e/proxy/80/there/x",
    "statics/..%5c..%5cproxy/80/there/x", "\\proxy/80/there/x", "x\\..\\proxy/80/there/x", "//proxy/80/there",
    "info/worker/..%2f..%2fproxy%2f80%2fthere%2fx.html", "info/task/..%2f..%2fproxy/80/there/x.html",
    "info/worker/tls://..%2f..%2f..%2fproxy/80/there/x.html",
    "status;/../proxy/80/there/x", "status/", "status%00",
    "api/v1/retire_workers", "jupyter/lab", "sitemap.json", "%0aproxy/80/there/x",
    "PROXY/80/there/x",
])  # fmt: skip
def test_only_pages_of_dashboard_are_forwarded(shown, path):
    """The scheduler's own proxy, which reaches other machines, is no page."""
    before = len(shown.fake_dashboard.seen)
    assert status(ask(shown, f"/dask/{path}")) == 404
    assert len(shown.fake_dashboard.seen) == before


@pytest.mark.parametrize("path", [
    "status", "individual-workers-memory-timeseries", "static/js/bokeh.min.js?v=abc", "statics/css/base.css",
    "info",
    "info/main/workers.html", "info/worker/tls%3A%2F%2F127.0.0.1%3A4711.html", "info/task/S1_name-0a-1.html",
    "json/counts.json", "individual-plots.json", "metrics",
])  # fmt: skip
def test_pages_of_dashboard_are_forwarded(shown, path):
    assert status(ask(shown, f"/dask/{path}")) == 200
    seen = shown.fake_dashboard.seen[-1][0]
    assert unquote(seen).rstrip("?") == unquote(f"/{path}")


def test_every_application_of_dashboard_is_a_page():
    """They are read from the source, because importing it takes seconds."""
    source = Path(distributed.__file__).parent / "dashboard" / "scheduler.py"
    applications = re.findall(r'^    "(/[a-z-]+)":', source.read_text("utf-8"), re.MULTILINE)
    assert {"/status", "/workers", "/individual-progress"} < set(applications)
    for path in applications:
        assert page_path(path.lstrip("/")) == path
        assert socket_path(f"{path.lstrip('/')}/ws") == f"{path}/ws"
        assert socket_path(path.lstrip("/")) is None


def test_dashboard_is_reached_without_proxy(shown, monkeypatch, tmp_path):
    """HTTP_PROXY is for other hosts; that of this test answers nothing."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with serving(tmp_path) as service:
        service.executor.dashboard = shown.executor.dashboard
        answer = talk(service, get("/dask/status"))
        assert (status(answer), answer.endswith(b"the dashboard")) == (200, True)
        with serve(lambda socket: socket.send("live"), "127.0.0.1", 0) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            service.executor.dashboard = f"http://127.0.0.1:{server.socket.getsockname()[1]}/status"
            url = f"{service.url.replace('http', 'ws', 1)}/dask/status/ws"
            with connect(url, proxy=None) as socket:
                assert socket.recv(timeout=20) == "live"
            server.shutdown()


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
def test_redirects_of_dashboard_stay_on_service(shown, where):
    shown.fake_dashboard.leads_to = where
    try:
        answer = ask(shown, "/dask/status")
    finally:
        shown.fake_dashboard.leads_to = ""
    locations = [line for line in answer.split(b"\r\n") if line.lower().startswith(b"location:")]
    assert (status(answer), len(locations)) in ((302, 1), (503, 0))
    assert all(line.split(b": ")[1].startswith(b"/dask/") for line in locations)


def test_dashboard_receives_no_secrets(shown):
    ask(shown, "/dask/status", f"Cookie: {COOKIE}=1.2; other=x", "Origin: http://localhost")
    path, headers = shown.fake_dashboard.seen[-1]
    assert path.rstrip("?") == "/status"
    assert TOKEN not in str(headers)
    assert not {name.lower() for name in headers} & {"authorization", "cookie", "origin"}


def test_websocket_reaches_only_dashboard(tmp_path):
    seen = []

    def heard(socket):
        seen.append((socket.request.path, dict(socket.request.headers.raw_items())))
        socket.send("the dashboard")

    with serve(heard, "127.0.0.1", 0) as server, serving(tmp_path, tokens=TOKEN) as service:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.socket.getsockname()[1]
        service.executor.dashboard = f"http://127.0.0.1:{port}/status"
        base = service.url.replace("http", "ws", 1)
        for path in (
            "status/ws", "/127.0.0.1:1/", "@127.0.0.1:1/", "%40127.0.0.1:1/", "http:%2f%2f127.0.0.1:1%2f",
            "x%0d%0aX-Evil:%20yes", "x%20HTTP/1.1%0d%0aX-Evil:%20yes%0d%0a", "%23@127.0.0.1:1/",
            "x?a=%0d%0aX-Evil:1", "proxy/80/127.0.0.1/ws", "/proxy/80/127.0.0.1/ws",
            "x/%2e%2e/proxy/80/there/ws",
            "status/../proxy/80/there/ws", "status/%2e%2e/proxy/80/there/ws", ".%2fproxy/80/there/ws",
        ):  # fmt: skip
            headers = {"Authorization": f"Bearer {TOKEN}"}
            with (
                suppress(InvalidStatus),
                connect(f"{base}/dask/{path}", additional_headers=headers) as socket,
            ):
                assert socket.recv(timeout=20) == "the dashboard"  # otherwise it is closed
        server.shutdown()
    assert seen[0][0] == "/status/ws"
    assert len(seen) == 1
    assert not [path for path, _ in seen if "proxy" in path]
    for path, headers in seen:
        names = {name.lower() for name in headers}
        assert headers["Host"] == f"127.0.0.1:{port}", path
        assert not names & {"x-evil", "authorization", "cookie"}, path
        assert TOKEN not in str(headers)
