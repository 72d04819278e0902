"""Schedulers that take a connection and say nothing, and what is no scheduler at all."""

import os
import signal
import socket
import socketserver
import threading
from concurrent.futures import Future
from contextlib import closing, contextmanager

import pytest
from distributed import LocalCluster

from sweep_service.client.client import Client
from sweep_service.store.folder import DataFolder
from sweep_service.workers import cluster as clusters
from sweep_service.workers import executor as executing
from sweep_service.workers.cluster import Remote
from sweep_service.workers.executor import DaskExecutor
from tests.service import start_service
from tests.workers.processes import free_port, processes
from tests.workers.test_executor import ENDLESS, until

SOON = 20.0  # seconds: a guard, on a machine that has other things to do
NOBODY = "tcp://127.0.0.1:1"


@pytest.fixture
def hurry(monkeypatch):
    for module in (clusters, executing):
        monkeypatch.setattr(module, "CONNECT", 0.1)


@contextmanager
def waiting_for(address, tmp_path):
    """As a service does."""
    folder = DataFolder(tmp_path)
    folder.objects.prepare()
    with closing(DaskExecutor(Remote(address), folder, patience=0.0)) as executor:
        yield executor


def looked(executor):
    executor.looked = -executing.LOOK
    executor.look()
    return executor.note()


@contextmanager
def quiet(port=0):
    """Takes connections, as the kernel does for a process that is stopped."""
    with socket.create_server(("127.0.0.1", port)) as server:
        yield server


def scheduler_at(port):
    """In this process, without workers."""
    return LocalCluster(
        n_workers=0, processes=False, host="127.0.0.1", scheduler_port=port, dashboard_address=None
    )


def address_of(server):
    return f"tcp://127.0.0.1:{server.getsockname()[1]}"


def test_a_quiet_scheduler_is_told_of_tried_again_and_found_when_it_is_well(tmp_path, hurry):
    with quiet() as server:
        address, port = address_of(server), server.getsockname()[1]
        with waiting_for(address, tmp_path) as executor:
            told = f"waiting for the scheduler at {address}, which does not answer"
            until(lambda: looked(executor) == told)
            first = executor.coming
            until(lambda: looked(executor) == told and executor.coming is not first)
            server.close()
            with scheduler_at(port):
                until(lambda: looked(executor) == f"waiting for workers at {address}")


def test_nobody_waits_for_a_quiet_scheduler_to_end(tmp_path):
    with quiet() as server, waiting_for(address_of(server), tmp_path) as executor:
        executor.look()
        end = threading.Thread(target=executor.close, daemon=True)
        end.start()
        end.join(SOON)
        assert not end.is_alive()


def test_who_is_told_to_stop_does_not_wait_for_a_connection(tmp_path):
    """Also who would wait until it is there."""
    stop = threading.Event()
    with quiet() as server:
        executor = DaskExecutor(Remote(address_of(server)), DataFolder(tmp_path), stop.is_set)
        executor.passport, raised = {}, Future()

        def poll():
            try:
                raised.set_result(executor.room(""))
            except BaseException as error:
                raised.set_result(error)

        threading.Thread(target=poll, daemon=True).start()
        until(lambda: executor.coming is not None)
        stop.set()
        assert isinstance(raised.result(SOON), executing.Stopped)
        executor.close()


def test_a_cluster_that_starts_is_waited_for_and_closed(tmp_path):
    done = []

    class Slow:
        is_ours, address = True, "this machine"
        may_come = threading.Event()

        def connect(self):
            self.may_come.wait(SOON)
            done.append("started")
            raise OSError

        def close(self):
            done.append("closed")

    executor = DaskExecutor(Slow(), DataFolder(tmp_path), patience=0.0)
    executor.passport = {}
    executor.look()
    end = threading.Thread(target=executor.close, daemon=True)
    end.start()
    end.join(0.2)  # in which one that does not wait would have ended
    assert done == []
    Slow.may_come.set()
    end.join(SOON)
    assert done == ["started", "closed"]


class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while words := self.request.recv(65536):
            self.request.sendall(words)


class Http(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.recv(100)
        self.request.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


class Frames(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall((8).to_bytes(8, "little") * 50)
        self.request.recv(65536)


@pytest.mark.parametrize("other", [Echo, Http, Frames])
def test_what_is_no_scheduler_is_told_of(tmp_path, other):
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), other) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with waiting_for(address_of(server.socket), tmp_path) as executor:
            until(lambda: "is no Dask scheduler that we understand" in looked(executor))
            assert executor.note().startswith("waiting for the scheduler at tcp://127.0.0.1:")
        server.shutdown()


def test_attempts_leave_no_threads(tmp_path, hurry):
    with quiet() as server:
        before = threading.active_count()
        for address in (NOBODY, address_of(server)):
            for _ in range(3):
                with pytest.raises(OSError):
                    Remote(address).connect()
        assert threading.active_count() <= before


def test_a_connection_that_is_lost_leaves_no_threads():
    before = threading.active_count()
    port = free_port()
    with scheduler_at(port):
        client = Remote(f"tcp://127.0.0.1:{port}").connect()
    with scheduler_at(port):  # another one: that it has not our workers is for others to find out
        until(lambda: client.status == "closed")
        client.close()
    assert threading.active_count() <= before


def test_a_connection_that_has_ended_stands_in_nobodys_way():
    """Its garbage is collected in any thread, as in that of the next one, which its beginning waits for."""
    port = free_port()
    with scheduler_at(port):
        client = Remote(f"tcp://127.0.0.1:{port}").connect()
        client.close()
    with client._loop_runner._lock:
        again = threading.Thread(target=client.close, daemon=True)
        again.start()
        again.join(10.0)
        assert not again.is_alive()


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "while it works"])
def test_a_service_ends_whatever_its_scheduler_does(tmp_path, when):
    with processes(tmp_path) as some:
        port = free_port()
        scheduler, _ = some.scheduler(port), some.worker(port)
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
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0
