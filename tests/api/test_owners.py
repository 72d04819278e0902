"""The owner and the size of a sweep, in responses, metrics and the ledger."""

import sqlite3

import httpx2
import pytest
import sqlalchemy as sa

from sweep_service.execution import conductor
from sweep_service.execution.conductor import Conductor
from sweep_service.execution.executors import SerialExecutor
from sweep_service.planning.spec import SweepSpec
from sweep_service.store.folder import LEDGER, DataFolder
from sweep_service.store.kept_states import STATES_SUFFIX
from sweep_service.store.ledger import SCHEMA_VERSION
from tests.api.served import serving
from tests.specs import TINY_SPEC, distinct_spec

ALICE, BOB, SOMEBODY = "secret-of-alice-1", "secret-of-bob-222", "without-a-name-33"


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A service with two named tokens and one without a name."""
    tokens = f"alice={ALICE},bob={BOB},{SOMEBODY}"
    with serving(tmp_path_factory.mktemp("shared"), tokens=tokens, headers=bearer(ALICE)) as service:
        yield service


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def dataset_bytes(folder, sweep_id):
    """Return the size of the dataset of a sweep and of its kept states."""
    dataset = folder.dataset_path(sweep_id)
    folders = (dataset, dataset.with_name(f"{sweep_id}{STATES_SUFFIX}"))
    return sum(path.stat().st_size for folder in folders for path in folder.rglob("*") if path.is_file())


def test_sweep_has_the_owner_of_its_token(shared):
    of_alice = shared.complete(distinct_spec(1))
    of_bob = shared.submit(distinct_spec(2), headers=bearer(BOB))
    of_somebody = shared.submit(distinct_spec(3), headers=bearer(SOMEBODY))
    assert shared.submit(distinct_spec(1), headers=bearer(BOB)) == of_alice  # the same sweep again
    change = {"axes": {"gamma": [0.77]}}
    extended = shared.post(f"/v1/sweeps/{of_alice}/extend", json=change, headers=bearer(BOB)).json()
    owners = {sweep["id"]: sweep["owner"] for sweep in shared.get("/v1/sweeps").json()["sweeps"]}
    assert owners == {of_alice: "alice", of_bob: "bob", of_somebody: None, extended["id"]: "bob"}
    assert shared.sweep(of_bob)["owner"] == "bob"
    for sweep_id in owners:
        shared.wait_until_ended(sweep_id)
    samples = [line for line in shared.get("/metrics").text.splitlines() if line.startswith("sweep_owned")]
    assert sorted(samples) == [
        'sweep_owned_sweeps{owner=""} 1.0',
        'sweep_owned_sweeps{owner="alice"} 1.0',
        'sweep_owned_sweeps{owner="bob"} 2.0',
    ]


def test_cookie_has_the_owner_of_its_token(shared):
    with httpx2.Client(base_url=shared.url) as browser:
        browser.post("/v1/session", json={"token": BOB})
        assert browser.post("/v1/sweeps", json=distinct_spec(4)).json()["owner"] == "bob"


def test_size_of_sweep_is_that_of_its_dataset(shared):
    sweep = shared.sweep(shared.complete({**TINY_SPEC, "seeds": 3}))
    size = dataset_bytes(shared.folder, sweep["id"])
    assert sweep["stored_bytes"] == size > 1000
    metrics = shared.get("/metrics").text
    total = sum(sweep["stored_bytes"] for sweep in shared.get("/v1/sweeps").json()["sweeps"])
    lines = [line for line in metrics.splitlines() if line.startswith("sweep_stored_bytes{")]
    assert sum(float(line.rpartition(" ")[2]) for line in lines) == total


def test_size_is_known_at_once_and_grows(held):
    sweep_id = held.submit(distinct_spec(30))
    before = held.sweep(sweep_id)["stored_bytes"]
    assert before == dataset_bytes(held.folder, sweep_id)
    held.executor.let()
    held.wait_until_ended(sweep_id)
    assert held.sweep(sweep_id)["stored_bytes"] > before


def test_ledger_without_owners_and_sizes_is_migrated(tmp_path, monkeypatch):
    """Sizes are measured when a conductor starts, some at a time."""
    monkeypatch.setattr(conductor, "MAX_MEASURED_SWEEPS", 1)
    folder = DataFolder(tmp_path)
    with Conductor(folder, SerialExecutor(lambda: False)) as first:
        ids = [first.submit(SweepSpec.parse(distinct_spec(number)))[0].id for number in (1, 2)]
        for sweep_id in ids:
            first.run(sweep_id)
    with sqlite3.connect(tmp_path / LEDGER) as connection:
        connection.execute("ALTER TABLE sweeps DROP COLUMN owner")
        connection.execute("ALTER TABLE sweeps DROP COLUMN stored_bytes")
        connection.execute("UPDATE about SET value = '2' WHERE name = 'schema'")
    connection.close()
    with Conductor(folder, SerialExecutor(lambda: False)) as second:
        sizes = {sweep.id: sweep.stored_bytes for sweep in second.ledger.sweeps()}
        assert sorted(size is None for size in sizes.values()) == [False, True]
        assert {sweep.owner for sweep in second.ledger.sweeps()} == {None}
        with second.ledger.engine.connect() as rows:
            assert rows.scalar(sa.text("SELECT value FROM about WHERE name = 'schema'")) == str(
                SCHEMA_VERSION
            )
    with Conductor(folder, SerialExecutor(lambda: False)) as third:
        sizes = {sweep.id: sweep.stored_bytes for sweep in third.ledger.sweeps()}
        assert sizes == {sweep_id: dataset_bytes(folder, sweep_id) for sweep_id in ids}
