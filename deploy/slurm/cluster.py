"""A Dask cluster whose workers are SLURM jobs: they come for sweeps, and go after them.

    python deploy/slurm/cluster.py --partition short --account physics --maximum 640

runs a scheduler here, on a head node, until Ctrl-C, and prints how to start the service. `--show` prints
the job script and does nothing else. It needs `pip install dask-jobqueue`, and this package, at the same
path on every node. Whoever reaches a plain scheduler can run code as you, and on a head node everybody
does: so certificates are needed, in a folder that DASK_CONFIG names (`sweep certificates FOLDER`).
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

from sweep_service.workers.cluster import SETTINGS

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
FAREWELL = 300  # seconds before the end of a job in which a worker stops, and leaves a checkpoint
LOOK = 2  # seconds between two looks at how many workers are needed


def main() -> None:
    parser = arguments()
    given = parser.parse_args()
    if not (given.plain or Security().require_encryption):
        parser.error("needs certificates: `sweep certificates FOLDER`, export DASK_CONFIG=FOLDER; or --plain")
    with dask.config.set(SETTINGS), cluster(given) as found:
        if given.show:
            print(found.job_script())
            return
        patience = max(1, given.idle // LOOK)
        found.adapt(minimum=given.minimum, maximum=given.maximum, interval=f"{LOOK} s", wait_count=patience)
        print(f"sweep serve --scheduler {found.scheduler_address} --data FOLDER", flush=True)
        stopped = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stopped.set())
        stopped.wait()


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minimum", type=int, default=0, help="workers that are always there")
    parser.add_argument("--maximum", type=int, default=64, help="workers, one core each, over all jobs")
    parser.add_argument("--cores", type=int, default=16, help="of a job")
    parser.add_argument("--memory", default="32GB", help="of a job")
    parser.add_argument("--walltime", default="04:00:00", help="of a job, as HH:MM:SS or D-HH:MM:SS")
    parser.add_argument("--partition", help="where jobs go")
    parser.add_argument("--account", help="who pays")
    parser.add_argument("--directive", action="append", default=[], help="any other line for #SBATCH")
    parser.add_argument("--idle", type=int, default=300, help="seconds without work after which a job ends")
    parser.add_argument("--host", help="address of this node, for the others")
    parser.add_argument("--interface", help="or the network by which they reach it, such as ib0")
    parser.add_argument("--port", type=int, default=8786, help="of the scheduler; the same after a restart")
    parser.add_argument("--logs", default="slurm-logs", help="a folder for what jobs say")
    parser.add_argument("--dashboard", action="store_true", help="Dask's, open to all who reach this node")
    parser.add_argument("--plain", action="store_true", help="without certificates, on a network of your own")
    parser.add_argument("--show", action="store_true", help="print the script of a job, and end")
    return parser


def cluster(given: argparse.Namespace) -> SLURMCluster:
    """With no workers yet. Dask's own settings say whether it is encrypted, here and in the jobs."""
    scheduler = {"port": given.port, "dashboard": given.dashboard, "dashboard_address": ":0"}
    if given.host:
        scheduler["host"] = given.host
    return SLURMCluster(
        cores=given.cores, processes=given.cores, memory=given.memory, walltime=given.walltime,
        queue=given.partition, account=given.account, job_extra_directives=given.directive,
        job_name="sweep-worker", interface=given.interface, python=sys.executable,
        protocol="tls://" if Security().require_encryption else None, scheduler_options=scheduler,
        death_timeout=FAREWELL, local_directory="${TMPDIR:-/tmp}", log_directory=given.logs,
        worker_extra_args=["--lifetime", f"{lifetime(given.walltime)}s", "--no-dashboard"],
        job_script_prologue=environment(),
    )  # fmt: skip


def lifetime(walltime: str) -> int:
    """Seconds after which a worker leaves by itself: SLURM would kill it at the last."""
    days, _, rest = walltime.rpartition("-")
    hours, minutes, seconds = (int(part) for part in rest.split(":"))
    total = (int(days or 0) * 24 + hours) * 3600 + minutes * 60 + seconds
    return max(total - FAREWELL, total // 2)


def environment() -> list[str]:
    """Lines of shell: one thread for each process, and what Dask is told here."""
    known = dict.fromkeys(THREADS, "1")
    for name, value in SETTINGS.items():
        if not name.startswith("distributed.nanny."):  # which has the threads
            known["DASK_" + name.upper().replace(".", "__").replace("-", "_")] = str(value)
    if "DASK_CONFIG" in os.environ:
        known["DASK_CONFIG"] = str(Path(os.environ["DASK_CONFIG"]).absolute())
    return [f"export {name}={shlex.quote(value)}" for name, value in known.items()]


if __name__ == "__main__":
    main()
