"""The settings of an embedded worker also apply to the process that its nanny starts after a crash."""

import os
import signal
from contextlib import closing

import dask
import pytest
from distributed import get_worker

from sweep_service.workers.cluster import DASK_SETTINGS
from sweep_service.workers.embedded import Embedded


@pytest.fixture(scope="module")
def workers():
    """Settings seen by a task on a first worker, and on the one that replaces it after a kill."""

    def look():
        return {
            "pid": os.getpid(),
            "nice": os.nice(0),  # of the computing thread: on Linux each has its own
            "settings": {name: dask.config.get(name, None) for name in DASK_SETTINGS},
            "watched": "profile" in get_worker().periodic_callbacks,
        }

    with closing(Embedded(1)) as cluster, closing(cluster.connect()) as client:
        first = client.submit(look, pure=False).result(timeout=60)
        os.kill(first["pid"], signal.SIGKILL)
        second = client.submit(look, pure=False).result(timeout=60)
    assert second["pid"] != first["pid"]
    return {"first": first, "second": second}


@pytest.mark.parametrize("which", ["first", "second"])
def test_workers_have_dask_settings(workers, which):
    assert workers[which]["settings"] == DASK_SETTINGS
    assert not workers[which]["watched"]
    assert dask.config.get("distributed.worker.profile.enabled")  # the settings of this process are unchanged


@pytest.mark.parametrize("which", ["first", "second"])
def test_workers_have_lower_priority_than_conductor(workers, which):
    assert workers[which]["nice"] == min(19, os.nice(0) + 5)
