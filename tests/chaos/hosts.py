"""Hosts in network namespaces on a bridge, which can be cut off from each other."""

import ctypes
import os
import shutil
import subprocess
import sys
import uuid
from contextlib import contextmanager

import pytest

NETWORK = "10.77.0"
CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def ip(*arguments):
    subprocess.run(["ip", *map(str, arguments)], check=True, capture_output=True, text=True)


class Hosts:
    """Named hosts with an address each, invisible outside their network."""

    def __init__(self):
        self.mark, self.names = f"sweep-{uuid.uuid4().hex[:8]}", list[str]()
        self.switch = f"{self.mark}-switch"
        try:
            ip("netns", "add", self.switch)
            ip("-n", self.switch, "link", "add", "bridge", "type", "bridge")
            ip("-n", self.switch, "link", "set", "bridge", "up")
        except subprocess.CalledProcessError:
            self.close()
            raise

    def add(self, name):
        """Add a host and return its address."""
        self.names.append(name)
        space, number = self.space(name), len(self.names)
        ip("netns", "add", space)
        ip("-n", space, "link", "add", "port", "type", "veth", "peer", "name", name, "netns", self.switch)
        ip("-n", self.switch, "link", "set", name, "master", "bridge", "up")
        ip("-n", space, "address", "add", f"{NETWORK}.{number}/24", "dev", "port")
        for device in ("port", "lo"):
            ip("-n", space, "link", "set", device, "up")
        return f"{NETWORK}.{number}"

    def space(self, name):
        return f"{self.mark}-{name}"

    def on(self, name):
        """Return the prefix of a command that is to run on a host."""
        return ["ip", "netns", "exec", self.space(name)]

    def cut(self, name, way):
        """Cut a host off the network in one of the `WAYS`."""
        WAYS[way][0](self, name)

    def heal(self, name, way):
        WAYS[way][1](self, name)

    def _link(self, name, state):
        ip("-n", self.switch, "link", "set", name, state)

    def _deaf(self, name, what):
        """Drop packets to a host, but deliver those that it sends."""
        rule = ["iptables", "-w", what, "INPUT", "-i", "port", "-j", "DROP"]
        subprocess.run([*self.on(name), *rule], check=True, capture_output=True)

    def close(self):
        for space in (*map(self.space, self.names), self.switch):
            subprocess.run(["ip", "netns", "delete", space], capture_output=True)

    @contextmanager
    def inside(self, name):
        """Move this thread to the host: new sockets belong to its network."""
        with (
            open("/proc/thread-self/ns/net") as own_namespace,
            open(f"/run/netns/{self.space(name)}") as namespace,
        ):
            _enter(namespace)
            try:
                yield
            finally:
                _enter(own_namespace)


WAYS = {
    "unplugged": (lambda hosts, name: hosts._link(name, "down"), lambda hosts, name: hosts._link(name, "up")),
    "silent": (
        lambda hosts, name: ip("-n", hosts.switch, "link", "set", name, "nomaster"),
        lambda hosts, name: ip("-n", hosts.switch, "link", "set", name, "master", "bridge"),
    ),
    "deaf": (lambda hosts, name: hosts._deaf(name, "-A"), lambda hosts, name: hosts._deaf(name, "-D")),
}


def _enter(space):
    if _libc.setns(space.fileno(), CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


def hosts_or_skip():
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        pytest.skip("network namespaces need Linux and root")
    if missing := [name for name in ("ip", "iptables") if shutil.which(name) is None]:
        pytest.skip(f"{' and '.join(missing)} not found: install iproute2 and iptables")
    try:
        return Hosts()
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no network namespaces here: {error.stderr.strip()}")
