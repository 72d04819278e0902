"""Path traversal, on every route with a path parameter."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fastapi.routing import APIRoute

from tests.api.test_security import routes
from tests.security.wire import get, status, talk
from tests.specs import TINY_SPEC

SECRET = "nobody-may-read-this"
STEPS = ["../", "..%2f", "%2e%2e/", "%2e%2e%2f", "..%5c", "..\\", "..%252f", "..%c0%af", "....//", "..;/"]
ELSEWHERE = [
    *(step * 3 + "secret" for step in STEPS),
    "/etc/passwd", "%2fetc%2fpasswd", "//etc/passwd", "file:%2f%2f%2fetc%2fpasswd", "..", ".", "%2e", "~root",
    "%00", "secret%00", "secret%00.json", "link", "link%2fsecret", "..%2fledger.sqlite",
]  # fmt: skip


@pytest.fixture(scope="module")
def surroundings(service):
    """Foreign files in the data folder, and links to them."""
    root = Path(service.folder.root)
    for folder in (root, root / "sweeps", root.parent):
        (folder / "secret").write_text(SECRET)
    (root / "sweeps" / "link").symlink_to(root / "secret")
    (root / "sweeps" / "20260101-000000-00000000.zarr").symlink_to(root)
    (root / "sweeps" / "20260101-000000-00000000.json").write_text(json.dumps(TINY_SPEC))


def doors(app):
    """Return (method, path, parameter) for each parameter of each route."""
    for route in routes(app.routes):
        if isinstance(route, APIRoute):
            for name in re.findall(r"\{(\w+)(?::\w+)?\}", route.path):
                for method in route.methods:
                    yield method, route.path, name


def test_no_route_leaves_the_store(service, sweep_id, surroundings):
    requests = []
    for method, path, name in doors(service.app):
        for word in [*ELSEWHERE, "20260101-000000-00000000"]:
            filled = re.sub(rf"\{{{name}(:\w+)?\}}", lambda _, word=word: word, path)
            filled = re.sub(r"\{id\}", sweep_id, filled)
            filled = re.sub(r"\{\w+(:\w+)?\}", "curves", filled)
            requests.append((method, filled))
    assert len(requests) > 500
    assert {path for _, path in requests if "/zarr/" in path}
    assert {path for _, path in requests if "/dask/" in path}

    def ask(request):
        method, path = request
        return request, talk(service, get(path).replace(b"GET", method.encode(), 1))

    with ThreadPoolExecutor(4) as pool:
        for (method, path), answer in pool.map(ask, requests):
            code = status(answer)
            assert code < 500 or (code == 503 and path.startswith("/dask")), (method, path, answer[:300])
            for word in (SECRET.encode(), b"root:x", b"SQLite format"):
                assert word not in answer, (method, path)
    assert service.get(f"/v1/sweeps/{sweep_id}").json()["state"] == "completed"
    root = Path(service.folder.root)
    assert (root / "secret").read_text() == SECRET  # and nothing was removed
    assert (root / "ledger.sqlite").exists()
