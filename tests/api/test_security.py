"""Access control: every route and method with and without a token; hosts, origins, cookies."""

import json
import logging
import re
import time as clock
from urllib.parse import urlsplit

import httpx2
import pytest
from fastapi.routing import APIRoute, APIWebSocketRoute
from starlette.routing import Route
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from sweep_service.api import security
from sweep_service.api.app import create_app
from sweep_service.api.security import COOKIE, SESSION_SECONDS, Authenticator
from sweep_service.api.settings import Settings
from sweep_service.errors import InvalidInput
from tests.api.served import JSON, assert_problem, serial, serving
from tests.specs import SMALL_SPEC

TOKEN, LOOK = "open-sesame-4711", "only-looking-0815"
NOBODY = "20260101-000000-00000000"  # the id of no sweep
OPEN = {"/healthz", "/readyz", "/v1/session"}
READ_ONLY_POSTS = {"/v1/estimate", "/v1/seeds", "/v1/session", "/v1/spec"}


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture(scope="module")
def locked(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("locked"), tokens=f"{TOKEN}, {LOOK}:read") as service:
        yield service


@pytest.fixture(scope="module")
def look(locked):
    """A client with a read-only token."""
    with httpx2.Client(base_url=locked.url, headers=bearer(LOOK)) as client:
        yield client


def routes(entries):
    """Return all routes, including those of included routers."""
    for route in entries:
        inner = getattr(route, "original_router", None) or getattr(route, "app", None)
        if hasattr(inner, "routes"):
            yield from routes(inner.routes)
        else:
            yield route


def doors_of(app):
    """Return (method, path) of every HTTP route, with a value for each parameter."""
    for route in routes(app.routes):
        if isinstance(route, (APIRoute, Route)):
            path = re.sub(r"\{id\}", NOBODY, route.path)
            path = re.sub(r"\{[^}]*\}", "thing", path)
            yield from ((method, path) for method in sorted(route.methods))


def test_all_routes_are_collected(locked):
    """Those in OpenAPI and those that are not."""
    known = set(doors_of(locked.app))
    shown = {
        (method.upper(), re.sub(r"\{[^}]*\}", "thing", path.replace("{id}", NOBODY)))
        for path, operations in locked.app.openapi()["paths"].items()
        for method in operations
    }
    assert shown <= known
    assert known >= {("GET", "/"), ("GET", "/docs"), ("GET", "/dask/thing"), ("GET", "/openapi.json")}
    assert ("HEAD", f"/v1/sweeps/{NOBODY}/zarr/thing") in known
    assert len(known) > 25


def test_only_three_routes_need_no_token(locked):
    for method, path in doors_of(locked.app):
        answer = locked.request(method, path)
        if path in OPEN:
            assert answer.status_code != 401 or path == "/v1/session", (method, path)
            continue
        assert answer.status_code == 401, (method, path)
        assert answer.headers["www-authenticate"] == "Bearer"
        if method != "HEAD":
            assert_problem(answer, 401, "a token is required")
    assert locked.get("/nowhere").status_code == 401  # not 404, which would reveal the routes
    assert locked.get("/healthz").json() == {"status": "ok"}


@pytest.mark.parametrize(
    "headers",
    [
        bearer("wrong"), bearer(f"{TOKEN}x"), bearer(TOKEN[:-1]), bearer(TOKEN.upper()),
        bearer(f"{LOOK}:read"), {"Authorization": TOKEN}, {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": b"Bearer \xff\xfe"}, {"Authorization": "Bearer"}, {"Authorization": ""},
        {"Cookie": f"{COOKIE}={TOKEN}"}, {"X-Token": TOKEN},
    ],
)  # fmt: skip
def test_wrong_token_is_rejected(locked, headers):
    answer = locked.get("/v1/sweeps", headers=headers)
    assert_problem(answer, 401, without=[TOKEN, LOOK])


def test_token_in_url_is_rejected(locked):
    assert locked.get("/v1/sweeps", params={"token": TOKEN}).status_code == 401


def test_token_gives_access_to_every_route(locked):
    for method, path in doors_of(locked.app):
        if path != "/v1/session":
            assert locked.request(method, path, headers=bearer(TOKEN)).status_code not in (401, 403), path
    assert locked.get("/v1/sweeps", headers={"Authorization": f"bearer  {TOKEN}"}).status_code == 200


def test_read_only_token_cannot_change_anything(locked, look):
    for method, path in doors_of(locked.app):
        answer = look.request(method, path)
        if method in ("GET", "HEAD") or path in READ_ONLY_POSTS:
            assert answer.status_code not in (401, 403) or path == "/v1/session", (method, path)
        else:
            assert_problem(answer, 403, "read-only")
    assert look.post("/v1/sweeps", json=SMALL_SPEC).status_code == 403
    assert look.post("/v1/sweeps?dry_run=true", json=SMALL_SPEC).status_code == 403
    assert look.get("/v1/sweeps").json() == {"sweeps": [], "next": None}


def test_read_only_token_may_request_estimate(look):
    assert look.post("/v1/estimate", json=SMALL_SPEC).json()["runs"] == 24


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "TRACE", "PROPFIND"])
def test_unknown_methods_count_as_changes(look, method):
    assert_problem(look.request(method, "/v1/sweeps"), 403, "read-only")


# ---- sessions


def session(service, token):
    return httpx2.post(f"{service.url}/v1/session", json={"token": token})


def cookie_of(answer):
    return answer.headers["set-cookie"].partition(";")[0].partition("=")[2]


def with_cookie(service, value, method="GET", path="/v1/sweeps", **options):
    return httpx2.request(method, f"{service.url}{path}", headers={"Cookie": value}, **options)


def test_token_is_exchanged_for_cookie(locked):
    answer = session(locked, TOKEN)
    assert answer.json() == {"may_change": True}
    items = answer.headers["set-cookie"].lower()
    for part in ("httponly", "samesite=strict", "path=/", f"max-age={SESSION_SECONDS}"):
        assert part in items
    assert "domain" not in items
    assert TOKEN not in items
    cookie = f"{COOKIE}={cookie_of(answer)}"
    assert with_cookie(locked, cookie).status_code == 200
    assert with_cookie(locked, cookie, "POST", "/v1/sweeps", json={}).status_code == 422


def test_read_only_cookie_cannot_change_anything(locked):
    answer = session(locked, LOOK)
    assert answer.json() == {"may_change": False}
    cookie = f"{COOKIE}={cookie_of(answer)}"
    assert with_cookie(locked, cookie).status_code == 200
    assert with_cookie(locked, cookie, "POST", "/v1/sweeps", json={}).status_code == 403


def test_modified_cookie_is_rejected(locked):
    cookie = cookie_of(session(locked, LOOK))
    ends, _, signature = cookie.partition(".")
    longer = str(int(ends) + 1)
    last = "0" if signature[-1] != "0" else "1"
    for wrong in (
        f"{longer}.{signature}", f"{ends}.{signature[:-1]}{last}", f"{ends}.", ends, f".{signature}", "", ".",
        f"{ends}.{signature}0", f"-{ends}.{signature}", f"{ends}{ends}.{signature}", f"²{ends}.{signature}",
        "9" * 5000 + f".{signature}", f"{ends}.\xff",
    ):  # fmt: skip
        answer = with_cookie(locked, f"{COOKIE}={wrong}".encode("latin-1"))
        assert_problem(answer, 401)


def test_cookie_expires(locked, monkeypatch):
    cookie = f"{COOKIE}={cookie_of(session(locked, TOKEN))}"
    now = clock.time()
    monkeypatch.setattr(security.clock, "time", lambda: now + SESSION_SECONDS - 10)
    assert with_cookie(locked, cookie).status_code == 200
    monkeypatch.setattr(security.clock, "time", lambda: now + SESSION_SECONDS + 10)
    assert with_cookie(locked, cookie).status_code == 401


def test_cookie_ends_with_its_token(locked):
    old = Authenticator(["another"])
    cookie = old.create_session(old.tokens[0])
    assert with_cookie(locked, f"{COOKIE}={cookie}").status_code == 401


def test_other_cookies_are_ignored(locked):
    """Browsers send the cookies of all services on a machine to each of them, whatever the port."""
    cookie = f"{COOKIE}={cookie_of(session(locked, TOKEN))}"
    for other in ("a=b", 'theme={"dark": true}', "bad name=x", "=", ";;", "ü=ö", 'q="open'):
        for text in (f"{other}; {cookie}", f"{cookie}; {other}"):
            assert with_cookie(locked, text.encode()).status_code == 200, text


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{}", b"[]", b'"x"', b"null", b"\xff", b'{"token": 1}', b'{"token": null}', b'{"token": ["x"]}',
        b"[" * 100_000, b'{"token": ' + b"9" * 10_000 + b"}", b"token: " + TOKEN.encode(),
    ],
)  # fmt: skip
def test_malformed_login_is_rejected(locked, body):
    answer = locked.post("/v1/session", content=body, headers=JSON)
    assert_problem(answer, 422, field="token")
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("token", ["", "wrong", f"{LOOK}:read", "\ud800", "\x00", "ü" * 1000])
def test_wrong_token_gives_no_session(locked, token):
    answer = locked.post("/v1/session", content=json.dumps({"token": token}), headers=JSON)
    assert_problem(answer, 401, "unknown token", without=["wrong", LOOK])
    assert "set-cookie" not in answer.headers


def test_no_sessions_without_tokens(service):
    assert_problem(session(service, ""), 401)


def test_logout_deletes_cookie(locked):
    with httpx2.Client(base_url=locked.url) as client:
        client.post("/v1/session", json={"token": TOKEN})
        assert client.get("/v1/sweeps").status_code == 200
        assert client.delete("/v1/session").status_code == 204
        assert client.get("/v1/sweeps").status_code == 401


@pytest.mark.parametrize("path", ["/", "/docs", "/v1/sweeps", "/dask/status"])
def test_browser_gets_login_page(locked, path):
    answer = locked.get(path, headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert answer.status_code == 401
    assert answer.headers["content-type"].startswith("text/html")
    assert 'type="password"' in answer.text
    for part in re.findall(r'(?:src|href)="(/static/[^"]*)"', answer.text):  # its files need no token
        assert locked.get(part).status_code == 200
    assert "/v1/session" in locked.get("/static/js/login.js").text
    assert "http" not in answer.text.replace("<!doctype html>", "")  # nothing is loaded from other hosts


# ---- hosts and origins


def test_other_host_names_are_rejected_on_loopback(service):
    """Another site's name may resolve to this address."""
    port = urlsplit(service.url).port
    for name in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "[::2]", "", "[", "@"):
        for host in (name, f"{name}:{port}"):
            answer = service.get("/healthz", headers={"Host": host})
            assert_problem(answer, 403, "SWEEP_HOSTS", without=["evil"])
    for name in ("localhost", "127.0.0.1", "[::1]", "LOCALHOST"):
        for host in (name, f"{name}:{port}"):
            assert service.get("/healthz", headers={"Host": host}).status_code == 200, host


def test_host_names_can_be_added(tmp_path):
    with serving(tmp_path, hosts="lab.example, Other.Example") as service:
        for host in ("lab.example", "lab.example:8443", "other.example", "OTHER.example", "localhost"):
            assert service.get("/healthz", headers={"Host": host}).status_code == 200, host
        assert service.get("/healthz", headers={"Host": "evil.example"}).status_code == 403


def test_bound_address_is_a_valid_host(tmp_path):
    with serving(tmp_path, host="127.0.0.2") as service:
        assert service.get("/healthz", headers={"Host": "127.0.0.2:8000"}).status_code == 200


def test_any_host_name_is_valid_on_network(tmp_path):
    with serving(tmp_path, host="0.0.0.0", tokens=TOKEN) as service:
        assert service.get("/healthz", headers={"Host": "any.example"}).status_code == 200
        assert service.get("/v1/sweeps", headers={"Host": "any.example"}).status_code == 401


FOREIGN = (
    "http://evil.example",
    "https://127.0.0.1",
    "null",
    "http://localhost:1",
    "http://[",
    "",
    "x",
    "http://",
)


@pytest.mark.parametrize("origin", FOREIGN)
def test_other_origins_cannot_act(service, origin):
    for act in ("POST /v1/estimate", "POST /v1/session", f"DELETE /v1/sweeps/{NOBODY}"):
        answer = service.request(*act.split(), headers={**JSON, "Origin": origin})
        assert_problem(answer, 403, "another origin", without=["evil"])


def test_own_origin_may_act_and_others_may_read(service):
    assert service.post("/v1/estimate", json=SMALL_SPEC, headers={"Origin": service.url}).status_code == 200
    assert service.post("/v1/estimate", json=SMALL_SPEC).status_code == 200
    for origin in FOREIGN:
        answer = service.get("/v1/sweeps", headers={"Origin": origin})
        assert answer.status_code == 200
        assert not [name for name in answer.headers if name.startswith("access-control")]


def test_no_cors_headers(service):
    """A preflight request of a browser."""
    preflight = {
        "Origin": "http://evil.example", "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization, content-type",
    }  # fmt: skip
    for _, path in sorted(set(doors_of(service.app))):
        answer = service.options(path, headers=preflight)
        assert answer.status_code in (404, 405), path
        assert not [name for name in answer.headers if name.startswith("access-control")]


# ---- websockets


def refused(url, **options):
    """Return the response to an attempt to open a websocket."""
    with pytest.raises(InvalidStatus) as caught, connect(url.replace("http", "ws", 1), **options):
        pass
    return caught.value.response


def test_websockets_need_token(locked):
    paths = [route.path for route in routes(locked.app.routes) if isinstance(route, APIWebSocketRoute)]
    assert paths == ["/dask/{path:path}"]
    for path in ("/dask/status/ws", "/nowhere"):
        for headers in ({}, bearer("wrong"), {"Cookie": f"{COOKIE}=1.2"}):
            answer = refused(f"{locked.url}{path}", additional_headers=headers)
            assert answer.status_code == 401
            assert json.loads(answer.body)["status"] == 401


def let_in(answer):
    """Without a dashboard, an accepted websocket is closed, and a rejected one gets a problem."""
    return not answer.body


def test_websocket_accepts_token_or_cookie(locked):
    cookie = cookie_of(session(locked, TOKEN))
    for headers in (bearer(TOKEN), {"Cookie": f"{COOKIE}={cookie}"}):
        assert let_in(refused(f"{locked.url}/dask/status/ws", additional_headers=headers))


@pytest.mark.parametrize("origin", FOREIGN)
def test_other_origins_cannot_open_websocket(service, origin):
    answer = refused(f"{service.url}/dask/status/ws", origin=origin)
    assert answer.status_code == 403
    assert b"another origin" in answer.body


def test_websocket_needs_valid_host_on_loopback(service):
    answer = refused(f"{service.url}/dask/status/ws", additional_headers={"Host": "evil.example"})
    assert answer.status_code in (400, 403)  # two Host headers


def test_own_origin_may_open_websocket(service):
    assert let_in(refused(f"{service.url}/dask/status/ws", origin=service.url))


# ---- settings


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "lab.example", ""])
@pytest.mark.parametrize("tokens", ["", " ", ",", " , ,", ":", ":,", ":read", " :read,", "a,:read"])
def test_listening_on_network_requires_tokens(tmp_path, host, tokens):
    with pytest.raises(InvalidInput) as caught:
        create_app(Settings(data=tmp_path, host=host, tokens=tokens), serial)
    if ":" not in tokens:
        for word in ("SWEEP_TOKENS", "openssl rand", "127.0.0.1"):
            assert word in str(caught.value)


def test_empty_secret_is_rejected(tmp_path):
    """The variable before `:read` was not set."""
    with pytest.raises(InvalidInput, match="tokens"):
        create_app(Settings(data=tmp_path, tokens="secret,:read"), serial)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_loopback_requires_no_tokens(tmp_path, host):
    create_app(Settings(data=tmp_path, host=host), serial)


def test_settings_are_read_from_environment(monkeypatch):
    for name, value in {
        "SWEEP_TOKENS": TOKEN, "SWEEP_HOSTS": "a.example, b.example", "SWEEP_MAX_BODY": "77",
        "SWEEP_MAX_ACTIVE": "3", "SWEEP_PORT": "123", "DASK_SCHEDULER_ADDRESS": "tcp://dask:1",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    settings = Settings(port=124)
    assert (settings.hosts, settings.max_body, settings.limits.active) == (("a.example", "b.example"), 77, 3)
    assert (settings.port, settings.scheduler) == (124, "tcp://dask:1")
    assert settings.tokens.get_secret_value() == TOKEN
    monkeypatch.setenv("SWEEP_SCHEDULER", "tcp://sweep:1")
    assert Settings().scheduler == "tcp://sweep:1"
    assert Settings(scheduler=None).scheduler is None


def test_secrets_are_never_shown(tmp_path, caplog, locked, look):
    settings = Settings(data=tmp_path, tokens=TOKEN)
    assert TOKEN not in f"{settings!r} {settings} {settings.model_dump()} {settings.model_dump_json()}"
    with caplog.at_level(logging.DEBUG):
        answer = session(locked, TOKEN)
        cookie = cookie_of(answer)
        locked.get("/v1/sweeps", headers=bearer(TOKEN))
        with_cookie(locked, f"{COOKIE}={cookie}")
        look.post("/v1/sweeps", json=SMALL_SPEC)
        locked.post("/v1/session", content=f'{{"token": "{TOKEN}"', headers=JSON)
    ours = [record for record in caplog.records if not record.name.startswith(("httpx2", "httpcore2"))]
    logged = " ".join(f"{record.getMessage()} {vars(record)}" for record in ours)
    assert "sweep.access" in logged
    for secret in (TOKEN, LOOK, cookie.partition(".")[2]):
        assert secret not in logged
        assert secret not in answer.text
