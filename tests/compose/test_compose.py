"""The stack of docker-compose.yml: as it is written, and on a real engine, where everything in it is killed.

Without an engine most of it is skipped; engine.sh beside this file starts one.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import time as clock
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile

import httpx2
import pytest
import xarray as xr
import yaml

import sweep_service as ss

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
    "time": {"max": 2500.0, "samples": 8},
}  # some minutes of one core, so that all failures happen while it is computed
TIMEOUT_SECONDS = 600.0  # for containers on a busy machine


@cache
def compose():
    """Return the command, `docker compose` or `docker-compose`."""
    for command in (["docker", "compose"], ["docker-compose"]):
        if (
            shutil.which(command[0])
            and not subprocess.run([*command, "version"], capture_output=True).returncode
        ):
            return command
    return None


def config(**env):
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("SWEEP_", "AWS_"))}
    with NamedTemporaryFile() as empty:  # instead of the user's .env
        command = [*compose(), "--file", ROOT / "docker-compose.yml", "--env-file", empty.name, "config"]
        return subprocess.run(command, env={**plain, **env}, capture_output=True, text=True)


@pytest.fixture(scope="module")
def services():
    result = config(SWEEP_TOKENS=TOKEN)
    assert result.returncode == 0, result.stderr
    return yaml.safe_load(result.stdout)["services"]


@pytest.mark.skipif(compose() is None, reason="there is no docker-compose here")
class TestWritten:
    """Without a Docker engine."""

    def test_stack_does_not_start_without_tokens(self):
        result = config()
        assert result.returncode != 0
        assert "openssl rand" in result.stderr

    def test_tokens_may_come_from_a_file(self, tmp_path):
        """With neither a file nor SWEEP_TOKENS the service itself refuses: tests/api/test_tokens.py."""
        (tmp_path / "tokens").write_text(TOKEN)
        result = config(SWEEP_TOKENS="", SWEEP_TOKENS_FILE=str(tmp_path / "tokens"))
        assert result.returncode == 0, result.stderr
        stack = yaml.safe_load(result.stdout)
        assert stack["secrets"]["tokens"]["file"] == str(tmp_path / "tokens")
        assert stack["services"]["api"]["environment"]["SWEEP_TOKENS_FILE"] == "/run/secrets/tokens"
        assert TOKEN not in result.stdout

    def test_memory_and_processes_are_limited(self, services):
        for name, one in services.items():
            assert one["mem_limit"], name
            assert 0 < int(one["pids_limit"]) <= 4096, name

    def test_only_service_is_published_on_loopback(self, services):
        assert [name for name, service in services.items() if service.get("ports")] == ["api"]
        assert "127.0.0.1" in str(services["api"]["ports"])
        assert [
            name for name, service in services.items() if "outside" in (service.get("networks") or ())
        ] == ["api"]

    @pytest.mark.parametrize("name", ["api", "scheduler", "worker"])
    def test_containers_are_hardened_restarted_and_checked(self, services, name):
        service = services[name]
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["restart"] == "always"
        assert service["environment"]["DASK_CONFIG"] == "/certificates"
        assert name == "api" or service["healthcheck"]["test"]  # the image has the check of the service


def docker(*arguments, check=True):
    return subprocess.run(
        ["docker", *map(str, arguments)], check=check, capture_output=True, text=True
    ).stdout


def inspect_container(container):
    return json.loads(docker("inspect", container))[0]


def until(holds, seconds=TIMEOUT_SECONDS):
    end = clock.monotonic() + seconds
    while not (result := holds()):
        assert clock.monotonic() < end, f"after {seconds:g} s still not so"
        clock.sleep(0.5)
    return result


class Stack:
    """A Compose project with its own names, port and volumes."""

    def __init__(self, log, **env):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url, self.log = f"http://127.0.0.1:{port}", log
        self.env = {
            **os.environ, "COMPOSE_PROJECT_NAME": f"sweep-{uuid.uuid4().hex[:8]}", "SWEEP_TOKENS": TOKEN,
            "SWEEP_PUBLISH": f"127.0.0.1:{port}", "SWEEP_IMAGE": "sweep-service:test", **env,
        }  # fmt: skip

    @property
    def label(self):
        return f"label=com.docker.compose.project={self.env['COMPOSE_PROJECT_NAME']}"

    def compose(self, *arguments):
        with open(self.log, "ab") as log:
            subprocess.run(
                [*compose(), "--file", ROOT / "docker-compose.yml", *arguments], env=self.env, cwd=ROOT,
                stdout=log, stderr=log, check=True,
            )  # fmt: skip

    def containers(self, service):
        of = f"label=com.docker.compose.service={service}"
        return docker("ps", "--all", "--quiet", "--filter", self.label, "--filter", of).split()

    def is_healthy(self, *services):
        states = [
            inspect_container(container)["State"] for name in services for container in self.containers(name)
        ]
        return all(state["Running"] and state["Health"]["Status"] == "healthy" for state in states)

    def client(self):
        return ss.Client(self.url, token=TOKEN)

    def down(self):
        self.compose("logs", "--no-color")
        self.compose("down", "--volumes", "--remove-orphans", "--timeout", "5")


@pytest.fixture(scope="module")
def engine():
    if shutil.which("docker") is None or compose() is None:
        pytest.skip("docker and docker-compose are not installed")
    result = subprocess.run(["docker", "version"], capture_output=True, text=True)
    if result.returncode:
        pytest.skip("no Docker engine answers here; tests/compose/engine.sh starts one")


@contextmanager
def running(log, *services, **env):
    """A healthy stack with two workers, which is removed completely afterwards."""
    result = Stack(log, **env)
    try:
        result.compose("build")
        result.compose("up", "--detach", "--scale", "worker=2")
        until(lambda: result.is_healthy("api", "scheduler", "worker", *services))
        until(lambda: len(result.client().cluster()["workers"]) == 2)
        yield result
    finally:
        result.down()
        for kind in ("container", "volume", "network"):
            options = ["--all"] if kind == "container" else []
            assert docker(kind, "ls", *options, "--quiet", "--filter", result.label) == "", kind


@pytest.fixture(scope="module")
def stack(engine, tmp_path_factory):
    with running(tmp_path_factory.mktemp("compose") / "log") as result:
        yield result


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The same sweep in an embedded cluster without failures."""
    return compute_as_in_a_container(tmp_path_factory.mktemp("embedded") / "data", SPEC)


def compute_as_in_a_container(root, spec):
    """Compute a sweep on this machine without its settings of BLAS, which containers do not inherit.

    Another type of core has other last bits.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPENBLAS_")}
    environment |= {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    code = (
        "import json, sys, sweep_service as ss; ss.run(json.loads(sys.argv[1]), data=sys.argv[2], workers=2)"
    )
    subprocess.run([sys.executable, "-c", code, json.dumps(spec), str(root)], env=environment, check=True)
    (sweep,) = ss.sweeps(root)
    return plain(ss.open(sweep["path"]))


def plain(dataset):
    return dataset.load().drop_vars(["sgd_seconds", "ode_seconds"]).drop_attrs()


@pytest.mark.slow
@pytest.mark.timeout(2400)
class TestRunning:
    def test_requests_need_token(self, stack):
        for path in ("/v1/sweeps", "/dask/status", "/metrics", "/docs"):
            assert httpx2.get(stack.url + path).status_code == 401, path
        headers = {"Authorization": f"Bearer {TOKEN}"}
        assert httpx2.get(f"{stack.url}/dask/status", headers=headers).status_code == 200
        assert httpx2.get(f"{stack.url}/healthz").status_code == 200

    def test_scheduler_is_not_published_and_internal_network_is_closed(self, stack):
        for name, wanted in (("api", ["8000/tcp"]), ("scheduler", []), ("worker", [])):
            for container in stack.containers(name):
                ports = inspect_container(container)["NetworkSettings"]["Ports"]
                assert [port for port, hosts in ports.items() if hosts] == wanted
        (api,) = stack.containers("api")
        ((published,),) = [
            hosts for hosts in inspect_container(api)["NetworkSettings"]["Ports"].values() if hosts
        ]
        assert published["HostIp"] == "127.0.0.1"
        for name in ("scheduler", "worker"):
            (network,) = inspect_container(stack.containers(name)[0])["NetworkSettings"]["Networks"]
            assert json.loads(docker("network", "inspect", network))[0]["Internal"]

    @pytest.mark.parametrize("name", ["api", "scheduler", "worker"])
    def test_no_process_is_or_becomes_root(self, stack, name):
        for container in stack.containers(name):
            assert docker("exec", container, "id", "-u").strip() == "10001"
            status = docker("exec", container, "cat", "/proc/1/status")
            assert "CapEff:\t0000000000000000" in status
            assert "NoNewPrivs:\t1" in status
            assert inspect_container(container)["HostConfig"]["ReadonlyRootfs"]

    def test_dask_traffic_is_encrypted(self, stack):
        (scheduler,) = stack.containers("scheduler")
        log = subprocess.run(["docker", "logs", scheduler], capture_output=True, text=True)
        assert "Scheduler at:     tls://" in log.stdout + log.stderr
        assert "tcp://" not in log.stdout + log.stderr
        without = docker("exec", scheduler, "python3", "-c", STRANGER)
        assert "certificate required" in without

    def test_dataset_does_not_depend_on_killed_containers(self, stack, expected):
        with stack.client() as client, ThreadPoolExecutor(1) as pool:
            sweep = client.submit(SPEC)["id"]
            with stack.client() as watching:  # which continues through all failures
                ending = pool.submit(watching.wait, sweep, progress=False, timeout=1800)
                storms = [self._worker_killed, self._service_killed, self._scheduler_restarted]
                for storm in storms:
                    self._gone_on(client, sweep)
                    storm(stack, client)
                assert ending.result()["state"] == "completed"
            description = client.sweep(sweep)
            assert description["counts"] == {"done": description["runs"]}
            xr.testing.assert_identical(plain(client.open(sweep)), expected)
        (worker, *_) = stack.containers("worker")
        files = docker("exec", worker, "find", "/data/sweeps", "-type", "f").split()
        assert [file for file in files if file.endswith((".npz", ".partial", ".crumb", ".checkpoint"))] == []

    def _gone_on(self, client, sweep):
        """Wait for progress, and assert that the sweep has not ended."""
        before = client.sweep(sweep)["bundles_left"]
        assert before > 1, "it was over before it could be disturbed"
        left = until(lambda: (now := client.sweep(sweep)["bundles_left"]) < before and now)
        assert left > 1, "it was over before it could be disturbed"

    def _worker_killed(self, stack, client):
        killed, other = stack.containers("worker")
        docker("kill", killed)
        until(lambda: len(client.cluster()["workers"]) == 1)
        assert inspect_container(other)["State"]["Running"]
        stack.compose("up", "--detach", "--scale", "worker=2", "--no-recreate")
        until(lambda: len(client.cluster()["workers"]) == 2)

    def _service_killed(self, stack, client):
        (api,) = stack.containers("api")
        docker("kill", api)
        with pytest.raises(httpx2.HTTPError):
            httpx2.get(f"{stack.url}/healthz", timeout=2.0)
        docker("start", api)
        until(lambda: stack.is_healthy("api"))

    def _scheduler_restarted(self, stack, client):
        """Workers end when they lose the scheduler, and the engine restarts them."""
        before = {
            container: inspect_container(container)["RestartCount"]
            for container in stack.containers("worker")
        }
        (scheduler,) = stack.containers("scheduler")
        docker("kill", scheduler)
        until(lambda: client.cluster()["workers"] == [])
        docker("start", scheduler)
        until(lambda: len(client.cluster()["workers"]) == 2)
        after = {
            container: inspect_container(container)["RestartCount"]
            for container in stack.containers("worker")
        }
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
def test_data_in_bucket(engine, tmp_path):
    """In the stack's own S3 server, which is stopped for a while."""
    spec = {**SPEC, "time": {"max": 20.0, "samples": 8}}
    with running(tmp_path / "log", "s3", **BUCKET) as stack, stack.client() as client:
        sweep = client.submit(spec)["id"]
        (server,) = stack.containers("s3")
        docker("kill", server)
        docker("start", server)
        assert client.wait(sweep, progress=False, timeout=1200)["state"] == "completed"
        result = plain(client.open(sweep))
        (worker, *_) = stack.containers("worker")
        assert docker("exec", worker, "find", "/data", "-name", "*.zarr") == ""  # no data in the local folder
    xr.testing.assert_identical(result, compute_as_in_a_container(tmp_path / "data", spec))


# A client in the internal network without a certificate.
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
