"""Another user of the machine cannot use the embedded cluster, although its ports are on loopback."""

import json
import os
import stat
import subprocess
import sys
from contextlib import closing

import psutil
import pytest
from distributed import LocalCluster

from sweep_service.workers.embedded import Embedded
from tests.api.served import until
from tests.service import start_service
from tests.specs import VERY_LONG_SPEC

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another user")

# Try to use each port as a Dask server, plainly and with TLS and own keys, and as a web server; and each
# socket as a web server. Print what succeeded.
ATTACK = """
import asyncio, json, os, socket, sys
from distributed import Security
from distributed.comm import connect
from distributed.core import rpc
ports, sockets = json.loads(sys.argv[1])
own = Security.temporary()
contexts = {"tcp": {}, "tls": own.get_connection_args("client")}
import distributed.comm.tcp, encodings.idna
os.setgroups([])
os.setgid(65534)
os.setuid(65534)

async def ask_dask(scheme, port):
    comm = await connect(f"{scheme}://127.0.0.1:{port}", timeout=1.0, **contexts[scheme])
    await comm.write({"op": "identity", "reply": True})
    return (await comm.read())["type"]

async def ask_web(port):
    return await get(*await asyncio.open_connection("127.0.0.1", port))

async def ask_socket(path):
    return await get(*await asyncio.open_unix_connection(path))

async def get(reader, writer):
    writer.write(b"GET /status HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\nConnection: close\\r\\n\\r\\n")
    return (await reader.read(12)).decode("latin1")

async def main():
    attempts = {
        **{f"{scheme} {port}": ask_dask(scheme, port) for scheme in contexts for port in ports},
        **{f"web {port}": ask_web(port) for port in ports},
        **{f"socket {path}": ask_socket(path) for path in sockets},
    }
    waiting = (asyncio.wait_for(attempt, 3.0) for attempt in attempts.values())
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    print(json.dumps(dict(zip(attempts, map(describe, answers)))))

def describe(answer):
    if isinstance(answer, OSError):
        return "refused"
    return repr(answer) if isinstance(answer, Exception) else answer or "nothing"

asyncio.run(main())
"""


def attack(ports, sockets=()):
    """Return what another user gets from these ports and sockets, without refusals."""
    result = subprocess.run(
        [sys.executable, "-c", ATTACK, json.dumps([sorted(ports), list(map(str, sockets))])],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    answers = json.loads(result.stdout)
    assert len(answers) == 3 * len(ports) + len(sockets)
    return {name: answer for name, answer in answers.items() if answer not in ("refused", "nothing")}


def listening(pid):
    """Return the ports on which a process and its children listen."""
    process = psutil.Process(pid)
    family = [process, *process.children(recursive=True)]
    connections = [connection for one in family for connection in one.net_connections("inet")]
    return {item.laddr.port for item in connections if item.status == psutil.CONN_LISTEN}


@pytest.mark.slow
def test_attack_succeeds_on_a_cluster_without_protection():
    """Otherwise the tests below would show nothing."""
    with LocalCluster(
        n_workers=0, processes=False, host="127.0.0.1", protocol="tcp", dashboard_address="127.0.0.1:0"
    ) as cluster:
        scheduler, web = cluster.scheduler.port, cluster.scheduler.http_server.port
        answers = attack([scheduler, web])
    assert answers[f"tcp {scheduler}"] == "Scheduler"
    assert answers[f"web {web}"] == "HTTP/1.1 200"


def test_other_user_cannot_use_embedded_cluster():
    before = listening(os.getpid())
    cluster = Embedded(1, dashboard=True)
    with closing(cluster), closing(cluster.connect()) as client:
        assert client.submit(sum, (1, 2)).result() == 3
        ports = listening(os.getpid()) - before
        assert len(ports) == 3  # scheduler, nanny, worker
        assert attack(ports, [cluster.socket]) == {}
        assert stat.S_IMODE(cluster.socket.stat().st_mode) == 0o600
        assert stat.S_IMODE(cluster.socket.parent.stat().st_mode) == 0o700
    assert not cluster.socket.parent.exists()


@pytest.mark.slow
def test_key_is_in_no_file_and_no_command_line(tmp_path, monkeypatch):
    """Dask writes it to a private temporary folder for the moment in which the TLS library reads it."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    cluster = Embedded(1)
    with closing(cluster), closing(cluster.connect()):
        key = cluster.local.security.tls_worker_cert
        assert "PRIVATE KEY" in key
        files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
        assert not any(b"PRIVATE KEY" in content for content in files)
        (worker,) = psutil.Process().children()[-1:]
        line = key.splitlines()[-2]
        shown = " ".join([*worker.cmdline(), *worker.environ().values()])
        assert line not in shown


@pytest.mark.slow
def test_other_user_cannot_use_service_or_command(tmp_path):
    service = start_service(tmp_path / "data", env={"SWEEP_TOKENS": "open-sesame-4711"})
    try:
        port = int(service.url.rpartition(":")[2])
        assert attack(wait_for_ports(service.process.pid, 4) - {port}) == {}
    finally:
        service.close()
    (tmp_path / "spec.json").write_text(json.dumps(VERY_LONG_SPEC))
    command = subprocess.Popen(
        [sys.executable, "-m", "sweep_service.cli", "run", "spec.json", "--workers", "1"],
        cwd=tmp_path, start_new_session=True,
    )  # fmt: skip
    try:
        assert attack(wait_for_ports(command.pid, 3)) == {}
    finally:
        command.terminate()
        assert command.wait(20.0) == 3


def wait_for_ports(pid, count):
    return until(lambda: len(ports := listening(pid)) == count and ports)
