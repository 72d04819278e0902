"""Who may compute for a folder, while it is there and while it is away."""

import logging
import os
import signal
import threading
from contextlib import closing, contextmanager
from math import inf

import pytest
from distributed import Client, LocalCluster

from sweep_service.errors import StoreGone
from sweep_service.store.folder import DataFolder
from sweep_service.workers import worker_side as shipping
from sweep_service.workers.cluster import Embedded
from sweep_service.workers.executor import UNREAD, DaskExecutor
from sweep_service.workers.worker_check import NONCE, passport, problem
from sweep_service.workers.worker_side import UNFIT, Welcome, still_unfit
from tests.workers.test_executor import until


@pytest.fixture
def folder(tmp_path):
    found = DataFolder(tmp_path / "data")
    found.objects.prepare()
    return found


@contextmanager
def away(folder):
    elsewhere = folder.root.with_name("elsewhere")
    folder.root.rename(elsewhere)
    yield
    elsewhere.rename(folder.root)


def test_who_could_not_read_the_folder_is_asked_again(folder):
    shown = passport(folder)
    with away(folder), pytest.raises(StoreGone, match="it cannot read the data folder"):
        problem(shown)
    folder.objects.put(NONCE, b"another")
    assert problem(shown) == f"it cannot read the data folder {folder.where}"
    folder.objects.put(NONCE, shown["nonce"].encode())
    assert problem(shown) == ""
    with away(folder):
        assert problem(shown) == ""  # what was shown once need not be read for each task


def test_a_task_waits_for_a_folder_that_is_away(folder, monkeypatch):
    monkeypatch.setattr(shipping, "ASK", 0.01)
    shown, asked, back = passport(folder), threading.Event(), []

    def never():
        asked.set()
        return False

    with away(folder):
        assert "it cannot read the data folder" in still_unfit({**shown, "patience": inf}, lambda: True)
        assert "it cannot read the data folder" in still_unfit({**shown, "patience": 0.05}, lambda: False)
        waits = threading.Thread(target=lambda: back.append(still_unfit({**shown, "patience": inf}, never)))
        waits.start()
        assert asked.wait(60.0)
        assert back == []
    waits.join(60.0)
    assert back == [""]


@pytest.fixture
def joining(monkeypatch):
    """A cluster in this process, to which workers can be asked."""
    monkeypatch.setattr(shipping, "ASK", 0.01)
    monkeypatch.setattr(shipping, "warm", lambda: None)
    with (
        LocalCluster(
            n_workers=0, threads_per_worker=1, processes=False, host="127.0.0.1", protocol="tcp",
            dashboard_address=None, silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):  # fmt: skip
        yield cluster, client


def asks(cluster):
    """The plugins of workers that wait for the folder."""
    found = [worker.plugins.get(Welcome.name) for worker in cluster.workers.values()]
    return [plugin for plugin in found if plugin is not None and plugin.asking is not None]


def is_welcome(cluster, client):
    until(lambda: [plugin.asking.done() for plugin in asks(cluster)] == [True])
    assert client.get_events(UNFIT) == ()
    assert len(client.nthreads()) == 1


def test_a_worker_stays_while_the_folder_may_come_back(tmp_path, folder, joining):
    cluster, client = joining
    with away(folder):
        client.register_plugin(Welcome({**passport_of(folder), "patience": inf}))
        cluster.scale(1)
        until(lambda: asks(cluster))
        assert client.get_events(UNFIT) == ()
        (tmp_path / "elsewhere" / "sweeps" / NONCE).write_text("1")
    is_welcome(cluster, client)


def test_a_worker_leaves_when_the_folder_has_been_away_for_long(folder, joining):
    cluster, client = joining
    with away(folder):
        client.register_plugin(Welcome({**passport_of(folder), "patience": 0.1}))
        cluster.scale(1)
        until(lambda: client.get_events(UNFIT))
        until(lambda: not client.nthreads())


def test_who_asks_for_another_service_now_does_not_leave_for_the_last_one(tmp_path, folder, joining):
    """Which was started anew while the folder was away, and has written another number."""
    cluster, client = joining
    with away(folder):
        client.register_plugin(Welcome({**passport_of(folder), "patience": inf}))
        cluster.scale(1)
        (first,) = until(lambda: asks(cluster))
        client.register_plugin(Welcome({**passport_of(folder, "2"), "patience": inf}))
        until(lambda: asks(cluster)[0] is not first)
        until(first.asking.done)
        (tmp_path / "elsewhere" / "sweeps" / NONCE).write_text("2")
    is_welcome(cluster, client)


def passport_of(folder, nonce="1"):
    """What would be written, if the folder were there."""
    return {"root": folder.where, "nonce": nonce, "versions": {}}


@pytest.mark.slow
def test_a_worker_of_ours_that_starts_again_while_the_folder_is_away_is_there_afterwards(folder):
    with closing(DaskExecutor(Embedded(1), folder)) as executor:
        until(lambda: (executor.look(), executor.threads == 1)[1])
        ((address, first),) = executor.client.run(os.getpid).items()
        with away(folder):
            os.kill(first, signal.SIGKILL)
            until(lambda: any(executor.client.run(is_asking, on_error="ignore").values()))
        until(lambda: (executor.look(), executor.there not in (set(), {address}))[1])
        until(lambda: not any(executor.client.run(is_asking).values()))
        assert executor.refused() == []
        assert UNREAD < executor.passport["patience"] == inf


def is_asking(dask_worker):
    plugin = dask_worker.plugins.get("sweep-service")
    return plugin is not None and plugin.asking is not None and not plugin.asking.done()
