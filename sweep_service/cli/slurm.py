"""`sweep slurm`: a Dask cluster whose workers are SLURM jobs."""

from __future__ import annotations

import signal
import threading
from typing import Annotated

import typer


def slurm(
    partition: Annotated[str | None, typer.Option("--partition", help="SLURM partition.")] = None,
    account: Annotated[str | None, typer.Option("--account", help="SLURM account.")] = None,
    cores: Annotated[int, typer.Option("--cores", min=1, help="Cores of a job.")] = 16,
    memory: Annotated[str, typer.Option("--memory", help="Memory of a job.")] = "32GB",
    walltime: Annotated[
        str, typer.Option("--walltime", help="Time limit of a job, as HH:MM:SS or D-HH:MM:SS.")
    ] = "04:00:00",
    directive: Annotated[
        list[str] | None, typer.Option("--directive", help="Another #SBATCH line; may be repeated.")
    ] = None,
    minimum: Annotated[int, typer.Option("--minimum", min=0, help="Workers that always run.")] = 0,
    maximum: Annotated[
        int, typer.Option("--maximum", min=1, help="Workers in all jobs, with one core each.")
    ] = 64,
    idle: Annotated[
        int, typer.Option("--idle", min=2, help="Seconds without work after which a job ends.")
    ] = 300,
    host: Annotated[
        str | None, typer.Option("--host", help="Address of this node, as seen by the workers.")
    ] = None,
    interface: Annotated[
        str | None, typer.Option("--interface", help="Or the network interface to use, such as ib0.")
    ] = None,
    port: Annotated[
        int,
        typer.Option(
            "--port", min=0, max=65535, help="Port of the scheduler, the same after a restart; 0: any."
        ),
    ] = 8786,
    logs: Annotated[str, typer.Option("--logs", help="Folder for the logs of jobs.")] = "slurm-logs",
    dashboard: Annotated[
        bool, typer.Option("--dashboard", help="Serve Dask's dashboard to all users of this node.")
    ] = False,
    plain: Annotated[
        bool, typer.Option("--plain", help="Without certificates, on a network that only you can reach.")
    ] = False,
    show: Annotated[bool, typer.Option("--show", help="Only print the job script.")] = False,
) -> None:
    """Run a scheduler on the head node of a SLURM cluster, whose workers are jobs.

    It prints the command that starts a service on it, and runs until Ctrl-C. Jobs start when there is work
    and end after it. Certificates are required, because other users can reach a head node: run sweep
    certificates FOLDER, then set DASK_CONFIG.
    """
    from sweep_service.workers.slurm import (
        Jobs,
        SchedulerAddress,
        require_certificates,
        run_cluster,
        write_job_script,
    )

    jobs = Jobs(
        partition=partition, account=account, cores=cores, memory=memory, walltime=walltime,
        directives=tuple(directive or ()), logs=logs, minimum=minimum, maximum=maximum, idle_seconds=idle,
    )  # fmt: skip
    address = SchedulerAddress(port=port, host=host, interface=interface, dashboard=dashboard)
    if not plain:
        require_certificates()
    if show:
        print(write_job_script(jobs, address))
        return

    def announce(scheduler: str) -> None:
        print(f"sweep serve --scheduler {scheduler} --data FOLDER", flush=True)

    run_cluster(jobs, address, announce, _wait_for_signal)


def _wait_for_signal() -> None:
    """Return after SIGINT or SIGTERM."""
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    stopped.wait()
