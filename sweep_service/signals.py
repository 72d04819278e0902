"""How commands react to Ctrl-C and SIGTERM."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

INTERRUPTED = 3  # exit code of a command that can be continued
REPEAT_INTERVAL_SECONDS = 0.2


class Interrupt(BaseException):
    """Raised by Ctrl-C while nothing is being computed.

    Not an `Exception`, so that no handler mistakes it for an error.
    """


class StopFlag:
    """The signal handler of a command, callable as the flag `requested`.

    The first signal ends the command at once, or sets the flag if the command is `computing`. A second one
    ends the process.
    """

    def __init__(self) -> None:
        self.requested = self.computing = False
        self.waiting = False  # for a service, perhaps for hours, with nothing to clean up

    def __call__(self) -> bool:
        return self.requested

    def install(self) -> None:
        """Handle SIGINT and SIGTERM from now on."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._handle_signal)
        signal.signal(signal.SIGALRM, self._raise_again)
        sys.unraisablehook = _report_unless_interrupt

    def _handle_signal(self, number: int, frame: Any) -> None:
        if self.requested:
            if sys.stderr.isatty():
                os.write(2, b"\x1b[?25h\n")  # show the cursor, which the progress bar hides
            os._exit(INTERRUPTED)
        self.requested = True
        if self.waiting:
            signal.setitimer(signal.ITIMER_REAL, REPEAT_INTERVAL_SECONDS, REPEAT_INTERVAL_SECONDS)
        if not self.computing:
            raise Interrupt

    def _raise_again(self, number: int, frame: Any) -> None:
        """Raise again, because Python drops an exception that is raised while an object is finalised."""
        raise Interrupt

    def cancel_repeat(self) -> None:
        """Stop raising `Interrupt`, once the one that ended a wait is caught."""
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def _report_unless_interrupt(unraisable: Any) -> None:
    """Report dropped exceptions except `Interrupt`, which the timer raises again."""
    if not isinstance(unraisable.exc_value, Interrupt):
        sys.__unraisablehook__(unraisable)


stop = StopFlag()  # shared by the whole process
