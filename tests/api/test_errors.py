"""Rejected requests get problem details with a request id, which never repeat the input."""

import json
import socket
from urllib.parse import urlsplit

import pytest

from sweep_service.api.conductor_thread import ConductorThread
from sweep_service.errors import Damaged, InUse, TooNew
from sweep_service.planning.axes import MAX_VALUES
from sweep_service.planning.spec_text import MAX_SPEC_BYTES, MAX_YAML_BYTES
from tests.api.served import JSON, YAML, assert_problem, gated, serving
from tests.specs import SMALL_SPEC, distinct_spec

NOBODY = "20260101-000000-00000000"
ODD = "<script>7x7-odd-\u202e</script>"
TAKERS = ("/v1/sweeps", "/v1/sweeps?dry_run=true", "/v1/estimate")


def spec(**change):
    return json.dumps({**SMALL_SPEC, **change})


# ---- bodies


BODIES = {
    "empty": b"",
    "blank": b"  \n",
    "null": b"null",
    "an array": b"[1, 2]",
    "a text": b'"hello"',
    "a number": b"17",
    "no mapping in YAML": b"- a\n- b\n",
    "cut off": spec().encode()[:-10],
    "two values": b"{} {}",
    "not UTF-8": b'{"name": "\xff\xfe"}',
    "UTF-16": spec().encode("utf-16"),
    "NUL": b"\x00" * 50,
    "half a surrogate": b'{"name": "\\ud800", "axes": {}, "time": {"max": 1}}',
    "NaN": spec(time={"max": float("nan")}).encode(),
    "Infinity": spec(time={"max": float("inf")}).encode(),
    "1e999": spec().replace("2.0", "1e999").encode(),
    "-1e999": spec().replace("2.0", "-1e999").encode(),
    "NaN on an axis": spec(axes={**SMALL_SPEC["axes"], "gamma": [0.1, float("nan")]}).encode(),
    "1e999 of a log axis": spec().replace("[0.1, 0.5]", '{"log": [1, 1e999, 3]}').encode(),
    "a huge integer": spec().replace("2.0", "9" * 5000).encode(),
    "a large integer": spec(seeds=10**400).encode(),
    "a seed beyond all": spec(seeds=[10**30]).encode(),
    "a huge exponent": spec().replace("2.0", "1e" + "9" * 400).encode(),
    "deep lists": b"[" * 100_000,
    "deep lists, closed": b"[" * 100_000 + b"]" * 100_000,
    "deep mappings": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "deep in init": spec(init="X").replace('"X"', "[" * 300 + "]" * 300).encode(),
    "deeper in init": spec(init="X").replace('"X"', '{"kind":' * 400 + "1" + "}" * 400).encode(),
    "deep in options": spec(regime_options="X").replace('"X"', '{"a":' * 400 + "1" + "}" * 400).encode(),
    "deep YAML": b"[" * 30_000,
    "a key twice": b'{"name": "a", "name": "b", "axes": {}, "time": {"max": 1}}',
    "a key twice, inside": b'{"axes": {"d": 5, "d": 6}, "time": {"max": 1}}',
    "a key twice in YAML": b"name: a\nname: b\ntime: {max: 1}\n",
    "aliases": b"a: &x [1, 2]\nb: *x\n",
    "billions of aliases": b"a: &a [x, x]\n" + b"".join(
        b"%c: &%c [*%c, *%c]\n" % (c, c, c - 1, c - 1) for c in range(ord("b"), ord("z"))
    ),
    "a tag of Python": b"!!python/object/apply:os.system ['echo odd']\n",
    "a tag that does not fit": b"time: {max: !!int '0x'}\n",
    "a key that is a list": b"axes: {[1, 2]: 3}\ntime: {max: 1}\n",
    "a key that is a number": b"axes: {7: 3}\ntime: {max: 1}\n",
    "a key that is nothing": b"~: 3\n",
    "unknown": spec(seedz=3).encode(),
    "too long a name": spec(name="n" * 201).encode(),
    "a path as name": spec(name="../../etc/passwd").encode(),
    "a bell as name": spec(name="\a").encode(),
    "many values": spec(axes={**SMALL_SPEC["axes"], "gamma": [0.1] * (MAX_VALUES + 1)}).encode(),
    "a long JSON": spec(name="a").encode() + b" " * MAX_SPEC_BYTES,
    "a long YAML": b"name: a\n" + b"# \n" * MAX_YAML_BYTES,
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
def test_body_that_is_not_a_spec_is_rejected(service, name):
    for path in TAKERS:
        for kind in (JSON, YAML):
            assert_problem(service.post(path, content=BODIES[name], headers=kind), 422)
    assert service.get("/v1/sweeps").json()["sweeps"] == []


@pytest.mark.parametrize("kind", [JSON, YAML, {"Content-Type": "application/json; charset=utf-8"}])
def test_json_is_accepted_with_every_content_type(service, kind):
    assert service.post("/v1/estimate", content=spec(), headers=kind).json()["runs"] == 24


@pytest.mark.parametrize("kind", ["application/x-yaml", "text/yaml", "APPLICATION/YAML"])
def test_yaml_has_several_content_types(service, kind):
    text = "axes: {d: 5, p: 4, gamma: 1e-1}\nfixed: {k: 2}\ntime: {max: 2, samples: 3}\n"
    answer = service.post("/v1/estimate", content=text, headers={"Content-Type": kind})
    assert answer.json()["runs"] == 1


@pytest.mark.parametrize(
    "kind",
    ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "odd", "json"],
)
def test_other_content_types_are_rejected(service, kind):
    """Including those that a page of another origin may send without a preflight request."""
    headers = {"Content-Type": kind} if kind else {}
    for path in (*TAKERS, f"/v1/sweeps/{NOBODY}/extend", "/v1/session"):
        assert_problem(service.post(path, content=spec(), headers=headers), 415, "application/yaml")


ODD_SPECS = {
    "axes": {"axes": ODD},
    "an axis": {"axes": {"d": ODD}},
    "a value of an axis": {"axes": {"d": [5, ODD]}},
    "an unknown axis": {"axes": {**SMALL_SPEC["axes"], ODD: 1}},
    "an unknown axis without values": {"axes": {**SMALL_SPEC["axes"], ODD: [True]}},
    "an unknown axis of some sort": {"axes": {**SMALL_SPEC["axes"], ODD: {"log": [0, 1, 2]}}},
    "something unknown that is fixed": {"fixed": {"k": 2, ODD: [1]}},
    "something unknown of a point": {"points": [{ODD: [1]}], "axes": {}},
    "a regime": {"axes": {**SMALL_SPEC["axes"], "regime": ODD}},
    "an activation": {"fixed": {"k": 2, "activation": ODD}},
    "an unknown field": {ODD: 1},
    "a field of time": {"time": {"max": 1, ODD: 1}},
    "time": {"time": ODD},
    "time.max": {"time": {"max": ODD}},
    "init": {"init": {"kind": ODD}},
    "a field of init": {"init": {"kind": "informed", ODD: 1}},
    "seeds": {"seeds": ODD},
    "a field of seeds": {"seeds": {ODD: 1}},
    "an observable": {"observables": [ODD]},
    "an option": {"regime_options": {ODD: True}},
    "zip": {"zip": [[ODD]]},
    "scaling": {"scaling": {"p0": ODD}},
    "triangle": {"triangle": {ODD: ODD}},
    "points": {"points": [{ODD: ODD}], "axes": {}},
    "simulate": {"simulate": ODD},
}


@pytest.mark.parametrize("name", ODD_SPECS)
def test_invalid_input_is_not_echoed(service, name):
    answer = service.post("/v1/sweeps", content=spec(**ODD_SPECS[name]), headers=JSON)
    assert_problem(answer, 422, without=["script", "7x7-odd"])


@pytest.mark.parametrize(
    ("path", "field"),
    [
        (f"/v1/sweeps?state={ODD}", "state.0"),
        (f"/v1/sweeps?limit={ODD}", "limit"), ("/v1/sweeps?limit=0", "limit"),
        ("/v1/sweeps?limit=501", "limit"), ("/v1/sweeps?cursor=", "cursor"),
        (f"/v1/sweeps?cursor={ODD}", "cursor"), ("/v1/sweeps?cursor=AAAA", "cursor"),
        ("/v1/sweeps?cursor=gICA", "cursor"), ("/v1/sweeps?cursor=YQ", "cursor"),
        (f"/v1/sweeps?cursor={'A' * 201}", "cursor"),
        (f"/v1/sweeps/{NOBODY}/failures?cursor={ODD}", "cursor"),
        (f"/v1/sweeps/{NOBODY}/failures?cursor=sgd-{'9' * 19}", "cursor"),
        (f"/v1/sweeps/{NOBODY}/failures?limit=1001", "limit"),
        (f"/v1/sweeps/{NOBODY}/data?format={ODD}", "format"),
        (f"/v1/sweeps/{NOBODY}/curves?format={ODD}", "format"),
        (f"/v1/sweeps/{NOBODY}/curves?observable={'odd' * 100}", "observable"),
        (f"/v1/sweeps/{NOBODY}/phase-diagram?x={'odd' * 100}", "x"),
    ],
)  # fmt: skip
def test_invalid_query_parameters_are_rejected(service, path, field):
    assert_problem(service.get(path), 422, field=field, without=["odd", "script"])


ARABIC = NOBODY.translate({ord("0") + digit: chr(0x660 + digit) for digit in range(10)})  # isdigit() is true


@pytest.mark.parametrize(
    "id", ["odd", f"{NOBODY[:-1]}g", f"{NOBODY}0", f"{NOBODY}%0a", "odd%00", "%2e%2e", "%20", "*", ARABIC]
)
def test_malformed_ids_are_not_found(service, id):
    for part in ("", "/spec", "/zarr/zarr.json", "/events"):
        assert_problem(service.get(f"/v1/sweeps/{id}{part}"), 404, without=["odd", "script", ARABIC[:4]])
    assert_problem(service.delete(f"/v1/sweeps/{id}"), 404)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""), ("GET", "/spec"), ("GET", "/events"), ("GET", "/failures"), ("GET", "/zarr/zarr.json"),
        ("HEAD", "/zarr/zarr.json"), ("GET", "/data"), ("GET", "/curves"), ("GET", "/phase-diagram?x=d&y=p"),
        ("POST", "/cancel"), ("POST", "/pause"), ("POST", "/resume"), ("POST", "/retry"), ("POST", "/extend"),
        ("DELETE", ""),
    ],
)  # fmt: skip
def test_unknown_sweep_is_not_found(service, method, path):
    body = {"json": {"seeds": 3}} if path == "/extend" else {}
    answer = service.request(method, f"/v1/sweeps/{NOBODY}{path}", **body)
    assert answer.status_code == 404
    if method != "HEAD":
        assert_problem(answer, 404, "no sweep")


def test_unknown_paths_and_methods(service):
    for path in ("/nowhere", "/v1", "/v2/sweeps", "/v1/sweeps/a/b/c", "/%ff%fe", "/static/../../etc/passwd"):
        assert_problem(service.get(path), 404, without=["nowhere", "passwd"])
    for method, path in (("PUT", "/v1/sweeps"), ("DELETE", "/healthz"), ("PUT", f"/v1/sweeps/{NOBODY}")):
        answer = service.request(method, path)
        assert_problem(answer, 405)
        assert answer.headers["allow"]
    assert set(service.put("/v1/sweeps").headers["allow"].split(", ")) >= {"GET", "POST"}


def test_request_id_of_client_is_used(service):
    answer = service.get("/healthz", headers={"X-Request-Id": "mine-1.2_3"})
    assert answer.headers["x-request-id"] == "mine-1.2_3"
    for odd in ("a b", "x" * 65, "<b>", "ü".encode(), "a;b"):
        answer = service.get("/nowhere", headers={"X-Request-Id": odd})
        assert_problem(answer, 404)
        assert len(answer.headers["x-request-id"]) == 32
    items = {service.get("/healthz").headers["x-request-id"] for _ in range(5)}
    assert len(items) == 5


def test_responses_forbid_content_sniffing(service):
    for path in ("/healthz", "/", "/nowhere", "/v1/sweeps"):
        assert service.get(path).headers["x-content-type-options"] == "nosniff"


# ---- internal errors


class Trouble(Exception):
    pass


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Trouble("odd-secret-place"), 500), (Damaged("a file is damaged"), 500), (TooNew("too new"), 500),
        (InUse("in use"), 503), (TimeoutError("odd"), 503), (OSError(28, "odd"), 507),
        (OSError(5, "odd"), 500), (RecursionError("odd"), 500), (MemoryError("odd"), 500),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)  # fmt: skip
def test_internal_error_is_a_problem(service, monkeypatch, caplog, error, status):
    """The response has the message of public errors only; the log has the trace and the request id."""

    def broken(*_, **__):
        raise error

    monkeypatch.setattr(ConductorThread, "describe_all", broken)
    answer = service.get("/v1/sweeps")
    problem = assert_problem(answer, status, without=["odd", "Trouble", "RecursionError"])
    assert (answer.headers.get("retry-after") is not None) == (status == 503)
    if status == 500 and not isinstance(error, (Damaged, TooNew)):
        (record,) = [item for item in caplog.records if item.levelname == "ERROR"]
        assert record.request_id == problem["request_id"]
        assert record.exc_info[1] is error


# ---- sizes


@pytest.fixture(scope="module")
def narrow(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("narrow"), max_body=1000) as service:
        yield service


def pieces(size, length=100):
    for at in range(0, size, length):
        yield b" " * min(length, size - at)


@pytest.mark.parametrize("path", [*TAKERS, f"/v1/sweeps/{NOBODY}/cancel", "/nowhere"])
def test_body_with_large_content_length_is_rejected(narrow, path):
    assert_problem(narrow.post(path, content=b" " * 1001, headers=JSON), 413, "at most 1000 bytes")


@pytest.mark.parametrize("path", TAKERS)
def test_body_without_content_length_is_limited(narrow, path):
    assert_problem(narrow.post(path, content=pieces(1001), headers=JSON), 413, "at most 1000 bytes")
    assert_problem(narrow.post(path, content=pieces(1000), headers=JSON), 422)


def test_body_of_maximum_size_is_accepted(narrow):
    content = spec().encode()
    content += b" " * (1000 - len(content))
    assert narrow.post("/v1/estimate", content=content, headers=JSON).status_code == 200
    assert narrow.post("/v1/estimate", content=iter([content]), headers=JSON).status_code == 200


def test_client_gets_response_to_oversized_body(service):
    """The connection may break before all is sent, but the service continues."""
    try:
        assert_problem(service.post("/v1/sweeps", content=b" " * (3 << 20), headers=JSON), 413)
    finally:
        assert service.get("/healthz").status_code == 200


def raw(service, request):
    """Send these bytes and return the response."""
    where = urlsplit(service.url)
    with socket.create_connection((where.hostname, where.port), timeout=10.0) as line:
        line.sendall(request)
        data = b""
        while block := line.recv(65536):
            data += block
    return data


HEAD = b"POST /v1/estimate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    "lengths",
    [
        b"Content-Length: 99999999999999999999999999\r\n", b"Content-Length: -1\r\n",
        b"Content-Length: x\r\n", b"Content-Length: 10\r\nContent-Length: 20\r\n", b"Content-Length: 1e3\r\n",
        b"Transfer-Encoding: odd\r\n",
    ],
)  # fmt: skip
def test_invalid_content_lengths(narrow, lengths):
    answer = raw(narrow, HEAD + lengths + b"Connection: close\r\n\r\n")
    status = int(answer.split()[1])
    assert status in (400, 413, 501), answer
    assert narrow.get("/healthz").status_code == 200


# ---- limits


@pytest.mark.parametrize(
    ("limit", "field"),
    [
        ({"max_points": 3}, "points"), ({"max_runs": 23}, "runs"), ({"max_core_hours": 1e-9}, "core_hours"),
        ({"max_bytes": 100}, "bytes"),
    ],
)  # fmt: skip
def test_sweep_above_limit_is_rejected(tmp_path, limit, field):
    with serving(tmp_path, **limit) as service:
        assert_problem(service.post("/v1/sweeps", json=SMALL_SPEC), 422, "at most", field=field)
        assert service.get("/v1/sweeps").json()["sweeps"] == []
        estimate = service.post("/v1/estimate", json=SMALL_SPEC)
        if field in ("points", "runs"):  # rejected before the grid is expanded
            assert_problem(estimate, 422, field=field)
        else:
            assert estimate.json()["refused"].startswith(f"{field}: must be at most")
            assert estimate.json()["runs"] == 24


def test_too_many_unfinished_sweeps_are_rejected(tmp_path):
    with serving(tmp_path, executor=gated, max_active=2) as service:
        done = service.complete(SMALL_SPEC)
        service.executor.let(takes=False)
        first, second = (service.submit(distinct_spec(number)) for number in (1, 2))
        service.post(f"/v1/sweeps/{first}/pause")  # a paused sweep has not ended
        answer = service.post("/v1/sweeps", json=distinct_spec(3))
        assert_problem(answer, 429, "at most 2")
        assert int(answer.headers["retry-after"]) > 0
        assert_problem(service.post(f"/v1/sweeps/{done}/extend", json={"seeds": 5}), 429)
        assert service.submit(SMALL_SPEC) == done  # an existing sweep does not count
        assert service.submit(distinct_spec(2)) == second
        service.post(f"/v1/sweeps/{first}/cancel")
        assert service.post("/v1/sweeps", json=distinct_spec(3)).status_code == 202
