"""A process that was killed because the service ends counts as no death of its run."""

import pytest

from sweep_service.execution.task import CrashMarker, Task, excuse_interruption
from sweep_service.planning.bundles import Bundle
from sweep_service.store.folder import DataFolder
from sweep_service.store.sealed import unpack_json

TASK = Task("data", "20260101-000000-0badcafe", Bundle((), 1.0, "sgd/S1"))
NAME = f"{TASK.sweep_id}.parts/{TASK.bundle.key}.crumb"


@pytest.fixture
def objects(tmp_path):
    folder = DataFolder(tmp_path)
    folder.objects.prepare()
    return folder.objects


def write_marker(objects, run, **deaths):
    CrashMarker(objects, NAME, deaths).record(run)


def test_first_attempt_leaves_no_marker(objects):
    write_marker(objects, "")
    excuse_interruption(objects, TASK)
    assert not objects.exists(NAME)


def test_interrupted_run_is_not_blamed_but_earlier_deaths_count(objects):
    write_marker(objects, "sgd-3", **{"sgd-1": 2})
    excuse_interruption(objects, TASK)
    content = unpack_json(objects.get(NAME))
    assert content == {"at": "", "checkpoint": "", "deaths": {"sgd-1": 2}}


def test_finished_and_damaged_bundles(objects):
    excuse_interruption(objects, TASK)
    assert not objects.exists(NAME)
    objects.put(NAME, b"{")
    excuse_interruption(objects, TASK)
    assert not objects.exists(NAME)
