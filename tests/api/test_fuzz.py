"""No request gives a 5xx response, and documented routes respond as documented."""

import re
import threading
import time
from urllib.parse import quote

import httpx2
import hypothesis
import pytest
import schemathesis
import uvicorn
from fastapi.routing import APIRoute, APIWebSocketRoute
from hypothesis import strategies as st
from schemathesis import checks
from starlette.routing import Mount, Route

from sweep_service.api.app import create_app
from sweep_service.api.serve import uvicorn_config
from sweep_service.api.settings import Settings
from sweep_service.execution.conductor import SWEEP_ID_PATTERN
from sweep_service.execution.executors import SerialExecutor

# Limits so small that every accepted sweep is computed in a moment.
LIMITS = {"max_points": 50, "max_core_hours": 1e-4, "max_bytes": 1 << 24, "max_active": 10_000}
LIMITS |= {"rate": 0, "rate_heavy": 0}  # the tests send more requests than any client
SPEC = {
    "axes": {"d": [10, 20], "p": 4, "gamma": [0.1, 0.5], "regime": "classical"},
    "fixed": {"k": 2}, "seeds": 2, "time": {"max": 2, "samples": 5},
}  # fmt: skip
CHECKS = [
    checks.not_a_server_error, checks.status_code_conformance, checks.content_type_conformance,
    checks.response_headers_conformance, checks.response_schema_conformance, checks.negative_data_rejection,
    checks.unsupported_method, checks.missing_required_header, checks.allow_header_conformance,
]  # fmt: skip


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    settings = Settings(data=tmp_path_factory.mktemp("data"), **LIMITS)
    app = create_app(settings, lambda folder, stopped: SerialExecutor(stopped))
    server = uvicorn.Server(uvicorn_config(app, settings, port=0))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    host, port = server.servers[0].sockets[0].getsockname()
    yield app, f"http://{host}:{port}"
    app.state.conductor_thread.request_stop()
    server.should_exit = True
    thread.join()


@pytest.fixture(scope="module")
def stored(service):
    """The id of an existing sweep, so that random requests also reach one."""
    app, _ = service
    conductor_thread = app.state.conductor_thread
    from sweep_service.planning.spec import SweepSpec

    sweep, _ = conductor_thread.call(lambda conductor: conductor.submit(SweepSpec.parse(SPEC)))
    end = time.monotonic() + 60
    while not conductor_thread.ledger.sweep(sweep.id).state.has_ended:
        assert time.monotonic() < end
        time.sleep(0.05)
    return sweep.id


OPERATIONS = [
    f"{method.upper()} {path}"
    for path, methods in create_app(Settings(data="nowhere")).openapi()["paths"].items()
    for method in methods
]


@pytest.fixture(scope="module")
def document(service):
    return schemathesis.openapi.from_url(f"{service[1]}/openapi.json")


def fuzz(document, operation, stored, **settings):
    method, _, path = operation.partition(" ")
    cases = st.one_of(
        document[path][method].as_strategy(generation_mode=mode) for mode in schemathesis.GenerationMode
    )

    @hypothesis.settings(deadline=None, suppress_health_check=list(hypothesis.HealthCheck), **settings)
    @hypothesis.given(cases, st.booleans())
    def made_up(case, real):
        wanted = CHECKS
        if "id" in (case.path_parameters or {}) and method != "DELETE" and real:
            # A malformed id, which is replaced, may have been the only error.
            if not SWEEP_ID_PATTERN.fullmatch(str(case.path_parameters["id"])):
                wanted = [check for check in CHECKS if check is not checks.negative_data_rejection]
            case.path_parameters["id"] = stored
        case.call_and_validate(checks=wanted)

    made_up()


@pytest.mark.parametrize("operation", OPERATIONS)
def test_random_documented_requests(document, operation, stored):
    fuzz(document, operation, stored, max_examples=15, derandomize=True)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_thousands_of_random_documented_requests(document, operation, stored):
    fuzz(document, operation, stored, max_examples=300)


# ---- undocumented routes: pages, static files, the Zarr store, the dashboard


def every_route(routes):
    for route in routes:
        inner = getattr(route, "original_router", None) or getattr(route, "app", None)
        if hasattr(inner, "routes"):
            yield from every_route(inner.routes)
        else:
            yield route


def hidden():
    """Return `METHOD path` of all routes that are not in the document; a mount has any path below it."""
    for route in every_route(create_app(Settings(data="nowhere")).routes):
        if isinstance(route, Mount):
            yield f"GET {route.path}/{{path:path}}"
        elif isinstance(route, (APIRoute, Route)):
            for method in sorted(route.methods):
                if f"{method} {route.path}" not in OPERATIONS:
                    yield f"{method} {route.path}"


HIDDEN = sorted(set(hidden()))
WORDS = [
    "zarr.json", "sgd_risk", "c", "0", "curves", "status", "js", "login.js", "..", ".", "", "\x00", "\r\n",
    "\ud7ff\uffff", "é", "\\", "//", "?", "#", "a" * 300, "-1", "NaN", "1e400", "<b>", "*", ":", "%",
]  # fmt: skip
PIECES = st.sampled_from(WORDS) | st.text(max_size=8).filter(lambda text: text.isprintable())
PATHS = st.lists(PIECES, max_size=4).map("/".join)
QUERIES = st.dictionaries(st.sampled_from(["format", "x", "a", "tab", "é"]) | PIECES, PIECES, max_size=3)
VALUES = st.text(
    st.characters(min_codepoint=32, max_codepoint=255, exclude_characters="\x7f"), max_size=20
).map(str.strip)
NAMES = [
    "Range", "If-None-Match", "If-Range", "If-Modified-Since", "Accept", "Accept-Encoding", "Cookie", "X",
    "X-Request-Id", "Authorization", "Content-Type", "Last-Event-Id", "Idempotency-Key",
]  # fmt: skip
LIKELY = st.sampled_from(
    ["bytes=0-5", "bytes=-9", "bytes=5-1", "*", '"x"', "Bearer x", "gzip", "text/html", "-1"]
)
HEADERS = st.dictionaries(st.sampled_from(NAMES), LIKELY | VALUES, max_size=3)


def fuzz_hidden(service, operation, stored, **settings):
    """Fill a path with likely and odd segments."""
    method, _, template = operation.partition(" ")
    names = re.findall(r"\{(\w+)(:path)?\}", template)
    parts = st.fixed_dictionaries(
        {
            name: PATHS if deep else st.just(stored) | PIECES if name == "id" else PIECES
            for name, deep in names
        }
    )
    url = service[1]

    @hypothesis.settings(deadline=None, suppress_health_check=list(hypothesis.HealthCheck), **settings)
    @hypothesis.given(parts, QUERIES, HEADERS, st.booleans())
    def made_up(filled, query, headers, twice):
        path = template
        for name, deep in names:
            word = quote(filled[name], safe="/" if deep else "")
            path = path.replace(f"{{{name}{deep}}}", quote(word, safe="") if twice else word)
        given = {name: value.encode("latin-1") for name, value in headers.items()}
        answer = client.request(method, f"{url}{path}", params=query, headers=given)
        away = "/dask" in template and answer.status_code == 503  # without Dask
        assert answer.status_code < 500 or away, (answer.request, answer.text[:500])
        assert "Traceback" not in answer.text

    with httpx2.Client(timeout=30.0) as client:
        made_up()


@pytest.mark.parametrize("operation", HIDDEN)
def test_random_undocumented_requests(service, operation, stored):
    fuzz_hidden(service, operation, stored, max_examples=20, derandomize=True)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("operation", HIDDEN)
def test_thousands_of_random_undocumented_requests(service, operation, stored):
    fuzz_hidden(service, operation, stored, max_examples=1000)


def test_every_route_is_fuzzed():
    """By one of the two tests. The websocket has its own tests, of access and of its target."""
    tried = {operation.partition(" ")[2] for operation in [*OPERATIONS, *HIDDEN]}
    for route in every_route(create_app(Settings(data="nowhere")).routes):
        if isinstance(route, APIWebSocketRoute):
            assert route.path == "/dask/{path:path}"
        else:
            assert (f"{route.path}/{{path:path}}" if isinstance(route, Mount) else route.path) in tried
    assert {"/static/{path:path}", "/v1/sweeps/{id}/zarr/{path:path}", "/", "/dask/{path:path}"} < tried
