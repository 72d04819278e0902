"""A Dask cluster whose workers are SLURM jobs, which start for sweeps and end after them.

    python deploy/slurm/cluster.py --partition short --account physics --maximum 640

runs a scheduler on this (head) node until Ctrl-C, and prints how to start the service. `--show` only
prints the job script. It needs `pip install dask-jobqueue`, and this package at the same path on every
node. Anyone who can connect to a plain scheduler can run code as you, and on a head node every user can:
so certificates are required, in the folder DASK_CONFIG (see `sweep certificates FOLDER`).
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import threading
from pathlib import Path

import dask
from dask_jobqueue.slurm import SLURMCluster
from distributed import Security

from sweep_service.workers.cluster import DASK_SETTINGS

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
CHECKPOINT_SECONDS = 300  # before the end of a job, for a worker to stop and write a checkpoint
SCALING_INTERVAL_SECONDS = 2


def main() -> None:
    parser = arguments()
    options = parser.parse_args()
    if not (options.plain or Security().require_encryption):
        parser.error("needs certificates: run `sweep certificates FOLDER`, set DASK_CONFIG; or --plain")
    with dask.config.set(DASK_SETTINGS), cluster(options) as slurm_cluster:
        if options.show:
            print(slurm_cluster.job_script())
            return
        checks = max(1, options.idle // SCALING_INTERVAL_SECONDS)
        interval = f"{SCALING_INTERVAL_SECONDS} s"
        slurm_cluster.adapt(
            minimum=options.minimum, maximum=options.maximum, interval=interval, wait_count=checks
        )
        print(f"sweep serve --scheduler {slurm_cluster.scheduler_address} --data FOLDER", flush=True)
        stopped = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stopped.set())
        stopped.wait()


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minimum", type=int, default=0, help="workers that always run")
    parser.add_argument("--maximum", type=int, default=64, help="workers in all jobs, with one core each")
    parser.add_argument("--cores", type=int, default=16, help="cores of a job")
    parser.add_argument("--memory", default="32GB", help="memory of a job")
    parser.add_argument(
        "--walltime", default="04:00:00", help="time limit of a job, as HH:MM:SS or D-HH:MM:SS"
    )
    parser.add_argument("--partition", help="SLURM partition")
    parser.add_argument("--account", help="SLURM account")
    parser.add_argument(
        "--directive", action="append", default=[], help="another #SBATCH line; may be repeated"
    )
    parser.add_argument("--idle", type=int, default=300, help="seconds without work after which a job ends")
    parser.add_argument("--host", help="address of this node, as seen by the workers")
    parser.add_argument("--interface", help="or the network interface to use, such as ib0")
    parser.add_argument(
        "--port", type=int, default=8786, help="port of the scheduler; the same after a restart"
    )
    parser.add_argument("--logs", default="slurm-logs", help="folder for the logs of jobs")
    parser.add_argument(
        "--dashboard", action="store_true", help="serve Dask's dashboard to all users of this node"
    )
    parser.add_argument("--plain", action="store_true", help="without certificates, on a private network")
    parser.add_argument("--show", action="store_true", help="only print the job script")
    return parser


def cluster(options: argparse.Namespace) -> SLURMCluster:
    """Create a cluster without workers. Dask's settings decide whether it is encrypted, here and in jobs."""
    scheduler = {"port": options.port, "dashboard": options.dashboard, "dashboard_address": ":0"}
    if options.host:
        scheduler["host"] = options.host
    return SLURMCluster(
        cores=options.cores, processes=options.cores, memory=options.memory, walltime=options.walltime,
        queue=options.partition, account=options.account, job_extra_directives=options.directive,
        job_name="sweep-worker", interface=options.interface, python=sys.executable,
        protocol="tls://" if Security().require_encryption else None, scheduler_options=scheduler,
        death_timeout=CHECKPOINT_SECONDS, local_directory="${TMPDIR:-/tmp}", log_directory=options.logs,
        worker_extra_args=["--lifetime", f"{lifetime(options.walltime)}s", "--no-dashboard"],
        job_script_prologue=environment(),
    )  # fmt: skip


def lifetime(walltime: str) -> int:
    """Return the seconds after which a worker closes, before SLURM kills it."""
    days, _, rest = walltime.rpartition("-")
    hours, minutes, seconds = (int(number) for number in rest.split(":"))
    total = (int(days or 0) * 24 + hours) * 3600 + minutes * 60 + seconds
    return max(total - CHECKPOINT_SECONDS, total // 2)


def environment() -> list[str]:
    """Return shell lines that set one thread per process and the Dask settings of this process."""
    variables = dict.fromkeys(THREADS, "1")
    for name, value in DASK_SETTINGS.items():
        if not name.startswith("distributed.nanny."):  # the nanny sets NUMBA_NUM_THREADS, which is in THREADS
            variables["DASK_" + name.upper().replace(".", "__").replace("-", "_")] = str(value)
    if "DASK_CONFIG" in os.environ:
        variables["DASK_CONFIG"] = str(Path(os.environ["DASK_CONFIG"]).absolute())
    return [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]


if __name__ == "__main__":
    main()
