"""`sweep`: what a person types. Heavy imports happen inside the commands, so that --help is quick."""

from __future__ import annotations

import json
import math
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sweep_service.errors import InvalidInput, LimitExceeded, NotFound, Stopped, SweepError
from sweep_service.words import describe, ending, listed, priced, printable, row, size, told

if TYPE_CHECKING:
    from sweep_service.conductor import Conductor
    from sweep_service.executors import Executor
    from sweep_service.spec import SweepSpec
    from sweep_service.store.folder import DataFolder
    from sweep_service.store.ledger import Ledger, Sweep
    from sweep_service.submission import Submission

DONE, FAILED, REFUSED, INTERRUPTED = 0, 1, 2, 3
ENDS = {"completed": DONE, "incomplete": FAILED, "failed": FAILED}  # the others can go on

HELP = (  # the terminal breaks lines where it likes, so there is none within a paragraph
    "Sweeps over the parameters of SGD in two-layer networks: simulations beside their limiting theories.\n\n"
    "A spec in YAML or JSON names the points. `sweep estimate SPEC` tells what it will cost, and "
    "`sweep run SPEC` computes it here, on all cores, and says how to open the result in Python.\n\n"
    "Ctrl-C is safe: the same command goes on. What an earlier sweep of the folder has computed is copied. "
    "`sweep presets` lists specs to start from.\n\n"
    "Exit codes: 0 done; 1 ended, with failed runs; 2 refused; 3 cancelled or interrupted, and can go on."
)
app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=HELP)

Data = Annotated[Path, typer.Option("--data", envvar="SWEEP_DATA", help="The folder that holds the sweeps.")]
Json = Annotated[bool, typer.Option("--json", help="Answer in JSON, for programs.")]
Spec = Annotated[str, typer.Argument(help="A JSON or YAML file, - for standard input, or a preset.")]
Id = Annotated[str, typer.Argument(help="A sweep's id, or the beginning of one.")]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, help="Processes that compute. By default one for each core.")
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        help="Compute on the Dask cluster of this scheduler, such as tcp://host:8786. "
        "Also from SWEEP_SCHEDULER or DASK_SCHEDULER_ADDRESS.",
    ),
]
Serial = Annotated[bool, typer.Option("--serial", help="Compute in this process, without Dask.")]
HERE = Path("sweep-data")

MANY_POINTS = 5000  # take seconds to read
FEW_FAILURES = 5  # are shown to people
PERIOD = 3600.0  # seconds over which the speed is averaged: one run may take a good part of it


class Interrupt(BaseException):
    """Ctrl-C where nothing is at stake. No `Exception`: nobody on its way may take it for a problem."""


class Stop:
    """Ctrl-C and SIGTERM. The first ends a command at once, or asks it to stop while it computes; the
    second ends the process."""

    def __init__(self) -> None:
        self.asked = self.computing = False

    def __call__(self) -> bool:
        return self.asked

    def listen(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._hear)

    def _hear(self, number: int, frame: Any) -> None:
        if self.asked:
            if sys.stderr.isatty():
                os.write(2, b"\x1b[?25h\n")  # the bar hides the cursor
            os._exit(INTERRUPTED)
        self.asked = True
        if not self.computing:
            raise Interrupt


stop = Stop()


def main() -> None:
    """Errors that are the caller's to mend are one line, and exit code 2."""
    stop.listen()
    try:
        app(standalone_mode=True)
    except (Exception, Interrupt) as error:
        if stop.asked:  # whatever became of it on the way
            print("sweep: interrupted: the same command begins again", file=sys.stderr)
            sys.exit(INTERRUPTED)
        ours = isinstance(error, (SweepError, OSError))
        if not ours and not type(error).__module__.startswith("sqlalchemy"):  # which --help need not import
            raise
        print(f"sweep: {printable((str(error) or type(error).__name__).splitlines()[0])}", file=sys.stderr)
        sys.exit(REFUSED)


# ---- commands that compute


@app.command()
def run(
    spec: Spec,
    data: Data = HERE,
    workers: Workers = None,
    scheduler: Scheduler = None,
    serial: Serial = False,
    priority: Annotated[
        int, typer.Option("--priority", help="Among sweeps that share workers, higher goes first.")
    ] = 0,
    as_json: Json = False,
) -> None:
    """Compute a sweep here, without a server. Ctrl-C leaves it to be resumed by the same command."""
    executor = _executor(workers, scheduler, serial)
    folder = _folder(data)
    submission = _submission(read_spec(spec), as_json)
    _require_limits(submission, folder)
    with _conductor(folder, executor) as conductor:
        sweep, _ = conductor.submit(submission, priority=priority)
        _to_the_end(conductor, sweep, as_json)


@app.command()
def extend(
    sweep: Id,
    change: Annotated[str, typer.Argument(help="More values for axes, or more seeds: a file, or - .")],
    data: Data = HERE,
    workers: Workers = None,
    scheduler: Scheduler = None,
    serial: Serial = False,
    as_json: Json = False,
) -> None:
    """A new sweep with more values; what the old one has computed is copied."""
    executor = _executor(workers, scheduler, serial)
    with _reader(data) as (folder, ledger):
        old = _found(ledger, sweep)
    submission = _submission(folder.spec(old.id).extended(_read_text(change)), as_json)
    with _conductor(folder, executor) as conductor:
        new, _ = conductor.submit(submission, extends=old.id)
        _to_the_end(conductor, new, as_json)


@app.command()
def retry(
    sweep: Id,
    data: Data = HERE,
    workers: Workers = None,
    scheduler: Scheduler = None,
    serial: Serial = False,
    as_json: Json = False,
) -> None:
    """Compute the failed and cancelled runs of a sweep again, or go on with one that was interrupted."""
    executor = _executor(workers, scheduler, serial)
    with _reader(data) as (folder, ledger):
        old = _found(ledger, sweep)
    with _conductor(folder, executor) as conductor:
        _to_the_end(conductor, conductor.retry(old.id), as_json)


def _to_the_end(conductor: Conductor, sweep: Sweep, as_json: bool) -> None:
    """Compute what is left of a sweep, say what became of it, and exit by how it ended."""
    import sqlalchemy as sa

    stop.computing = True
    folder, ledger = conductor.folder, conductor.ledger
    try:
        ended = _watched(conductor, conductor.resume(sweep.id), quiet=as_json)
    except Stopped:
        with suppress(OSError, sa.exc.SQLAlchemyError):  # no room to say so: the next start finds out
            conductor.pause(sweep.id)
        about = describe(folder, ledger, ledger.sweep(sweep.id))
        if not as_json:
            print("interrupted: the same command goes on from here", file=sys.stderr)
        else:
            _say(as_json, about, "")
        raise typer.Exit(INTERRUPTED) from None
    about = describe(folder, ledger, ended, None if as_json else 1)
    _say(as_json, about, ending(about, _where(folder)))
    raise typer.Exit(ENDS.get(ended.state.value, INTERRUPTED))


# ---- commands that look


@app.command("list")
def list_sweeps(data: Data = HERE, as_json: Json = False) -> None:
    """The sweeps of a folder, newest first."""
    sweeps: list[Sweep] = []
    if _folder(data).has_ledger():
        with _reader(data) as (_, ledger):
            sweeps = ledger.sweeps()
    lines = [f"{one.id}  {one.state.value:<10}  {one.runs:>8} runs  {printable(one.name)}" for one in sweeps]
    _say(as_json, [row(one) for one in sweeps], "\n".join(lines) or "no sweeps yet")


@app.command()
def show(sweep: Id, data: Data = HERE, as_json: Json = False) -> None:
    """One sweep: its state, its counts, where it is, and what failed."""
    with _reader(data) as (folder, ledger):
        about = describe(folder, ledger, _found(ledger, sweep), None if as_json else FEW_FAILURES)
    _say(as_json, about, told(about))


@app.command()
def estimate(spec: Spec, data: Data = HERE, as_json: Json = False) -> None:
    """What a sweep would cost, without beginning it."""
    from sweep_service.estimate import Limits

    folder = _folder(data)
    submission = _submission(read_spec(spec), as_json)
    lenient = Limits(core_hours=math.inf)  # one that is too dear is told of
    if folder.has_ledger():
        with _reader(data) as (_, ledger):
            found = submission.look(folder, ledger, lenient)
    else:
        found = submission.look(folder, None, lenient)
    about: dict[str, Any] = {**found.content(), "refused": None}
    try:
        found.require(Limits(), folder.free_bytes())
    except LimitExceeded as error:
        about["refused"] = str(error)
    _say(as_json, about, priced(about))


@app.command()
def export(
    sweep: Id,
    output: Annotated[Path, typer.Argument(help="The file to write: .nc, .csv or .json.")],
    data: Data = HERE,
    as_json: Json = False,
) -> None:
    """Write a sweep as netCDF, as CSV with a line for each run and time, or as JSON."""
    from sweep_service.export import exported

    with _reader(data) as (folder, ledger):
        found = _found(ledger, sweep)
    exported(folder.dataset_path(found.id), output)
    _say(as_json, {"id": found.id, "path": str(output)}, str(output))


@app.command()
def rerun(
    sweep: Id,
    run: Annotated[str, typer.Argument(help="The name of a run, such as sgd-12 or ode-3.")],
    data: Data = HERE,
    as_json: Json = False,
) -> None:
    """Compute one run again, alone, and show what becomes of it; nothing is stored."""
    from sweep_service.compute import alone
    from sweep_service.status import Status

    with _reader(data) as (folder, ledger):
        layout = folder.layout(_found(ledger, sweep).id)
    kind, _, number = run.partition("-")
    result = alone(layout, kind, number)
    status = Status(int(result.values["status"][0])).label
    trace = "".join(failure.trace for failure in result.failures)
    _say(as_json, {"run": run, "status": status, "trace": trace}, trace or status)
    raise typer.Exit(FAILED if trace else DONE)


@app.command()
def presets(
    name: Annotated[str | None, typer.Argument(help="Print this one.")] = None, as_json: Json = False
) -> None:
    """Specs to start from."""
    from sweep_service.presets import PRESETS, preset, preset_text

    if name is not None:
        _say(as_json, json.loads(preset(name).model_dump_json()), preset_text(name).rstrip())
    else:
        found = {one: preset(one).name for one in PRESETS}
        _say(as_json, found, "\n".join(f"{one:<16} {title}" for one, title in found.items()))


# ---- commands that change a folder, and compute nothing


@app.command()
def cancel(sweep: Id, data: Data = HERE, as_json: Json = False) -> None:
    """Give up what is not computed yet; what is there stays."""
    with _reader(data) as (folder, ledger):
        old = _found(ledger, sweep)
    with _conductor(folder) as conductor:
        found = conductor.cancel(old.id)
    _say(as_json, row(found), f"{found.id}  {found.state.value}")


@app.command()
def rm(sweep: Id, data: Data = HERE, as_json: Json = False) -> None:
    """Remove a sweep and everything of it."""
    with _reader(data) as (folder, ledger):
        old = _found(ledger, sweep)
    with _conductor(folder) as conductor:
        conductor.remove(old.id)
    _say(as_json, {"id": old.id, "state": "removed"}, f"{old.id}  removed")


@app.command()
def doctor(
    data: Data = HERE,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Make the ledger again from what is stored.")
    ] = False,
    scheduler: Scheduler = None,
    as_json: Json = False,
) -> None:
    """Check the machine and the folder, and measure how fast the engines are here; or who works where."""
    from sweep_service.doctor import diagnosis, measure

    with _conductor(_folder(data)) as conductor:
        if scheduler is not None:
            from workers.report import report

            found = report(scheduler, conductor.folder)
            refused = [f"{one['worker']} had to leave: {one['why']}" for one in found["refused"]]
            fit = [f"{worker} is fit" for worker in found["workers"]]
            _say(as_json, found, "\n".join([found["scheduler"], *fit, *refused]))
            raise typer.Exit(DONE if found["workers"] else FAILED)
        adopted = conductor.rebuild() if rebuild else []
        found = {**diagnosis(conductor.folder), "adopted": adopted, "calibration": measure(conductor.folder)}
    speeds = [f"{work:<22} {factor:.2f}" for work, factor in found["calibration"].items()]
    lines = listed(
        {
            **{name: found[name] for name in ("version", "python", "machine", "data")},
            "free": size(found["free_bytes"]),
            "adopted": ", ".join(adopted),
        }
    )
    _say(
        as_json, found, "\n".join([lines, "", "time of each kind of work, relative to the formulas", *speeds])
    )


# ---- folders, executors, specs


def _executor(workers: int | None, scheduler: str | None, serial: bool) -> Callable[[DataFolder], Executor]:
    """Who computes. What the command line says goes before the environment."""
    if workers is not None and (serial or scheduler is not None):
        other = "--serial" if serial else "--scheduler"
        raise InvalidInput("--workers", workers, f"is for a cluster of this machine, not for {other}")
    if serial and scheduler is not None:
        raise InvalidInput("--scheduler", scheduler, "is not for --serial, which uses no cluster")
    if scheduler is None and workers is None and not serial:
        scheduler = os.environ.get("SWEEP_SCHEDULER") or os.environ.get("DASK_SCHEDULER_ADDRESS") or None
    if scheduler is not None:
        from sweep_service.fields import scheduler_address

        scheduler_address(scheduler, "--scheduler")

    def made(folder: DataFolder) -> Executor:
        if serial:
            return _alone(folder)
        from workers.cluster import Embedded, Remote
        from workers.executor import DaskExecutor

        return DaskExecutor(Remote(scheduler) if scheduler else Embedded(workers), folder, stop)

    return made


def _alone(folder: DataFolder) -> Executor:
    from sweep_service.executors import SerialExecutor

    return SerialExecutor(stop)


@contextmanager
def _conductor(
    folder: DataFolder, executor: Callable[[DataFolder], Executor] = _alone
) -> Iterator[Conductor]:
    from sweep_service.conductor import Conductor

    with Conductor(folder, executor(folder)) as conductor:
        yield conductor


def _folder(data: Path) -> DataFolder:
    """A folder, which may come to be."""
    if "://" in str(data) or str(data).startswith("s3:"):
        raise InvalidInput("data", str(data), "must be a folder: object stores are not there yet")
    if data.exists() and not data.is_dir():
        raise InvalidInput("data", str(data), "must be a folder")
    from sweep_service.store.folder import DataFolder

    return DataFolder(data)


@contextmanager
def _reader(data: Path) -> Iterator[tuple[DataFolder, Ledger]]:
    """A folder with its ledger, neither of which is made by looking."""
    folder = _folder(data)
    if not folder.has_ledger():
        raise NotFound(f"no sweeps in {data}" if data.exists() else f"no sweeps: {data} is not there")
    with closing(folder.ledger()) as ledger:
        yield folder, ledger


def _where(folder: DataFolder) -> str:
    """The option that names a folder, if it needs one."""
    return "" if folder.root == HERE else f" --data {shlex.quote(str(folder.root))}"


def read_spec(spec: str) -> SweepSpec:
    """From a file, standard input, or a preset."""
    from sweep_service.presets import PRESETS, preset
    from sweep_service.spec import SweepSpec

    if spec in PRESETS and not Path(spec).exists():
        return preset(spec)
    if spec != "-" and not Path(spec).exists():
        raise InvalidInput("spec", spec, f"must be a file, - or one of {', '.join(PRESETS)}")
    return SweepSpec.read(_read_text(spec))


def _read_text(path: str) -> bytes:
    from sweep_service.spec import LARGEST_SPEC

    try:
        if path == "-":
            return sys.stdin.buffer.read(LARGEST_SPEC + 1)
        with open(path, "rb") as file:
            return file.read(LARGEST_SPEC + 1)
    except OSError as error:
        raise InvalidInput("spec", path, f"cannot be read: {error.strerror}") from None


def _submission(spec: SweepSpec, quiet: bool) -> Submission:
    """All points of a spec, read before anything is written."""
    from sweep_service.grids import Grid
    from sweep_service.submission import Submission

    points = len(Grid.of(spec, checked=True))
    if points > MANY_POINTS and not quiet:
        print(f"preparing {points} points", file=sys.stderr)
    return Submission(spec)


def _require_limits(submission: Submission, folder: DataFolder) -> None:
    """Where nothing is yet, a sweep that is refused leaves no trace, not even the folder."""
    from sweep_service.estimate import Limits

    if not folder.has_ledger():
        submission.look(folder, None, Limits())


def _found(ledger: Ledger, beginning: str) -> Sweep:
    """The sweep whose id begins like this."""
    matches = [sweep for sweep in ledger.sweeps() if beginning and sweep.id.startswith(beginning)]
    if len(matches) != 1:
        many = f"{len(matches)} sweeps begin with" if matches else "no sweep begins with"
        raise NotFound(f"{many} {beginning!r}: sweep list shows them")
    return matches[0]


# ---- progress


def _watched(conductor: Conductor, sweep: Sweep, quiet: bool) -> Sweep:
    """Run to the end with a bar in predicted cost."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    console = Console(stderr=True, quiet=quiet)
    columns = (
        BarColumn(bar_width=20), TextColumn("{task.percentage:>3.0f}%"), TimeElapsedColumn(),
        TextColumn("left"), TimeRemainingColumn(),
        TextColumn("{task.fields[speed]}"), TextColumn("{task.description}"),
    )  # fmt: skip
    said: set[str] = set()

    def say(text: str) -> None:
        if text and text not in said:
            said.add(text)
            console.print(printable(text), highlight=False, markup=False, soft_wrap=True)

    say(f"{sweep.id}  {sweep.name}".rstrip())
    with Progress(*columns, console=console, speed_estimate_period=PERIOD) as bar:
        totals = conductor.ledger.totals(sweep.id)
        total = totals["cost_done"] + totals["cost_left"] or 1.0
        task = bar.add_task("", total=total, completed=totals["cost_done"], speed="")

        def watch(now: Sweep) -> None:
            client = getattr(conductor.executor, "client", None)
            if link := getattr(client, "dashboard_link", None):
                say(f"dashboard {link}")
            say(now.reason)
            totals = conductor.ledger.totals(sweep.id)
            runs = sum(totals["counts"].values())
            speed = bar.tasks[0].speed
            bar.update(
                task,
                completed=totals["cost_done"],
                speed=f"{speed:.2g} core-s/s" if speed else "",
                description=f"{runs}/{now.runs} runs{', waiting' if now.reason else ''}",
            )

        watch(sweep)
        ended = conductor.run(sweep.id, watch)
        watch(ended)
        if ended.state.value == "completed":
            bar.update(task, completed=total)
    return ended


def _say(as_json: bool, content: Any, text: str) -> None:
    if as_json:
        from sweep_service.export import plain

        text = json.dumps(plain(content), default=str, allow_nan=False)
    print(text)


if __name__ == "__main__":
    main()
