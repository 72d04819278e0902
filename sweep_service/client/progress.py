"""Progress bars of a sweep, in a terminal and in a notebook."""

from __future__ import annotations

import html
import sys
import time as clock
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from sweep_service.text import format_duration, format_remaining, make_printable

SPEED_PERIOD_SECONDS = 3600.0  # the speed is averaged over this period, because one run may take minutes


def progress_bar(wanted: bool | None = None) -> Bar:
    """Make a bar for a notebook or a terminal. By default it is quiet if standard error is neither."""
    if in_notebook() and wanted is not False:
        return NotebookBar()
    return Bar(quiet=not (sys.stderr.isatty() if wanted is None else wanted))


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


class Bar:
    """A bar in a terminal. It measures predicted cost and starts at the progress that is shown first."""

    def __init__(self, quiet: bool = False) -> None:
        self.console = Console(stderr=True, quiet=quiet, force_jupyter=False)
        columns = (
            BarColumn(bar_width=20), TextColumn("{task.percentage:>3.0f}%"), TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"), TextColumn("{task.fields[speed]}"),
            TextColumn("{task.description}"),
        )  # fmt: skip
        self.bar = Progress(*columns, console=self.console, speed_estimate_period=SPEED_PERIOD_SECONDS)
        self.task: TaskID | None = None
        self.printed: set[str] = set()

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *exception: object) -> None:
        if self.task is not None:  # otherwise rich would print an empty line
            self.bar.stop()

    def print_once(self, text: str) -> None:
        """Print a line above the bar, unless it was printed before."""
        if text and text not in self.printed:
            self.printed.add(text)
            self.print(make_printable(text))

    def print(self, line: str) -> None:
        """Print a line above the bar."""
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def show(self, sweep: Mapping[str, Any]) -> None:
        """Update the bar from a sweep, as `execution.summary.summarise_sweep` returns it."""
        self.print_once(f"{sweep['id']}  {sweep['name']}".rstrip())
        self.print_once(sweep["reason"])
        done: Any = 1.0 if sweep["state"] == "completed" else sweep["progress"]
        if self.task is None:
            self.start()
            self.task = self.bar.add_task("", total=1.0, completed=done, left="", speed="")
        self.bar.update(self.task, completed=done)
        (task,) = self.bar.tasks
        seconds = task.time_remaining
        left = format_remaining(sweep) or (f"{format_duration(seconds)} left" if seconds else "")
        work = sweep["core_seconds"] + sweep["core_seconds_left"]
        ended = sum(number for status, number in sweep["counts"].items() if status != "pending")
        self.bar.update(
            self.task,
            left=left,
            speed=f"{task.speed * work:.2g} core-s/s" if task.speed else "",
            description=", ".join([f"{ended}/{sweep['runs']} runs", *_describe_delays(sweep)]),
        )

    def start(self) -> None:
        """Draw the bar for the first time."""
        self.bar.start()


def _describe_delays(sweep: Mapping[str, Any]) -> Iterator[str]:
    if sweep["reason"]:
        yield "waiting"
    if sweep.get("compiling"):  # an older service does not say
        yield "compiling kernels"


class NotebookBar(Bar):
    """The same bar as HTML below a notebook's cell; it needs no widgets and stays in the saved notebook."""

    def __init__(self) -> None:
        super().__init__(quiet=True)
        self.lines: list[str] = []
        self.display: Any = None
        self.began = clock.monotonic()

    def start(self) -> None:
        """Do nothing: `show` displays the bar."""

    def print(self, line: str) -> None:
        self.lines.append(line)

    def show(self, sweep: Mapping[str, Any]) -> None:
        from IPython.display import display

        super().show(sweep)
        (task,) = self.bar.tasks
        elapsed = f"{format_duration(clock.monotonic() - self.began)} elapsed"
        facts = (f"{task.percentage:.0f} %", task.description, elapsed, task.fields["left"])
        text = " · ".join(fact for fact in facts if fact)
        content = {
            "text/plain": "\n".join([*self.lines, text]),
            "text/html": "".join(f"<div>{html.escape(line)}</div>" for line in self.lines)
            + f'<progress max="1" value="{task.completed:.4f}"></progress> {html.escape(text)}',
        }
        if self.display is None:
            self.display = display(content, raw=True, display_id=True)
        else:
            self.display.update(content, raw=True)
