"""The targets of commands: a data folder or a service, with the same methods.

A sweep is named by its id, by a beginning of it that no other id has, or by its name.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweep_service.client.names import match_sweep
from sweep_service.errors import InUse, InvalidInput, NotFound
from sweep_service.runner import DEFAULT_DATA, complete, list_sweeps
from sweep_service.signals import announce_stop, stop

if TYPE_CHECKING:
    import xarray as xr

    from sweep_service.analysis.atlas.atlas import Atlas
    from sweep_service.client.client import Client
    from sweep_service.client.remote_atlas import RemoteAtlas
    from sweep_service.execution.conductor import Conductor
    from sweep_service.execution.executors import Executor
    from sweep_service.execution.submission import Submission
    from sweep_service.figures import Figure
    from sweep_service.figures.gallery import Report
    from sweep_service.planning.estimate import Limits
    from sweep_service.planning.spec import SweepSpec
    from sweep_service.store.folder import DataFolder
    from sweep_service.store.ledger import Ledger, SweepRecord

MIN_POINTS_TO_ANNOUNCE = 5000  # expanding more of them takes seconds
ADD_URL = "add --url {url}"  # advice of commands that can use a service instead of the folder

SweepSummary = dict[str, Any]
MakeExecutor = Callable[["DataFolder", float], "Executor"]  # from the predicted seconds of its work


def make_serial_executor(folder: DataFolder, work: float) -> Executor:
    """Make an executor that computes in this process."""
    from sweep_service.execution.executors import SerialExecutor

    return SerialExecutor(stop)


class LocalTarget:
    """A data folder. Commands compute at once, until the sweep ends or Ctrl-C pauses it."""

    def __init__(
        self,
        folder: DataFolder,
        make_executor: MakeExecutor = make_serial_executor,
        quiet: bool = True,
    ) -> None:
        self.folder, self.make_executor, self.quiet = folder, make_executor, quiet
        root = str(folder.root)
        # The option that selects this target in the commands that are suggested to the user.
        self.option = "" if root == DEFAULT_DATA else f" --data {shlex.quote(root)}"

    # ---- read

    def list_sweeps(self, tags: Sequence[str] = ()) -> list[SweepSummary]:
        """List the sweeps that have all of these tags, newest first."""
        return list_sweeps(self.folder, tags)

    def describe(self, prefix: str, max_failures: int | None = None) -> SweepSummary:
        """Describe a sweep with its first failures, by default with all of them."""
        from sweep_service.execution.summary import describe_sweep

        sweep_id = self.find_id(prefix)
        with self.open_ledger() as ledger:
            return describe_sweep(self.folder, ledger, ledger.sweep(sweep_id), max_failures)

    def estimate(self, spec: bytes) -> dict[str, Any]:
        """Estimate the cost of a sweep without creating anything."""
        from sweep_service.planning.estimate import Limits

        submission = self._make_submission(spec, Limits().for_estimates())
        if not self.folder.has_ledger():
            return submission.summarise_cost(self.folder, None, Limits())
        with self.open_ledger() as ledger:
            return submission.summarise_cost(self.folder, ledger, Limits())

    def predict_seeds(self, spec: bytes, relative_error: float | None = None) -> dict[str, Any]:
        """Predict how accurately the seeds of a spec will determine the risk."""
        from sweep_service.analysis.error_bars.spec_seeds import predict_seeds
        from sweep_service.planning.estimate import Limits
        from sweep_service.planning.outline import Outline
        from sweep_service.planning.spec_text import locating_errors

        with locating_errors(spec):
            outline = Outline.read(spec)
            Limits().for_estimates().check_outline(outline)
            return predict_seeds(outline, self.folder.calibration(), relative_error)

    def estimate_extension(self, prefix: str, change: bytes) -> dict[str, Any]:
        """Estimate the cost of an extension without creating anything."""
        from sweep_service.execution.extension import extend_spec
        from sweep_service.planning.estimate import Limits

        spec = extend_spec(self.folder.spec(self.find_id(prefix)), change)
        submission = self._make_submission(spec, Limits().for_estimates())
        with self.open_ledger() as ledger:
            return submission.summarise_cost(self.folder, ledger, Limits())

    def count_seeds(self, prefix: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Count the seeds that a sweep needs for an accuracy; returns curves over time, and its id."""
        from sweep_service.analysis.error_bars.seed_curves import compute_seed_curves

        with self.open_dataset(prefix) as (sweep_id, dataset):
            return {"id": sweep_id, **compute_seed_curves(dataset, **options)}

    def export(self, prefix: str, output: Path) -> str:
        """Write a sweep to a file; returns its id."""
        from sweep_service.analysis.export import export

        with self.open_dataset(prefix) as (sweep_id, dataset):
            export(dataset, output)
        return sweep_id

    @contextmanager
    def open_dataset(self, prefix: str) -> Iterator[tuple[str, xr.Dataset]]:
        """Open the dataset of a sweep; yields its id as well."""
        from sweep_service.client.client import open

        sweep_id = self.find_id(prefix)
        with open(self.folder.dataset_path(sweep_id)) as dataset:
            yield sweep_id, dataset

    # ---- the atlas

    def _open_atlas(self) -> Atlas:
        from sweep_service.analysis.atlas.folder import open_folder_atlas

        return open_folder_atlas(self.folder)

    def count_atlas_runs(self, where: Mapping[str, Any]) -> dict[str, Any]:
        """Count the runs of all sweeps by the values of each parameter."""
        return self._open_atlas().select(**where).facets()

    def write_atlas_runs(self, where: Mapping[str, Any], output: Path, format: str) -> int:
        """Write the selected runs of all sweeps as a table; returns their number."""
        atlas = self._open_atlas().select(**where)
        atlas.write_table(output, format)
        return len(atlas)

    def compute_atlas_view(self, view: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Compute the numbers of a view of the atlas."""
        from sweep_service.analysis.atlas.views import view_as_json

        return view_as_json(self._open_atlas(), view, options)

    def draw_atlas(self, view: str, options: Mapping[str, Any], output: Path) -> None:
        """Draw a view of the atlas to a file."""
        from sweep_service.analysis.atlas.views import draw_view

        output.write_bytes(draw_view(self._open_atlas(), view, options, output.suffix.removeprefix(".")))

    def compare(self, a: str, b: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Compare a value of two sweeps at their common points."""
        from sweep_service.analysis.comparison.compare import compare, comparison_to_json

        with self.open_dataset(a) as (first, one), self.open_dataset(b) as (second, other):
            return {"a": first, "b": second, **comparison_to_json(compare(one, other, **options))}

    # ---- draw

    def draw(self, sweep: SweepSummary) -> tuple[Path, ...]:
        """Draw the most informative view of a sweep; returns the files."""
        from sweep_service.figures.gallery import draw_suggested_view

        with self.open_dataset(sweep["id"]) as (sweep_id, dataset):
            try:
                return draw_suggested_view(dataset, sweep_id, self.folder.state / "figures")
            except InvalidInput as error:  # the sweep is stored all the same
                print(f"no figure: {error}", file=sys.stderr)
                return ()

    def reproduce(
        self, figure: Figure, sweeps: Mapping[str, SweepSummary], folder: Path, draw: bool = True
    ) -> Report:
        """Check and draw a figure from the sweeps of its presets."""
        from sweep_service.figures.gallery import reproduce_figure

        with ExitStack() as stack:
            datasets = {
                preset: stack.enter_context(self.open_dataset(sweep["id"]))
                for preset, sweep in sweeps.items()
            }
            return reproduce_figure(figure, datasets, folder if draw else None)

    # ---- compute

    def submit(self, spec: bytes, priority: int = 0) -> SweepSummary:
        """Compute a new sweep, or the stored one with an equivalent spec if it has not ended."""
        from sweep_service.planning.estimate import Limits

        submission = self._make_submission(spec, Limits())
        if not self.folder.has_ledger():  # a rejected sweep must not leave an empty folder behind
            submission.prepare(self.folder, None, Limits())
        return self._compute(
            lambda conductor: conductor.submit(submission, priority=priority)[0],
            "use sweep submit --url {url}",
        )

    def extend(self, prefix: str, change: bytes, name: str | None = None) -> SweepSummary:
        """Compute a new sweep with more values than an existing one."""
        from sweep_service.execution.extension import extend_spec
        from sweep_service.planning.estimate import Limits

        sweep_id = self.find_id(prefix)
        spec = extend_spec(self.folder.spec(sweep_id), change, name)
        submission = self._make_submission(spec, Limits())
        return self._compute(lambda conductor: conductor.submit(submission, extends=sweep_id)[0])

    def retry(self, prefix: str) -> SweepSummary:
        """Compute failed and cancelled runs again."""
        sweep_id = self.find_id(prefix)
        return self._compute(lambda conductor: conductor.retry(sweep_id))

    def resume(self, prefix: str) -> SweepSummary:
        """Continue a paused or interrupted sweep."""
        sweep_id = self.find_id(prefix)
        return self._compute(lambda conductor: conductor.resume(sweep_id))

    def _compute(
        self, begin: Callable[[Conductor], SweepRecord], service_advice: str = ADD_URL
    ) -> SweepSummary:
        """Compute the sweep that `begin` returns to its end; it is paused if the command is interrupted."""
        from sweep_service.client.progress import Bar
        from sweep_service.execution.executors import describe_awaited
        from sweep_service.execution.summary import describe_sweep

        with self.open_conductor(service_advice) as conductor:
            sweep_id = begin(conductor).id
            if not conductor.needs_restart(sweep_id):  # only `sweep resume` discards stored runs
                conductor.resume(sweep_id)
            work = conductor.predict_core_seconds(sweep_id)
            conductor.executor = self.make_executor(self.folder, work)
            stop.describe_awaited = lambda: describe_awaited(conductor.executor)
            if not self.quiet:
                stop.announce = announce_stop
            stop.computing = True
            with Bar(self.quiet) as bar:
                sweep = complete(conductor, sweep_id, bar)
            return describe_sweep(self.folder, conductor.ledger, sweep, None if self.quiet else 1)

    # ---- control

    def cancel(self, prefix: str) -> SweepSummary:
        """Cancel the runs that are not computed yet."""
        return self._change_state(prefix, lambda conductor, sweep_id: conductor.cancel(sweep_id))

    def pause(self, prefix: str) -> SweepSummary:
        """Stop computing a sweep until it is resumed."""
        return self._change_state(prefix, lambda conductor, sweep_id: conductor.pause(sweep_id))

    def update(self, prefix: str, **change: Any) -> SweepSummary:
        """Change the name, the note or the tags of a sweep."""
        from sweep_service.store.notes import read_change

        notes = read_change(change)
        return self._change_state(prefix, lambda conductor, sweep_id: conductor.annotate(sweep_id, notes))

    def tag(self, prefix: str, added: Sequence[str], removed: Sequence[str]) -> SweepSummary:
        """Add tags to a sweep, and remove some."""
        from sweep_service.store.notes import add_and_remove_tags, read_change

        def change(conductor: Conductor, sweep_id: str) -> SweepRecord:
            tags = add_and_remove_tags(conductor.ledger.sweep(sweep_id).tags, added, removed)
            return conductor.annotate(sweep_id, read_change({"tags": tags}))

        return self._change_state(prefix, change)

    def remove(self, prefix: str) -> str:
        """Delete a sweep and its data; returns its id."""
        sweep_id = self.find_id(prefix)
        with self.open_conductor() as conductor:
            conductor.remove(sweep_id)
        return sweep_id

    def _change_state(self, prefix: str, change: Callable[[Conductor, str], SweepRecord]) -> SweepSummary:
        from sweep_service.execution.summary import summarise_sweep

        sweep_id = self.find_id(prefix)
        with self.open_conductor() as conductor:
            sweep = change(conductor, sweep_id)
            return summarise_sweep(sweep, conductor.ledger.progress_totals([sweep_id])[sweep_id])

    # ---- access to the folder

    @contextmanager
    def open_conductor(self, service_advice: str = ADD_URL) -> Iterator[Conductor]:
        """Open a conductor, which holds the lock of the folder.

        `service_advice` says what to do if a service at {url} holds it.
        """
        from sweep_service.execution.conductor import Conductor

        executor = self.make_executor(self.folder, 0.0)  # until the work is known
        with ExitStack() as stack:
            try:
                conductor = stack.enter_context(Conductor(self.folder, executor))
            except InUse as error:
                if not error.url:
                    raise
                raise InUse(f"{error}: {service_advice.format(url=error.url)}", error.url) from None
            yield conductor

    @contextmanager
    def open_ledger(self) -> Iterator[Ledger]:
        """Open the ledger for reading; it is not created if it does not exist."""
        root = self.folder.root
        if not self.folder.has_ledger():
            missing = isinstance(root, Path) and not root.exists()
            raise NotFound(f"no sweeps: {root} does not exist" if missing else f"no sweeps in {root}")
        with closing(self.folder.ledger()) as ledger:
            yield ledger

    def find_id(self, prefix: str) -> str:
        """Find the id that starts with `prefix`, or that of the sweep with this name."""
        with self.open_ledger() as ledger:
            return match_sweep({sweep.id: sweep.name for sweep in ledger.sweeps()}, prefix)

    def _make_submission(self, spec: SweepSpec | bytes, limits: Limits) -> Submission:
        """Make a submission after checking every point of the spec, before anything is written."""
        from sweep_service.execution.submission import Submission
        from sweep_service.planning.outline import Outline
        from sweep_service.planning.spec_text import locating_errors

        with locating_errors(spec):
            outline = Outline.read(spec)
            limits.check_outline(outline)
            if len(outline) > MIN_POINTS_TO_ANNOUNCE and not self.quiet:
                print(f"preparing {len(outline)} points", file=sys.stderr)
            return Submission(outline, limits)


class RemoteTarget:
    """A service. It computes after it has answered."""

    def __init__(self, client: Client) -> None:
        self.client = client
        is_default = os.environ.get("SWEEP_URL", "").rstrip("/") == client.url
        self.option = "" if is_default else f" --url {shlex.quote(client.url)}"

    def list_sweeps(self, tags: Sequence[str] = ()) -> list[SweepSummary]:
        return list(self.client.sweeps(tag=tags))

    def describe(self, prefix: str, max_failures: int | None = None) -> SweepSummary:
        sweep = self.client.sweep(self.find_id(prefix))
        with suppress(NotFound):  # a service of an older version has no rounds
            if rounds := self.client.rounds(sweep["id"])["rounds"]:
                sweep["rounds"] = rounds
        return {**sweep, "failures": list(islice(self.client.failures(sweep["id"]), max_failures))}

    def estimate(self, spec: bytes) -> dict[str, Any]:
        return self.client.estimate(spec)

    def predict_seeds(self, spec: bytes, relative_error: float | None = None) -> dict[str, Any]:
        return self.client.predict_seeds(spec, relative_error)

    def count_seeds(self, prefix: str, options: Mapping[str, Any]) -> dict[str, Any]:
        sweep_id = self.find_id(prefix)
        return {"id": sweep_id, **self.client.seeds(sweep_id, **options)}

    def export(self, prefix: str, output: Path) -> str:
        sweep_id = self.find_id(prefix)
        self.client.export(sweep_id, output)
        return sweep_id

    @contextmanager
    def open_dataset(self, prefix: str) -> Iterator[tuple[str, xr.Dataset]]:
        sweep_id = self.find_id(prefix)
        with self.client.open(sweep_id) as dataset:
            yield sweep_id, dataset

    def count_atlas_runs(self, where: Mapping[str, Any]) -> dict[str, Any]:
        return self._open_atlas().select(**where).facets()

    def write_atlas_runs(self, where: Mapping[str, Any], output: Path, format: str) -> int:
        atlas = self._open_atlas().select(**where)
        atlas.write_table(output, format)
        return len(atlas)

    def compute_atlas_view(self, view: str, options: Mapping[str, Any]) -> dict[str, Any]:
        return self._open_atlas().compute_view(view, options)

    def draw_atlas(self, view: str, options: Mapping[str, Any], output: Path) -> None:
        self._open_atlas().figure(output, view, **options)

    def _open_atlas(self) -> RemoteAtlas:
        from sweep_service.client.remote_atlas import RemoteAtlas

        return RemoteAtlas(self.client)

    def compare(self, a: str, b: str, options: Mapping[str, Any]) -> dict[str, Any]:
        return self.client.compare(self.find_id(a), self.find_id(b), **options)

    def submit(self, spec: bytes, priority: int = 0) -> SweepSummary:
        return self.client.submit(spec, priority=priority)

    def extend(self, prefix: str, change: bytes, name: str | None = None) -> SweepSummary:
        return self.client.extend(self.find_id(prefix), change, name=name)

    def estimate_extension(self, prefix: str, change: bytes) -> dict[str, Any]:
        return self.client.estimate_extension(self.find_id(prefix), change)

    def retry(self, prefix: str) -> SweepSummary:
        sweep = self.client.retry(self.find_id(prefix))
        return self.resume(sweep["id"]) if sweep["state"] == "paused" and not sweep["reason"] else sweep

    def resume(self, prefix: str) -> SweepSummary:
        return self.client.resume(self.find_id(prefix))

    def cancel(self, prefix: str) -> SweepSummary:
        return self.client.cancel(self.find_id(prefix))

    def pause(self, prefix: str) -> SweepSummary:
        return self.client.pause(self.find_id(prefix))

    def tag(self, prefix: str, added: Sequence[str], removed: Sequence[str]) -> SweepSummary:
        from sweep_service.store.notes import add_and_remove_tags

        sweep = self.client.sweep(self.find_id(prefix))
        return self.update(sweep["id"], tags=add_and_remove_tags(sweep["tags"], added, removed))

    def update(self, prefix: str, **change: Any) -> SweepSummary:
        return self.client.update(self.find_id(prefix), **change)

    def remove(self, prefix: str) -> str:
        sweep_id = self.find_id(prefix)
        self.client.remove(sweep_id)
        return sweep_id

    def find_id(self, prefix: str) -> str:
        return self.client.find_id(prefix)
