"""Certificates of a cluster: only processes with them can connect."""

import json
import os
import socket
import ssl
import stat
import subprocess
import sys
from contextlib import closing

import dask
import pytest

from sweep_service.api.app import create_app
from sweep_service.api.settings import Settings
from sweep_service.doctor.certificates import (
    AUTHORITY,
    CERTIFICATE,
    SETTINGS,
    dask_settings,
    write_certificates,
)
from sweep_service.errors import InvalidInput
from sweep_service.store.folder import DataFolder
from sweep_service.workers.cluster import Remote
from sweep_service.workers.executor import DaskExecutor
from tests.specs import SMALL_SPEC
from tests.workers.processes import ROOT, free_port, processes
from tests.workers.test_executor import until


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Folders with the certificates of a cluster, and of another cluster."""
    folders = [tmp_path_factory.mktemp("certificates") / name for name in ("ours", "others")]
    for folder in folders:
        write_certificates(folder)
    return folders


@pytest.fixture(scope="module")
def cluster(folders, tmp_path_factory):
    """The port of a scheduler with one worker, both configured by the environment only."""
    cwd, port = tmp_path_factory.mktemp("cluster"), free_port()
    with processes(cwd) as started:
        options = {"path": ROOT, "env": {"DASK_CONFIG": str(folders[0])}}
        for module, *arguments in (
            ("dask_scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard"),
            ("dask_worker", f"127.0.0.1:{port}", "--nthreads", "1", "--no-dashboard"),
        ):
            started.start("-m", f"distributed.cli.{module}", *arguments, **options)
        until(lambda: is_open(port))
        yield port


def is_open(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = DataFolder(tmp_path_factory.mktemp("store") / "data")
    with folder.lock():  # creates it
        pass
    return folder


def dask_config(folder):
    """The configuration of Dask with the certificates of a folder."""
    return dask.config.merge(dask.config.config, dask_settings(folder))


def mix_certificates(folders, output):
    """Write the authority of the first cluster and the certificate of the second."""
    output.mkdir()
    (output / AUTHORITY).write_bytes((folders[0] / AUTHORITY).read_bytes())
    (output / CERTIFICATE).write_bytes((folders[1] / CERTIFICATE).read_bytes())
    return output


def note(address, config, folder):
    """The message of an executor that cannot connect to a scheduler."""
    with dask.config.set(config), closing(DaskExecutor(Remote(address), folder)) as executor:
        executor.refresh()
        assert executor.client is None
        return executor.describe_problem()


def test_files_are_readable_by_their_owner_only(tmp_path):
    mask = os.umask(0)
    try:
        write_certificates(tmp_path / "new" / "folder")
    finally:
        os.umask(mask)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "new").rglob("*")}
    assert modes == {"folder": 0o700, AUTHORITY: 0o600, CERTIFICATE: 0o600, SETTINGS: 0o600}


def test_existing_certificates_are_replaced_only_with_force(tmp_path):
    write_certificates(tmp_path)
    before = (tmp_path / CERTIFICATE).read_bytes()
    with pytest.raises(InvalidInput, match="--force"):
        write_certificates(tmp_path)
    assert (tmp_path / CERTIFICATE).read_bytes() == before
    write_certificates(tmp_path, force=True)
    assert (tmp_path / CERTIFICATE).read_bytes() != before
    assert {path.name for path in tmp_path.iterdir()} == {AUTHORITY, CERTIFICATE, SETTINGS}


def test_incomplete_certificates_are_written_again(tmp_path):
    write_certificates(tmp_path)
    (tmp_path / SETTINGS).unlink()
    write_certificates(tmp_path)
    context = ssl.create_default_context(cafile=tmp_path / AUTHORITY)
    context.load_cert_chain(tmp_path / CERTIFICATE)


def test_address_must_agree_with_the_configuration(folders):
    with pytest.raises(InvalidInput, match="needs certificates"):
        Remote("tls://127.0.0.1:8786")
    with dask.config.set(dask_config(folders[0])):
        assert Remote("127.0.0.1:8786").address  # Dask assumes tls://
        with pytest.raises(InvalidInput, match="must be encrypted"):
            Remote("tcp://127.0.0.1:8786")
    with (
        dask.config.set(dask_config(folders[0] / "elsewhere")),
        pytest.raises(InvalidInput, match=r"elsewhere.*No such file"),
    ):
        Remote("tls://127.0.0.1:8786")


def test_client_with_certificates_can_compute(folders, cluster):
    with (
        dask.config.set(dask_config(folders[0])),
        closing(Remote(f"tls://127.0.0.1:{cluster}").connect()) as client,
    ):
        assert client.submit(sum, [1, 2]).result(timeout=60) == 3
        (worker,) = client.scheduler_info()["workers"].values()
    assert worker["nanny"].startswith("tls://")


@pytest.mark.slow
def test_doctor_connects_with_tls(folders, cluster, folder):
    arguments = ["doctor", "--scheduler", f"tls://127.0.0.1:{cluster}", "--data", folder.root]
    env = {**os.environ, "DASK_CONFIG": str(folders[0]), "PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        [sys.executable, "-m", "sweep_service.cli", *arguments], env=env, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    assert f"tls://127.0.0.1:{cluster}" in result.stdout


def test_service_with_tls_scheduler_needs_certificates(tmp_path):
    with pytest.raises(InvalidInput, match="sweep certificates"):
        create_app(Settings(data=tmp_path / "data", scheduler="tls://127.0.0.1:8786"))


def test_other_certificates_are_rejected_with_a_reason(folders, cluster, folder, tmp_path):
    address = f"tls://127.0.0.1:{cluster}"
    assert "certificate is not trusted" in note(address, dask_config(folders[1]), folder)
    assert "it may require TLS" in note(f"tcp://127.0.0.1:{cluster}", {}, folder)
    assert "waiting for the scheduler" in note(
        address, dask_config(mix_certificates(folders, tmp_path / "mixed")), folder
    )


def test_scheduler_without_tls_is_rejected(folders, folder):
    with socket.create_server(("127.0.0.1", 0)) as plain, dask.config.set(dask_config(folders[0])):
        # The server answers without encryption, as a scheduler without certificates does.
        executor = DaskExecutor(
            Remote(f"tls://127.0.0.1:{plain.getsockname()[1]}"), folder, connect_wait_seconds=0.0
        )
        with closing(executor):
            executor.refresh()
            other, _ = plain.accept()
            with other:
                assert other.recv(1) == b"\x16"  # the start of a TLS handshake
                other.sendall(b"\x00" * 64)
            until(lambda: (executor.refresh(), "does not speak TLS" in executor.describe_problem())[1])


@pytest.mark.parametrize("certificate", [None, "others"])
def test_scheduler_rejects_clients_without_its_certificate(folders, cluster, certificate):
    """Also for a client that does not use Dask."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(folders[0] / AUTHORITY)
    if certificate:
        context.load_cert_chain(folders[1] / CERTIFICATE)
    with (
        socket.create_connection(("127.0.0.1", cluster), timeout=30) as connection,
        context.wrap_socket(connection) as secure,
        pytest.raises(ssl.SSLError, match=r"certificate required|unknown ca"),
    ):
        secure.recv(1)


@pytest.mark.slow
def test_embedded_cluster_uses_certificates(folders, tmp_path):
    env = {**os.environ, "DASK_CONFIG": str(folders[0]), "PYTHONPATH": str(ROOT)}
    arguments = ["run", "-", "--workers", "1", "--no-figure", "--json", "--data", tmp_path / "data"]
    result = subprocess.run(
        [sys.executable, "-m", "sweep_service.cli", *arguments], env=env, input=json.dumps(SMALL_SPEC),
        capture_output=True, text=True,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["state"] == "completed"
