"""The entry point of `sweep`. Commands import heavy modules themselves, so that --help stays fast.

Exit codes: 0 done; 1 ended with failed runs, or failed; 2 invalid or refused; 3 cancelled, paused or
interrupted, and can be continued.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from sweep_service.cli import archive, atlas, compute, doctor, inspect, manage, service, slurm
from sweep_service.cli.answers import REFUSED
from sweep_service.errors import InvalidSpec, SweepError
from sweep_service.plugins import load_plugins
from sweep_service.signals import INTERRUPTED, Interrupt, end_process, stop
from sweep_service.text import make_printable
from sweep_service.version import __version__

HELP = (  # one line per paragraph, because the terminal wraps it
    "Parameter sweeps of SGD in two-layer networks: exact simulations and their limiting theories.\n\n"
    "A spec in YAML or JSON describes a sweep. `sweep estimate SPEC` predicts its cost. `sweep run SPEC` "
    "computes it on all cores of this machine and prints how to open the result in Python. "
    "`sweep presets` lists ready-made specs.\n\n"
    "`sweep serve` starts a service, and `sweep submit SPEC` submits a sweep to it. The other commands work "
    "on the sweeps of a data folder, or with --url on those of a service.\n\n"
    "Ctrl-C is safe: run the same command again to continue. Runs that are already stored are reused.\n\n"
    "Exit codes: 0 done; 1 ended with failed runs; 2 invalid or refused; 3 cancelled or interrupted, "
    "and can be continued."
)
COMMANDS: dict[str, Callable[..., None]] = {  # in the order of --help
    "run": compute.run,
    "gallery": compute.gallery,
    "extend": compute.extend,
    "retry": compute.retry,
    "resume": compute.resume,
    "serve": service.serve,
    "submit": service.submit,
    "watch": service.watch,
    "list": inspect.list_sweeps,
    "show": inspect.show,
    "estimate": inspect.estimate,
    "seeds": inspect.seeds,
    "export": inspect.export,
    "plot": inspect.plot,
    "atlas": atlas.atlas,
    "compare": atlas.compare,
    "rerun": inspect.rerun,
    "presets": inspect.presets,
    "cancel": manage.cancel,
    "pause": manage.pause,
    "rename": manage.rename,
    "note": manage.note,
    "tag": manage.tag,
    "rm": manage.rm,
    "archive": archive.archive,
    "import": archive.import_sweeps,
    "doctor": doctor.doctor,
    "certificates": doctor.certificates,
    "slurm": slurm.slurm,
}
app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, help=HELP)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        print(f"sweep-service {__version__}")
        raise typer.Exit


@app.callback()
def _read_common_options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Read the options that come before a command, and load plugins. (The help is that of `app`.)"""
    load_plugins()


for _name, _function in COMMANDS.items():
    app.command(_name)(_function)


def main() -> None:
    """Run a command, and end the process at once if a signal has interrupted it."""
    stop.install()
    try:
        _run_command()
    except SystemExit as end:
        if not stop.requested:
            raise
        sys.stdout.flush()
        sys.stderr.flush()
        end_process(end.code if isinstance(end.code, int) else INTERRUPTED)


def _run_command() -> None:
    """Run a command; each error that the user can fix is printed on one line, with exit code 2."""
    try:
        app(standalone_mode=True)
    except (Exception, Interrupt) as error:
        if stop.requested:  # the interrupt may surface as any other error
            print("sweep: interrupted; run the same command again", file=sys.stderr)
            sys.exit(INTERRUPTED)
        # SQLAlchemy is recognised by name, because --help must not import it.
        is_expected = isinstance(error, (SweepError, OSError))
        if not is_expected and not type(error).__module__.startswith("sqlalchemy"):
            raise
        for line in _error_lines(error):
            print(f"sweep: {make_printable(line)}", file=sys.stderr)
        sys.exit(REFUSED)


def _error_lines(error: BaseException) -> list[str]:
    """Return one line for each error of a spec, and the first line of any other message."""
    lines = (str(error) or type(error).__name__).splitlines()
    return lines if isinstance(error, InvalidSpec) else lines[:1]
