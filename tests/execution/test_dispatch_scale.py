"""The work of a conductor per bundle, counted in rows and queries: it must not grow with the window."""

import pytest
import sqlalchemy as sa

from sweep_service.execution.conductor import Conductor, ConductorSettings
from sweep_service.execution.executors import SerialExecutor
from sweep_service.planning.bundles import BundleLimits
from sweep_service.store.folder import DataFolder
from sweep_service.store.ledger import ledger as ledgers
from tests.execution.conducting import make_spec

MANY_POINTS = {
    "axes": {"d": 5, "p": 4, "gamma": {"log": [0.1, 0.5, 48]}, "regime": "classical_noise"},
    "simulate": False,
    "seeds": 1,
}
SHORT_BUNDLES = ConductorSettings(BundleLimits(target_seconds=0.0))


class WideExecutor(SerialExecutor):
    """Accepts many tasks, and computes one of them at a poll."""

    def __init__(self, accepted):
        super().__init__()
        self.accepted = accepted

    def has_room(self, sweep_id):
        return len(self.queue) < self.accepted


@pytest.fixture
def parsed_bundles(monkeypatch):
    """The keys of the bundles that are read from the ledger."""
    keys, original = [], ledgers._to_bundle

    def parse(key, *columns):
        keys.append(key)
        return original(key, *columns)

    monkeypatch.setattr(ledgers, "_to_bundle", parse)
    return keys


def count_statements(engine, text):
    """A list that grows with each statement that contains some text."""
    statements = []

    def record(connection, cursor, statement, *rest):
        if text in statement:
            statements.append(statement)

    sa.event.listen(engine, "before_cursor_execute", record)
    return statements


@pytest.mark.parametrize("accepted", [4, 40])
def test_each_bundle_is_read_once(tmp_path, parsed_bundles, accepted):
    with Conductor(DataFolder(tmp_path), WideExecutor(accepted), settings=SHORT_BUNDLES) as conductor:
        sweep, _ = conductor.submit(make_spec(**MANY_POINTS))
        bundles = conductor.ledger.totals(sweep.id)["bundles_left"]
        assert bundles == 48
        assert conductor.run(sweep.id).state == "completed"
    assert len(parsed_bundles) == len(set(parsed_bundles)) == bundles


def test_sweeps_without_room_cost_no_sums_over_bundles(tmp_path):
    with Conductor(DataFolder(tmp_path), WideExecutor(0), settings=SHORT_BUNDLES) as conductor:
        for seed in (1, 2, 3):
            conductor.submit(make_spec(seeds={"init": [seed], "repeat": 1}))
        sums = count_statements(conductor.ledger.engine, "sum(bundles")
        queries = count_statements(conductor.ledger.engine, "FROM bundles")
        for _ in range(5):
            assert conductor.tick()
        assert not sums
        assert len(queries) == 5  # one for all sweeps, at each tick


def test_bundle_without_part_is_computed_again(tmp_path):
    """A receipt of Dask says only that a task has ended; its part may be missing or damaged."""

    class LossyExecutor(WideExecutor):
        lost = None

        def poll(self):
            receipts = super().poll()
            if self.lost is None:
                self.lost = receipts[0].bundle
                folder.objects.delete(f"{receipts[0].sweep_id}.parts/{self.lost}.npz")
            return receipts

    folder = DataFolder(tmp_path)
    with Conductor(folder, LossyExecutor(4), settings=SHORT_BUNDLES) as conductor:
        sweep, _ = conductor.submit(make_spec(**MANY_POINTS))
        assert conductor.run(sweep.id).state == "completed"
        assert conductor.executor.lost
