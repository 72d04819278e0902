"""A data folder: the sweeps in it, their ledger, and the lock that lets one process change them.

<data>/ledger.sqlite            how far everything is
<data>/lock                     held by the one process that writes
<data>/calibration.json         how fast this machine is
<data>/sweeps/<id>.json         a spec as it was asked for
<data>/sweeps/<id>.keys         the keys of its runs, by which later sweeps find them
<data>/sweeps/<id>.zarr/        the dataset
<data>/sweeps/<id>.parts/       results that wait to be merged, and checkpoints
<data>/sweeps/<id>.failures/    one capsule for each run that failed, its copies named in it
<data>/sweeps/<id>.unowned      while a sweep comes or goes: who finds it at a start removes what there is
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import numpy as np

from sweep_service.arrays import AnyArray
from sweep_service.costs import Calibration
from sweep_service.errors import InUse
from sweep_service.fields import number
from sweep_service.grids import Grid
from sweep_service.runs import KINDS, Kind
from sweep_service.spec import SweepSpec
from sweep_service.store.dataset import SweepDataset
from sweep_service.store.layout import Layout
from sweep_service.store.ledger import Ledger
from sweep_service.store.objects import LocalObjects

CALIBRATION = "calibration.json"
LEDGER = "ledger.sqlite"
UNOWNED = ".unowned"


class DataFolder:
    """Paths and readers; who wants to change something holds the `lock`."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root)
        self.objects = LocalObjects(self.root / "sweeps")

    def ledger(self) -> Ledger:
        self.root.mkdir(parents=True, exist_ok=True)
        return Ledger(self.root / LEDGER)

    def has_ledger(self) -> bool:
        return (self.root / LEDGER).exists()

    @contextmanager
    def lock(self, about: str = "") -> Iterator[None]:
        """Free at once when its holder dies, however that happens; `about` is the URL of a service."""
        self.root.mkdir(parents=True, exist_ok=True)
        with open(self.root / "lock", "a+", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                pid, _, url = file.read().strip().partition(" ")
                service = f", a service: add --url {url}" if url else ""
                raise InUse(f"{self.root} is in use by process {pid or 'unknown'}{service}") from None
            file.truncate(0)
            file.write(f"{os.getpid()} {about}".rstrip())
            file.flush()
            yield

    def disown(self, sweep: str) -> None:
        """Mark files as nobody's: from before the first until the ledger knows, and when they are to go."""
        self.objects.put(f"{sweep}{UNOWNED}", b"")

    def own(self, sweep: str) -> None:
        self.objects.delete(f"{sweep}{UNOWNED}")

    def is_owned(self, sweep: str) -> bool:
        return not (self.objects.root / f"{sweep}{UNOWNED}").exists()

    def sweep_orphans(self) -> None:
        """Remove what writers that died left behind."""
        self.objects.sweep()
        for path in list(self.objects.root.glob("*.partial")):
            shutil.rmtree(path, ignore_errors=True)

    def dataset_path(self, sweep: str) -> Path:
        return self.objects.root / f"{sweep}.zarr"

    def dataset(self, sweep: str) -> SweepDataset:
        return SweepDataset(self.dataset_path(sweep), self.layout(sweep))

    def spec(self, sweep: str) -> SweepSpec:
        return SweepSpec.parse(json.loads(self.objects.get(f"{sweep}.json")))

    def layout(self, sweep: str) -> Layout:
        return _layout(str(self.root.resolve()), sweep)

    def keys(self, sweep: str) -> dict[Kind, AnyArray]:
        with np.load(io.BytesIO(self.objects.get(f"{sweep}.keys")), allow_pickle=False) as archive:
            return {kind: archive[kind] for kind in KINDS}

    def put_keys(self, sweep: str, keys: Mapping[Kind, AnyArray]) -> None:
        file = io.BytesIO()
        np.savez(file, **dict(keys))  # type: ignore[arg-type]
        self.objects.put(f"{sweep}.keys", file.getvalue())

    def calibration(self) -> Calibration:
        try:
            found = json.loads((self.root / CALIBRATION).read_text("utf-8"))
            return Calibration({name: number(found[name], name, above=0.0) for name in found})
        except (FileNotFoundError, TypeError, ValueError):  # or damaged: estimates begin again
            return Calibration()

    def put_calibration(self, known: Calibration) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        fresh = self.root / f"{CALIBRATION}.partial"
        fresh.write_text(json.dumps(dict(known.factors)), "utf-8")
        os.replace(fresh, self.root / CALIBRATION)

    def remove(self, sweep: str) -> None:
        """All files of a sweep; the dataset goes first under another name, so that it vanishes whole."""
        path = self.dataset_path(sweep)
        if path.exists():
            doomed = path.with_name(path.name + ".removed.partial")
            if doomed.exists():
                shutil.rmtree(doomed, ignore_errors=True)
            os.replace(path, doomed)
            shutil.rmtree(doomed, ignore_errors=True)
        for name in (f"{sweep}.json", f"{sweep}.keys"):
            self.objects.delete(name)
        for folder in (f"{sweep}.parts", f"{sweep}.failures"):
            shutil.rmtree(self.objects.root / folder, ignore_errors=True)
        self.own(sweep)

    def has_spec(self, sweep: str) -> bool:
        return (self.objects.root / f"{sweep}.json").exists()

    def with_parts(self) -> list[str]:
        """Sweeps that have parts, or what is left of them."""
        return [path.name.removesuffix(".parts") for path in self.objects.root.glob("*.parts")]

    def clear_parts(self, sweep: str) -> None:
        """What is left of bundles when nothing is to come: checkpoints of attempts that others overtook."""
        shutil.rmtree(self.objects.root / f"{sweep}.parts", ignore_errors=True)

    def free_bytes(self) -> int:
        """On the disk where it is, or will be."""
        there = self.root.resolve()
        while not there.exists():
            there = there.parent
        return shutil.disk_usage(there).free


@lru_cache(maxsize=8)  # a worker meets the same sweep again and again
def _layout(root: str, sweep: str) -> Layout:
    spec = SweepSpec.parse(json.loads(LocalObjects(Path(root) / "sweeps").get(f"{sweep}.json")))
    return Layout(Grid.of(spec, checked=True))
