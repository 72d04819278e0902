"""Sweeps from a script or a notebook: `ss.run` and `ss.sweeps`, and functions that the CLI shares.

This module is not called `run`, because importing a module of that name would replace the function `ss.run`.
"""

from __future__ import annotations

import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweep_service.errors import InvalidInput, Stopped, SweepError

if TYPE_CHECKING:
    import xarray as xr

    from sweep_service.client.progress import Bar
    from sweep_service.display import CostEstimate
    from sweep_service.execution.conductor import Conductor
    from sweep_service.execution.executors import Executor
    from sweep_service.planning.outline import SpecSource
    from sweep_service.planning.spec import SweepSpec
    from sweep_service.store.folder import DataFolder
    from sweep_service.store.ledger import SweepRecord

DEFAULT_DATA = "sweep-data"
MAX_WORKERS = 10_000
MAX_SECONDS_IN_PROCESS = 2.0  # of predicted work; about as long as worker processes take to start


def run(
    spec: Mapping[str, Any] | SweepSpec | str | bytes | Path,
    *,
    data: str | Path | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    progress: bool | None = None,
) -> xr.Dataset:
    """Compute a sweep to its end and open its dataset.

    A completed sweep is opened at once, an interrupted one is continued, and runs that are stored in the data
    folder are reused. Ctrl-C pauses the sweep, and so does SIGTERM, which then ends the process; a second
    signal aborts at once.

    Parameters
    ----------
    spec
        A mapping, a text in YAML or JSON, the path of a file, or the name of a preset.
    data
        Data folder, a path or an `s3://` URL. By default `SWEEP_DATA`, or `sweep-data` in the current folder.
    workers
        Number of worker processes; 0 computes in this process. By default one per core, or none for a sweep
        that takes less than two seconds, the time in which worker processes start.
    scheduler
        Address of a Dask scheduler to use instead of local processes. By default
        `SWEEP_SCHEDULER` or `DASK_SCHEDULER_ADDRESS`, if one is set and `workers` is not given.
    progress
        Whether to show a progress bar. By default it is shown in a terminal and in a notebook.

    Returns
    -------
    xarray.Dataset
        The stored dataset, opened lazily. A warning is issued if some runs have failed.

    Raises
    ------
    InvalidInput
        If the spec or an argument is invalid; nothing is written then.
    LimitExceeded
        If the sweep is too large; nothing is written then.
    """
    from sweep_service.client.client import open
    from sweep_service.client.progress import progress_bar
    from sweep_service.execution.conductor import Conductor
    from sweep_service.execution.executors import describe_awaited
    from sweep_service.execution.submission import Submission
    from sweep_service.planning.estimate import Limits
    from sweep_service.planning.keys import refuse_local_entries
    from sweep_service.signals import announce_stop

    submission, folder = Submission.read(find_spec(spec)), data_folder(data)
    make_executor = executor_factory(workers, scheduler)
    if scheduler is not None or (workers is None and default_scheduler() is not None):
        refuse_local_entries(submission.grid)
    if not folder.has_ledger():  # a rejected sweep must not leave an empty folder behind
        submission.prepare(folder, None, Limits())
    with _soft_interrupt() as interrupted:
        conductor = Conductor(folder, make_executor(folder, interrupted, 0.0))  # until the work is known
        interrupted.announce = lambda: announce_stop(describe_awaited(conductor.executor))
        with conductor, progress_bar(progress) as bar:
            sweep = _continue_existing(conductor, conductor.submit(submission)[0])
            work = conductor.predict_core_seconds(sweep.id)
            conductor.executor = make_executor(folder, interrupted, work)
            sweep = complete(conductor, sweep.id, bar)
        if interrupted():
            raise KeyboardInterrupt(f"sweep {sweep.id} is paused: run the same spec again to continue")
    _report_failures(folder, sweep)
    return open(folder.dataset_path(sweep.id))


def estimate(
    spec: Mapping[str, Any] | SweepSpec | str | bytes | Path, *, data: str | Path | None = None
) -> CostEstimate:
    """Estimate the cost of a sweep without computing or writing anything.

    Parameters
    ----------
    spec
        A mapping, a text in YAML or JSON, the path of a file, or the name of a preset.
    data
        Data folder, whose stored runs need not be computed again and whose calibration says how fast this
        machine is. By default as in `run`.

    Returns
    -------
    dict
        The fields of `Client.estimate`, shown as a table in a notebook.

    Raises
    ------
    InvalidInput
        If the spec is invalid.
    """
    from sweep_service.display import CostEstimate
    from sweep_service.execution.submission import Submission
    from sweep_service.planning.estimate import Limits

    submission, folder = Submission.read(find_spec(spec), Limits().for_estimates()), data_folder(data)
    if not folder.has_ledger():
        return CostEstimate(submission.summarise_cost(folder, None, Limits()))
    with closing(folder.ledger()) as ledger:
        return CostEstimate(submission.summarise_cost(folder, ledger, Limits()))


def sweeps(data: str | Path | None = None, *, tag: str | Sequence[str] | None = None) -> list[dict[str, Any]]:
    """List the sweeps of a data folder, newest first.

    Parameters
    ----------
    data
        Data folder, a path or an `s3://` URL. By default `SWEEP_DATA`, or `sweep-data` in the current folder.
    tag
        Only sweeps with this tag or with all of these tags.

    Returns
    -------
    list of dict
        `id`, `name`, `state`, `counts` of runs by status, `progress`, `path` of the dataset, and other fields
        of `Client.sweeps`. Empty if the folder does not exist.
    """
    folder = data_folder(data)
    return [
        {**sweep, "path": folder.address(sweep["id"])}
        for sweep in list_sweeps(folder, [tag] if isinstance(tag, str) else tag or ())
    ]


def list_sweeps(folder: DataFolder, tags: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return the sweeps of a folder that have all of these tags as plain data, newest first."""
    from sweep_service.execution.summary import summarise_sweep
    from sweep_service.store.notes import read_tags

    tags = read_tags(list(tags), "tag")
    if not folder.has_ledger():
        return []
    with closing(folder.ledger()) as ledger:
        rows = ledger.sweeps(tags=tags)
        totals = ledger.progress_totals([sweep.id for sweep in rows])
    return [summarise_sweep(sweep, totals[sweep.id]) for sweep in rows]


def find_spec(spec: Mapping[str, Any] | SweepSpec | str | bytes | Path) -> SpecSource:
    """Find a spec in any form that `run` accepts: the text of a file or of a preset, or what is given."""
    from sweep_service.planning.spec_text import looks_like_path, read_file
    from sweep_service.presets import PRESETS, read_preset_text

    if isinstance(spec, Path):
        return read_file(spec)
    if not isinstance(spec, str):
        return spec
    if any(character in spec for character in "\n:{"):
        return read_file(spec) if "\n" not in spec and Path(spec).is_file() else spec
    if Path(spec).exists() or looks_like_path(spec):
        return read_file(spec)
    if spec in PRESETS:
        return read_preset_text(spec)
    allowed = f"must be a mapping, YAML or JSON text, the path of a file, or one of {', '.join(PRESETS)}"
    raise InvalidInput("spec", spec, allowed)


def data_location(data: str | Path | None) -> str:
    """Return the path or URL from the argument, the environment or the default."""
    return str(data) if data else os.environ.get("SWEEP_DATA") or DEFAULT_DATA


def data_folder(data: str | Path | None) -> DataFolder:
    """Return the data folder from the argument, the environment or the default. It need not exist."""
    from sweep_service.store.folder import DataFolder

    folder = DataFolder(data_location(data), os.environ.get("SWEEP_STATE") or None)
    if isinstance(folder.root, Path) and folder.root.exists() and not folder.root.is_dir():
        raise InvalidInput("data", str(folder.root), "must be a folder")
    return folder


def default_scheduler() -> str | None:
    """Return the address of a scheduler from the environment."""
    return os.environ.get("SWEEP_SCHEDULER") or os.environ.get("DASK_SCHEDULER_ADDRESS") or None


def executor_factory(
    workers: int | None, scheduler: str | None
) -> Callable[[DataFolder, Callable[[], bool], float], Executor]:
    """Return a function that makes an executor from a data folder, a `stopped` callback and the work to do.

    The work is in predicted processor seconds. If the user chose neither workers nor a scheduler, little work
    is done in this process.
    """
    from sweep_service.extras import require_package
    from sweep_service.validation import read_integer, read_scheduler_address

    if workers is not None and scheduler is not None:
        raise InvalidInput("workers", workers, "cannot be combined with a scheduler")
    if workers is not None:
        read_integer(workers, "workers", 0, MAX_WORKERS)
    elif scheduler is None:
        scheduler = default_scheduler()
    if scheduler is not None:
        read_scheduler_address(scheduler)
    if workers != 0:  # even if the work turns out to be little, so that the same command fails or works
        require_package("distributed", "computing in other processes", "or use --serial, in Python workers=0")

    def make(folder: DataFolder, stopped: Callable[[], bool], work: float) -> Executor:
        is_chosen = workers is not None or scheduler is not None
        if workers == 0 or (work < MAX_SECONDS_IN_PROCESS and not is_chosen):
            from sweep_service.execution.executors import SerialExecutor

            return SerialExecutor(stopped)
        from sweep_service.workers.cluster import Remote
        from sweep_service.workers.embedded import Embedded
        from sweep_service.workers.executor import DaskExecutor

        return DaskExecutor(Remote(scheduler) if scheduler else Embedded(workers), folder, stopped)

    return make


def complete(conductor: Conductor, sweep_id: str, bar: Bar) -> SweepRecord:
    """Compute a sweep to its end with a progress bar; it is paused if the executor is stopped."""
    import sqlalchemy as sa

    from sweep_service.execution.summary import summarise_sweep

    latest: dict[str, Any] = {}

    def show(sweep: SweepRecord) -> None:
        if dashboard := conductor.executor.dashboard:
            bar.print_once(f"dashboard {dashboard}/status")
        totals = conductor.ledger.progress_totals([sweep_id])[sweep_id]
        latest.update(summarise_sweep(sweep, totals, conductor.executor.threads, is_compiling()))
        bar.show(latest)

    def is_compiling() -> bool:
        return sweep_id in conductor.executor.compiling

    conductor.executor.on_compiling = lambda: bar.show({**latest, "compiling": is_compiling()})
    try:
        show(conductor.ledger.sweep(sweep_id))
        show(conductor.run(sweep_id, show))
    except Stopped:
        with suppress(OSError, sa.exc.SQLAlchemyError):  # on a full disk; the next start resumes it
            conductor.pause(sweep_id)
    return conductor.ledger.sweep(sweep_id)


def _continue_existing(conductor: Conductor, sweep: SweepRecord) -> SweepRecord:
    """Continue a paused or cancelled sweep."""
    from sweep_service.store.ledger import State

    return conductor.resume(conductor.retry(sweep.id).id if sweep.state is State.CANCELLED else sweep.id)


def _report_failures(folder: DataFolder, sweep: SweepRecord) -> None:
    """Raise an error for a failed sweep, and warn of failed runs."""
    from sweep_service.status import Status
    from sweep_service.store.ledger import State

    if sweep.state is State.FAILED:
        raise SweepError(f"sweep {sweep.id} failed: {sweep.reason}")
    if sweep.state is State.INCOMPLETE:
        failed = folder.dataset(sweep.id).counts()[Status.FAILED]
        advice = f"see `sweep show {sweep.id} --data {folder.location}`"
        warnings.warn(f"{failed} of {sweep.runs} runs failed; {advice}", RuntimeWarning, stacklevel=3)


class _SoftInterrupt:
    """The handler of SIGINT and SIGTERM during `run`, callable as the flag whether one has arrived.

    Only a second Ctrl-C raises `KeyboardInterrupt`, so that work in progress is stored after the first.
    SIGTERM is sent again afterwards, to end the process as it would have done.
    """

    def __init__(self) -> None:
        self.number: int | None = None  # of the first signal
        self.announce: Callable[[], None] = lambda: None

    def __call__(self) -> bool:
        return self.number is not None

    def handle(self, number: int, frame: Any) -> None:
        if self.number is not None:
            raise KeyboardInterrupt
        self.number = number
        with suppress(Exception):
            self.announce()


@contextmanager
def _soft_interrupt() -> Iterator[_SoftInterrupt]:
    """Yield a function that tells whether Ctrl-C was pressed or SIGTERM has arrived."""
    interrupt = _SoftInterrupt()
    if threading.current_thread() is not threading.main_thread():  # only the main thread receives signals
        yield interrupt
        return
    previous = {signal.SIGINT: signal.signal(signal.SIGINT, interrupt.handle)}
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:  # otherwise it is handled by the caller
        previous[signal.SIGTERM] = signal.signal(signal.SIGTERM, interrupt.handle)
    try:
        yield interrupt
    finally:
        for number, handler in previous.items():
            signal.signal(number, signal.default_int_handler if handler is None else handler)
        if interrupt.number == signal.SIGTERM:
            os.kill(os.getpid(), signal.SIGTERM)
