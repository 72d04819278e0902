"""`make audit` with a vulnerability database that the test controls."""

import http.server
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.service import free_port

AUDIT = Path(__file__).resolve().parents[2] / "tools" / "audit.py"
LOCK = "alpha==1.0\nbeta==2.0\n"
FLAW = {
    "id": "TEST-2026-1", "summary": "it lets strangers in",
    "affected": [
        {
            "package": {"name": "beta", "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "2.1"}]}],
        }
    ],
}  # fmt: skip


class Known(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        flaws = self.server.known.get(query["package"]["name"])
        body = json.dumps({"vulns": flaws} if flaws else {}).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def known(tmp_path):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Known) as server:
        server.known, server.status = {}, 200
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()


def audit(folder, port, **environment):
    (folder / "requirements.lock").write_text(LOCK)
    plain = {name: value for name, value in os.environ.items() if name != "CI"}
    options = ["--vulnerability-service", "osv", "--osv-url", f"http://127.0.0.1:{port}/"]
    return subprocess.run(
        [sys.executable, str(AUDIT), *options, "--cache-dir", str(folder / "cache"), "--timeout", "5"],
        cwd=folder, env={**plain, **environment}, capture_output=True, text=True, timeout=100,
    )  # fmt: skip


@pytest.mark.slow
def test_known_vulnerability_fails(known, tmp_path):
    known.known = {"beta": [FLAW]}
    done = audit(tmp_path, known.server_port)
    assert done.returncode == 1, done.stderr
    assert done.stdout == "beta 2.0: TEST-2026-1, fixed in 2.1: it lets strangers in\n"


@pytest.mark.slow
def test_success_is_reported(known, tmp_path):
    done = audit(tmp_path, known.server_port, CI="true")
    assert (done.returncode, done.stdout) == (0, "no known vulnerabilities in 2 packages\n")


@pytest.mark.slow
@pytest.mark.parametrize(("environment", "code"), [({}, 0), ({"CI": "true"}, 1)])
def test_unreachable_database_is_reported(known, tmp_path, environment, code):
    known.status = 500
    for port in (free_port(), known.server_port):
        done = audit(tmp_path, port, **environment)
        assert done.returncode == code, done.stderr
        assert done.stderr.startswith("AUDIT NOT DONE: requirements.lock could not be audited")
        assert "no known" not in done.stdout
