"""Schedulers that accept a connection and stay silent, and servers that are no schedulers."""

import os
import signal
import socket
import socketserver
import threading
import time as clock
from concurrent.futures import Future
from contextlib import closing, contextmanager

import pytest
from distributed import LocalCluster

from sweep_service.client.client import Client
from sweep_service.errors import Stopped
from sweep_service.store.folder import DataFolder
from sweep_service.workers import cluster as clusters
from sweep_service.workers import executor as executing
from sweep_service.workers.cluster import Remote
from sweep_service.workers.embedded import Embedded
from sweep_service.workers.executor import DaskExecutor
from tests.service import start_service
from tests.workers.processes import free_port, processes
from tests.workers.test_executor import ENDLESS, until

TIMEOUT_SECONDS = 60.0  # enough for a busy machine
NOBODY = "tcp://127.0.0.1:1"


@pytest.fixture
def hurry(monkeypatch):
    for module in (clusters, executing):
        monkeypatch.setattr(module, "CONNECT_TIMEOUT_SECONDS", 0.1)


@contextmanager
def waiting_for(address, tmp_path):
    """Like a service, which does not wait for a connection."""
    folder = DataFolder(tmp_path)
    folder.objects.prepare()
    with closing(DaskExecutor(Remote(address), folder, connect_wait_seconds=0.0)) as executor:
        yield executor


def looked(executor):
    executor.last_check = -executing.CLUSTER_CHECK_INTERVAL_SECONDS
    executor.refresh()
    return executor.describe_problem()


@contextmanager
def quiet(port=0):
    """Accepts connections and never answers, like a suspended process."""
    with socket.create_server(("127.0.0.1", port)) as server:
        yield server


def scheduler_at(port):
    """Run a scheduler in this process, without workers."""
    return LocalCluster(
        n_workers=0, processes=False, host="127.0.0.1", scheduler_port=port, dashboard_address=":0"
    )


def address_of(server):
    return f"tcp://127.0.0.1:{server.getsockname()[1]}"


def test_silent_scheduler_is_reported_and_retried(tmp_path, hurry):
    with quiet() as server:
        address, port = address_of(server), server.getsockname()[1]
        with waiting_for(address, tmp_path) as executor:
            expected = f"waiting for the scheduler at {address}, which does not answer"
            until(lambda: looked(executor) == expected)
            first = executor.connecting
            until(lambda: looked(executor) == expected and executor.connecting is not first)
            server.close()
            with scheduler_at(port):
                until(lambda: looked(executor) == f"waiting for workers at {address}")


def test_close_does_not_wait_for_silent_scheduler(tmp_path):
    with quiet() as server, waiting_for(address_of(server), tmp_path) as executor:
        executor.refresh()
        end = threading.Thread(target=executor.close, daemon=True)
        end.start()
        end.join(TIMEOUT_SECONDS)
        assert not end.is_alive()


def test_stop_interrupts_connecting(tmp_path):
    """Even without a limit for each wait."""
    stop = threading.Event()
    with quiet() as server:
        executor = DaskExecutor(Remote(address_of(server)), DataFolder(tmp_path), stop.is_set)
        executor.requirements, raised = {}, Future()

        def poll():
            try:
                raised.set_result(executor.has_room(""))
            except BaseException as error:
                raised.set_result(error)

        threading.Thread(target=poll, daemon=True).start()
        until(lambda: executor.connecting is not None)
        stop.set()
        assert isinstance(raised.result(TIMEOUT_SECONDS), executing.Stopped)
        executor.close()


@pytest.mark.parametrize("delay", [0.0, 0.3])
def test_cluster_is_closed_while_it_starts(tmp_path, delay):
    """Before its first worker process exists, or while that process imports modules."""
    folder = DataFolder(tmp_path)
    folder.objects.prepare()
    cluster = Embedded(1)
    executor = DaskExecutor(cluster, folder, connect_wait_seconds=0.0)
    executor.refresh()
    connecting = executor.connecting
    clock.sleep(delay)
    executor.close()
    assert isinstance(connecting.exception(TIMEOUT_SECONDS), (Stopped, RuntimeError, OSError))
    until(lambda: not any(nanny.is_alive() for nanny in cluster.nannies))


class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while received := self.request.recv(65536):
            self.request.sendall(received)


class Http(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.recv(100)
        self.request.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


class Frames(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall((8).to_bytes(8, "little") * 50)
        self.request.recv(65536)


@pytest.mark.parametrize("other", [Echo, Http, Frames])
def test_other_server_is_reported(tmp_path, other):
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), other) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with waiting_for(address_of(server.socket), tmp_path) as executor:
            until(lambda: "is no Dask scheduler of a compatible version" in looked(executor))
            assert executor.describe_problem().startswith("waiting for the scheduler at tcp://127.0.0.1:")
        server.shutdown()


def test_failed_connections_leave_no_threads(tmp_path, hurry):
    with quiet() as server:
        before = threading.active_count()
        for address in (NOBODY, address_of(server)):
            for _ in range(3):
                with pytest.raises(OSError):
                    Remote(address).connect()
        assert threading.active_count() <= before


def test_lost_connection_leaves_no_threads():
    before = threading.active_count()
    port = free_port()
    with scheduler_at(port):
        client = Remote(f"tcp://127.0.0.1:{port}").connect()
    with scheduler_at(port):  # another one, which has none of the workers
        until(lambda: client.status == "closed")
        client.close()
    assert threading.active_count() <= before


def test_closed_connection_does_not_block_others():
    """It may be garbage-collected in any thread, also while the next one starts."""
    port = free_port()
    with scheduler_at(port):
        client = Remote(f"tcp://127.0.0.1:{port}").connect()
        client.close()
    with client._loop_runner._lock:
        again = threading.Thread(target=client.close, daemon=True)
        again.start()
        again.join(TIMEOUT_SECONDS)
        assert not again.is_alive()


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "while it works"])
def test_service_stops_whatever_its_scheduler_does(tmp_path, when):
    with processes(tmp_path) as started:
        port = free_port()
        scheduler, _ = started.scheduler(port), started.worker(port)
        until(lambda: is_open(port))
        if when == "before":
            os.kill(scheduler.pid, signal.SIGSTOP)
        service = start_service(tmp_path / "data", scheduler=f"tcp://127.0.0.1:{port}")
        with closing(service), Client(service.url) as client:
            sweep = client.submit(ENDLESS)
            if when != "before":
                until(lambda: client.sweep(sweep["id"])["state"] == "running")
                os.kill(scheduler.pid, signal.SIGSTOP)
            until(lambda: "which does not answer" in client.sweep(sweep["id"])["reason"])
            assert service.stop(seconds=10.0) == 0


def is_open(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
