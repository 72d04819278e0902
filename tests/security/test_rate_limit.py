"""Rate limits of clients, which do not affect other clients."""

import threading
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest
import xarray as xr
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

import sweep_service as ss
from sweep_service.api import rate_limit
from sweep_service.api.rate_limit import (
    MAX_TRACKED_CLIENTS,
    ClientLimits,
    RateLimiter,
    RateLimits,
    client_network,
)
from sweep_service.api.security import COOKIE
from tests.api.served import assert_problem, gated, serving
from tests.specs import SMALL_SPEC, TINY_SPEC, VERY_LONG_SPEC

TOKEN, LOOK = "open-sesame-4711", "only-looking-0815"


@pytest.fixture
def now(monkeypatch):
    """A clock that the test controls."""
    current_time = [1000.0]
    monkeypatch.setattr(rate_limit.clock, "monotonic", lambda: current_time[0])
    return current_time


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


# ---- buckets


def test_bucket_empties_and_refills(now):
    budget = RateLimiter(rate=2.0, burst=4.0)
    assert [budget.take("a") for _ in range(6)] == [0.0] * 4 + [0.5, 0.5]
    assert budget.take("b") == 0.0  # it has its own bucket
    now[0] += 0.5
    assert [budget.take("a"), budget.take("a")] == [0.0, 0.5]
    now[0] += 1e9
    assert [budget.take("a") for _ in range(5)] == [0.0] * 4 + [0.5]  # no more than the burst


def test_low_rate_allows_one_request(now):
    limits = RateLimits(0.01, 0.001, ClientLimits())
    assert (limits.light.take("a"), limits.heavy.take("a")) == (0.0, 0.0)
    assert limits.light.take("a") == pytest.approx(100.0)
    now[0] += 100.001
    assert limits.light.take("a") == 0.0


def test_rate_zero_is_no_limit():
    budget = RateLimiter(rate=0.0, burst=0.0)
    assert not any(budget.take("a") for _ in range(1000))
    assert len(budget) == 0


def test_forged_addresses_use_bounded_memory(now):
    budget = RateLimiter(rate=1.0, burst=3.0)
    for number in range(3 * MAX_TRACKED_CLIENTS):
        budget.take(number)
    assert len(budget) == MAX_TRACKED_CLIENTS
    limits = RateLimits(1.0, 1.0, ClientLimits())
    for number in range(3 * MAX_TRACKED_CLIENTS):
        limits.trust(str(number), "token")
    assert len(limits._trusted) == MAX_TRACKED_CLIENTS
    for number in range(3 * MAX_TRACKED_CLIENTS):
        with limits.open_stream(number):
            pass
    assert not limits._open_streams


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"), ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"), ("2001:db8:1:3::9", "2001:db8:1:3::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"), ("fe80::1%eth0", "fe80::/64"), ("", ""), ("a socket", "a socket"),
    ],
)  # fmt: skip
def test_ipv6_clients_are_counted_by_network(address, network):
    assert client_network(address) == network


# ---- a service


def assert_later(answer):
    assert_problem(answer, 429, "too many")
    assert 1 <= int(answer.headers["retry-after"]) <= 600


def test_heavy_requests_have_a_separate_limit(tmp_path):
    with serving(tmp_path, rate_heavy=0.1) as service:  # two at once
        assert service.post("/v1/estimate", json=TINY_SPEC).status_code == 200
        sweep_id = service.submit(TINY_SPEC)
        for method, path in (
            ("POST", "/v1/estimate"), ("POST", "/v1/spec"), ("POST", "/v1/sweeps"),
            ("POST", f"/v1/sweeps/{sweep_id}/cancel"), ("POST", f"/v1/sweeps/{sweep_id}/extend"),
            ("DELETE", f"/v1/sweeps/{sweep_id}"), ("GET", f"/v1/sweeps/{sweep_id}/data"),
            ("GET", f"/v1/sweeps/{sweep_id}/curves"), ("GET", f"/v1/sweeps/{sweep_id}/phase-diagram"),
            ("GET", f"/v1/sweeps/{sweep_id}/figures/curves"), ("GET", f"/v1/sweeps/{sweep_id}/seeds"),
            ("POST", "/v1/seeds"),
        ):  # fmt: skip
            assert_later(service.request(method, path))
        for path in (
            "/v1/sweeps",
            f"/v1/sweeps/{sweep_id}",
            f"/v1/sweeps/{sweep_id}/zarr/zarr.json",
            "/",
            "/metrics",
        ):
            assert service.get(path).status_code == 200, path


def test_light_requests_are_limited_and_probes_are_not(tmp_path):
    with serving(tmp_path, rate=0.2, rate_heavy=0) as service:  # four at once
        statuses = [service.get("/v1/sweeps").status_code for _ in range(6)]
        assert statuses == [200] * 4 + [429] * 2
        assert_later(service.get("/static/js/login.js"))
        assert_later(service.get("/nowhere"))
        for path in ("/healthz", "/readyz"):
            assert [service.get(path).status_code for _ in range(9)] == [200] * 9
        assert service.post("/v1/estimate", json=TINY_SPEC).status_code == 200


def test_limits_can_be_disabled(tmp_path):
    with serving(tmp_path, rate=0, rate_heavy=0) as service:
        assert {service.post("/v1/spec", json=TINY_SPEC).status_code for _ in range(9)} == {200}


def test_tokens_have_separate_limits(tmp_path):
    with serving(tmp_path, tokens=f"{TOKEN},{LOOK}:read", rate=0.15) as service:  # three at once
        assert [service.get("/v1/sweeps", headers=bearer(TOKEN)).status_code for _ in range(4)] == [
            200, 200, 200, 429,
        ]  # fmt: skip
        assert service.get("/v1/sweeps", headers=bearer(LOOK)).status_code == 200
        cookie = service.post("/v1/session", json={"token": TOKEN}).cookies[COOKIE]  # counted by address
        assert_later(httpx2.get(f"{service.url}/v1/sweeps", headers={"Cookie": f"{COOKIE}={cookie}"}))


def test_token_guesses_are_limited(tmp_path):
    limits = ClientLimits(token_guesses=4.0, seconds_per_token_guess=600.0)
    with serving(tmp_path, tokens=f"{TOKEN},{LOOK}:read", client_limits=limits) as service:

        def ask(token):
            return service.get("/v1/sweeps", headers=bearer(token))

        assert ask(LOOK).status_code == 200
        for _ in range(20):  # these are not guesses
            assert service.get("/v1/sweeps").status_code == 401
            assert service.get("/v1/sweeps", headers={"Cookie": f"{COOKIE}=1.old"}).status_code == 401
        statuses = [ask(f"guess-{number}").status_code for number in range(2)]
        statuses += [service.post("/v1/session", json={"token": "guess"}).status_code for _ in range(2)]
        assert statuses == [401] * 4
        assert_later(ask("guess-5"))
        assert_later(ask(TOKEN))  # a correct token is not distinguished from a wrong one
        assert_later(service.post("/v1/session", json={"token": TOKEN}))
        assert_later(service.post("/v1/session", json={"token": "guess"}, headers=bearer(LOOK)))
        assert_later(service.get("/v1/sweeps", headers={**bearer("x"), "Accept": "text/html"}))
        assert ask(LOOK).status_code == 200  # a known token is not locked out
        with (
            pytest.raises(InvalidStatus) as refused,
            connect(service.url.replace("http", "ws") + "/dask/x", additional_headers=bearer(TOKEN)),
        ):
            pass
        assert refused.value.response.status_code == 429


@pytest.mark.slow
def test_token_guesses_are_allowed_again_later(tmp_path):
    limits = ClientLimits(token_guesses=1.0, seconds_per_token_guess=0.3)
    with serving(tmp_path, tokens=TOKEN, client_limits=limits) as service:
        statuses = {service.get("/v1/sweeps", headers=bearer("guess")).status_code for _ in range(5)}
        assert statuses <= {401, 429}
        with ss.Client(service.url, token=TOKEN) as client:  # respects Retry-After
            assert list(client.sweeps()) == []


FORWARDED = [{"X-Forwarded-For": f"192.0.2.{number}"} for number in range(6)]


def test_forwarded_address_is_ignored(tmp_path):
    with serving(tmp_path, rate=0.1) as service:  # two at once
        statuses = [service.get("/v1/sweeps", headers=headers).status_code for headers in FORWARDED]
        assert statuses == [200] * 2 + [429] * 4


def test_forwarded_address_of_trusted_proxy_is_used(tmp_path):
    with serving(tmp_path, rate=0.1, proxies="127.0.0.1, 10.0.0.0/8") as service:
        statuses = [service.get("/v1/sweeps", headers=headers).status_code for headers in FORWARDED]
        assert statuses == [200] * 6
        chain = {"X-Forwarded-For": "203.0.113.9, 192.0.2.1"}  # the client's own entry comes first
        assert [service.get("/v1/sweeps", headers=chain).status_code for _ in range(2)] == [200, 429]


def test_open_streams_per_client_are_limited(tmp_path):
    limits, tokens = ClientLimits(open_streams=3), f"{TOKEN},{LOOK}:read"
    with serving(tmp_path, executor=gated, tokens=tokens, client_limits=limits) as service:
        service.executor.let(takes=False)
        service.client.headers.update(bearer(TOKEN))
        path = f"/v1/sweeps/{service.submit(VERY_LONG_SPEC)}/events"
        streams = [service.client.stream("GET", path) for _ in range(3)]
        for stream in streams:
            assert stream.__enter__().status_code == 200
        assert_later(service.get(path))
        assert service.get("/v1/sweeps").status_code == 200
        with service.client.stream("GET", path, headers=bearer(LOOK)) as other:
            assert other.status_code == 200
        for stream in streams:
            stream.__exit__(None, None, None)
        for _ in range(200):  # until it notices that they are closed
            with service.client.stream("GET", path) as again:
                if again.status_code == 200:
                    break
        assert again.status_code == 200


# ---- legitimate clients with many requests


@pytest.mark.slow
def test_reading_many_chunks_is_not_limited(service, sweep_id):
    path = f"/v1/sweeps/{sweep_id}/zarr/zarr.json"

    def read(_):
        with httpx2.Client(base_url=service.url) as client:
            return {client.get(path).status_code for _ in range(5000)}

    with ThreadPoolExecutor(4) as pool:
        assert set.union(*pool.map(read, range(4))) == {200}


@pytest.mark.slow
def test_rate_limited_zarr_reader_gets_error(tmp_path):
    """Unread chunks must never be mistaken for missing ones."""
    with serving(tmp_path, rate=0.3) as service:  # six at once
        path = f"{service.url}/v1/sweeps/{service.submit(SMALL_SPEC)}/zarr"
        with pytest.raises(Exception, match=r"429|Too Many"):
            for _ in range(6):
                with xr.open_zarr(path, chunks=None) as dataset:
                    dataset.load()


@pytest.mark.slow
def test_client_respects_retry_after(tmp_path):
    with serving(tmp_path, rate_heavy=2.0) as service, ss.Client(service.url) as client:  # forty at once
        for _ in range(39):
            service.post("/v1/spec", json=TINY_SPEC)
        counts, threads = [], []
        for _ in range(4):
            threads.append(threading.Thread(target=lambda: counts.append(client.estimate(TINY_SPEC)["runs"])))
            threads[-1].start()
        for thread in threads:
            thread.join()
        assert counts == [4] * 4
        refused = service.get("/metrics").text
        assert 'status="429"' in refused  # it was limited
