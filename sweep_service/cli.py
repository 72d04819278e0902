"""`sweep`: what a person types. Heavy imports happen inside the commands, so that --help is quick.

Exit codes: 0 done; 1 ended, with failed runs, or unable to go on; 2 refused; 3 cancelled, paused or
interrupted, and can go on.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from sweep_service.errors import InUse, InvalidInput, SweepError
from sweep_service.interrupt import INTERRUPTED, Interrupt, stop
from sweep_service.options import (
    Data,
    Figure,
    Id,
    Json,
    Preset,
    Priority,
    Scheduler,
    Serial,
    Spec,
    Url,
    Workers,
)
from sweep_service.places import Here, There, alone, data_of
from sweep_service.words import accepted, ending, listing, priced, printable, table, told

if TYPE_CHECKING:
    from sweep_service.executors import Executor
    from sweep_service.figures import Figure as Paper
    from sweep_service.store.folder import DataFolder

DONE, FAILED, REFUSED = 0, 1, 2
ENDS = {"completed": DONE, "incomplete": FAILED, "failed": FAILED}  # the others can go on
FEW_FAILURES = 5  # are shown to people

HELP = (  # the terminal breaks lines where it likes, so there is none within a paragraph
    "Sweeps over the parameters of SGD in two-layer networks: simulations beside their limiting theories.\n\n"
    "A spec in YAML or JSON names the points. `sweep estimate SPEC` tells what it will cost, and "
    "`sweep run SPEC` computes it here, on all cores, and says how to open the result in Python. "
    "`sweep presets` lists specs to start from.\n\n"
    "`sweep serve` starts a service, and `sweep submit SPEC` gives it a sweep. The other commands are for "
    "the sweeps of a folder, or with --url for those of a service.\n\n"
    "Ctrl-C is safe: the same command goes on. What an earlier sweep has computed is copied.\n\n"
    "Exit codes: 0 done; 1 ended, with failed runs; 2 refused; 3 cancelled or interrupted, and can go on."
)
app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, help=HELP)


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


# ---- compute


@app.command()
def run(
    spec: Spec,
    data: Data = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    serial: Serial = False,
    priority: Priority = 0,
    figure: Figure = True,
    as_json: Json = False,
) -> None:
    """Compute a sweep here, without a service, and draw it. After Ctrl-C the same command goes on.

    A preset that is a figure of the papers is drawn like it, and its numbers are checked.
    """
    place = Here(_folder(data), _executor(workers, scheduler, serial), quiet=as_json)
    if (known := _paper(spec)) is not None:
        _reproduce(place, *known, priority, figure, as_json)
    about = place.submit(_read_spec(spec), priority)
    files = place.draw(about) if figure and about["state"] == "completed" else ()
    _end(place, {**about, "figures": [str(file) for file in files]}, as_json)


@app.command()
def gallery(
    output: Annotated[
        Path | None, typer.Argument(help="A folder for the page. By default one beside the sweeps.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="In their full forms, which take hours.")] = False,
    data: Data = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    serial: Serial = False,
    as_json: Json = False,
) -> None:
    """Reproduce all figures of the papers, and write a page with their numbers."""
    from sweep_service.figures import FIGURES
    from sweep_service.gallery import page

    place = Here(_folder(data), _executor(workers, scheduler, serial), quiet=as_json)
    folder = output or place.folder.state / "gallery"
    reports = []
    for one in FIGURES.values():
        names = one.full if full else one.presets
        reports.append(place.reproduce(one, _computed(place, names, 0, as_json), folder))
        if not as_json:
            print(f"{one.name:<18} {'passes' if reports[-1].passed else 'FAILS'}", file=sys.stderr)
    (folder / "README.md").write_text(page(reports), "utf-8")
    path = str(folder / "README.md")
    _say(as_json, {"page": path, "figures": [one.plain() for one in reports]}, path)
    raise typer.Exit(DONE if all(one.passed for one in reports) else FAILED)


def _reproduce(
    place: Here, one: Paper, names: Sequence[str], priority: int, draw: bool, as_json: bool
) -> NoReturn:
    """The sweeps of a figure, its files, and its numbers against their bounds."""
    found = _computed(place, names, priority, as_json)
    report = place.reproduce(one, found, place.folder.state / "figures", draw)
    _say(
        as_json, {**found[names[0]], **report.plain()}, f"{ending(found[names[0]], place.option)}\n\n{report}"
    )
    raise typer.Exit(DONE if report.passed else FAILED)


def _computed(place: Here, names: Sequence[str], priority: int, as_json: bool) -> dict[str, dict[str, Any]]:
    """Sweeps of presets, all of them to their ends; the first that does not get there ends the command."""
    found = {}
    for name in names:
        found[name] = place.submit(_read_spec(name), priority)
        if stop.asked or found[name]["state"] != "completed":
            _end(place, found[name], as_json)
    return found


def _paper(spec: str) -> tuple[Paper, Sequence[str]] | None:
    """The figure of the papers that a preset stands for, and all of its presets in that form."""
    from sweep_service.figures import figure_of

    found = None if Path(spec).exists() else figure_of(spec)
    names = () if found is None else found.full if spec in found.full else found.presets
    return None if found is None or spec != names[0] else (found, names)


@app.command()
def extend(
    sweep: Id,
    change: Annotated[str, typer.Argument(help="More values for axes, or more seeds: a file, or - .")],
    data: Data = None,
    url: Url = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    serial: Serial = False,
    as_json: Json = False,
) -> None:
    """A new sweep with more values; what the old one has computed is copied."""
    place = _computing(data, url, workers, scheduler, serial, as_json)
    _end(place, place.extend(sweep, _read(change)), as_json)


@app.command()
def retry(
    sweep: Id,
    data: Data = None,
    url: Url = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    serial: Serial = False,
    as_json: Json = False,
) -> None:
    """Compute the failed and cancelled runs of a sweep again, or go on with one that was interrupted."""
    place = _computing(data, url, workers, scheduler, serial, as_json)
    _end(place, place.retry(sweep), as_json)


@app.command()
def resume(
    sweep: Id,
    data: Data = None,
    url: Url = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    serial: Serial = False,
    as_json: Json = False,
) -> None:
    """Go on with a sweep that was paused or interrupted."""
    place = _computing(data, url, workers, scheduler, serial, as_json)
    _end(place, place.resume(sweep), as_json)


# ---- the service


@app.command()
def serve(
    host: Annotated[
        str | None, typer.Option("--host", help="Where to listen. By default SWEEP_HOST, or 127.0.0.1.")
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", help="By default SWEEP_PORT, or 8000; 0 for any that is free.")
    ] = None,
    data: Data = None,
    scheduler: Scheduler = None,
    workers: Workers = None,
    log: Annotated[
        str | None,
        typer.Option("--log", help="json or text. By default SWEEP_LOG, or text in a terminal, else JSON."),
    ] = None,
) -> None:
    """Start the service: its REST interface, its page, and the workers that compute."""
    _require_one(workers, scheduler, serial=False)
    given = {"host": host, "port": port, "data": data, "scheduler": scheduler, "workers": workers, "log": log}
    given = {name: value for name, value in given.items() if value is not None}
    if workers is not None:
        given["scheduler"] = None  # whatever the environment says
    stop.computing = True  # the service ends by itself when it is asked to
    from api.serve import serve as begin

    raise typer.Exit(begin(**given))


@app.command()
def submit(
    spec: Spec,
    url: Url = None,
    priority: Priority = 0,
    follow: Annotated[bool, typer.Option("--watch", help="Stay, and follow it to its end.")] = False,
    as_json: Json = False,
) -> None:
    """Give a sweep to a service, which computes it."""
    place = _service(url)
    found = place.submit(_read_spec(spec), priority)
    if follow and found["state"] in ("queued", "running"):
        found = _watched(place, found["id"], as_json)
    _end(place, found, as_json)


@app.command()
def watch(sweep: Id, url: Url = None, as_json: Json = False) -> None:
    """Follow a sweep of a service until it ends or pauses. Ctrl-C leaves it running."""
    place = _service(url)
    _end(place, _watched(place, place.find(sweep), as_json), as_json)


def _watched(place: There, sweep: str, as_json: bool) -> dict[str, Any]:
    from sweep_service.progress import Bar

    now: dict[str, Any] = {}
    try:
        with Bar(quiet=as_json) as bar:
            for now in place.client.follow(sweep):
                bar.show(now)
                if now["state"] == "paused":
                    break
        return place.show(sweep, None if as_json else 1)
    except Interrupt:
        if as_json:
            _say(as_json, now, "")
        else:
            print(f"the sweep goes on: sweep watch {sweep}{place.option}", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None


def _end(place: Here | There, about: dict[str, Any], as_json: bool) -> NoReturn:
    """Say what became of a sweep, and exit by it."""
    state = about["state"]
    if stop.asked:
        if as_json:
            _say(as_json, about, "")
        else:
            print("interrupted: the same command goes on from here", file=sys.stderr)
        raise typer.Exit(INTERRUPTED)
    if state in ("queued", "running"):  # the service goes on
        _say(as_json, about, accepted(about, place.option))
        raise typer.Exit(DONE)
    _say(as_json, about, ending(about, place.option))
    raise typer.Exit(ENDS.get(state, INTERRUPTED))


# ---- look


@app.command("list")
def list_sweeps(data: Data = None, url: Url = None, as_json: Json = False) -> None:
    """The sweeps of a folder or a service, newest first."""
    found = _place(data, url).sweeps()
    _say(as_json, found, listing(found))


@app.command()
def show(sweep: Id, data: Data = None, url: Url = None, as_json: Json = False) -> None:
    """One sweep: its state, its counts, where it is, and what failed."""
    about = _place(data, url).show(sweep, None if as_json else FEW_FAILURES)
    _say(as_json, about, told(about))


@app.command()
def estimate(spec: Spec, data: Data = None, url: Url = None, as_json: Json = False) -> None:
    """What a sweep would cost, without beginning it."""
    about = _place(data, url, quiet=as_json).estimate(_read_spec(spec))
    _say(as_json, about, priced(about))


@app.command()
def export(
    sweep: Id,
    output: Annotated[Path, typer.Argument(help="The file to write: .nc, .csv, .parquet or .json.")],
    data: Data = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Write a sweep as netCDF, as a table with a line for each run and time, or as JSON."""
    found = _place(data, url).export(sweep, output)
    _say(as_json, {"id": found, "path": str(output)}, str(output))


@app.command()
def plot(
    sweep: Id,
    output: Annotated[Path, typer.Argument(help="The file to write: .png, .svg or .pdf.")],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            help="A view, then its words, and what to choose along the axes: "
            "phase-diagram x=gamma y=p value=sgd_risk d=50. By default what shows most.",
        ),
    ] = None,
    data: Data = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Draw a sweep: curves, a phase diagram, the triangle, the plane, rates, a collapse, cosines."""
    from sweep_service.gallery import drawn

    with _place(data, url).opened(sweep) as (found, dataset):
        view, said = drawn(dataset, found, output, *_words(words or []))
    _say(as_json, {"id": found, "path": str(output), "view": view, "words": said}, str(output))


def _words(words: Sequence[str]) -> tuple[str, dict[str, str]]:
    """A view, and what is said of it: as in a query, one that comes again adds to the first."""
    view = words[0] if words and "=" not in words[0] else ""
    given: dict[str, str] = {}
    for word in words[1:] if view else words:
        name, equals, value = word.partition("=")
        if not (name and equals):
            raise InvalidInput("words", word, "must be such as x=gamma or d=50")
        given[name] = f"{given[name]},{value}" if name in given else value
    return view, given


@app.command()
def rerun(
    sweep: Id,
    run: Annotated[str, typer.Argument(help="The name of a run, such as sgd-12 or ode-3.")],
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Compute one run again, alone, and show what becomes of it; nothing is stored."""
    from sweep_service.compute import alone
    from sweep_service.status import Status

    folder = _folder(data)
    layout = folder.layout(Here(folder).find(sweep))
    kind, _, number = run.partition("-")
    result = alone(layout, kind, number)
    status = Status(int(result.values["status"][0])).label
    trace = "".join(failure.trace for failure in result.failures)
    _say(as_json, {"run": run, "status": status, "trace": trace}, trace or status)
    raise typer.Exit(FAILED if trace else DONE)


@app.command()
def presets(name: Preset = None, as_json: Json = False) -> None:
    """Specs to start from."""
    from sweep_service.presets import PRESETS, preset, preset_text

    if name is not None:
        _say(as_json, json.loads(preset(name).model_dump_json()), preset_text(name).rstrip())
    else:
        found = {one: preset(one).name for one in PRESETS}
        _say(as_json, found, table(("name", "title"), found.items()))


# ---- change, and compute nothing


@app.command()
def cancel(sweep: Id, data: Data = None, url: Url = None, as_json: Json = False) -> None:
    """Give up what is not computed yet; what is there stays."""
    found = _place(data, url).cancel(sweep)
    _say(as_json, found, f"{found['id']}  {found['state']}")


@app.command()
def pause(sweep: Id, data: Data = None, url: Url = None, as_json: Json = False) -> None:
    """Let a sweep rest until it is resumed."""
    found = _place(data, url).pause(sweep)
    _say(as_json, found, f"{found['id']}  {found['state']}")


@app.command()
def rm(sweep: Id, data: Data = None, url: Url = None, as_json: Json = False) -> None:
    """Remove a sweep and everything of it."""
    found = _place(data, url).remove(sweep)
    _say(as_json, {"id": found, "state": "removed"}, f"{found}  removed")


@app.command()
def doctor(
    data: Data = None,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Make the ledger again from what is stored.")
    ] = False,
    scheduler: Scheduler = None,
    as_json: Json = False,
) -> None:
    """Check the store, the machine and a cluster, and say what to do; measure how fast the engines are here.

    Measured is only a folder that nobody uses and that nothing is wrong with, without a scheduler.
    """
    from sweep_service.checks import local
    from sweep_service.doctor import described, diagnosis, worst

    folder, scheduler = _folder(data), scheduler or _scheduler_of_environment()
    adopted = []
    if rebuild:
        with Here(folder).conductor() as conductor:
            adopted = conductor.rebuild()
    checks, found = local(folder), {}
    if scheduler is not None:
        from sweep_service.fields import scheduler_address
        from workers.report import report

        found = report(scheduler_address(scheduler, "--scheduler"), folder)
        checks += found.pop("checks")
    found |= {**diagnosis(folder, checks), "adopted": adopted}
    if scheduler is None and worst(checks) != "wrong":
        found["calibration"] = _measured(folder)
    _say(as_json, found, described(found, checks, _painted))
    raise typer.Exit(FAILED if worst(checks) == "wrong" else DONE)


def _measured(folder: DataFolder) -> dict[str, float]:
    """Nothing while somebody uses the folder, who may compute."""
    from sweep_service.calibrate import measure

    try:
        with folder.lock():
            return measure(folder)
    except InUse:
        return {}


def _painted(verdict: str, text: str) -> str:
    colours = {"ok": typer.colors.GREEN, "warning": typer.colors.YELLOW, "wrong": typer.colors.RED}
    return typer.style(text, fg=colours[verdict]) if sys.stdout.isatty() else text


@app.command()
def certificates(
    folder: Annotated[Path, typer.Argument(help="Where to write them, for the owner's eyes alone.")],
    days: Annotated[int, typer.Option("--days", min=1, max=36500, help="How long they are good for.")] = 730,
    force: Annotated[bool, typer.Option("--force", help="Replace those that are there.")] = False,
    as_json: Json = False,
) -> None:
    """Make what a cluster needs for TLS; then DASK_CONFIG=FOLDER for the scheduler, workers and service."""
    from sweep_service.certificates import make

    end, where = make(folder, days, force), folder.absolute()
    text = (
        f"good until {end:%Y-%m-%d}; each process of the cluster needs them, and\nexport DASK_CONFIG={where}"
    )
    _say(as_json, {"folder": str(where), "end": end.isoformat()}, text)


# ---- places, executors, specs: what the command line says goes before the environment


def _place(
    data: str | None,
    url: str | None,
    executor: Callable[[DataFolder], Executor] = alone,
    quiet: bool = True,
) -> Here | There:
    if data is not None and url is not None:
        raise InvalidInput("--data", str(data), "is for a folder, not for the service of --url")
    if url is not None or (data is None and os.environ.get("SWEEP_URL")):
        return _service(url)
    return Here(_folder(data), executor, quiet)


def _computing(
    data: str | None,
    url: str | None,
    workers: int | None,
    scheduler: str | None,
    serial: bool,
    quiet: bool,
) -> Here | There:
    place = _place(data, url, _executor(workers, scheduler, serial), quiet)
    for name, value in (("--workers", workers), ("--scheduler", scheduler), ("--serial", serial or None)):
        if value is not None and isinstance(place, There):
            raise InvalidInput(
                name, value, f"is for computing here, not for the service at {place.client.url}"
            )
    return place


def _service(url: str | None) -> There:
    from sweep_service.client import Client

    return There(Client(url))


def _folder(data: str | None) -> DataFolder:
    """A folder, which may come to be, or a bucket."""
    from sweep_service.store.folder import DataFolder

    folder = DataFolder(data_of(data), os.environ.get("SWEEP_STATE") or None)
    if isinstance(folder.root, Path) and folder.root.exists() and not folder.root.is_dir():
        raise InvalidInput("data", str(folder.root), "must be a folder")
    return folder


def _executor(workers: int | None, scheduler: str | None, serial: bool) -> Callable[[DataFolder], Executor]:
    """Who computes."""
    _require_one(workers, scheduler, serial)
    if scheduler is None and workers is None and not serial:
        scheduler = _scheduler_of_environment()
    if scheduler is not None:
        from sweep_service.fields import scheduler_address

        scheduler_address(scheduler, "--scheduler")

    def made(folder: DataFolder) -> Executor:
        if serial:
            return alone(folder)
        from workers.cluster import Embedded, Remote
        from workers.executor import DaskExecutor

        return DaskExecutor(Remote(scheduler) if scheduler else Embedded(workers), folder, stop)

    return made


def _scheduler_of_environment() -> str | None:
    return os.environ.get("SWEEP_SCHEDULER") or os.environ.get("DASK_SCHEDULER_ADDRESS") or None


def _require_one(workers: int | None, scheduler: str | None, serial: bool) -> None:
    if workers is not None and (serial or scheduler is not None):
        other = "--serial" if serial else "--scheduler"
        raise InvalidInput("--workers", workers, f"is for a cluster of this machine, not for {other}")
    if serial and scheduler is not None:
        raise InvalidInput("--scheduler", scheduler, "is not for --serial, which uses no cluster")


def _read_spec(spec: str) -> bytes:
    """The text of a file, of standard input, or of a preset."""
    from sweep_service.presets import PRESETS, preset_text

    if spec in PRESETS and not Path(spec).exists():
        return preset_text(spec).encode()
    if spec != "-" and not Path(spec).exists():
        raise InvalidInput("spec", spec, f"must be a file, - or one of {', '.join(PRESETS)}")
    return _read(spec)


def _read(path: str) -> bytes:
    from sweep_service.spec import LARGEST_SPEC

    try:
        if path == "-":
            return sys.stdin.buffer.read(LARGEST_SPEC + 1)
        with open(path, "rb") as file:
            return file.read(LARGEST_SPEC + 1)
    except OSError as error:
        raise InvalidInput("spec", path, f"cannot be read: {error.strerror}") from None


def _say(as_json: bool, content: Any, text: str) -> None:
    if as_json:
        try:
            text = json.dumps(content, default=str, allow_nan=False)
        except ValueError:  # a number that is not finite
            from sweep_service.export import plain

            text = json.dumps(plain(content), default=str, allow_nan=False)
    print(text)


if __name__ == "__main__":
    main()
