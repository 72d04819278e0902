"""The runs of a data folder: their indexes, or tables made from datasets where an index cannot be used."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
import xarray as xr

from sweep_service.analysis.atlas.atlas import Atlas
from sweep_service.analysis.atlas.runs import Runs
from sweep_service.errors import UNREADABLE_SWEEP, NotFound
from sweep_service.store.folder import INCOMPLETE_SUFFIX, DataFolder
from sweep_service.store.run_index.build import build_index
from sweep_service.store.run_index.files import decode_index, read_index

READERS = 16  # threads that read indexes, most of which wait for the disk or the bucket
_SWEEP = re.compile(r"([0-9]{8}-[0-9]{6}-[0-9a-f]{8})\.zarr")


class FolderAtlas:
    """The atlas of a data folder, which is brought up to date on request.

    `on_missing` is called with the id of a sweep whose index cannot be used.
    """

    def __init__(self, folder: DataFolder, on_missing: Callable[[str], None] = lambda _: None) -> None:
        self.folder, self.on_missing = folder, on_missing
        # By sweep id, with the version: indexes as they are stored, which is compact, or tables made here.
        self._contents: dict[str, tuple[Hashable, bytes | pa.Table]] = {}
        self._unreadable: dict[str, str] = {}
        self._versions: dict[str, Hashable] = {}
        self._atlas: Atlas | None = None
        self._lock = threading.Lock()

    def refresh(self, versions: Mapping[str, Hashable] | None = None) -> Atlas:
        """The atlas of these sweeps, by default of all that are stored now.

        A version stands for the state of a sweep: as long as it is the same, nothing is read again.
        """
        with self._lock:
            if versions is None:
                versions = dict.fromkeys(list_sweep_ids(self.folder), object())
            if self._atlas is None or versions != self._versions:
                self._versions = {}  # in case of an error
                self._read(versions)
                runs = Runs.of([_decode(self._contents[sweep_id][1]) for sweep_id in sorted(self._contents)])
                self._atlas = Atlas(runs, self._open, self._unreadable)
                self._versions = dict(versions)
            return self._atlas

    def _read(self, versions: Mapping[str, Hashable]) -> None:
        """Read the indexes of new and changed sweeps, and drop those of others."""
        earlier, self._contents, self._unreadable = self._contents, {}, {}
        changed = []
        for sweep_id, version in versions.items():
            known = earlier.get(sweep_id)
            if known is not None and known[0] == version:
                self._contents[sweep_id] = known
            else:
                changed.append(sweep_id)
        with ThreadPoolExecutor(READERS, "atlas") as pool:
            loaded = pool.map(self._load, changed)
            for sweep_id, content in zip(changed, loaded, strict=True):
                try:
                    if content is None:
                        self.on_missing(sweep_id)
                        known = earlier.get(sweep_id)
                        table = None if known is None else _decode(known[1])
                        content = build_index(self.folder, sweep_id, table)
                    self._contents[sweep_id] = versions[sweep_id], content
                except UNREADABLE_SWEEP as error:
                    self._unreadable[sweep_id] = str(error)

    def _load(self, sweep_id: str) -> bytes | None:
        try:
            return read_index(self.folder, sweep_id)
        except UNREADABLE_SWEEP:
            return None

    @contextmanager
    def _open(self, sweep_id: str) -> Iterator[xr.Dataset]:
        with self.folder.open_dataset(sweep_id) as dataset:
            yield dataset


def _decode(content: bytes | pa.Table) -> pa.Table:
    return decode_index(content) if isinstance(content, bytes) else content


def open_folder_atlas(folder: DataFolder) -> Atlas:
    """The atlas of a data folder as it is now; raises NotFound if the folder does not exist."""
    if isinstance(folder.root, Path) and not folder.root.is_dir():
        raise NotFound(f"no sweeps: {folder.root} does not exist")
    return FolderAtlas(folder).refresh()


def list_sweep_ids(folder: DataFolder) -> list[str]:
    """The ids of all sweeps with a dataset, except those that are being created or removed."""
    names = folder.objects.list_top()
    ids = [match[1] for name in names if (match := _SWEEP.fullmatch(name))]
    return sorted(sweep_id for sweep_id in ids if f"{sweep_id}{INCOMPLETE_SUFFIX}" not in names)
