"""How commands react to Ctrl-C and SIGTERM, and how a process ends that does not end by itself."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

INTERRUPTED = 3  # exit code of a command that can be continued
REPEAT_INTERVAL_SECONDS = 0.2
# A command that computes is given this time to end by itself. With the time that its children then take to
# end, it stays below the ten seconds that are documented.
END_TIMEOUT_SECONDS = 8.0
AGAIN = "press Ctrl-C again to end at once"


class Interrupt(BaseException):
    """Raised by Ctrl-C while nothing is being computed.

    Not an `Exception`, so that no handler mistakes it for an error.
    """


class StopFlag:
    """The signal handler of a command, callable as the flag `requested`.

    The first signal ends the command at once, or sets the flag if the command is `computing`. A second one
    ends the process, and so does a command that computes and has not ended after `END_TIMEOUT_SECONDS`.
    """

    def __init__(self) -> None:
        self.requested = self.computing = False
        self.waiting = False  # for a service, perhaps for hours, with nothing to clean up
        self.exit_code = INTERRUPTED
        self.on_request: Callable[[], None] = lambda: None  # called by the signal handler
        self.announce: Callable[[], None] = lambda: None  # called by a thread at the first signal
        self._first_signal = threading.Event()

    def __call__(self) -> bool:
        return self.requested

    def install(self) -> None:
        """Handle SIGINT and SIGTERM from now on."""
        # The thread is started now, because a signal handler cannot start one safely.
        threading.Thread(target=self._watch, name="end of the process", daemon=True).start()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._handle_signal)
        signal.signal(signal.SIGALRM, self._raise_again)
        sys.unraisablehook = _report_unless_interrupt

    def _handle_signal(self, number: int, frame: Any) -> None:
        if self.requested:
            if sys.stderr.isatty():
                os.write(2, b"\x1b[?25h\n")  # show the cursor, which the progress bar hides
            end_process(self.exit_code)
        self.requested = True
        if self.waiting:
            signal.setitimer(signal.ITIMER_REAL, REPEAT_INTERVAL_SECONDS, REPEAT_INTERVAL_SECONDS)
        self._first_signal.set()
        if not self.computing:
            raise Interrupt
        self.on_request()

    def _watch(self) -> None:
        self._first_signal.wait()
        if self.computing:
            with suppress(Exception):
                self.announce()
        threading.Event().wait(END_TIMEOUT_SECONDS)
        end_process(self.exit_code)

    def _raise_again(self, number: int, frame: Any) -> None:
        """Raise again, because Python drops an exception that is raised while an object is finalised."""
        raise Interrupt

    def cancel_repeat(self) -> None:
        """Stop raising `Interrupt`, once the one that ended a wait is caught."""
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def announce_stop(awaited: str) -> None:
    """Say in a terminal that this process is ending, and what it waits for."""
    if sys.stderr.isatty():
        os.write(2, f"\r\x1b[Kstopping{': waiting for ' if awaited else ''}{awaited}; {AGAIN}\r\n".encode())


def end_process(code: int) -> NoReturn:
    """Kill the children of this process and end it at once; everything stored is consistent."""
    with suppress(Exception):
        _kill_children()
    with suppress(Exception):
        _unlink_semaphores()
    os._exit(code)


def _kill_children() -> None:
    if "multiprocessing" in sys.modules:
        from multiprocessing import active_children

        for process in active_children():
            process.kill()


def _unlink_semaphores() -> None:
    """Remove the semaphores of queues to children, which Python would report as leaked."""
    if "multiprocessing.synchronize" in sys.modules:
        from multiprocessing import synchronize, util

        for finalizer in list(util._finalizer_registry.values()):  # type: ignore[attr-defined]
            if finalizer._callback is synchronize.SemLock._cleanup:  # type: ignore[attr-defined]
                finalizer()


def _report_unless_interrupt(unraisable: Any) -> None:
    """Report dropped exceptions except `Interrupt`, which the timer raises again."""
    if not isinstance(unraisable.exc_value, Interrupt):
        sys.__unraisablehook__(unraisable)


stop = StopFlag()  # shared by the whole process
