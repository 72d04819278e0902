"""A real SLURM on this machine: a controller, two nodes with one core each, and the authentication service.

Everything has its own folder, ports and configuration; nothing of a SLURM that is installed here is used or
changed. The programs are those of the packages slurmctld, slurmd, slurm-client and munge.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import time as clock
from contextlib import suppress
from pathlib import Path

import pytest

PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "squeue", "scancel", "scontrol")
NODES = ("n0", "n1")
START_SECONDS = 60.0  # other tests use the machine too
CONFIGURATION = """
ClusterName={name}
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
SlurmdTimeout=10
KillWait=30
SchedulerParameters=sched_interval=2,bf_interval=2
MinJobAge=3600
{nodes}
PartitionName=short Nodes={all} Default=YES MaxTime=INFINITE State=UP
"""


class Controller:
    """A controller with two nodes; `sbatch` and the others reach it by the variables of `environment`."""

    def __init__(self, folder):
        missing = [name for name in PROGRAMS if _find(name) is None]
        if missing:
            pytest.skip(f"no SLURM: {', '.join(missing)} not installed (slurmctld slurmd slurm-client munge)")
        if os.geteuid():
            pytest.skip("the daemons of SLURM need root to start jobs")
        self.folder = folder
        self.environment = {"SLURM_CONF": str(folder / "slurm.conf")}
        self.daemons = {}
        (folder / "state").mkdir(parents=True)
        folder.chmod(0o755)
        ports = _free_ports(1 + len(NODES))
        host = socket.gethostname()
        nodes = "\n".join(
            f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=1 RealMemory=2000"
            for name, port in zip(NODES, ports[1:], strict=True)
        )
        text = CONFIGURATION.format(
            name=folder.name, host=host, folder=folder, controller_port=ports[0], nodes=nodes,
            all=",".join(NODES),
        )  # fmt: skip
        (folder / "slurm.conf").write_text(text)

    def start(self):
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        self._start(
            "munged", "--foreground", "--force", f"--key-file={key}", f"--socket={self.folder}/munge.socket",
            f"--pid-file={self.folder}/munged.pid", f"--seed-file={self.folder}/munge.seed",
            f"--log-file={self.folder}/munged.log",
        )  # fmt: skip
        self._await(lambda: (self.folder / "munge.socket").exists(), "munged")
        self._start("slurmctld", "-D", "-f", self.folder / "slurm.conf")
        for name in NODES:
            self.start_node(name)
        self._await(lambda: self.node_states() == dict.fromkeys(NODES, "IDLE"), "nodes")

    def start_node(self, name):
        self._start("slurmd", "-D", "-N", name, "-f", self.folder / "slurm.conf", key=name)

    def _start(self, program, *arguments, key=None):
        log = open(self.folder / f"{key or program}.out", "ab")  # noqa: SIM115
        self.daemons[key or program] = subprocess.Popen(
            [_find(program), *map(str, arguments)], stdout=log, stderr=log, cwd=self.folder,
            env={**os.environ, **self.environment}, start_new_session=True,
        )  # fmt: skip
        log.close()

    def _await(self, condition, what):
        end = clock.monotonic() + START_SECONDS
        while not condition():
            assert clock.monotonic() < end, f"{what} not ready after a minute\n{self.read_logs()}"
            clock.sleep(0.2)

    def ask(self, *command):
        """Return the output of a SLURM command, or "" if it fails."""
        result = subprocess.run(
            command, capture_output=True, text=True, check=False, env={**os.environ, **self.environment}
        )
        return result.stdout if result.returncode == 0 else ""

    def node_states(self):
        """Return the state of each node, without marks such as that of a node that does not answer."""
        text = self.ask("scontrol", "--oneliner", "show", "nodes")
        found = re.findall(r"NodeName=(\S+).*?State=([A-Z]+)", text)
        return dict(found)

    def jobs(self):
        """Return the state and the node of each job, ended ones included."""
        text = self.ask("scontrol", "--oneliner", "show", "jobs")
        return {
            int(number): (state, node)
            for number, state, node in re.findall(r"JobId=(\d+).*?JobState=(\w+).*? NodeList=(\S*)", text)
        }

    def running(self):
        """Return the numbers of the running jobs by node."""
        return {node: number for number, (state, node) in self.jobs().items() if state == "RUNNING"}

    def lose_node(self, name):
        """Kill everything of a node at once, as when a machine loses its power."""
        daemon = self.daemons.pop(name)
        families = {daemon.pid, *self._find_steps(name)}
        victims = families | {child for family in families for child in _find_descendants(family)}
        for process in victims:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        daemon.wait()
        return len(victims)

    def _find_steps(self, name):
        """Return the processes of SLURM that hold the jobs of a node."""
        jobs = [number for number, (state, node) in self.jobs().items() if (state, node) == ("RUNNING", name)]
        titles = {f"slurmstepd: [{number}." for number in jobs}
        return {
            process for process, title in _list_processes() if any(title.startswith(mark) for mark in titles)
        }

    def read_logs(self):
        files = [*self.folder.glob("*.log"), *self.folder.glob("*.out")]
        return "\n".join(f"== {file.name}\n{file.read_text()[-1500:]}" for file in files)

    def close(self):
        for number in self.running().values():
            self.ask("scancel", "--signal=KILL", "--full", str(number))
            self.ask("scancel", str(number))
        end = clock.monotonic() + 15.0
        while self.running() and clock.monotonic() < end:
            clock.sleep(0.2)
        for daemon in reversed(self.daemons.values()):
            daemon.terminate()
        for daemon in self.daemons.values():
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


def _find(program):
    return shutil.which(program, path=f"{os.environ['PATH']}{os.pathsep}/usr/sbin{os.pathsep}/sbin")


def _free_ports(count):
    """Return different ports that were free a moment ago."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in sockets]
    for listener in sockets:
        listener.close()
    return ports


def _list_processes():
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            title = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            yield int(path.name), title


def _find_descendants(parent):
    children = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found, waiting = set(), [parent]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            found.add(child)
            waiting.append(child)
    return found
