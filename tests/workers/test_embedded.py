"""The embedded cluster replaces workers, however long that takes."""

import os
import signal
import time as clock
from contextlib import closing

import dask
import psutil

from sweep_service.workers.embedded import Embedded
from tests.cli.commands import until


def test_worker_that_comes_back_late_is_kept():
    """Dask closes the nanny of a worker that is not back in time, which on a busy machine is often."""
    cluster = Embedded(2)
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1ms"}),
        closing(cluster),
        closing(cluster.connect()) as client,
    ):
        until(lambda: len(client.scheduler_info(n_workers=-1)["workers"]) == 2)
        before = list(client.scheduler_info(n_workers=-1)["workers"])
        os.kill(cluster.nannies[0].pid, signal.SIGKILL)
        until(lambda: set(client.scheduler_info(n_workers=-1)["workers"]) != set(before))
        until(lambda: len(client.scheduler_info(n_workers=-1)["workers"]) == 2)
        clock.sleep(0.2)  # in which Dask would close it
        assert all(nanny.pid and psutil.pid_exists(nanny.pid) for nanny in cluster.nannies)
