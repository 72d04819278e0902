"""Where sweeps are: in a folder of this machine, or behind a service. Both are asked in the same way.

A sweep is named by any beginning of its id that no other has.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweep_service.errors import InvalidInput, NotFound
from sweep_service.runner import DEFAULT_DATA, complete, executor_factory, list_sweeps
from sweep_service.signals import stop

if TYPE_CHECKING:
    import xarray as xr

    from sweep_service.client.client import Client
    from sweep_service.execution.conductor import Conductor
    from sweep_service.execution.executors import Executor
    from sweep_service.execution.submission import Submission
    from sweep_service.figures import Figure
    from sweep_service.figures.gallery import Report
    from sweep_service.planning.spec import SweepSpec
    from sweep_service.store.folder import DataFolder
    from sweep_service.store.ledger import Ledger, Sweep

MANY_POINTS = 5000  # take seconds to read
ID_LENGTH = len("20261116-125954-0123abcd")

About = dict[str, Any]


def alone(folder: DataFolder) -> Executor:
    """Computes in this process."""
    return executor_factory(0, None)(folder, stop)


class Here:
    """A data folder. What is to be computed is computed at once, to its end or to Ctrl-C."""

    def __init__(
        self, folder: DataFolder, executor: Callable[[DataFolder], Executor] = alone, quiet: bool = True
    ) -> None:
        self.folder, self.executor, self.quiet = folder, executor, quiet
        root = str(folder.root)
        self.option = "" if root == DEFAULT_DATA else f" --data {shlex.quote(root)}"  # that leads here

    # ---- look

    def sweeps(self) -> list[About]:
        return list_sweeps(self.folder)

    def show(self, sweep: str, most: int | None = None) -> About:
        """With so many of its failures."""
        from sweep_service.execution.summary import describe

        found = self.find(sweep)
        with self.reading() as ledger:
            return describe(self.folder, ledger, ledger.sweep(found), most)

    def estimate(self, spec: bytes) -> About:
        from sweep_service.planning.estimate import Limits
        from sweep_service.planning.spec import SweepSpec

        submission = self._submission(SweepSpec.read(spec))
        if not self.folder.has_ledger():
            return submission.price(self.folder, None, Limits())
        with self.reading() as ledger:
            return submission.price(self.folder, ledger, Limits())

    def export(self, sweep: str, output: Path) -> str:
        from sweep_service.analysis.export import export

        with self.opened(sweep) as (found, dataset):
            export(dataset, output)
        return found

    @contextmanager
    def opened(self, sweep: str) -> Iterator[tuple[str, xr.Dataset]]:
        """Its whole id and its dataset."""
        from sweep_service.client.client import open

        found = self.find(sweep)
        with open(self.folder.dataset_path(found)) as dataset:
            yield found, dataset

    # ---- draw

    def draw(self, about: About) -> tuple[Path, ...]:
        """Files of what shows most of a sweep."""
        from sweep_service.figures.gallery import suggested

        with self.opened(about["id"]) as (sweep, dataset):
            try:
                return suggested(dataset, sweep, self.folder.state / "figures")
            except InvalidInput as error:  # the sweep is there all the same
                print(f"not drawn: {error}", file=sys.stderr)
                return ()

    def reproduce(
        self, figure: Figure, found: Mapping[str, About], folder: Path, draw: bool = True
    ) -> Report:
        """A figure of the papers, from the sweeps of its presets."""
        from sweep_service.figures.gallery import reproduced

        with ExitStack() as stack:
            opened = {
                preset: stack.enter_context(self.opened(about["id"])) for preset, about in found.items()
            }
            return reproduced(figure, opened, folder if draw else None)

    # ---- compute

    def submit(self, spec: bytes, priority: int = 0) -> About:
        from sweep_service.planning.estimate import Limits
        from sweep_service.planning.spec import SweepSpec

        submission = self._submission(SweepSpec.read(spec))
        if not self.folder.has_ledger():  # what is refused leaves no trace, not even the folder
            submission.look(self.folder, None, Limits())
        return self._computed(lambda conductor: conductor.submit(submission, priority=priority)[0])

    def extend(self, sweep: str, change: bytes) -> About:
        old = self.find(sweep)
        submission = self._submission(self.folder.spec(old).extended(change))
        return self._computed(lambda conductor: conductor.submit(submission, extends=old)[0])

    def retry(self, sweep: str) -> About:
        old = self.find(sweep)
        return self._computed(lambda conductor: conductor.retry(old))

    def resume(self, sweep: str) -> About:
        old = self.find(sweep)
        return self._computed(lambda conductor: conductor.resume(old))

    def _computed(self, begin: Callable[[Conductor], Sweep]) -> About:
        """What became of a sweep; paused, if it was interrupted."""
        from sweep_service.client.progress import Bar
        from sweep_service.execution.summary import describe

        with self.conductor() as conductor:
            sweep = conductor.resume(begin(conductor).id).id
            stop.computing = True
            with Bar(self.quiet) as bar:
                found = complete(conductor, sweep, bar)
            return describe(self.folder, conductor.ledger, found, None if self.quiet else 1)

    # ---- steer

    def cancel(self, sweep: str) -> About:
        return self._steered(sweep, lambda conductor, old: conductor.cancel(old))

    def pause(self, sweep: str) -> About:
        return self._steered(sweep, lambda conductor, old: conductor.pause(old))

    def remove(self, sweep: str) -> str:
        old = self.find(sweep)
        with self.conductor() as conductor:
            conductor.remove(old)
        return old

    def _steered(self, sweep: str, act: Callable[[Conductor, str], Sweep]) -> About:
        from sweep_service.execution.summary import view

        old = self.find(sweep)
        with self.conductor() as conductor:
            return view(act(conductor, old), conductor.ledger.totals(old))

    # ---- what it stands on

    @contextmanager
    def conductor(self) -> Iterator[Conductor]:
        from sweep_service.execution.conductor import Conductor

        with Conductor(self.folder, self.executor(self.folder)) as conductor:
            yield conductor

    @contextmanager
    def reading(self) -> Iterator[Ledger]:
        """The ledger, which is not made by looking."""
        root = self.folder.root
        if not self.folder.has_ledger():
            gone = isinstance(root, Path) and not root.exists()
            raise NotFound(f"no sweeps: {root} is not there" if gone else f"no sweeps in {root}")
        with closing(self.folder.ledger()) as ledger:
            yield ledger

    def find(self, sweep: str) -> str:
        with self.reading() as ledger:
            return the_one((one.id for one in ledger.sweeps()), sweep)

    def _submission(self, spec: SweepSpec) -> Submission:
        """All points of a spec, read before anything is written."""
        from sweep_service.execution.submission import Submission
        from sweep_service.planning.grids import Grid

        points = len(Grid.of(spec, checked=True))
        if points > MANY_POINTS and not self.quiet:
            print(f"preparing {points} points", file=sys.stderr)
        return Submission(spec)


class There:
    """A service. What is to be computed is computed by it, after it has answered."""

    def __init__(self, client: Client) -> None:
        self.client = client
        known = os.environ.get("SWEEP_URL", "").rstrip("/") == client.url
        self.option = "" if known else f" --url {shlex.quote(client.url)}"  # that leads there

    def sweeps(self) -> list[About]:
        return list(self.client.sweeps())

    def show(self, sweep: str, most: int | None = None) -> About:
        found = self.client.sweep(self.find(sweep))
        return {**found, "failures": list(islice(self.client.failures(found["id"]), most))}

    def estimate(self, spec: bytes) -> About:
        return self.client.estimate(spec)

    def export(self, sweep: str, output: Path) -> str:
        found = self.find(sweep)
        self.client.export(found, output)
        return found

    @contextmanager
    def opened(self, sweep: str) -> Iterator[tuple[str, xr.Dataset]]:
        found = self.find(sweep)
        with self.client.open(found) as dataset:
            yield found, dataset

    def submit(self, spec: bytes, priority: int = 0) -> About:
        return self.client.submit(spec, priority=priority)

    def extend(self, sweep: str, change: bytes) -> About:
        return self.client.extend(self.find(sweep), change)

    def retry(self, sweep: str) -> About:
        found = self.client.retry(self.find(sweep))
        return self.resume(found["id"]) if found["state"] == "paused" else found

    def resume(self, sweep: str) -> About:
        return self.client.resume(self.find(sweep))

    def cancel(self, sweep: str) -> About:
        return self.client.cancel(self.find(sweep))

    def pause(self, sweep: str) -> About:
        return self.client.pause(self.find(sweep))

    def remove(self, sweep: str) -> str:
        found = self.find(sweep)
        self.client.remove(found)
        return found

    def find(self, sweep: str) -> str:
        whole = len(sweep) == ID_LENGTH  # what the service finds by itself
        return sweep if whole else the_one((one["id"] for one in self.client.sweeps()), sweep)


def the_one(ids: Iterable[str], beginning: str) -> str:
    """The id that begins like this."""
    found = [one for one in ids if beginning and one.startswith(beginning)]
    if len(found) != 1:
        many = f"{len(found)} sweeps begin with" if found else "no sweep begins with"
        raise NotFound(f"{many} {beginning!r}: sweep list shows them")
    return found[0]
