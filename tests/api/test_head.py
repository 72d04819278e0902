"""HEAD where GET reads: the same status and headers, without a body."""

import pytest

PATHS = (
    "", "/spec", "/contents", "/map", "/failures", "/data?format=csv&variables=sgd_risk", "/curves?d=5",
    "/phase-diagram?x=gamma&y=d", "/figures/curves?format=svg&d=5", "/zarr/zarr.json",
)  # fmt: skip
VARYING = ("date", "x-request-id")


def headers_of(response):
    return {name: value for name, value in response.headers.items() if name not in VARYING}


@pytest.mark.parametrize("path", PATHS)
def test_head_has_the_headers_of_get(service, sweep_id, path):
    head, got = (service.request(method, f"/v1/sweeps/{sweep_id}{path}") for method in ("HEAD", "GET"))
    assert (head.status_code, head.content) == (200, b"")
    assert got.content
    assert headers_of(head).keys() == headers_of(got).keys()
    assert head.headers["content-type"] == got.headers["content-type"]
    if "data" not in path:  # two exports differ in their time of creation
        assert headers_of(head) == headers_of(got)


def test_head_of_what_is_missing_or_cannot_be_read(service, sweep_id):
    assert service.head("/v1/sweeps/20000101-000000-00000000").status_code == 404
    assert service.head(f"/v1/sweeps/{sweep_id}/cancel").status_code == 405
    assert service.head(f"/v1/sweeps/{sweep_id}/events").status_code == 405
    assert "HEAD" in service.put(f"/v1/sweeps/{sweep_id}/curves").headers["allow"]
    assert service.sweep(sweep_id)["state"] == "completed"


def test_head_is_counted_under_its_route(service, sweep_id):
    service.head(f"/v1/sweeps/{sweep_id}/map")
    assert 'method="HEAD",route="/v1/sweeps/{id}/map"' in service.get("/metrics").text.replace(", ", ",")
