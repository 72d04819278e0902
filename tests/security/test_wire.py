"""Requests that two readers would read differently, and words that would become headers."""

import json
from urllib.parse import quote
from xml.etree import ElementTree

import pytest

from sweep_service.api.security import COOKIE
from tests.api.served import JSON, TINY, another, serving
from tests.security.wire import get, status, talk

TOKEN = "open-sesame-4711"
BODY = json.dumps(TINY).encode()
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
def test_what_can_be_read_in_two_ways_is_not_read(service, name):
    """Or a proxy would let in what it has not seen."""
    answer = talk(service, HEAD + SMUGGLED[name])
    assert status(answer) == 400, answer[:300]
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"hidden" not in answer
    assert service.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    "hosts", ["Host: localhost\r\nHost: evil.example", "Host: evil.example\r\nHost: localhost", "Host: a b"]
)
def test_a_service_has_one_name_at_a_time(service, hosts):
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
def test_what_is_no_request_is_answered_or_dropped(service, line):
    answer = talk(service, f"{line}\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode("latin-1"))
    assert answer == b"" or 400 <= status(answer) < 506, answer[:200]
    assert service.get("/healthz").status_code == 200


def test_another_host_in_the_request_line_is_not_asked(service):
    """We are no proxy."""
    answer = talk(service, get("http://evil.example/healthz"))
    assert status(answer) == 200
    assert b'"ok"' in answer


# ---- words that come back


INJECTIONS = [
    "a%0d%0aX-Evil:%20yes",
    "a%0aX-Evil:%20yes",
    "a%E5%98%8D%E5%98%8AX-Evil:yes",
    "a\\r\\nX-Evil: yes",
]


@pytest.mark.parametrize("word", INJECTIONS)
def test_no_word_of_a_request_becomes_a_header(service, sweep, word):
    word = quote(word, safe="%")
    for path in (
        f"/v1/sweeps/{sweep}/curves?format=json&observable={word}", f"/v1/sweeps/{sweep}/data?format={word}",
        f"/v1/sweeps/{sweep}/data?format=json&variables={word}", f"/v1/sweeps/{sweep}/figures/{word}",
        f"/v1/sweeps/{sweep}/{word}/", f"/sweeps/{sweep}/{word}", f"/{word}", f"/dask/{word}",
        f"/static/{word}", f"/v1/sweeps?cursor={word}", f"/v1/sweeps/{word}/",
    ):  # fmt: skip
        head = talk(service, get(path)).partition(b"\r\n\r\n")[0]
        names = {line.partition(b":")[0].lower() for line in head.split(b"\r\n")[1:]}
        assert b"x-evil" not in names, path
        assert b"\n" not in head.replace(b"\r\n", b""), path


@pytest.fixture(scope="module")
def odd(service):
    """The id of a sweep with a name that is more than a name, if somebody lets it."""
    return service.done({**another(7), "name": "a\"; filename=\"evil.html é<script>evil()<a onload='x'>"})


@pytest.mark.parametrize(
    "part",
    [
        "data?format=csv", "spec", "failures", "zarr/zarr.json",
        *(pytest.param(f"curves?format={kind}", marks=pytest.mark.slow) for kind in ("svg", "pdf", "png")),
    ],
)  # fmt: skip
def test_a_name_is_in_no_header(service, odd, part):
    answer = service.get(f"/v1/sweeps/{odd}/{part}")
    assert answer.status_code == 200, answer.text
    assert "evil" not in str(answer.headers)


@pytest.mark.slow
def test_a_name_in_a_figure_is_letters(service, odd):
    """A browser may open one as a page."""
    found = ElementTree.fromstring(service.get(f"/v1/sweeps/{odd}/curves?format=svg").text)
    assert not [one.tag for one in found.iter() if one.tag.endswith(("script", "foreignObject"))]
    assert not [name for one in found.iter() for name in one.attrib if name.lower().startswith("on")]


@pytest.mark.parametrize(
    "path",
    [
        "//evil.example", "//evil.example/", "//evil.example/%2e%2e", "/%2fevil.example/", "/\\evil.example/",
        "//evil.example/v1/sweeps/", "/dask//evil.example", "/v1/sweeps/", "/sweeps/x/", "/dask/", "/dask",
        "/static", "/docs/", "/@evil.example/", "/?next=//evil.example", "/v1/sweeps//evil.example/",
    ],
)  # fmt: skip
def test_nobody_is_sent_elsewhere(service, path):
    head = talk(service, get(path)).partition(b"\r\n\r\n")[0]
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b": ")
        if name.lower() == b"location":
            assert value.startswith((b"http://localhost/", b"/")), value
            assert not value.startswith((b"//", b"/\\", b"http://localhost//")), value


# ---- cookies


def test_a_page_elsewhere_cannot_use_a_session(tmp_path):
    with serving(tmp_path, tokens=TOKEN) as service:
        cookie = {"Cookie": f"{COOKIE}={service.post('/v1/session', json={'token': TOKEN}).cookies[COOKIE]}"}
        assert service.post("/v1/estimate", content=BODY, headers={**JSON, **cookie}).status_code == 200
        for act in ("POST /v1/sweeps", "DELETE /v1/sweeps/20260101-000000-00000000", "DELETE /v1/session"):
            for origin in ("http://evil.example", "null", "http://localhost:1"):
                headers = {**JSON, **cookie, "Origin": origin}
                assert service.request(*act.split(), headers=headers).status_code == 403, act
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):  # of a form
            answer = service.post("/v1/sweeps", content=BODY, headers={"Content-Type": kind, **cookie})
            assert answer.status_code == 415
        assert service.get("/v1/sweeps", headers=cookie).json()["sweeps"] == []


def test_the_cookie_of_a_page_behind_tls_is_never_sent_without_it(tmp_path):
    with serving(tmp_path, tokens=TOKEN, hosts="lab.example") as service:

        def cookie(**headers):
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            answer = service.post("/v1/session", json={"token": TOKEN}, headers=named)
            return answer.headers["set-cookie"].lower()

        assert "secure" in cookie(Host="lab.example", Origin="https://lab.example")
        assert "secure" not in cookie(Host="lab.example", Origin="http://lab.example")
        assert "secure" not in cookie(X_Forwarded_Proto="https")  # nobody said whose word that is
    with serving(tmp_path, tokens=TOKEN, proxies="127.0.0.1") as service:
        answer = service.post("/v1/session", json={"token": TOKEN}, headers={"X-Forwarded-Proto": "https"})
        assert "secure" in answer.headers["set-cookie"].lower()
