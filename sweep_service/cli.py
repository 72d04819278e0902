"""`sweep`: what a person types. Heavy imports happen inside the commands, so that --help is quick."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sweep_service.errors import InvalidInput, NotFound, Stopped, SweepError

if TYPE_CHECKING:
    from sweep_service.conductor import Conductor
    from sweep_service.estimate import Estimate
    from sweep_service.spec import SweepSpec
    from sweep_service.store.folder import DataFolder
    from sweep_service.store.ledger import Sweep

DONE, FAILED, REFUSED, INTERRUPTED = 0, 1, 2, 3

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)

Data = Annotated[Path, typer.Option("--data", envvar="SWEEP_DATA", help="The folder that holds the sweeps.")]
Json = Annotated[bool, typer.Option("--json", help="Answer in JSON, for programs.")]
Spec = Annotated[str, typer.Argument(help="A JSON or YAML file, - for standard input, or a preset.")]
Id = Annotated[str, typer.Argument(help="A sweep's id, or the beginning of one.")]
Run = Annotated[str, typer.Argument(help="The name of a run, such as sgd-12 or ode-3.")]
HERE = Path("sweep-data")


def main() -> None:
    """Errors that are the caller's to mend are one line, and exit code 2."""
    try:
        app(standalone_mode=True)
    except Exception as error:
        ours = isinstance(error, (SweepError, OSError))
        if not ours and not type(error).__module__.startswith("sqlalchemy"):  # which --help need not import
            raise
        print(f"sweep: {printable(str(error).splitlines()[0])}", file=sys.stderr)
        sys.exit(REFUSED)


@app.command()
def run(spec: Spec, data: Data = HERE, as_json: Json = False) -> None:
    """Compute a sweep here, without a server. Ctrl-C leaves it to be resumed by the same command."""
    asked = read_spec(spec)
    _require_folder(data)
    if not data.exists():  # a sweep that is refused leaves no trace, not even the folder
        from sweep_service.estimate import Limits

        _estimated(asked, data).require(Limits(), shutil.disk_usage(_existing(data)).free)
    with _interruptible() as stopped, _conductor(data, stopped) as conductor:
        sweep, _ = conductor.submit(asked)
        conductor.resume(sweep.id)
        _to_the_end(conductor, sweep, as_json)


@app.command()
def retry(sweep: Id, data: Data = HERE, as_json: Json = False) -> None:
    """Compute the failed and cancelled runs of a sweep again."""
    with _interruptible() as stopped, _conductor(data, stopped) as conductor:
        _to_the_end(conductor, conductor.retry(_found(conductor.ledger, sweep).id), as_json)


def _to_the_end(conductor: Conductor, sweep: Sweep, as_json: bool) -> None:
    """Compute what is left of a sweep, say where it is, and exit by how it ended."""
    try:
        ended = _watched(conductor, sweep, quiet=as_json)
    except Stopped:
        left = {"id": sweep.id, "state": "interrupted"}
        _say(as_json, left, "\ninterrupted: the same command goes on from here")
        raise typer.Exit(INTERRUPTED) from None
    path = conductor.folder.dataset_path(sweep.id)
    about = {**describe(conductor, ended), "path": str(path)}
    opened = f"    import xarray as xr\n    ds = xr.open_zarr({str(path)!r})\n"
    _say(as_json, about, f"{ended.state.value}: {about['counts']}\n{path}\n\n{opened}")
    raise typer.Exit({"incomplete": FAILED, "cancelled": INTERRUPTED}.get(ended.state.value, DONE))


@app.command("list")
def list_sweeps(data: Data = HERE, as_json: Json = False) -> None:
    """The sweeps of a folder, newest first."""
    sweeps = _folder(data).ledger().sweeps() if data.exists() else []
    lines = [f"{one.id}  {one.state.value:<10}  {one.runs:>8} runs  {printable(one.name)}" for one in sweeps]
    _say(as_json, [_plain(one) for one in sweeps], "\n".join(lines) or "no sweeps yet")


@app.command()
def show(sweep: Id, data: Data = HERE, as_json: Json = False) -> None:
    """One sweep: its state, its counts, where it is."""
    folder = _folder(data)
    found = _found(folder.ledger(), sweep)
    about = {
        **_plain(found),
        **folder.ledger().totals(found.id),
        "counts": folder.dataset(found.id).counts(),
        "path": str(folder.dataset_path(found.id)),
    }
    _say(as_json, about, "\n".join(f"{name:<10} {value}" for name, value in about.items()))


@app.command()
def cancel(sweep: Id, data: Data = HERE, as_json: Json = False) -> None:
    """Give up what is not computed yet; what is there stays."""
    with _conductor(data) as conductor:
        found = conductor.cancel(_found(conductor.ledger, sweep).id)
    _say(as_json, _plain(found), f"{found.id}  {found.state.value}")


@app.command()
def extend(
    sweep: Id,
    change: Annotated[str, typer.Argument(help="More values for axes, or more seeds: a file, or - .")],
    data: Data = HERE,
    as_json: Json = False,
) -> None:
    """A new sweep with more values; what the old one has computed is copied."""
    with _interruptible() as stopped, _conductor(data, stopped) as conductor:
        old = _found(conductor.ledger, sweep)
        spec = conductor.folder.spec(old.id).extended(_read_text(change))
        new, _ = conductor.submit(spec, extends=old.id)
        _to_the_end(conductor, new, as_json)


@app.command()
def rm(sweep: Id, data: Data = HERE, as_json: Json = False) -> None:
    """Remove a sweep and everything of it."""
    with _conductor(data) as conductor:
        found = _found(conductor.ledger, sweep)
        conductor.remove(found.id)
    _say(as_json, {"id": found.id, "state": "removed"}, f"{found.id}  removed")


@app.command()
def estimate(spec: Spec, data: Data = HERE, as_json: Json = False) -> None:
    """What a sweep would cost, without beginning it."""
    found = _estimated(read_spec(spec), data).content()
    lines = [f"{name:<13} {value}" for name, value in found.items() if name != "warnings"]
    _say(as_json, found, "\n".join([*lines, *(f"warning: {text}" for text in found["warnings"])]))


@app.command()
def export(
    sweep: Id,
    output: Annotated[Path, typer.Argument(help="The file to write: .nc, .csv or .json.")],
    data: Data = HERE,
    as_json: Json = False,
) -> None:
    """Write a sweep as netCDF, CSV or JSON."""
    from sweep_service.export import exported

    folder = _folder(data)
    found = _found(folder.ledger(), sweep)
    exported(folder.dataset_path(found.id), output)
    _say(as_json, {"id": found.id, "path": str(output)}, str(output))


@app.command()
def rerun(
    sweep: Id,
    run: Annotated[str, typer.Argument(help="sgd-12, ode-3")],
    data: Data = HERE,
    as_json: Json = False,
) -> None:
    """Compute one run again, alone, and show what becomes of it; nothing is stored."""
    from sweep_service.compute import alone

    folder = _folder(data)
    layout = folder.layout(_found(folder.ledger(), sweep).id)
    kind, _, number = run.partition("-")
    result = alone(layout, kind, number)
    status = int(result.values["status"][0])
    trace = "".join(failure.trace for failure in result.failures)
    from sweep_service.status import Status

    _say(as_json, {"run": run, "status": Status(status).label, "trace": trace}, trace or Status(status).label)
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


@app.command()
def doctor(
    data: Data = HERE,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Make the ledger again from what is stored.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check the machine and the folder, and measure how fast the engines are here."""
    from sweep_service.doctor import diagnosis, measure

    with _conductor(data) as conductor:
        adopted = conductor.rebuild() if rebuild else []
        found = {**diagnosis(conductor.folder), "adopted": adopted, "calibration": measure(conductor.folder)}
    _say(as_json, found, "\n".join(f"{name:<13} {value}" for name, value in found.items()))


def _estimated(spec: SweepSpec, data: Path) -> Estimate:
    from sweep_service.estimate import of_grid
    from sweep_service.grids import Grid
    from sweep_service.store.folder import DataFolder

    return of_grid(Grid.of(spec), DataFolder(data).calibration())


def _require_folder(data: Path) -> None:
    if "://" in str(data) or str(data).startswith("s3:"):
        raise InvalidInput("data", str(data), "must be a folder: object stores are not there yet")
    if data.exists() and not data.is_dir():
        raise InvalidInput("data", str(data), "must be a folder")


def _folder(data: Path) -> DataFolder:
    """A folder that is there."""
    from sweep_service.store.folder import DataFolder

    _require_folder(data)
    if not data.exists():
        raise NotFound(f"no sweeps: {data} is not there")
    return DataFolder(data)


def _existing(path: Path) -> Path:
    """The nearest folder above that is there."""
    path = path.resolve()
    return path if path.exists() else _existing(path.parent)


def printable(text: str) -> str:
    """Without control characters, which would rule the terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


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


@contextmanager
def _conductor(data: Path, stopped: Any = None) -> Iterator[Conductor]:
    from sweep_service.conductor import Conductor
    from sweep_service.executors import SerialExecutor
    from sweep_service.store.folder import DataFolder

    _require_folder(data)
    with Conductor(DataFolder(data), SerialExecutor(stopped)) as conductor:
        yield conductor


@contextmanager
def _interruptible() -> Iterator[Any]:
    """A hook that turns true at Ctrl-C or SIGTERM; a second one ends the process."""
    asked: list[int] = []

    def handler(number: int, frame: Any) -> None:
        if asked:
            os._exit(INTERRUPTED)
        asked.append(number)

    old = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, before in old.items():
            signal.signal(number, before)


def _watched(conductor: Conductor, sweep: Sweep, quiet: bool) -> Sweep:
    """Run to the end with a bar in predicted cost."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    console = Console(stderr=True, quiet=quiet)
    columns = (
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(), TextColumn("{task.fields[note]}"),
    )  # fmt: skip
    said: list[str] = []  # where there is no terminal, a reason to wait is said once
    with Progress(*columns, console=console) as bar:
        totals = conductor.ledger.totals(sweep.id)
        task = bar.add_task(sweep.id, total=totals["cost_done"] + totals["cost_left"] or 1.0, note="")

        def watch(now: Sweep) -> None:
            totals = conductor.ledger.totals(sweep.id)
            runs = sum(totals["counts"].values())
            if now.reason and not console.is_terminal and now.reason not in said:
                said.append(now.reason)
                print(now.reason, file=sys.stderr, flush=True)
            bar.update(
                task, completed=totals["cost_done"], note=f"{runs + now.reused}/{now.runs} runs {now.reason}"
            )

        ended = conductor.run(sweep.id, watch)
        watch(ended)
        bar.update(task, completed=bar.tasks[0].total)
    return ended


def describe(conductor: Conductor, sweep: Sweep) -> dict[str, Any]:
    """A sweep as people and programs are told of it."""
    return {**_plain(sweep), **conductor.ledger.totals(sweep.id), "counts": conductor.counts(sweep.id)}


def _plain(sweep: Sweep) -> dict[str, Any]:
    from dataclasses import asdict

    return {**asdict(sweep), "state": sweep.state.value}


def _found(ledger: Any, beginning: str) -> Sweep:
    """The sweep whose id begins like this."""
    matches = [sweep for sweep in ledger.sweeps() if beginning and sweep.id.startswith(beginning)]
    if len(matches) != 1:
        many = f"{len(matches)} sweeps begin with" if matches else "no sweep begins with"
        raise NotFound(f"{many} {beginning!r}: sweep list shows them")
    return matches[0]


def _say(as_json: bool, content: Any, text: str) -> None:
    if as_json:
        from sweep_service.export import plain

        text = json.dumps(plain(content), default=str, allow_nan=False)
    print(text)


if __name__ == "__main__":
    main()
