"""Certificates of a cluster: who has them gets in, and nobody else."""

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
from sweep_service.doctor.certificates import AUTHORITY, CERTIFICATE, SETTINGS, make, settings
from sweep_service.errors import InvalidInput
from sweep_service.store.folder import DataFolder
from sweep_service.workers.cluster import Remote
from sweep_service.workers.executor import DaskExecutor
from tests.cli.commands import SMALL
from tests.workers.processes import ROOT, free_port, processes
from tests.workers.test_executor import until


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Certificates of a cluster, and of another one."""
    found = [tmp_path_factory.mktemp("certificates") / name for name in ("ours", "others")]
    for folder in found:
        make(folder)
    return found


@pytest.fixture(scope="module")
def cluster(folders, tmp_path_factory):
    """The port of a scheduler that was told of certificates by the environment alone, with a worker."""
    cwd, port = tmp_path_factory.mktemp("cluster"), free_port()
    with processes(cwd) as some:
        options = {"path": ROOT, "env": {"DASK_CONFIG": str(folders[0])}}
        for module, *words in (
            ("dask_scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard"),
            ("dask_worker", f"127.0.0.1:{port}", "--nthreads", "1", "--no-dashboard"),
        ):
            some.start("-m", f"distributed.cli.{module}", *words, **options)
        until(lambda: is_open(port))
        yield port


def is_open(port):
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = DataFolder(tmp_path_factory.mktemp("store") / "data")
    with found.lock():  # which makes it
        pass
    return found


def told(folder):
    """All that Dask is told where these are its certificates."""
    return dask.config.merge(dask.config.config, settings(folder))


def mixed(folders, where):
    """Who trusts the cluster, but is of another one."""
    where.mkdir()
    (where / AUTHORITY).write_bytes((folders[0] / AUTHORITY).read_bytes())
    (where / CERTIFICATE).write_bytes((folders[1] / CERTIFICATE).read_bytes())
    return where


def note(address, config, folder):
    """What somebody who waits for a scheduler is told."""
    with dask.config.set(config), closing(DaskExecutor(Remote(address), folder)) as executor:
        executor.look()
        assert executor.client is None
        return executor.note()


def test_files_are_for_their_owner_alone(tmp_path):
    mask = os.umask(0)
    try:
        make(tmp_path / "new" / "folder")
    finally:
        os.umask(mask)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "new").rglob("*")}
    assert modes == {"folder": 0o700, AUTHORITY: 0o600, CERTIFICATE: 0o600, SETTINGS: 0o600}


def test_what_is_there_is_kept_unless_it_is_told_otherwise(tmp_path):
    make(tmp_path)
    before = (tmp_path / CERTIFICATE).read_bytes()
    with pytest.raises(InvalidInput, match="--force"):
        make(tmp_path)
    assert (tmp_path / CERTIFICATE).read_bytes() == before
    make(tmp_path, force=True)
    assert (tmp_path / CERTIFICATE).read_bytes() != before
    assert {path.name for path in tmp_path.iterdir()} == {AUTHORITY, CERTIFICATE, SETTINGS}


def test_certificates_that_were_half_written_are_made_again(tmp_path):
    make(tmp_path)
    (tmp_path / SETTINGS).unlink()
    make(tmp_path)
    context = ssl.create_default_context(cafile=tmp_path / AUTHORITY)
    context.load_cert_chain(tmp_path / CERTIFICATE)


def test_an_address_must_fit_what_dask_is_told(folders):
    with pytest.raises(InvalidInput, match="needs certificates"):
        Remote("tls://127.0.0.1:8786")
    with dask.config.set(told(folders[0])):
        assert Remote("127.0.0.1:8786").address  # which Dask takes for tls://
        with pytest.raises(InvalidInput, match="not encrypted"):
            Remote("tcp://127.0.0.1:8786")
    with (
        dask.config.set(told(folders[0] / "elsewhere")),
        pytest.raises(InvalidInput, match=r"elsewhere.*No such file"),
    ):
        Remote("tls://127.0.0.1:8786")


def test_who_has_the_certificates_gets_in_and_work_is_done(folders, cluster):
    with (
        dask.config.set(told(folders[0])),
        closing(Remote(f"tls://127.0.0.1:{cluster}").connect()) as client,
    ):
        assert client.submit(sum, [1, 2]).result(timeout=60) == 3
        (worker,) = client.scheduler_info()["workers"].values()
    assert worker["nanny"].startswith("tls://")


@pytest.mark.slow
def test_the_doctor_speaks_tls(folders, cluster, folder):
    words = ["doctor", "--scheduler", f"tls://127.0.0.1:{cluster}", "--data", folder.root]
    env = {**os.environ, "DASK_CONFIG": str(folders[0]), "PYTHONPATH": str(ROOT)}
    found = subprocess.run(
        [sys.executable, "-m", "sweep_service.cli", *words], env=env, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stderr
    assert f"tls://127.0.0.1:{cluster}" in found.stdout


def test_a_service_does_not_begin_without_them(tmp_path):
    with pytest.raises(InvalidInput, match="sweep certificates"):
        create_app(Settings(data=tmp_path / "data", scheduler="tls://127.0.0.1:8786"))


def test_others_are_turned_away_and_told_why(folders, cluster, folder, tmp_path):
    address = f"tls://127.0.0.1:{cluster}"
    assert "certificate that ours do not know" in note(address, told(folders[1]), folder)
    assert "it may want TLS" in note(f"tcp://127.0.0.1:{cluster}", {}, folder)
    assert "waiting for the scheduler" in note(address, told(mixed(folders, tmp_path / "mixed")), folder)


def test_a_scheduler_without_tls_is_not_spoken_to(folders, folder):
    with socket.create_server(("127.0.0.1", 0)) as plain, dask.config.set(told(folders[0])):
        # It answers in plain words, as a scheduler without certificates does.
        executor = DaskExecutor(Remote(f"tls://127.0.0.1:{plain.getsockname()[1]}"), folder, patience=0.0)
        with closing(executor):
            executor.look()
            other, _ = plain.accept()
            with other:
                assert other.recv(1) == b"\x16"  # the beginning of a TLS handshake, and nothing else
                other.sendall(b"\x00" * 64)
            until(lambda: (executor.look(), "does not speak TLS" in executor.note())[1])


@pytest.mark.parametrize("certificate", [None, "others"])
def test_the_scheduler_itself_turns_strangers_away(folders, cluster, certificate):
    """Whatever program they use."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(folders[0] / AUTHORITY)
    if certificate:
        context.load_cert_chain(folders[1] / CERTIFICATE)
    with (
        socket.create_connection(("127.0.0.1", cluster), timeout=30) as plain,
        context.wrap_socket(plain) as secure,
        pytest.raises(ssl.SSLError, match=r"certificate required|unknown ca"),
    ):
        secure.recv(1)


@pytest.mark.slow
def test_an_embedded_cluster_uses_them_too(folders, tmp_path):
    env = {**os.environ, "DASK_CONFIG": str(folders[0]), "PYTHONPATH": str(ROOT)}
    words = ["run", "-", "--workers", "1", "--no-figure", "--json", "--data", tmp_path / "data"]
    found = subprocess.run(
        [sys.executable, "-m", "sweep_service.cli", *words], env=env, input=json.dumps(SMALL),
        capture_output=True, text=True,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)["state"] == "completed"
