"""A data folder: the sweeps in it, their ledger, and the lock that lets one process change them.

<data>/lock                     held by the one process that writes
<data>/sweeps/<id>.json         a spec as it was asked for
<data>/sweeps/<id>.keys         the keys of its runs, by which later sweeps find them
<data>/sweeps/<id>.zarr/        the dataset
<data>/sweeps/<id>.parts/       results that wait to be merged, and checkpoints
<data>/sweeps/<id>.failures/    one capsule for each run that failed, its copies named in it
<data>/sweeps/<id>.unowned      while a sweep comes or goes: who finds it at a start removes what there is
<state>/ledger.sqlite           how far everything is
<state>/calibration.json        how fast this machine is

<data> is a folder or an s3:// URL. <state> is the same folder, unless another is named; for a bucket it is
on this machine.
"""

from __future__ import annotations

import hashlib
import io
import json
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

from sweep_service.errors import InvalidInput, reading
from sweep_service.numerics.npz import arrays_in
from sweep_service.numerics.types import AnyArray
from sweep_service.planning.costs import Calibration
from sweep_service.planning.grids import Grid
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.runs import KINDS, Kind
from sweep_service.planning.spec import SweepSpec
from sweep_service.store.dataset import SweepDataset
from sweep_service.store.ledger import Ledger
from sweep_service.store.local import LocalObjects
from sweep_service.store.locks import file_lock
from sweep_service.store.objects import ROOT, Objects, nothing
from sweep_service.validation import number

if TYPE_CHECKING:
    import xarray as xr

CALIBRATION = "calibration.json"
LEDGER = "ledger.sqlite"
UNOWNED = ".unowned"
LOCK = "lock"
SWEEPS = "sweeps"


def place_of(data: str | os.PathLike[str]) -> Path | str:
    """A path, or the URL of a bucket."""
    text = os.fspath(data)
    scheme, there, rest = text.partition("://")
    if not there:
        return Path(text)
    if scheme == "file":
        found = urlsplit(text)
        if found.netloc not in ("", "localhost") or not found.path.startswith("/"):
            raise InvalidInput("data", text, "must be such as file:///srv/sweeps: a folder of this machine")
        return Path(unquote(found.path))
    if scheme != "s3":
        raise InvalidInput(
            "data", text, "must be a folder, file:///folder, s3://bucket or s3://bucket/folder"
        )
    from sweep_service.store.s3 import split

    split(text)
    return f"{scheme}://{rest.rstrip('/')}"


def default_state(place: Path | str) -> Path:
    """Where what is known of it stays: beside it, or, of a bucket, always at the same place of this user."""
    if isinstance(place, Path):
        return place
    home = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    words = re.sub(r"[^A-Za-z0-9]+", "-", place.removeprefix("s3://"))[:40]
    digest = hashlib.sha256(place.encode()).hexdigest()[:8]
    return Path(home).expanduser() / "sweep-service" / f"{words}-{digest}"


class DataFolder:
    """Paths and readers; who wants to change something holds the `lock`."""

    def __init__(self, root: str | os.PathLike[str], state: str | os.PathLike[str] | None = None) -> None:
        self.root = place_of(root)
        self.state = Path(state) if state is not None else default_state(self.root)
        self.objects = _objects(self.root)

    @property
    def where(self) -> str:
        """A name that means the same to every process on machines that share it."""
        return self.root if isinstance(self.root, str) else os.path.abspath(self.root)

    def ledger(self) -> Ledger:
        self.state.mkdir(parents=True, exist_ok=True)
        return Ledger(self.state / LEDGER)

    def has_ledger(self) -> bool:
        return (self.state / LEDGER).exists()

    @contextmanager
    def lock(self, about: str = "") -> Iterator[None]:
        """Free soon after its holder dies, however that happens; `about` is the URL of a service."""
        if isinstance(self.root, Path):
            self.root.mkdir(parents=True, exist_ok=True)
            held = file_lock(self.root / LOCK, about)
        else:
            from sweep_service.store.lease import lease

            held = lease(self.root, LOCK, about)
        with held as require:
            self.objects.prepare()
            self.objects.may_write = require
            try:
                yield
            finally:
                self.objects.may_write = nothing

    def require(self) -> None:
        """StoreGone while the place is not there, InUse if it is another's now; for who holds the lock."""
        self.objects.may_write()

    def disown(self, sweep: str) -> None:
        """Mark files as nobody's: from before the first until the ledger knows, and when they are to go."""
        self.objects.put(f"{sweep}{UNOWNED}", b"")

    def own(self, sweep: str) -> None:
        self.objects.delete(f"{sweep}{UNOWNED}")

    def is_owned(self, sweep: str) -> bool:
        return not self.objects.exists(f"{sweep}{UNOWNED}")

    def dataset_path(self, sweep: str) -> Path | str:
        """A path, or a URL."""
        if isinstance(self.root, Path):
            return self.root / SWEEPS / f"{sweep}.zarr"
        return f"{self.root}/{SWEEPS}/{sweep}.zarr"

    def address(self, sweep: str) -> str:
        """Of the dataset, for people and for `xr.open_zarr`, wherever they are."""
        return f"{self.where}/{SWEEPS}/{sweep}.zarr"

    def has_dataset(self, sweep: str) -> bool:
        return self.objects.exists(f"{sweep}.zarr/{ROOT}")

    def opened(self, sweep: str) -> xr.Dataset:
        """The dataset as it is now, to look at; values are read when they are asked for."""
        import xarray as xr

        return xr.open_zarr(self.objects.chunks(f"{sweep}.zarr"), chunks=None)

    def create_dataset(self, sweep: str, plan: SweepPlan, attributes: Mapping[str, Any]) -> SweepDataset:
        return SweepDataset.create(self.objects, f"{sweep}.zarr", plan, attributes)

    def dataset(self, sweep: str) -> SweepDataset:
        return SweepDataset(self.objects, f"{sweep}.zarr", self.plan(sweep))

    def spec(self, sweep: str) -> SweepSpec:
        return _spec(self.objects, sweep)

    def plan(self, sweep: str) -> SweepPlan:
        return _plan(self.where, sweep)

    def keys(self, sweep: str) -> dict[Kind, AnyArray]:
        name = f"{sweep}.keys"
        content = self.objects.get(name)
        with reading(name):
            found = arrays_in(content)
            return {kind: found[kind] for kind in KINDS}

    def put_keys(self, sweep: str, keys: Mapping[Kind, AnyArray]) -> None:
        file = io.BytesIO()
        np.savez(file, **dict(keys))  # type: ignore[arg-type]
        self.objects.put(f"{sweep}.keys", file.getvalue())

    def calibration(self) -> Calibration:
        try:
            found = json.loads((self.state / CALIBRATION).read_text("utf-8"))
            return Calibration({name: number(found[name], name, above=0.0) for name in found})
        except (FileNotFoundError, TypeError, ValueError):  # or damaged: estimates begin again
            return Calibration()

    def put_calibration(self, known: Calibration) -> None:
        self.state.mkdir(parents=True, exist_ok=True)
        fresh = self.state / f"{CALIBRATION}.partial"
        fresh.write_text(json.dumps(dict(known.factors)), "utf-8")
        os.replace(fresh, self.state / CALIBRATION)

    def remove(self, sweep: str) -> None:
        """All files of a sweep, the dataset first."""
        self.objects.clear(f"{sweep}.zarr")
        for name in (f"{sweep}.json", f"{sweep}.keys"):
            self.objects.delete(name)
        for folder in (f"{sweep}.parts", f"{sweep}.failures"):
            self.objects.clear(folder)
        self.own(sweep)

    def clear_parts(self, sweep: str) -> None:
        """What is left of bundles when nothing is to come: checkpoints of attempts that others overtook."""
        self.objects.clear(f"{sweep}.parts")

    def with_parts(self) -> list[str]:
        """Sweeps, also such as have gone, of which there are parts."""
        ending = ".parts"
        return sorted(name.removesuffix(ending) for name in self.objects.top() if name.endswith(ending))

    def has_spec(self, sweep: str) -> bool:
        return self.objects.exists(f"{sweep}.json")

    def free_bytes(self) -> int:
        """On the disk of this machine where it is, or will be; a bucket is as large as it is paid for."""
        here = {self.state, *([self.root] if isinstance(self.root, Path) else [])}
        return min(_free_bytes(path.resolve()) for path in here)

    def room(self) -> int:
        """For datasets."""
        return self.free_bytes() if isinstance(self.root, Path) else sys.maxsize


def _free_bytes(there: Path) -> int:
    while not there.exists():
        there = there.parent
    return shutil.disk_usage(there).free


def _objects(place: Path | str) -> Objects:
    if isinstance(place, Path):
        return LocalObjects(place / SWEEPS)
    from sweep_service.store.s3 import S3Objects

    return S3Objects(f"{place}/{SWEEPS}")


@lru_cache(maxsize=8)  # a worker meets the same sweep again and again
def _plan(where: str, sweep: str) -> SweepPlan:
    return SweepPlan(Grid.of(_spec(_objects(place_of(where)), sweep), checked=True))


def _spec(objects: Objects, sweep: str) -> SweepSpec:
    name = f"{sweep}.json"
    content = objects.get(name)
    with reading(name):
        return SweepSpec.parse(json.loads(content))
