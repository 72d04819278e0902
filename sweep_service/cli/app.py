"""`sweep`: what a person types. Heavy imports happen inside the commands, so that --help is quick.

Exit codes: 0 done; 1 ended, with failed runs, or unable to go on; 2 refused; 3 cancelled, paused or
interrupted, and can go on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import typer

from sweep_service.cli import compute, doctor, inspect, manage, service
from sweep_service.cli.answers import REFUSED
from sweep_service.errors import SweepError
from sweep_service.signals import INTERRUPTED, Interrupt, stop
from sweep_service.text import printable

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
COMMANDS: dict[str, Callable[..., None]] = {  # in the order of the help
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
    "export": inspect.export,
    "plot": inspect.plot,
    "rerun": inspect.rerun,
    "presets": inspect.presets,
    "cancel": manage.cancel,
    "pause": manage.pause,
    "rm": manage.rm,
    "doctor": doctor.doctor,
    "certificates": doctor.certificates,
}
app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, help=HELP)
for _name, _function in COMMANDS.items():
    app.command(_name)(_function)


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
