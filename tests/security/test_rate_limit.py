"""How often one client may ask, and that nobody else pays for it."""

import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
import xarray as xr
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

import sweep_service as ss
from sweep_service.api import rate_limit
from sweep_service.api.rate_limit import MOST_CLIENTS, Budget, Rates, household
from sweep_service.api.security import COOKIE
from tests.api.served import LONG, SMALL, TINY, assert_problem, gated, serving

TOKEN, LOOK = "open-sesame-4711", "only-looking-0815"


@pytest.fixture
def now(monkeypatch):
    """A clock that a test turns."""
    found = [1000.0]
    monkeypatch.setattr(rate_limit.clock, "monotonic", lambda: found[0])
    return found


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


# ---- buckets


def test_a_bucket_is_emptied_and_fills_by_itself(now):
    budget = Budget(rate=2.0, saved=4.0)
    assert [budget.take("a") for _ in range(6)] == [0.0] * 4 + [0.5, 0.5]
    assert budget.take("b") == 0.0  # who has one of its own
    now[0] += 0.5
    assert [budget.take("a"), budget.take("a")] == [0.0, 0.5]
    now[0] += 1e9
    assert [budget.take("a") for _ in range(5)] == [0.0] * 4 + [0.5]  # no more than was saved


def test_a_slow_rate_lets_one_through(now):
    found = Rates(0.01, 0.001)
    assert (found.cheap.take("a"), found.heavy.take("a")) == (0.0, 0.0)
    assert found.cheap.take("a") == pytest.approx(100.0)
    now[0] += 100.001
    assert found.cheap.take("a") == 0.0


def test_no_rate_is_no_limit():
    budget = Budget(rate=0.0, saved=0.0)
    assert not any(budget.take("a") for _ in range(1000))
    assert len(budget) == 0


def test_addresses_that_are_made_up_fill_no_memory(now):
    budget = Budget(rate=1.0, saved=3.0)
    for number in range(3 * MOST_CLIENTS):
        budget.take(number)
    assert len(budget) == MOST_CLIENTS
    found = Rates(1.0, 1.0)
    for number in range(3 * MOST_CLIENTS):
        found.welcome(str(number), "token")
    assert len(found._welcome) == MOST_CLIENTS
    for number in range(3 * MOST_CLIENTS):
        with found.held(number):
            pass
    assert not found._held


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("192.0.2.7", "192.0.2.7"), ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"), ("2001:db8:1:3::9", "2001:db8:1:3::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"), ("fe80::1%eth0", "fe80::/64"), ("", ""), ("a socket", "a socket"),
    ],
)  # fmt: skip
def test_an_address_is_that_of_a_household(address, found):
    assert household(address) == found


# ---- a service


def assert_later(answer):
    assert_problem(answer, 429, "too many")
    assert 1 <= int(answer.headers["retry-after"]) <= 600


def test_what_is_dear_is_counted_apart_from_what_is_cheap(tmp_path):
    with serving(tmp_path, rate_heavy=0.1) as service:  # two at once
        assert service.post("/v1/estimate", json=TINY).status_code == 200
        sweep = service.submit(TINY)
        for method, path in (
            ("POST", "/v1/estimate"), ("POST", "/v1/spec"), ("POST", "/v1/sweeps"),
            ("POST", f"/v1/sweeps/{sweep}/cancel"), ("POST", f"/v1/sweeps/{sweep}/extend"),
            ("DELETE", f"/v1/sweeps/{sweep}"), ("GET", f"/v1/sweeps/{sweep}/data"),
            ("GET", f"/v1/sweeps/{sweep}/curves"), ("GET", f"/v1/sweeps/{sweep}/phase-diagram"),
            ("GET", f"/v1/sweeps/{sweep}/figures/curves"),
        ):  # fmt: skip
            assert_later(service.request(method, path))
        for path in (
            "/v1/sweeps",
            f"/v1/sweeps/{sweep}",
            f"/v1/sweeps/{sweep}/zarr/zarr.json",
            "/",
            "/metrics",
        ):
            assert service.get(path).status_code == 200, path


def test_what_is_cheap_has_its_limit_too_and_probes_have_none(tmp_path):
    with serving(tmp_path, rate=0.2, rate_heavy=0) as service:  # four at once
        found = [service.get("/v1/sweeps").status_code for _ in range(6)]
        assert found == [200] * 4 + [429] * 2
        assert_later(service.get("/static/js/login.js"))
        assert_later(service.get("/nowhere"))
        for path in ("/healthz", "/readyz"):
            assert [service.get(path).status_code for _ in range(9)] == [200] * 9
        assert service.post("/v1/estimate", json=TINY).status_code == 200


def test_a_limit_can_be_taken_off(tmp_path):
    with serving(tmp_path, rate=0, rate_heavy=0) as service:
        assert {service.post("/v1/spec", json=TINY).status_code for _ in range(9)} == {200}


def test_tokens_have_budgets_of_their_own(tmp_path):
    with serving(tmp_path, tokens=f"{TOKEN},{LOOK}:read", rate=0.15) as service:  # three at once
        assert [service.get("/v1/sweeps", headers=bearer(TOKEN)).status_code for _ in range(4)] == [
            200, 200, 200, 429,
        ]  # fmt: skip
        assert service.get("/v1/sweeps", headers=bearer(LOOK)).status_code == 200
        cookie = service.post("/v1/session", json={"token": TOKEN}).cookies[COOKIE]  # on the address's
        assert_later(httpx.get(f"{service.url}/v1/sweeps", headers={"Cookie": f"{COOKIE}={cookie}"}))


def test_guesses_end(tmp_path, monkeypatch):
    monkeypatch.setattr(rate_limit, "GUESSES", 4.0)
    monkeypatch.setattr(rate_limit, "GUESS_EVERY", 600.0)
    with serving(tmp_path, tokens=f"{TOKEN},{LOOK}:read") as service:

        def ask(token):
            return service.get("/v1/sweeps", headers=bearer(token))

        assert ask(LOOK).status_code == 200
        for _ in range(20):  # these are no guesses
            assert service.get("/v1/sweeps").status_code == 401
            assert service.get("/v1/sweeps", headers={"Cookie": f"{COOKIE}=1.old"}).status_code == 401
        found = [ask(f"guess-{number}").status_code for number in range(2)]
        found += [service.post("/v1/session", json={"token": "guess"}).status_code for _ in range(2)]
        assert found == [401] * 4
        assert_later(ask("guess-5"))
        assert_later(ask(TOKEN))  # a right one is not told from a wrong one
        assert_later(service.post("/v1/session", json={"token": TOKEN}))
        assert_later(service.post("/v1/session", json={"token": "guess"}, headers=bearer(LOOK)))
        assert_later(service.get("/v1/sweeps", headers={**bearer("x"), "Accept": "text/html"}))
        assert ask(LOOK).status_code == 200  # who was here before is not shut out
        with (
            pytest.raises(InvalidStatus) as refused,
            connect(service.url.replace("http", "ws") + "/dask/x", additional_headers=bearer(TOKEN)),
        ):
            pass
        assert refused.value.response.status_code == 429


@pytest.mark.slow
def test_guesses_are_allowed_again(tmp_path, monkeypatch):
    monkeypatch.setattr(rate_limit, "GUESSES", 1.0)
    monkeypatch.setattr(rate_limit, "GUESS_EVERY", 0.3)
    with serving(tmp_path, tokens=TOKEN) as service:
        statuses = {service.get("/v1/sweeps", headers=bearer("guess")).status_code for _ in range(5)}
        assert statuses <= {401, 429}
        with ss.Client(service.url, token=TOKEN) as client:  # waits as long as it is asked to
            assert list(client.sweeps()) == []


FORWARDED = [{"X-Forwarded-For": f"192.0.2.{number}"} for number in range(6)]


def test_nobody_may_say_that_he_is_another(tmp_path):
    with serving(tmp_path, rate=0.1) as service:  # two at once
        found = [service.get("/v1/sweeps", headers=one).status_code for one in FORWARDED]
        assert found == [200] * 2 + [429] * 4


def test_a_proxy_that_was_named_may(tmp_path):
    with serving(tmp_path, rate=0.1, proxies="127.0.0.1, 10.0.0.0/8") as service:
        found = [service.get("/v1/sweeps", headers=one).status_code for one in FORWARDED]
        assert found == [200] * 6
        chain = {"X-Forwarded-For": "203.0.113.9, 192.0.2.1"}  # what a client writes stands first
        assert [service.get("/v1/sweeps", headers=chain).status_code for _ in range(2)] == [200, 429]


def test_streams_of_one_client_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(rate_limit, "MOST_HELD", 3)
    with serving(tmp_path, executor=gated, tokens=f"{TOKEN},{LOOK}:read") as service:
        service.executor.let(takes=False)
        service.client.headers.update(bearer(TOKEN))
        path = f"/v1/sweeps/{service.submit(LONG)}/events"
        streams = [service.client.stream("GET", path) for _ in range(3)]
        for stream in streams:
            assert stream.__enter__().status_code == 200
        assert_later(service.get(path))
        assert service.get("/v1/sweeps").status_code == 200
        with service.client.stream("GET", path, headers=bearer(LOOK)) as other:
            assert other.status_code == 200
        for stream in streams:
            stream.__exit__(None, None, None)
        for _ in range(200):  # it notices that they have gone
            with service.client.stream("GET", path) as again:
                if again.status_code == 200:
                    break
        assert again.status_code == 200


# ---- who asks often, and must not be hit


@pytest.mark.slow
def test_a_reader_of_many_chunks_is_never_refused(service, sweep):
    path = f"/v1/sweeps/{sweep}/zarr/zarr.json"

    def read(_):
        with httpx.Client(base_url=service.url) as client:
            return {client.get(path).status_code for _ in range(5000)}

    with ThreadPoolExecutor(4) as pool:
        assert set.union(*pool.map(read, range(4))) == {200}


@pytest.mark.slow
def test_a_reader_who_is_refused_hears_of_it(tmp_path):
    """What could not be read must never be taken for what was never written."""
    with serving(tmp_path, rate=0.3) as service:  # six at once
        path = f"{service.url}/v1/sweeps/{service.submit(SMALL)}/zarr"
        with pytest.raises(Exception, match=r"429|Too Many"):
            for _ in range(6):
                with xr.open_zarr(path, chunks=None) as dataset:
                    dataset.load()


@pytest.mark.slow
def test_the_client_comes_again_when_it_is_asked_to(tmp_path):
    with serving(tmp_path, rate_heavy=2.0) as service, ss.Client(service.url) as client:  # forty at once
        for _ in range(39):
            service.post("/v1/spec", json=TINY)
        found, threads = [], []
        for _ in range(4):
            threads.append(threading.Thread(target=lambda: found.append(client.estimate(TINY)["runs"])))
            threads[-1].start()
        for thread in threads:
            thread.join()
        assert found == [4] * 4
        refused = service.get("/metrics").text
        assert 'status="429"' in refused  # it was asked to
