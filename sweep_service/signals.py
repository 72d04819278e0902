"""Ctrl-C and SIGTERM: what a command does about them."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

INTERRUPTED = 3  # the exit code of what can go on
REPEAT_SECONDS = 0.2


class Interrupt(BaseException):
    """Ctrl-C where nothing is at stake. No `Exception`: nobody on its way may take it for a problem."""


class Stop:
    """The first ends a command at once, or asks it to stop while it computes; the second ends the process."""

    def __init__(self) -> None:
        self.asked = self.computing = False
        self.waiting = False  # for others, perhaps for hours, with nothing to clean up

    def __call__(self) -> bool:
        return self.asked

    def listen(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._hear)
        signal.signal(signal.SIGALRM, self._hear_again)
        sys.unraisablehook = _report_unless_interrupt

    def _hear(self, number: int, frame: Any) -> None:
        if self.asked:
            if sys.stderr.isatty():
                os.write(2, b"\x1b[?25h\n")  # the bar hides the cursor
            os._exit(INTERRUPTED)
        self.asked = True
        if self.waiting:
            signal.setitimer(signal.ITIMER_REAL, REPEAT_SECONDS, REPEAT_SECONDS)
        if not self.computing:
            raise Interrupt

    def _hear_again(self, number: int, frame: Any) -> None:
        """Raise again, because Python drops an exception that is raised while an object is finalised."""
        raise Interrupt

    def handled(self) -> None:
        """For who catches an `Interrupt` of a wait: no other one comes."""
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def _report_unless_interrupt(problem: Any) -> None:
    """Stay silent about an `Interrupt` that was dropped: the timer raises it again."""
    if not isinstance(problem.exc_value, Interrupt):
        sys.__unraisablehook__(problem)


stop = Stop()  # of this process
