"""Ambiguous requests, and input that could become a header."""

import json
from urllib.parse import quote
from xml.etree import ElementTree

import pytest

from sweep_service.api.security import COOKIE
from tests.api.served import JSON, serving
from tests.security.wire import get, status, talk
from tests.specs import TINY_SPEC, distinct_spec

TOKEN = "open-sesame-4711"
BODY = json.dumps(TINY_SPEC).encode()
HEAD = b"POST /v1/estimate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
HIDDEN = b"GET /v1/presets HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: hidden\r\n\r\n"
CHUNK = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)

SMUGGLED = {
    "both lengths": b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n" % len(CHUNK) + CHUNK,
    "both lengths, the other way": b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n"
    + HIDDEN,
    "two lengths": b"Content-Length: 0\r\nContent-Length: %d\r\n\r\n" % len(HIDDEN) + HIDDEN,
    "lengths in a list": b"Content-Length: 0, %d\r\n\r\n" % len(HIDDEN) + HIDDEN,
    "a length with a sign": b"Content-Length: +0\r\n\r\n" + HIDDEN,
    "a length of hexadecimals": b"Content-Length: 0x0\r\n\r\n" + HIDDEN,
    "a space before the colon": b"Content-Length : %d\r\n\r\n" % len(HIDDEN) + HIDDEN,
    "a folded line": b"X: y\r\n Content-Length: %d\r\n\r\n" % len(HIDDEN) + HIDDEN,
    "chunked, and not last": b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + HIDDEN,
    "chunked with more": b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + HIDDEN,
    "chunked after a tab": b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n" + HIDDEN,
    "a NUL in a header": b"X: a\x00b\r\nContent-Length: 0\r\n\r\n" + HIDDEN,
    "a return in a header": b"X: a\rContent-Length: 0\r\n\r\n" + HIDDEN,
    "a name with a space": b"X Y: a\r\n\r\n" + HIDDEN,
    "no name": b": a\r\n\r\n" + HIDDEN,
    "a chunk that says less": b"Transfer-Encoding: chunked\r\n\r\n1\r\n%s\r\n0\r\n\r\n" % BODY + HIDDEN,
    "a chunk of 0x": b"Transfer-Encoding: chunked\r\n\r\n0x%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
    + HIDDEN,
    "a chunk of -1": b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n" + HIDDEN,
    "a chunk beyond all": b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 17 + b"\r\n" + HIDDEN,
}


@pytest.mark.parametrize("name", SMUGGLED)
def test_ambiguous_requests_are_rejected(service, name):
    """Otherwise a proxy would forward requests that it has not checked."""
    answer = talk(service, HEAD + SMUGGLED[name])
    assert status(answer) == 400, answer[:300]
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"hidden" not in answer
    assert service.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    "hosts", ["Host: localhost\r\nHost: evil.example", "Host: evil.example\r\nHost: localhost", "Host: a b"]
)
def test_duplicate_host_is_rejected(service, hosts):
    answer = talk(service, f"GET /v1/sweeps HTTP/1.1\r\n{hosts}\r\nConnection: close\r\n\r\n".encode())
    assert status(answer) in (400, 403)
    assert b"sweeps" not in answer.partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize(
    "line",
    [
        "GET /healthz HTTP/9.9", "PRI * HTTP/2.0", "\x16\x03\x01",
        "GET healthz HTTP/1.1", "get /healthz HTTP/1.1", "CONNECT evil.example:80 HTTP/1.1",
        "GET /healthz\x00 HTTP/1.1", "GET /hea\rlthz HTTP/1.1",
    ],
)  # fmt: skip
def test_malformed_requests_are_answered_or_dropped(service, line):
    answer = talk(service, f"{line}\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode("latin-1"))
    assert answer == b"" or 400 <= status(answer) < 506, answer[:200]
    assert service.get("/healthz").status_code == 200


def test_absolute_url_does_not_reach_other_hosts(service):
    """The service is not a proxy."""
    answer = talk(service, get("http://evil.example/healthz"))
    assert status(answer) == 200
    assert b'"ok"' in answer


# ---- input in responses


INJECTIONS = [
    "a%0d%0aX-Evil:%20yes",
    "a%0aX-Evil:%20yes",
    "a%E5%98%8D%E5%98%8AX-Evil:yes",
    "a\\r\\nX-Evil: yes",
]


@pytest.mark.parametrize("word", INJECTIONS)
def test_input_never_becomes_a_header(service, sweep_id, word):
    word = quote(word, safe="%")
    for path in (
        f"/v1/sweeps/{sweep_id}/curves?format=json&observable={word}",
        f"/v1/sweeps/{sweep_id}/data?format={word}",
        f"/v1/sweeps/{sweep_id}/data?format=json&variables={word}", f"/v1/sweeps/{sweep_id}/figures/{word}",
        f"/v1/sweeps/{sweep_id}/{word}/", f"/sweeps/{sweep_id}/{word}", f"/{word}", f"/dask/{word}",
        f"/static/{word}", f"/v1/sweeps?cursor={word}", f"/v1/sweeps/{word}/",
    ):  # fmt: skip
        head = talk(service, get(path)).partition(b"\r\n\r\n")[0]
        names = {line.partition(b":")[0].lower() for line in head.split(b"\r\n")[1:]}
        assert b"x-evil" not in names, path
        assert b"\n" not in head.replace(b"\r\n", b""), path


@pytest.fixture(scope="module")
def odd(service):
    """The id of a sweep whose name contains markup and control characters."""
    return service.complete(
        {**distinct_spec(7), "name": "a\"; filename=\"evil.html é<script>evil()<a onload='x'>"}
    )


@pytest.mark.parametrize(
    "part",
    [
        "data?format=csv", "spec", "failures", "zarr/zarr.json",
        *(pytest.param(f"curves?format={kind}", marks=pytest.mark.slow) for kind in ("svg", "pdf", "png")),
    ],
)  # fmt: skip
def test_sweep_name_is_in_no_header(service, odd, part):
    answer = service.get(f"/v1/sweeps/{odd}/{part}")
    assert answer.status_code == 200, answer.text
    assert "evil" not in str(answer.headers)


@pytest.mark.slow
def test_sweep_name_is_escaped_in_figure(service, odd):
    """A browser may open an SVG file as a page."""
    root = ElementTree.fromstring(service.get(f"/v1/sweeps/{odd}/curves?format=svg").text)
    assert not [element.tag for element in root.iter() if element.tag.endswith(("script", "foreignObject"))]
    assert not [name for element in root.iter() for name in element.attrib if name.lower().startswith("on")]


@pytest.mark.parametrize(
    "path",
    [
        "//evil.example", "//evil.example/", "//evil.example/%2e%2e", "/%2fevil.example/", "/\\evil.example/",
        "//evil.example/v1/sweeps/", "/dask//evil.example", "/v1/sweeps/", "/sweeps/x/", "/dask/", "/dask",
        "/static", "/docs/", "/@evil.example/", "/?next=//evil.example", "/v1/sweeps//evil.example/",
    ],
)  # fmt: skip
def test_redirects_stay_on_this_host(service, path):
    head = talk(service, get(path)).partition(b"\r\n\r\n")[0]
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b": ")
        if name.lower() == b"location":
            assert value.startswith((b"http://localhost/", b"/")), value
            assert not value.startswith((b"//", b"/\\", b"http://localhost//")), value


# ---- cookies


def test_other_site_cannot_use_session(tmp_path):
    with serving(tmp_path, tokens=TOKEN) as service:
        cookie = {"Cookie": f"{COOKIE}={service.post('/v1/session', json={'token': TOKEN}).cookies[COOKIE]}"}
        assert service.post("/v1/estimate", content=BODY, headers={**JSON, **cookie}).status_code == 200
        for act in ("POST /v1/sweeps", "DELETE /v1/sweeps/20260101-000000-00000000", "DELETE /v1/session"):
            for origin in ("http://evil.example", "null", "http://localhost:1"):
                headers = {**JSON, **cookie, "Origin": origin}
                assert service.request(*act.split(), headers=headers).status_code == 403, act
        for kind in (
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data",
        ):  # that a form can send
            answer = service.post("/v1/sweeps", content=BODY, headers={"Content-Type": kind, **cookie})
            assert answer.status_code == 415
        assert service.get("/v1/sweeps", headers=cookie).json()["sweeps"] == []


def test_cookie_is_secure_behind_tls(tmp_path):
    with serving(tmp_path, tokens=TOKEN, hosts="lab.example") as service:

        def cookie(**headers):
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            answer = service.post("/v1/session", json={"token": TOKEN}, headers=named)
            return answer.headers["set-cookie"].lower()

        assert "secure" in cookie(Host="lab.example", Origin="https://lab.example")
        assert "secure" not in cookie(Host="lab.example", Origin="http://lab.example")
        assert "secure" not in cookie(X_Forwarded_Proto="https")  # no trusted proxy is configured
    with serving(tmp_path, tokens=TOKEN, proxies="127.0.0.1") as service:
        answer = service.post("/v1/session", json={"token": TOKEN}, headers={"X-Forwarded-Proto": "https"})
        assert "secure" in answer.headers["set-cookie"].lower()
