"""A bar for a sweep that is computed, here or by a service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from sweep_service.text import duration, printable

PERIOD = 3600.0  # seconds over which the speed is averaged: one run may take a good part of it


class Bar:
    """Goes by predicted cost, from where the sweep was when it was shown first."""

    def __init__(self, quiet: bool = False) -> None:
        self.console = Console(stderr=True, quiet=quiet)
        columns = (
            BarColumn(bar_width=20), TextColumn("{task.percentage:>3.0f}%"), TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"), TextColumn("{task.fields[speed]}"),
            TextColumn("{task.description}"),
        )  # fmt: skip
        self.bar = Progress(*columns, console=self.console, speed_estimate_period=PERIOD)
        self.task: TaskID | None = None
        self.said: set[str] = set()

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *problem: object) -> None:
        if self.task is not None:  # else rich would leave an empty line
            self.bar.stop()

    def say(self, text: str) -> None:
        """A line above the bar, once."""
        if text and text not in self.said:
            self.said.add(text)
            self.console.print(printable(text), highlight=False, markup=False, soft_wrap=True)

    def show(self, now: Mapping[str, Any]) -> None:
        """A sweep as `words.view` tells of it."""
        self.say(f"{now['id']}  {now['name']}".rstrip())
        self.say(now["reason"])
        done: Any = 1.0 if now["state"] == "completed" else now["progress"]
        if self.task is None:
            self.bar.start()
            self.task = self.bar.add_task("", total=1.0, completed=done, left="", speed="")
        self.bar.update(self.task, completed=done)
        (task,) = self.bar.tasks
        left = task.time_remaining if now["eta_seconds"] is None else now["eta_seconds"]
        work = now["core_seconds"] + now["core_seconds_left"]
        ended = sum(number for status, number in now["counts"].items() if status != "pending")
        self.bar.update(
            self.task,
            left=f"{duration(left)} left" if left else "",
            speed=f"{task.speed * work:.2g} core-s/s" if task.speed else "",
            description=f"{ended}/{now['runs']} runs{', waiting' if now['reason'] else ''}",
        )
