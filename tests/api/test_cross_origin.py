"""Reading by pages of other origins (CORS): opt-in, exact origins, GET and HEAD, never with credentials."""

import pytest

from sweep_service.api.settings import Settings
from tests.api.served import assert_problem, serving
from tests.specs import SMALL_SPEC

VIEWER, OTHER = "https://viewer.example", "http://localhost:3000"
TOKEN = "let-me-in"


@pytest.fixture(scope="module")
def open_service(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("open"), origins=f"{VIEWER}, {OTHER}") as service:
        yield service


@pytest.fixture(scope="module")
def chunk(open_service):
    """The path of a file of a stored dataset."""
    return f"/v1/sweeps/{open_service.complete(SMALL_SPEC)}/zarr/zarr.json"


def allowed_origin(response):
    assert "access-control-allow-credentials" not in response.headers
    return response.headers.get("access-control-allow-origin")


def preflight(service, path, method="GET", origin=VIEWER, headers="range"):
    return service.options(
        path,
        headers={
            "Origin": origin,
            "Access-Control-Request-Method": method,
            "Access-Control-Request-Headers": headers,
        },
    )


@pytest.mark.parametrize("origin", [VIEWER, OTHER])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_page_of_a_listed_origin_may_read(open_service, chunk, origin, method):
    response = open_service.request(method, chunk, headers={"Origin": origin, "Range": "bytes=0-9"})
    assert response.status_code in (200, 206)
    assert allowed_origin(response) == origin
    assert "origin" in response.headers["vary"].lower()
    assert {"etag", "content-range"} <= set(
        response.headers["access-control-expose-headers"].lower().split(", ")
    )


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "https://viewer.example.evil", "http://viewer.example", "null", "*"]
)
def test_no_other_origin_may_read(open_service, chunk, origin):
    response = open_service.get(chunk, headers={"Origin": origin})
    assert allowed_origin(response) is None
    assert "origin" in response.headers["vary"].lower()  # a cache must not give it the copy of another page
    assert allowed_origin(preflight(open_service, chunk, origin=origin)) is None


def test_browser_is_told_what_it_may_send(open_service, chunk):
    response = preflight(open_service, chunk)
    assert (response.status_code, response.content) == (204, b"")
    assert allowed_origin(response) == VIEWER
    assert response.headers["access-control-allow-methods"] == "GET, HEAD"
    assert "Range" in response.headers["access-control-allow-headers"]


@pytest.mark.parametrize("method", ["POST", "PATCH", "DELETE", "PUT"])
def test_page_of_a_listed_origin_changes_nothing(open_service, chunk, method):
    sweep = chunk.partition("/zarr")[0]
    assert allowed_origin(preflight(open_service, sweep, method)) is None
    response = open_service.request(method, sweep, headers={"Origin": VIEWER})
    assert_problem(response, 403, "may only read")
    assert allowed_origin(response) is None
    assert open_service.get(sweep).status_code == 200


@pytest.mark.parametrize("path", ["/", "/metrics", "/dask/status", "/static/page.css"])
def test_pages_and_the_dashboard_are_not_shared(open_service, path):
    assert allowed_origin(open_service.get(path, headers={"Origin": VIEWER})) is None


def test_problems_can_be_read_too(open_service):
    response = open_service.get("/v1/sweeps/20000101-000000-00000000", headers={"Origin": VIEWER})
    assert_problem(response, 404)
    assert allowed_origin(response) == VIEWER


def test_nothing_is_shared_by_default(service, sweep_id):
    for response in (
        service.get(f"/v1/sweeps/{sweep_id}", headers={"Origin": VIEWER}),
        preflight(service, f"/v1/sweeps/{sweep_id}"),
    ):
        assert allowed_origin(response) is None
        assert "vary" not in response.headers


def test_token_is_needed_as_always(tmp_path):
    with serving(tmp_path, origins=VIEWER, tokens=TOKEN) as service:
        response = service.get("/v1/sweeps", headers={"Origin": VIEWER})
        assert_problem(response, 401)
        assert allowed_origin(response) == VIEWER
        assert preflight(service, "/v1/sweeps", headers="authorization").status_code == 204
        headers = {"Origin": VIEWER, "Authorization": f"Bearer {TOKEN}"}
        assert service.get("/v1/sweeps", headers=headers).json() == {"sweeps": [], "next": None}


@pytest.mark.parametrize(
    "origin",
    ["*", "viewer.example", "https://viewer.example/", "https://*.example", "https://a@b", "null", "ftp://x",
     "https://viewer.example/page", "https://", "http://host:99999"],
)  # fmt: skip
def test_only_exact_origins_are_accepted(origin):
    with pytest.raises(ValueError, match="must be origins such as"):
        Settings(origins=origin)


def test_origins_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("SWEEP_ORIGINS", f"{VIEWER} , {OTHER}")
    assert Settings().origins == (VIEWER, OTHER)
