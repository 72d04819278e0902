"""A service whose disk is full: every request that writes is answered 507 and changes nothing."""

import os
from contextlib import suppress

import pytest

from tests.api.served import assert_problem, gated, serving
from tests.chaos.test_full_disk import disk  # noqa: F401
from tests.specs import distinct_spec

pytestmark = pytest.mark.slow
ACTIONS = {"pause": "queued", "resume": "paused", "retry": "cancelled", "cancel": "queued"}


def fill(disk, free_bytes=0):  # noqa: F811
    """Fill the disk but for about this many bytes."""
    with open(disk / "filler", "ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    if free_bytes:
        os.truncate(disk / "filler", (disk / "filler").stat().st_size - free_bytes)


@pytest.fixture
def full(disk):  # noqa: F811
    """A service whose conductor starts no work, and a function that fills its disk."""
    with serving(disk / "data", executor=gated) as service:
        service.executor.let(takes=False, computes=0)
        yield service
        (disk / "filler").unlink(missing_ok=True)


def test_every_writing_request_gets_507(full, disk):  # noqa: F811
    sweeps = {action: full.submit(distinct_spec(number)) for number, action in enumerate(ACTIONS)}
    full.act(sweeps["resume"], "pause")
    full.act(sweeps["retry"], "cancel")
    sweep_id = sweeps["pause"]
    fill(disk)
    assert_problem(full.post("/v1/sweeps", json=distinct_spec(50)), 507, field="bytes")
    key = {"Idempotency-Key": "one"}
    assert_problem(full.post("/v1/sweeps", json=distinct_spec(0), headers=key), 507, "disk")
    assert_problem(full.post(f"/v1/sweeps/{sweep_id}/extend", json={"seeds": 9}), 507, field="bytes")
    for action, state in ACTIONS.items():
        assert_problem(full.post(f"/v1/sweeps/{sweeps[action]}/{action}"), 507, "disk")
        assert full.sweep(sweeps[action])["state"] == state
    assert_problem(full.delete(f"/v1/sweeps/{sweep_id}"), 507, "disk")
    # Requests that only read still work.
    assert "free disk space" in full.post("/v1/estimate", json=distinct_spec(50)).json()["refused"]
    assert len(full.get("/v1/sweeps").json()["sweeps"]) == len(ACTIONS)
    (disk / "filler").unlink()
    full.executor.let()
    assert full.wait_until_ended(sweep_id)["counts"] == {"done": 4}
    assert full.delete(f"/v1/sweeps/{sweep_id}").status_code == 204


@pytest.mark.parametrize("free_kilobytes", [4, 12, 24, 48, 96, 160])
def test_submission_that_runs_out_of_space_leaves_nothing(full, disk, free_kilobytes):  # noqa: F811
    """Wherever it stops: at the marker, the spec, the keys, the dataset or the ledger."""
    fill(disk, free_kilobytes << 10)
    answer = full.post("/v1/sweeps", json=distinct_spec(60))
    (disk / "filler").unlink()
    if answer.status_code == 202:
        assert free_kilobytes > 24
    else:
        assert_problem(answer, 507)
        assert list((disk / "data" / "sweeps").iterdir()) == []
        assert full.get("/v1/sweeps").json()["sweeps"] == []
        assert full.post("/v1/sweeps", json=distinct_spec(60)).status_code == 202
