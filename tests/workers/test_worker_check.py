"""The worker check, with the data folder present and missing."""

import logging
import os
import signal
import subprocess
import sys
import threading
from contextlib import closing, contextmanager
from math import inf

import pytest
from distributed import Client, LocalCluster

from sweep_service.errors import StoreGone
from sweep_service.store.folder import DataFolder
from sweep_service.workers import worker_side as shipping
from sweep_service.workers.embedded import Embedded
from sweep_service.workers.executor import STORE_WAIT_SECONDS, DaskExecutor
from sweep_service.workers.worker_check import NONCE, problem, worker_requirements
from sweep_service.workers.worker_side import REFUSAL_TOPIC, WorkerCheckPlugin, check_worker_with_retries
from tests.workers.test_executor import until

RETRY_SECONDS = 0.01  # between attempts to read the missing folder


@pytest.fixture
def folder(tmp_path):
    result = DataFolder(tmp_path / "data")
    result.objects.prepare()
    return result


@contextmanager
def missing(folder):
    elsewhere = folder.root.with_name("elsewhere")
    folder.root.rename(elsewhere)
    yield
    elsewhere.rename(folder.root)


def test_failed_check_is_repeated(folder):
    requirements = worker_requirements(folder)
    with missing(folder), pytest.raises(StoreGone, match="it cannot read the data folder"):
        problem(requirements)
    folder.objects.put(NONCE, b"another")
    assert problem(requirements) == f"it cannot read the data folder {folder.location}"
    folder.objects.put(NONCE, requirements["nonce"].encode())
    assert problem(requirements) == ""
    with missing(folder):
        assert problem(requirements) == ""  # the nonce is not read again for each task


def test_task_waits_for_missing_folder(folder):
    requirements, called, back = worker_requirements(folder), threading.Event(), []

    def never():
        called.set()
        return False

    def check(store_wait_seconds, give_up):
        return check_worker_with_retries(
            {**requirements, "store_wait_seconds": store_wait_seconds}, give_up, RETRY_SECONDS
        )

    with missing(folder):
        assert "it cannot read the data folder" in check(inf, lambda: True)
        assert "it cannot read the data folder" in check(0.05, lambda: False)
        waits = threading.Thread(target=lambda: back.append(check(inf, never)))
        waits.start()
        assert called.wait(60.0)
        assert back == []
    waits.join(60.0)
    assert back == [""]


def test_worker_compiles_nothing_before_a_sweep_needs_it(tmp_path):
    code = "from sweep_service.workers.worker_check import load_kernels; load_kernels()"
    environment = {**os.environ, "SWEEP_KERNEL_CACHE": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    assert list(tmp_path.rglob("*.nbc")) == []


@pytest.fixture
def joining(monkeypatch):
    """A cluster in this process, to which a test can add workers."""
    monkeypatch.setattr(shipping, "load_kernels", lambda: None)
    with (
        LocalCluster(
            n_workers=0, threads_per_worker=1, processes=False, host="127.0.0.1", protocol="tcp",
            dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):  # fmt: skip
        yield cluster, client


def retrying_plugins(cluster):
    """Return the plugins that wait for the folder."""
    plugins = [worker.plugins.get(WorkerCheckPlugin.name) for worker in cluster.workers.values()]
    return [plugin for plugin in plugins if plugin is not None and plugin.retrying is not None]


def assert_accepted(cluster, client):
    until(lambda: [plugin.retrying.done() for plugin in retrying_plugins(cluster)] == [True])
    assert client.get_events(REFUSAL_TOPIC) == ()
    assert len(client.nthreads()) == 1


def test_worker_waits_for_missing_folder(tmp_path, folder, joining):
    cluster, client = joining
    with missing(folder):
        client.register_plugin(plugin_for(folder, inf))
        cluster.scale(1)
        until(lambda: retrying_plugins(cluster))
        assert client.get_events(REFUSAL_TOPIC) == ()
        (tmp_path / "elsewhere" / "sweeps" / NONCE).write_text("1")
    assert_accepted(cluster, client)


def test_worker_closes_after_waiting_for_folder(folder, joining):
    cluster, client = joining
    with missing(folder):
        client.register_plugin(plugin_for(folder, 0.1))
        cluster.scale(1)
        until(lambda: client.get_events(REFUSAL_TOPIC))
        until(lambda: not client.nthreads())


def test_replaced_check_does_not_close_worker(tmp_path, folder, joining):
    """The new service was started while the folder was missing, and has another nonce."""
    cluster, client = joining
    with missing(folder):
        client.register_plugin(plugin_for(folder, inf))
        cluster.scale(1)
        (first,) = until(lambda: retrying_plugins(cluster))
        client.register_plugin(plugin_for(folder, inf, nonce="2"))
        until(lambda: retrying_plugins(cluster)[0] is not first)
        until(first.retrying.done)
        (tmp_path / "elsewhere" / "sweeps" / NONCE).write_text("2")
    assert_accepted(cluster, client)


def plugin_for(folder, store_wait_seconds, nonce="1"):
    """Return the plugin for a folder that may be missing."""
    requirements = {
        "root": folder.location, "nonce": nonce, "versions": {}, "store_wait_seconds": store_wait_seconds,
    }  # fmt: skip
    return WorkerCheckPlugin(requirements, RETRY_SECONDS)


@pytest.mark.slow
def test_restarted_embedded_worker_survives_missing_folder(folder):
    with closing(DaskExecutor(Embedded(1), folder)) as executor:
        until(lambda: (executor.refresh(), executor.threads == 1)[1])
        ((address, first),) = executor.client.run(os.getpid).items()
        with missing(folder):
            os.kill(first, signal.SIGKILL)
            until(lambda: any(executor.client.run(is_retrying, on_error="ignore").values()))
        until(lambda: (executor.refresh(), executor.worker_addresses not in (set(), {address}))[1])
        until(lambda: not any(executor.client.run(is_retrying).values()))
        assert executor.read_refusals() == []
        assert STORE_WAIT_SECONDS < executor.requirements["store_wait_seconds"] == inf


def is_retrying(dask_worker):
    plugin = dask_worker.plugins.get("sweep-service")
    return plugin is not None and plugin.retrying is not None and not plugin.retrying.done()
