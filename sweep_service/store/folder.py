"""The data folder: its sweeps, their ledger, and the lock that lets one process change them.

<data>/lock                     held by the one process that writes
<data>/sweeps/<id>.json         the spec as it was submitted
<data>/sweeps/<id>.notes.json   its current name, a note and tags, once they have been changed
<data>/sweeps/<id>.keys         the run keys, by which later sweeps find runs to reuse
<data>/sweeps/<id>.zarr/        the dataset
<data>/sweeps/<id>.index.parquet  its runs with their parameters and summaries, for the atlas; derived data
<data>/sweeps/<id>.parts/       parts that are not merged yet, checkpoints and crash markers
<data>/sweeps/<id>.failures/    one failure record for each failed run, with its copies
<data>/sweeps/<id>.restart      marks a sweep whose runs are being reset to be computed by other versions
<data>/sweeps/<id>.unowned      marks a sweep that is being created or removed; if it is found when a
                                conductor starts, the sweep is removed
<data>/sweeps/<id>.repair       a request to compute damaged runs again, until a conductor has done so
<state>/ledger.sqlite           the ledger: states of sweeps, progress of bundles
<state>/calibration.json        the speed of this machine

<data> is a folder or an s3:// URL. <state> is the same folder by default, and for a bucket a folder of this
machine. If they are new, only their owner may enter them (mode 0700); a new ledger has mode 0600. Existing
folders keep their permissions, so that workers of another user can share them.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import numpy as np

from sweep_service.errors import Damaged, InvalidInput, NotFound, TooNew, reading
from sweep_service.extras import explain_missing_package
from sweep_service.numerics.npz import read_arrays
from sweep_service.numerics.types import AnyArray
from sweep_service.planning.costs import Calibration
from sweep_service.planning.grids import Grid
from sweep_service.planning.growth.kept_state import ContinuedRuns
from sweep_service.planning.growth.rounds import Rounds
from sweep_service.planning.keys import KEY_DTYPE
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.runs import KINDS, Kind
from sweep_service.planning.spec import SweepSpec
from sweep_service.store.dataset import SweepDataset
from sweep_service.store.files import create_private_file, make_private_folder, sync
from sweep_service.store.kept_states import STATES_SUFFIX
from sweep_service.store.key_index import KeyIndex
from sweep_service.store.ledger import Ledger
from sweep_service.store.local import LocalObjects
from sweep_service.store.locking.locks import file_lock
from sweep_service.store.metadata import DatasetMetadata
from sweep_service.store.notes import NOTES_SUFFIX, Notes
from sweep_service.store.objects import ROOT, Objects, no_guard
from sweep_service.store.sealed import pack_json, unpack_json
from sweep_service.validation import read_number

if TYPE_CHECKING:
    import xarray as xr

CALIBRATION = "calibration.json"
LEDGER = "ledger.sqlite"
KEYS_DIGEST = "keys_sha256"  # attribute of a dataset: the run keys that its values belong to
REPAIR_SUFFIX = ".repair"  # a request to compute damaged runs again
INCOMPLETE_SUFFIX = ".unowned"  # marks a sweep that is being created or removed
INDEX_SUFFIX = ".index.parquet"  # the index of runs
RESTART_SUFFIX = ".restart"  # marks a sweep whose runs are being reset
CONTINUED_SUFFIX = ".continued"  # the earlier runs that runs of a sweep continue
ROUNDS_SUFFIX = ".rounds.json"  # what its rounds have chosen
LOCK = "lock"
SWEEPS = "sweeps"
log = logging.getLogger(__name__)


def parse_location(data: str | os.PathLike[str]) -> Path | str:
    """Parse a path, a file:// URL or an s3:// URL; return a path, or the URL of a bucket."""
    text = os.fspath(data)
    scheme, separator, rest = text.partition("://")
    if not separator:
        return Path(text)
    if scheme == "file":
        url = urlsplit(text)
        if url.netloc not in ("", "localhost") or not url.path.startswith("/"):
            raise InvalidInput("data", text, "must be a folder of this machine, such as file:///srv/sweeps")
        return Path(unquote(url.path))
    if scheme != "s3":
        raise InvalidInput(
            "data", text, "must be a folder, file:///folder, s3://bucket or s3://bucket/folder"
        )
    with explain_missing_package("a bucket"):
        from sweep_service.store.s3 import split_url

    split_url(text)
    return f"{scheme}://{rest.rstrip('/')}"


def default_state_folder(location: Path | str) -> Path:
    """Return the data folder itself or, for a bucket, a folder of this user that depends on the URL only."""
    if isinstance(location, Path):
        return location
    home = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    name = re.sub(r"[^A-Za-z0-9]+", "-", location.removeprefix("s3://"))[:40]
    digest = hashlib.sha256(location.encode()).hexdigest()[:8]
    return Path(home).expanduser() / "sweep-service" / f"{name}-{digest}"


class DataFolder:
    """Access to the files of a data folder. Changes require that the caller holds the `lock`."""

    def __init__(self, root: str | os.PathLike[str], state: str | os.PathLike[str] | None = None) -> None:
        self.root = parse_location(root)
        self.state = Path(state) if state is not None else default_state_folder(self.root)
        self.objects = _open_objects(self.root)
        self.key_index = KeyIndex(self.keys)

    @property
    def location(self) -> str:
        """The URL or absolute path, valid for every process on machines that share the folder."""
        return self.root if isinstance(self.root, str) else os.path.abspath(self.root)

    def ledger(self) -> Ledger:
        make_private_folder(self.state)
        create_private_file(self.state / LEDGER)  # SQLite gives its other files the same permissions
        return Ledger(self.state / LEDGER)

    def has_ledger(self) -> bool:
        return (self.state / LEDGER).exists()

    @contextmanager
    def lock(self, service_url: str = "") -> Iterator[None]:
        """Hold the lock, which becomes free soon after its holder dies in any way.

        `service_url` is shown to a process that fails to get the lock.
        """
        if isinstance(self.root, Path):
            make_private_folder(self.root)
            held = file_lock(self.root / LOCK, service_url)
        else:
            from sweep_service.store.locking.lease import hold_lease

            held = hold_lease(self.root, LOCK, service_url)
        with held as guard:
            self.objects.prepare()
            self.objects.write_guard = guard
            try:
                yield
            finally:
                self.objects.write_guard = no_guard

    def check_writable(self) -> None:
        """Raise StoreGone while the folder is unavailable, InUse if another process has taken the lease.

        Without the lock it does nothing.
        """
        self.objects.write_guard()

    def mark_incomplete(self, sweep_id: str) -> None:
        """Mark a sweep whose files are being created, or are about to be removed."""
        self.objects.put(f"{sweep_id}{INCOMPLETE_SUFFIX}", b"")

    def mark_complete(self, sweep_id: str) -> None:
        self.objects.delete(f"{sweep_id}{INCOMPLETE_SUFFIX}")

    def is_complete(self, sweep_id: str) -> bool:
        return not self.objects.exists(f"{sweep_id}{INCOMPLETE_SUFFIX}")

    def mark_restarting(self, sweep_id: str) -> None:
        """Mark a sweep whose runs are being reset, so that a later start completes it."""
        self.objects.put(f"{sweep_id}{RESTART_SUFFIX}", b"")

    def mark_restarted(self, sweep_id: str) -> None:
        self.objects.delete(f"{sweep_id}{RESTART_SUFFIX}")

    def is_restarting(self, sweep_id: str) -> bool:
        return self.objects.exists(f"{sweep_id}{RESTART_SUFFIX}")

    def dataset_path(self, sweep_id: str) -> Path | str:
        """Return the path or the URL of the dataset."""
        if isinstance(self.root, Path):
            return self.root / SWEEPS / f"{sweep_id}.zarr"
        return f"{self.root}/{SWEEPS}/{sweep_id}.zarr"

    def address(self, sweep_id: str) -> str:
        """Return the absolute path or the URL of the dataset, for messages and `xr.open_zarr`."""
        return f"{self.location}/{SWEEPS}/{sweep_id}.zarr"

    def has_dataset(self, sweep_id: str) -> bool:
        return self.objects.exists(f"{sweep_id}.zarr/{ROOT}")

    def open_dataset(self, sweep_id: str) -> xr.Dataset:
        """Open the dataset read-only in its current state; values are read lazily."""
        import xarray as xr

        from sweep_service.store.migration import complete_dataset

        with reading(f"{sweep_id}.zarr"):
            store = self.objects.chunks(f"{sweep_id}.zarr")
            dataset = complete_dataset(xr.open_zarr(store, chunks=None, consolidated=True))
        dataset.encoding["source"] = self.address(sweep_id)
        return dataset

    def create_dataset(self, sweep_id: str, plan: SweepPlan, attributes: Mapping[str, Any]) -> SweepDataset:
        return SweepDataset.create(self.objects, f"{sweep_id}.zarr", plan, attributes)

    def dataset(self, sweep_id: str) -> SweepDataset:
        return SweepDataset(self.objects, f"{sweep_id}.zarr", self.plan(sweep_id))

    def spec(self, sweep_id: str) -> SweepSpec:
        return _read_spec(self.objects, sweep_id)

    def plan(self, sweep_id: str) -> SweepPlan:
        return _read_plan(self.location, sweep_id)

    def keys(self, sweep_id: str) -> dict[Kind, AnyArray]:
        name = f"{sweep_id}.keys"
        content = self.objects.get(name)
        with reading(name):
            arrays = read_arrays(content)
            return {kind: arrays[kind] for kind in KINDS}

    def continued(self, sweep_id: str) -> ContinuedRuns | None:
        """Return the runs that continue earlier ones; None if there are none, or they cannot be read."""
        return _read_continued(self.location, sweep_id)

    def put_continued(self, sweep_id: str, continued: ContinuedRuns) -> None:
        file = io.BytesIO()
        np.savez(
            file, numbers=continued.numbers, samples=continued.samples, source=continued.source,
            source_numbers=continued.source_numbers, keys=continued.keys.view(np.uint8),
            sources=np.array(continued.sources),
        )  # fmt: skip
        self.objects.put(f"{sweep_id}{CONTINUED_SUFFIX}", file.getvalue())
        _read_continued.cache_clear()

    def forget_continued(self, sweep_id: str) -> None:
        """Let all runs begin at t = 0, because other versions computed the runs that they continue."""
        self.objects.delete(f"{sweep_id}{CONTINUED_SUFFIX}")
        _read_continued.cache_clear()

    def rounds(self, sweep_id: str) -> Rounds | None:
        """Return the rounds of a sweep; None if it has none. What is lost or damaged is decided again."""
        grid = self.plan(sweep_id).grid
        if not grid.has_rounds:
            return None
        name = f"{sweep_id}{ROUNDS_SUFFIX}"
        try:
            content = self.objects.get(name)
            with reading(name):
                rounds = Rounds.from_json(unpack_json(content))
                if any(round.seeds.shape != (len(grid),) for round in rounds.rounds):
                    raise ValueError("it belongs to another sweep")
                return rounds
        except NotFound:
            return Rounds.first(grid)
        except Damaged as error:
            log.warning("%s", error)
            return Rounds.first(grid)

    def put_rounds(self, sweep_id: str, rounds: Rounds) -> None:
        self.objects.put(f"{sweep_id}{ROUNDS_SUFFIX}", pack_json(rounds.to_json()))

    def forget_rounds(self, sweep_id: str) -> None:
        """Let all rounds but the first be decided again, because the runs are computed again."""
        self.objects.delete(f"{sweep_id}{ROUNDS_SUFFIX}")

    def spec_of_dataset(self, sweep_id: str) -> SweepSpec:
        """Return the copy of the spec in the attributes of the dataset."""
        return SweepSpec.parse(_read_copy_of_spec(self.objects, sweep_id))

    def put_spec(self, sweep_id: str, spec: SweepSpec) -> None:
        self.objects.put(f"{sweep_id}.json", spec.model_dump_json().encode())

    def notes(self, sweep_id: str) -> Notes:
        """Return the notes of a sweep; its name is that of the spec until it is changed."""
        try:
            return Notes.load(self.objects, sweep_id)
        except NotFound:
            return Notes(self.spec(sweep_id).name)

    def put_notes(self, sweep_id: str, notes: Notes) -> None:
        notes.save(self.objects, sweep_id)

    def put_keys(self, sweep_id: str, keys: Mapping[Kind, AnyArray]) -> None:
        file = io.BytesIO()
        np.savez(file, **dict(keys))  # type: ignore[arg-type]
        self.objects.put(f"{sweep_id}.keys", file.getvalue())
        self.key_index.forget(sweep_id)

    def calibration(self) -> Calibration:
        try:
            factors = json.loads((self.state / CALIBRATION).read_text("utf-8"))
            return Calibration({name: read_number(factors[name], name, above=0.0) for name in factors})
        except (FileNotFoundError, TypeError, ValueError):  # absent or damaged
            return Calibration()

    def put_calibration(self, calibration: Calibration) -> None:
        """Replace the calibration, which is kept in the state folder because it is of this machine."""
        make_private_folder(self.state)
        partial = self.state / f"{CALIBRATION}.partial"
        partial.write_text(json.dumps(dict(calibration.factors)), "utf-8")
        sync(partial)
        os.replace(partial, self.state / CALIBRATION)
        sync(self.state)

    def remove(self, sweep_id: str) -> None:
        """Remove all files of a sweep, the dataset first and the mark last."""
        self.key_index.forget(sweep_id)
        self.objects.clear(f"{sweep_id}.zarr")
        names = (
            ".json", NOTES_SUFFIX, ".keys", INDEX_SUFFIX, CONTINUED_SUFFIX, ROUNDS_SUFFIX, RESTART_SUFFIX,
        )  # fmt: skip
        self.objects.delete(*(f"{sweep_id}{name}" for name in names))
        for folder in (f"{sweep_id}.parts", f"{sweep_id}.failures", f"{sweep_id}{STATES_SUFFIX}"):
            self.objects.clear(folder)
        self.objects.delete(f"{sweep_id}{REPAIR_SUFFIX}")
        self.mark_complete(sweep_id)

    def clear_parts(self, sweep_id: str) -> None:
        """Remove what is left when a sweep has ended, such as checkpoints of abandoned attempts."""
        self.objects.clear(f"{sweep_id}.parts")

    def clear_failures(self, sweep_id: str) -> None:
        """Remove the failure records, before the failed runs are computed again."""
        self.objects.delete(*self.objects.list(f"{sweep_id}.failures/"))

    def sweeps_with_parts(self) -> list[str]:
        """Return the ids of sweeps that have parts, including sweeps that were removed."""
        suffix = ".parts"
        return sorted(name.removesuffix(suffix) for name in self.objects.list_top() if name.endswith(suffix))

    def stored_bytes(self, sweep_id: str) -> int:
        """Return the size of the dataset and of kept states. All files are listed, so call it seldom."""
        return sum(self.objects.size(f"{sweep_id}{suffix}") for suffix in (".zarr", STATES_SUFFIX))

    def has_spec(self, sweep_id: str) -> bool:
        return self.objects.exists(f"{sweep_id}.json")

    def free_bytes(self) -> int:
        """Return the free space on the disks of this machine that hold the data and the state."""
        folders = {self.state, *([self.root] if isinstance(self.root, Path) else [])}
        return min(_free_bytes(path.resolve()) for path in folders)

    def free_dataset_bytes(self) -> int:
        """Return the free space for datasets; a bucket has no limit."""
        return self.free_bytes() if isinstance(self.root, Path) else sys.maxsize


def digest_keys(keys: Mapping[Kind, AnyArray]) -> str:
    """Digest the run keys of a sweep."""
    content = b"".join(keys[kind].tobytes() for kind in KINDS if kind in keys)
    return hashlib.sha256(content).hexdigest()


def _free_bytes(path: Path) -> int:
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free


def _open_objects(location: Path | str) -> Objects:
    if isinstance(location, Path):
        return LocalObjects(location / SWEEPS)
    from sweep_service.store.s3 import S3Objects

    return S3Objects(f"{location}/{SWEEPS}")


@lru_cache(maxsize=8)  # a worker computes many bundles of the same sweep
def _read_plan(location: str, sweep_id: str) -> SweepPlan:
    return SweepPlan(Grid.of(_read_spec(_open_objects(parse_location(location)), sweep_id), validate=False))


@lru_cache(maxsize=8)
def _read_continued(location: str, sweep_id: str) -> ContinuedRuns | None:
    name = f"{sweep_id}{CONTINUED_SUFFIX}"
    try:
        content = _open_objects(parse_location(location)).get(name)
        with reading(name):
            arrays = read_arrays(content)
            keys, sources = arrays.pop("keys").view(KEY_DTYPE), tuple(arrays.pop("sources").tolist())
            return ContinuedRuns(**arrays, keys=keys, sources=sources)
    except NotFound:
        return None
    except Damaged as error:  # the runs are computed anew
        log.warning("%s", error)
        return None


def _read_spec(objects: Objects, sweep_id: str) -> SweepSpec:
    """Read a spec; raise Damaged if it differs from its copy in the dataset, which has a digest."""
    name = f"{sweep_id}.json"
    content = objects.get(name)
    with reading(name):
        plain = json.loads(content)
    try:
        is_damaged = plain != _read_copy_of_spec(objects, sweep_id)
    except (Damaged, NotFound, TooNew):  # only one of them is damaged, or the dataset is not created yet
        is_damaged = False
    if is_damaged:
        raise Damaged(f"{name} cannot be read: it differs from its copy in the dataset")
    return SweepSpec.parse(plain)


def _read_copy_of_spec(objects: Objects, sweep_id: str) -> Any:
    """Read the spec in the attributes of a dataset, as plain data."""
    name = f"{sweep_id}.zarr"
    metadata = DatasetMetadata(objects.get(f"{name}/{ROOT}"), name)
    with reading(name):
        return json.loads(metadata.attributes["spec"])
