"""Fixtures of the tests of execution."""

from types import SimpleNamespace

import pytest

from sweep_service.execution import task as tasks
from tests.execution.conducting import open_conductor
from tests.execution.merging import digest, merge, prepare_sweep, put_parts
from tests.stored import ONE_RUN_PER_BUNDLE


@pytest.fixture
def conductor(tmp_path):
    with open_conductor(tmp_path / "data") as conductor:
        yield conductor


@pytest.fixture
def computed_jobs(monkeypatch):
    """A list to which every computed job is added, with the key of its sweep."""
    jobs = []
    original = tasks.compute

    def record(plan, job, *rest):
        jobs.append((plan.grid.key.digest, job))
        return original(plan, job, *rest)

    monkeypatch.setattr(tasks, "compute", record)
    return jobs


@pytest.fixture
def fine_conductor(tmp_path):
    """A conductor that makes one run per bundle, and merges it when it ends."""
    with open_conductor(tmp_path / "data", settings=ONE_RUN_PER_BUNDLE) as conductor:
        yield conductor


@pytest.fixture
def sweep(tmp_path):
    sweep = prepare_sweep(tmp_path)
    yield sweep
    sweep.ledger.close()


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """Digest and totals after all parts were merged at once."""
    sweep = prepare_sweep(tmp_path_factory.mktemp("reference"))
    put_parts(sweep)
    merge(sweep)
    yield SimpleNamespace(digest=digest(sweep), totals=sweep.ledger.totals("s"))
    sweep.ledger.close()
