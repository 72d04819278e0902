"""What an embedded worker is told holds as well for the process that its nanny starts in its place."""

import os
import signal
from contextlib import closing

import dask
import pytest
from distributed import get_worker

from sweep_service.workers.cluster import SETTINGS, Embedded


@pytest.fixture(scope="module")
def workers():
    """A worker at its start, and the one that follows when it is killed, both as a task sees them."""

    def look():
        return {
            "pid": os.getpid(),
            "nice": os.nice(0),  # of the thread that computes: Linux has one for each
            "settings": {name: dask.config.get(name, None) for name in SETTINGS},
            "watched": "profile" in get_worker().periodic_callbacks,
        }

    with closing(Embedded(1)) as cluster, closing(cluster.connect()) as client:
        first = client.submit(look, pure=False).result(timeout=60)
        os.kill(first["pid"], signal.SIGKILL)
        second = client.submit(look, pure=False).result(timeout=60)
    assert second["pid"] != first["pid"]
    return {"first": first, "second": second}


@pytest.mark.parametrize("which", ["first", "second"])
def test_workers_have_our_settings(workers, which):
    assert workers[which]["settings"] == SETTINGS
    assert not workers[which]["watched"]
    assert dask.config.get("distributed.worker.profile.enabled")  # those of this process are left alone


@pytest.mark.parametrize("which", ["first", "second"])
def test_workers_step_back_for_who_conducts_them(workers, which):
    assert workers[which]["nice"] == min(19, os.nice(0) + 5)
