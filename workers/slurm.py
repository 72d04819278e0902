"""A Dask cluster whose workers are SLURM jobs, which start for sweeps and end after them.

The scheduler runs in this process, on the head node. Anyone who can connect to a plain scheduler can run code
as its owner, and on a head node every user can, so certificates are required (see `sweep certificates`).
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import dask
from distributed import Security

from sweep_service.errors import InvalidInput
from sweep_service.workers.cluster import DASK_SETTINGS

if TYPE_CHECKING:
    from dask_jobqueue.slurm import SLURMCluster

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
CHECKPOINT_SECONDS = 300  # before the end of a job, for a worker to stop and write a checkpoint
SCALING_INTERVAL_SECONDS = 2
WALLTIME = re.compile(r"(?:(\d+)-)?(\d{1,2}):([0-5]\d):([0-5]\d)")


@dataclass(frozen=True)
class Jobs:
    """What each job asks of SLURM, and how many workers there may be."""

    partition: str | None = None
    account: str | None = None
    cores: int = 16
    memory: str = "32GB"
    walltime: str = "04:00:00"
    directives: tuple[str, ...] = ()  # other #SBATCH lines
    logs: str = "slurm-logs"
    minimum: int = 0  # workers, with one core each
    maximum: int = 64
    idle_seconds: int = 300  # without work, after which a job ends


@dataclass(frozen=True)
class SchedulerAddress:
    """Where the scheduler listens on the head node, and what it serves there."""

    port: int = 8786
    host: str | None = None  # as seen by the workers
    interface: str | None = None  # or the network interface to use, such as ib0
    dashboard: bool = False


def require_certificates() -> None:
    """Refuse to start a scheduler that every user of the head node could use.

    Raises
    ------
    InvalidInput
        If Dask's configuration does not require encryption.
    """
    if not Security().require_encryption:
        allowed = (
            "needs the folder of certificates: run `sweep certificates FOLDER`, then set DASK_CONFIG=FOLDER; "
            "or give --plain on a network that only you can reach"
        )
        raise InvalidInput("DASK_CONFIG", os.environ.get("DASK_CONFIG", ""), allowed)


def run_cluster(
    jobs: Jobs, address: SchedulerAddress, announce: Callable[[str], None], wait: Callable[[], None]
) -> None:
    """Run a scheduler, and jobs when there is work, until `wait` returns.

    Parameters
    ----------
    jobs
        The jobs.
    address
        Where the scheduler listens.
    announce
        Called with the address of the scheduler when it is ready.
    wait
        Blocks until the cluster shall end.
    """
    with dask.config.set(DASK_SETTINGS), create_cluster(jobs, address) as cluster:
        checks = max(1, jobs.idle_seconds // SCALING_INTERVAL_SECONDS)
        interval = f"{SCALING_INTERVAL_SECONDS} s"
        cluster.adapt(minimum=jobs.minimum, maximum=jobs.maximum, interval=interval, wait_count=checks)
        announce(cluster.scheduler_address)
        wait()


def write_job_script(jobs: Jobs, address: SchedulerAddress) -> str:
    """Return the script that `run_cluster` would submit."""
    with dask.config.set(DASK_SETTINGS), create_cluster(jobs, address) as cluster:
        return cluster.job_script()


def create_cluster(jobs: Jobs, address: SchedulerAddress) -> SLURMCluster:
    """Create a cluster without workers. Dask's settings decide whether it is encrypted, here and in jobs.

    Raises
    ------
    InvalidInput
        If dask-jobqueue is not installed, or the walltime is malformed.
    """
    try:
        from dask_jobqueue.slurm import SLURMCluster
    except ImportError:
        allowed = "must be installed for `sweep slurm`: pip install dask-jobqueue"
        raise InvalidInput("package", "dask-jobqueue", allowed) from None

    lifetime = worker_lifetime(jobs.walltime)
    scheduler = {"port": address.port, "dashboard": address.dashboard, "dashboard_address": ":0"}
    if address.host:
        scheduler["host"] = address.host
    return SLURMCluster(
        cores=jobs.cores, processes=jobs.cores, memory=jobs.memory, walltime=jobs.walltime,
        queue=jobs.partition, account=jobs.account, job_extra_directives=list(jobs.directives),
        job_name="sweep-worker", interface=address.interface, python=sys.executable,
        protocol="tls://" if Security().require_encryption else None, scheduler_options=scheduler,
        death_timeout=CHECKPOINT_SECONDS, local_directory="${TMPDIR:-/tmp}", log_directory=jobs.logs,
        worker_extra_args=["--lifetime", f"{lifetime}s", "--no-dashboard"],
        job_script_prologue=export_environment(),
    )  # fmt: skip


def worker_lifetime(walltime: str) -> int:
    """Return the seconds after which a worker closes, before SLURM kills it.

    Raises
    ------
    InvalidInput
        If the walltime is not written as HH:MM:SS or D-HH:MM:SS.
    """
    match = WALLTIME.fullmatch(walltime)
    if match is None:
        raise InvalidInput("walltime", walltime, "must be HH:MM:SS or D-HH:MM:SS")
    days, hours, minutes, seconds = (int(number or 0) for number in match.groups())
    total = (days * 24 + hours) * 3600 + minutes * 60 + seconds
    if total < 60:
        raise InvalidInput("walltime", walltime, "must be at least one minute, SLURM's resolution")
    return max(total - CHECKPOINT_SECONDS, total // 2)


def export_environment() -> list[str]:
    """Return shell lines that set one thread per process and the Dask settings of this process."""
    variables = dict.fromkeys(THREADS, "1")
    for name, value in DASK_SETTINGS.items():
        if not name.startswith("distributed.nanny."):  # the nanny sets NUMBA_NUM_THREADS, which is in THREADS
            variables["DASK_" + name.upper().replace(".", "__").replace("-", "_")] = str(value)
    if "DASK_CONFIG" in os.environ:
        variables["DASK_CONFIG"] = str(Path(os.environ["DASK_CONFIG"]).absolute())
    return [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
