"""Sweeps from a script or a notebook: `ss.run` and `ss.sweeps`; the command line uses the same functions.

This module is not called `run`: importing a module of that name would replace the function `ss.run`.
"""

from __future__ import annotations

import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweep_service.errors import InvalidInput, Stopped, SweepError

if TYPE_CHECKING:
    import xarray as xr

    from sweep_service.client.progress import Bar
    from sweep_service.execution.conductor import Conductor
    from sweep_service.execution.executors import Executor
    from sweep_service.planning.spec import SweepSpec
    from sweep_service.store.folder import DataFolder
    from sweep_service.store.ledger import Sweep

DEFAULT_DATA = "sweep-data"
LARGEST_CLUSTER = 10_000  # worker processes


def run(
    spec: Mapping[str, Any] | SweepSpec | str | bytes | Path,
    *,
    data: str | Path | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    progress: bool | None = None,
) -> xr.Dataset:
    """Compute a sweep to its end and open its dataset.

    A sweep that is stored already is opened at once, one that was interrupted goes on where it was, and runs
    that any sweep of the data folder has are copied. Ctrl-C pauses the sweep; a second one ends at once.

    Parameters
    ----------
    spec
        A mapping, a text in YAML or JSON, the path of a file, or the name of a preset.
    data
        Folder or `s3://` URL of the sweeps. By default `SWEEP_DATA`, or `sweep-data` in the current folder.
    workers
        Number of worker processes, by default one per core; 0 computes in this process.
    scheduler
        Address of a Dask scheduler to use in place of processes of this machine. By default
        `SWEEP_SCHEDULER` or `DASK_SCHEDULER_ADDRESS`, if one is set and `workers` is not given.
    progress
        Whether to show a progress bar. By default it is shown in a terminal and in a notebook.

    Returns
    -------
    xarray.Dataset
        The stored dataset, opened lazily. A warning says if some runs have failed.

    Raises
    ------
    InvalidInput
        If the spec or an argument is unusable; nothing is written then.
    LimitExceeded
        If the sweep is too large; nothing is written then.
    """
    from sweep_service.client.client import open
    from sweep_service.client.progress import progress_bar
    from sweep_service.execution.conductor import Conductor
    from sweep_service.execution.submission import Submission
    from sweep_service.planning.estimate import Limits

    submission, folder = Submission(read_spec(spec)), data_folder(data)
    make_executor = executor_factory(workers, scheduler)
    if not folder.has_ledger():  # a sweep that is refused must not leave an empty folder behind
        submission.look(folder, None, Limits())
    with _soft_interrupt() as interrupted:
        executor = make_executor(folder, interrupted)
        with Conductor(folder, executor) as conductor, progress_bar(progress) as bar:
            sweep = _complete_existing(conductor, conductor.submit(submission)[0])
            sweep = complete(conductor, sweep.id, bar)
        if interrupted():
            raise KeyboardInterrupt(f"sweep {sweep.id} is paused: run the same spec again to continue")
    _report_failures(folder, sweep)
    return open(folder.dataset_path(sweep.id))


def sweeps(data: str | Path | None = None) -> list[dict[str, Any]]:
    """List the sweeps of a data folder, newest first.

    Parameters
    ----------
    data
        Folder or `s3://` URL. By default `SWEEP_DATA`, or `sweep-data` in the current folder.

    Returns
    -------
    list of dict
        `id`, `name`, `state`, `counts` of runs by status, `progress`, `path` of the dataset, and more, as
        `Client.sweeps` has them. Empty if the folder does not exist.
    """
    folder = data_folder(data)
    return [{**sweep, "path": folder.address(sweep["id"])} for sweep in list_sweeps(folder)]


def list_sweeps(folder: DataFolder) -> list[dict[str, Any]]:
    """The sweeps of a folder as plain data, newest first."""
    from sweep_service.execution.summary import view

    if not folder.has_ledger():
        return []
    with closing(folder.ledger()) as ledger:
        rows = ledger.sweeps()
        totals = ledger.all_totals([sweep.id for sweep in rows])
    return [view(sweep, totals[sweep.id]) for sweep in rows]


def read_spec(spec: Mapping[str, Any] | SweepSpec | str | bytes | Path) -> SweepSpec:
    """Read a spec from whatever `run` accepts."""
    from sweep_service.planning.spec import SweepSpec
    from sweep_service.presets import PRESETS, preset

    if isinstance(spec, Path):
        return SweepSpec.load(spec)
    if not isinstance(spec, (str, bytes)):
        return SweepSpec.parse(spec)
    if isinstance(spec, bytes) or any(mark in spec for mark in "\n:{"):
        is_file = isinstance(spec, str) and "\n" not in spec and Path(spec).is_file()
        return SweepSpec.load(str(spec)) if is_file else SweepSpec.read(spec)
    if Path(spec).exists():
        return SweepSpec.load(spec)
    if spec in PRESETS:
        return preset(spec)
    allowed = f"must be a mapping, YAML or JSON text, the path of a file, or one of {', '.join(PRESETS)}"
    raise InvalidInput("spec", spec, allowed)


def data_location(data: str | Path | None) -> str:
    """The path or URL that an argument names, or the environment, or the default."""
    return str(data) if data else os.environ.get("SWEEP_DATA") or DEFAULT_DATA


def data_folder(data: str | Path | None) -> DataFolder:
    """The data folder that an argument names, or the environment; it need not exist yet."""
    from sweep_service.store.folder import DataFolder

    folder = DataFolder(data_location(data), os.environ.get("SWEEP_STATE") or None)
    if isinstance(folder.root, Path) and folder.root.exists() and not folder.root.is_dir():
        raise InvalidInput("data", str(folder.root), "must be a folder")
    return folder


def default_scheduler() -> str | None:
    """The address of the scheduler that the environment names."""
    return os.environ.get("SWEEP_SCHEDULER") or os.environ.get("DASK_SCHEDULER_ADDRESS") or None


def executor_factory(
    workers: int | None, scheduler: str | None
) -> Callable[[DataFolder, Callable[[], bool]], Executor]:
    """Where the tasks of a folder run: a function of the folder and of a flag that stops them."""
    from sweep_service.validation import scheduler_address, whole

    if workers is not None and scheduler is not None:
        raise InvalidInput("workers", workers, "is for processes of this machine, not for a scheduler")
    if workers is not None:
        whole(workers, "workers", 0, LARGEST_CLUSTER)
    elif scheduler is None:
        scheduler = default_scheduler()
    if scheduler is not None:
        scheduler_address(scheduler)

    def make(folder: DataFolder, stopped: Callable[[], bool]) -> Executor:
        if workers == 0:
            from sweep_service.execution.executors import SerialExecutor

            return SerialExecutor(stopped)
        from sweep_service.workers.cluster import Embedded, Remote
        from sweep_service.workers.executor import DaskExecutor

        return DaskExecutor(Remote(scheduler) if scheduler else Embedded(workers), folder, stopped)

    return make


def complete(conductor: Conductor, sweep_id: str, bar: Bar) -> Sweep:
    """Compute a sweep to its end and show its progress; it is paused if the executor is asked to stop."""
    import sqlalchemy as sa

    from sweep_service.execution.summary import view

    def show(now: Sweep) -> None:
        if dashboard := conductor.executor.dashboard:
            bar.say(f"dashboard {dashboard}/status")
        bar.show(view(now, conductor.ledger.totals(sweep_id)))

    try:
        show(conductor.ledger.sweep(sweep_id))
        show(conductor.run(sweep_id, show))
    except Stopped:
        with suppress(OSError, sa.exc.SQLAlchemyError):  # on a full disk: the next start finds it unfinished
            conductor.pause(sweep_id)
    return conductor.ledger.sweep(sweep_id)


def _complete_existing(conductor: Conductor, sweep: Sweep) -> Sweep:
    """Let a sweep that was paused or cancelled go on."""
    from sweep_service.store.ledger import State

    return conductor.retry(sweep.id) if sweep.state is State.CANCELLED else conductor.resume(sweep.id)


def _report_failures(folder: DataFolder, sweep: Sweep) -> None:
    from sweep_service.status import Status
    from sweep_service.store.ledger import State

    if sweep.state is State.FAILED:
        raise SweepError(f"sweep {sweep.id} could not go on: {sweep.reason}")
    if sweep.state is State.INCOMPLETE:
        failed = folder.dataset(sweep.id).counts()[Status.FAILED]
        advice = f"`sweep show {sweep.id} --data {folder.where}` shows why"
        warnings.warn(f"{failed} of {sweep.runs} runs failed: {advice}", RuntimeWarning, stacklevel=3)


@contextmanager
def _soft_interrupt() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed; it raises only the second time, so that work in progress is stored."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():  # only the main thread gets signals
        yield asked.is_set
        return

    def interrupt(number: int, frame: Any) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, before or signal.default_int_handler)
