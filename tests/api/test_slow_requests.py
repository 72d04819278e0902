"""Slow requests: those of one client do not hold up others, and an abandoned one is given up."""

import json
import re
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

from sweep_service.api.conductor_thread import MAX_SLOW_REQUESTS, MAX_SLOW_REQUESTS_PER_CLIENT
from sweep_service.errors import InvalidInput
from sweep_service.execution.submission import Submission
from sweep_service.planning.grids import Grid
from tests.api.served import serving, until
from tests.specs import distinct_spec

GREEDY, OTHER = "greedy-0123456789abcdef", "other-0123456789abcdef"
POINTS = 100_000  # take ten seconds to expand


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def test_estimates_of_one_token_do_not_hold_up_those_of_others(tmp_path, monkeypatch):
    started, let = threading.Semaphore(0), threading.Event()
    summarise_cost = Submission.summarise_cost

    def wait_if_slow(submission, *given):
        if submission.spec.name != "slow":
            return summarise_cost(submission, *given)
        started.release()
        assert let.wait(60)
        raise InvalidInput("spec", "", "took long")

    monkeypatch.setattr(Submission, "summarise_cost", wait_if_slow)
    count = 2 * MAX_SLOW_REQUESTS
    with serving(tmp_path, tokens=f"{GREEDY}:read,{OTHER}") as service, ThreadPoolExecutor(count) as pool:
        slow = distinct_spec(1, name="slow")
        asked = [
            pool.submit(service.post, "/v1/estimate", json=slow, headers=bearer(GREEDY)) for _ in range(count)
        ]
        try:
            for _ in range(MAX_SLOW_REQUESTS_PER_CLIENT):
                assert started.acquire(timeout=30)
            answer = service.post("/v1/estimate", json=distinct_spec(2), headers=bearer(OTHER), timeout=30)
            assert answer.status_code == 200
            assert not started.acquire(timeout=0)
        finally:
            let.set()
        assert {future.result().status_code for future in asked} == {422}
        assert len(service.conductor_thread.client_slots) == 0


def send_and_close(service, path, content):
    """Send a request and close the connection once it is being answered."""
    body = json.dumps(content).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    address = urlsplit(service.url)
    with socket.create_connection((address.hostname, address.port), timeout=10.0) as connection:
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        slots = service.conductor_thread.slow_request_slots
        until(lambda: slots.borrowed_tokens)


def test_request_whose_client_has_gone_is_given_up(tmp_path, monkeypatch):
    parsed = []
    point = Grid.point
    monkeypatch.setattr(Grid, "point", lambda grid, index: parsed.append(index) or point(grid, index))
    with serving(tmp_path) as service:
        large = distinct_spec(1)
        large["axes"] = {**large["axes"], "gamma": {"log": [0.01, 1.0, POINTS]}}
        for path in ("/v1/estimate", "/v1/sweeps"):
            parsed.clear()
            send_and_close(service, path, large)
            until(lambda: not service.conductor_thread.slow_request_slots.borrowed_tokens)
            assert len(parsed) < POINTS
        assert service.get("/v1/sweeps").json()["sweeps"] == []
        assert re.search(r'"/v1/estimate".*"499"', service.get("/metrics").text)  # no error of the service
