"""The stack of docker-compose.yml: as it is written, and on a real engine, where everything in it is killed.

Without an engine most of it is skipped; engine.sh beside this file starts one.
"""

import json
import os
import shutil
import socket
import subprocess
import time as clock
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile

import httpx
import pytest
import xarray as xr
import yaml

import sweep_service as ss
from sweep_service.store.folder import DataFolder
from sweep_service.workers.cluster import Embedded
from sweep_service.workers.executor import DaskExecutor
from tests.stored import computed

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "a-secret-of-the-tests"
SPEC = {
    "name": "through storms",
    "axes": {
        "d": [60, 120],
        "p": [4, 8],
        "gamma": [0.1, 0.2, 0.4],
        "regime": ["classical_noise", "high_dimensional"],
    },
    "fixed": {"k": 2, "noise": 1e-3},
    "seeds": {"init": 4, "repeat": 4},
    "time": {"max": 900.0, "samples": 8},
}  # some minutes of one core, so that all storms come while it is computed
PATIENCE = 600.0  # seconds: of containers, on a machine that has other things to do


@cache
def compose():
    """The command, of whichever generation."""
    for words in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(words[0]) and not subprocess.run([*words, "version"], capture_output=True).returncode:
            return words
    return None


def config(**env):
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("SWEEP_", "AWS_"))}
    with NamedTemporaryFile() as empty:  # and not what somebody has in .env
        words = [*compose(), "--file", ROOT / "docker-compose.yml", "--env-file", empty.name, "config"]
        return subprocess.run(words, env={**plain, **env}, capture_output=True, text=True)


@pytest.fixture(scope="module")
def services():
    found = config(SWEEP_TOKENS=TOKEN)
    assert found.returncode == 0, found.stderr
    return yaml.safe_load(found.stdout)["services"]


@pytest.mark.skipif(compose() is None, reason="there is no docker-compose here")
class TestWritten:
    """Needs no engine."""

    def test_it_does_not_start_without_tokens(self):
        for env in ({}, {"SWEEP_TOKENS": ""}):
            found = config(**env)
            assert found.returncode != 0
            assert "openssl rand" in found.stderr

    def test_only_the_service_is_published_and_only_on_this_machine(self, services):
        assert [name for name, one in services.items() if one.get("ports")] == ["api"]
        assert "127.0.0.1" in str(services["api"]["ports"])
        assert [name for name, one in services.items() if "outside" in (one.get("networks") or ())] == ["api"]

    @pytest.mark.parametrize("name", ["api", "scheduler", "worker"])
    def test_everything_is_closed_restarted_and_looked_after(self, services, name):
        one = services[name]
        assert one["read_only"]
        assert one["cap_drop"] == ["ALL"]
        assert one["security_opt"] == ["no-new-privileges:true"]
        assert one["restart"] == "always"
        assert one["environment"]["DASK_CONFIG"] == "/certificates"
        assert name == "api" or one["healthcheck"]["test"]  # that of the service is in the image


def docker(*words, check=True):
    return subprocess.run(["docker", *map(str, words)], check=check, capture_output=True, text=True).stdout


def about(container):
    return json.loads(docker("inspect", container))[0]


def until(holds, seconds=PATIENCE):
    end = clock.monotonic() + seconds
    while not (found := holds()):
        assert clock.monotonic() < end, f"after {seconds:g} s still not so"
        clock.sleep(0.5)
    return found


class Stack:
    """A project of compose with names, a port and volumes of its own."""

    def __init__(self, log, **env):
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
        self.url, self.log = f"http://127.0.0.1:{port}", log
        self.env = {
            **os.environ, "COMPOSE_PROJECT_NAME": f"sweep-{uuid.uuid4().hex[:8]}", "SWEEP_TOKENS": TOKEN,
            "SWEEP_PUBLISH": f"127.0.0.1:{port}", "SWEEP_IMAGE": "sweep-service:test", **env,
        }  # fmt: skip

    @property
    def label(self):
        return f"label=com.docker.compose.project={self.env['COMPOSE_PROJECT_NAME']}"

    def compose(self, *words):
        with open(self.log, "ab") as log:
            subprocess.run(
                [*compose(), "--file", ROOT / "docker-compose.yml", *words], env=self.env, cwd=ROOT,
                stdout=log, stderr=log, check=True,
            )  # fmt: skip

    def containers(self, service):
        of = f"label=com.docker.compose.service={service}"
        return docker("ps", "--all", "--quiet", "--filter", self.label, "--filter", of).split()

    def is_healthy(self, *services):
        states = [about(one)["State"] for name in services for one in self.containers(name)]
        return all(one["Running"] and one["Health"]["Status"] == "healthy" for one in states)

    def client(self):
        return ss.Client(self.url, token=TOKEN)

    def down(self):
        self.compose("logs", "--no-color")
        self.compose("down", "--volumes", "--remove-orphans", "--timeout", "5")


@pytest.fixture(scope="module")
def engine():
    if shutil.which("docker") is None or compose() is None:
        pytest.skip("docker and docker-compose are not installed")
    found = subprocess.run(["docker", "version"], capture_output=True, text=True)
    if found.returncode:
        pytest.skip("no Docker engine answers here; tests/compose/engine.sh starts one")


@contextmanager
def running(log, *services, **env):
    """Started, with two workers and all of it healthy; in the end nothing of it is left."""
    found = Stack(log, **env)
    try:
        found.compose("build")
        found.compose("up", "--detach", "--scale", "worker=2")
        until(lambda: found.is_healthy("api", "scheduler", "worker", *services))
        until(lambda: len(found.client().cluster()["workers"]) == 2)
        yield found
    finally:
        found.down()
        for kind in ("container", "volume", "network"):
            words = ["--all"] if kind == "container" else []
            assert docker(kind, "ls", *words, "--quiet", "--filter", found.label) == "", kind


@pytest.fixture(scope="module")
def stack(engine, tmp_path_factory):
    with running(tmp_path_factory.mktemp("compose") / "log") as found:
        yield found


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The same sweep where nothing happens, in an embedded cluster."""
    root = tmp_path_factory.mktemp("embedded") / "data"
    executor = DaskExecutor(Embedded(2), DataFolder(root))
    return plain(computed(root, SPEC, executor))


def plain(dataset):
    return dataset.load().drop_vars(["sgd_seconds", "ode_seconds"]).drop_attrs()


@pytest.mark.slow
@pytest.mark.timeout(2400)
class TestRunning:
    def test_nobody_gets_in_without_a_token(self, stack):
        for path in ("/v1/sweeps", "/dask/status", "/metrics", "/docs"):
            assert httpx.get(stack.url + path).status_code == 401, path
        headers = {"Authorization": f"Bearer {TOKEN}"}
        assert httpx.get(f"{stack.url}/dask/status", headers=headers).status_code == 200
        assert httpx.get(f"{stack.url}/healthz").status_code == 200

    def test_the_scheduler_is_not_published_and_the_inside_has_no_way_out(self, stack):
        for name, wanted in (("api", ["8000/tcp"]), ("scheduler", []), ("worker", [])):
            for one in stack.containers(name):
                ports = about(one)["NetworkSettings"]["Ports"]
                assert [port for port, hosts in ports.items() if hosts] == wanted
        (api,) = stack.containers("api")
        ((published,),) = [hosts for hosts in about(api)["NetworkSettings"]["Ports"].values() if hosts]
        assert published["HostIp"] == "127.0.0.1"
        for name in ("scheduler", "worker"):
            (network,) = about(stack.containers(name)[0])["NetworkSettings"]["Networks"]
            assert json.loads(docker("network", "inspect", network))[0]["Internal"]

    @pytest.mark.parametrize("name", ["api", "scheduler", "worker"])
    def test_nobody_is_root_or_can_become_it(self, stack, name):
        for one in stack.containers(name):
            assert docker("exec", one, "id", "-u").strip() == "10001"
            status = docker("exec", one, "cat", "/proc/1/status")
            assert "CapEff:\t0000000000000000" in status
            assert "NoNewPrivs:\t1" in status
            assert about(one)["HostConfig"]["ReadonlyRootfs"]

    def test_all_that_dask_says_is_encrypted(self, stack):
        (scheduler,) = stack.containers("scheduler")
        log = subprocess.run(["docker", "logs", scheduler], capture_output=True, text=True)
        assert "Scheduler at:     tls://" in log.stdout + log.stderr
        assert "tcp://" not in log.stdout + log.stderr
        without = docker("exec", scheduler, "python3", "-c", STRANGER)
        assert "certificate required" in without

    def test_whatever_is_killed_the_dataset_is_that_of_an_embedded_run(self, stack, expected):
        with stack.client() as client, ThreadPoolExecutor(1) as pool:
            sweep = client.submit(SPEC)["id"]
            with stack.client() as watching:  # which goes on through all of it
                ending = pool.submit(watching.wait, sweep, progress=False, timeout=1800)
                storms = [self._worker_killed, self._service_killed, self._scheduler_restarted]
                for storm in storms:
                    self._gone_on(client, sweep)
                    storm(stack, client)
                assert ending.result()["state"] == "completed"
            found = client.sweep(sweep)
            assert found["counts"] == {"done": found["runs"]}
            xr.testing.assert_identical(plain(client.open(sweep)), expected)
        (worker, *_) = stack.containers("worker")
        files = docker("exec", worker, "find", "/data/sweeps", "-type", "f").split()
        assert [one for one in files if one.endswith((".npz", ".partial", ".crumb", ".checkpoint"))] == []

    def _gone_on(self, client, sweep):
        """Something more is computed, and there is more to compute."""
        before = client.sweep(sweep)["bundles_left"]
        left = until(lambda: (now := client.sweep(sweep)["bundles_left"]) < before and now)
        assert left > 1, "it was over before it could be disturbed"

    def _worker_killed(self, stack, client):
        one, other = stack.containers("worker")
        docker("kill", one)
        until(lambda: len(client.cluster()["workers"]) == 1)
        assert about(other)["State"]["Running"]
        stack.compose("up", "--detach", "--scale", "worker=2", "--no-recreate")
        until(lambda: len(client.cluster()["workers"]) == 2)

    def _service_killed(self, stack, client):
        (api,) = stack.containers("api")
        docker("kill", api)
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"{stack.url}/healthz", timeout=2.0)
        docker("start", api)
        until(lambda: stack.is_healthy("api"))

    def _scheduler_restarted(self, stack, client):
        """Workers end when they have lost it, and the engine starts them again."""
        before = {one: about(one)["RestartCount"] for one in stack.containers("worker")}
        (scheduler,) = stack.containers("scheduler")
        docker("kill", scheduler)
        until(lambda: client.cluster()["workers"] == [])
        docker("start", scheduler)
        until(lambda: len(client.cluster()["workers"]) == 2)
        after = {one: about(one)["RestartCount"] for one in stack.containers("worker")}
        assert sum(after.values()) > sum(before.values())


BUCKET = {
    "COMPOSE_PROFILES": "s3",
    "SWEEP_DATA": "s3://sweeps/here",
    "AWS_ACCESS_KEY_ID": "tests",
    "AWS_SECRET_ACCESS_KEY": "a-key-of-the-tests",
    "AWS_REGION": "us-east-1",
    "AWS_ENDPOINT_URL": "http://s3:8333",
}


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_with_its_data_in_a_bucket(engine, tmp_path):
    """Of the stack's own S3 server, which goes away for a while."""
    spec = {**SPEC, "time": {"max": 20.0, "samples": 8}}
    with running(tmp_path / "log", "s3", **BUCKET) as stack, stack.client() as client:
        sweep = client.submit(spec)["id"]
        (server,) = stack.containers("s3")
        docker("kill", server)
        docker("start", server)
        assert client.wait(sweep, progress=False, timeout=1200)["state"] == "completed"
        found = plain(client.open(sweep))
        (worker, *_) = stack.containers("worker")
        assert docker("exec", worker, "find", "/data", "-name", "*.zarr") == ""  # nothing here
    xr.testing.assert_identical(found, plain(computed(tmp_path / "data", spec)))


# Somebody who is inside, but has no certificate.
STRANGER = """
import socket, ssl
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
with socket.create_connection(("scheduler", 8786), 10) as plain, context.wrap_socket(plain) as secure:
    try:
        print(secure.recv(1))
    except ssl.SSLError as error:
        print(error.reason.lower().replace("_", " "))
"""
