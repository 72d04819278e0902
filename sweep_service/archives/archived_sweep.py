"""One sweep of an archive: its spec is read like a submitted one, and its files must fit the spec.

The arrays of the dataset are created anew from the spec. Of the archive only the chunks of values are used,
each after its digest, its checksum and its size have been checked.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import numpy as np
from zarr.codecs import Crc32cCodec, ZstdCodec
from zarr.core.buffer import Buffer, default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import MemoryStore

from sweep_service.archives.contents import (
    MANIFEST,
    MAX_DATASET_METADATA_BYTES,
    MAX_NOTES_BYTES,
    MAX_STORED_SPEC_BYTES,
    SWEEPS,
    digest,
)
from sweep_service.archives.safe_zip import SafeZip
from sweep_service.errors import Conflict, Damaged, InvalidInput, reading
from sweep_service.execution.conductor import SWEEP_ID_PATTERN
from sweep_service.execution.submission import Submission
from sweep_service.numerics.types import AnyArray
from sweep_service.planning.estimate import Limits
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.runs import Kind
from sweep_service.planning.schema import Variable
from sweep_service.planning.spec import SweepSpec
from sweep_service.planning.versions import changed_versions, describe_changes, engine_versions, sweep_key
from sweep_service.status import Status
from sweep_service.store.dataset import STATUS, SweepDataset
from sweep_service.store.folder import KEYS_DIGEST, digest_keys
from sweep_service.store.metadata import DatasetMetadata, StoredArray
from sweep_service.store.notes import NOTES_SUFFIX, Notes, read_change
from sweep_service.store.objects import ROOT
from sweep_service.store.provenance import collect_provenance
from sweep_service.store.sealed import unpack_json

ZSTD_SIGNATURE = b"\x28\xb5\x2f\xfd"
# What decides how the bytes of a chunk are read. Other entries of the metadata are texts.
STRUCTURE = (
    "shape", "data_type", "chunk_grid", "chunk_key_encoding", "codecs", "fill_value", "dimension_names",
)  # fmt: skip
# Attributes that say how the dataset was made, with what they may be; all others are made anew.
KEPT_ATTRIBUTES = {
    "created": r"\d{4}-\d\d-\d\dT[\d:.]{5,15}\+00:00",
    "sweep_service_version": r"[\w.+-]{1,60}",
    "git": r"[\w.+-]{1,120}",
    "extends": SWEEP_ID_PATTERN.pattern,
}
_ENVIRONMENT = re.compile(r"[\w.+ -]{1,60}")
_SPEC: Any = SimpleNamespace(prototype=default_buffer_prototype())  # all that these codecs need to decode


class ArchivedSweep:
    """A sweep in an archive. Making one checks its spec and the names and metadata of its files."""

    def __init__(self, archive: SafeZip, digests: Mapping[str, str], sweep_id: str, limits: Limits) -> None:
        self.archive, self.digests, self.id = archive, digests, sweep_id
        self.name = f"{SWEEPS}/{sweep_id}.zarr"
        self.spec = self._read_spec()
        submission = Submission(self.spec, limits)  # checks the limits, then every point
        self.plan, self.grid = submission.plan, submission.grid
        self._stored = self._read_metadata()
        self._check_identity()
        self.attributes = self._make_attributes()
        self.variables = self._check_arrays()
        self.notes = self._read_notes()

    def read(self, name: str, max_bytes: int) -> bytes:
        """Return the content of a file if it has the digest of the manifest."""
        content = self.archive.read(name, max_bytes)
        if digest(content) != self.digests.get(name):
            raise Damaged(f"{name} in the archive is damaged: its SHA-256 is not that of {MANIFEST}")
        return content

    def _read_spec(self) -> SweepSpec:
        name = f"{SWEEPS}/{self.id}.json"
        content = self.read(name, MAX_STORED_SPEC_BYTES)
        with _locating(name):
            with reading(name):
                plain = json.loads(content)
            return SweepSpec.parse(plain)

    def _read_metadata(self) -> DatasetMetadata:
        content = self.read(f"{self.name}/{ROOT}", MAX_DATASET_METADATA_BYTES)
        metadata = DatasetMetadata(content, self.name)
        with reading(f"{self.name}/{ROOT}"):
            is_usable = metadata.has_checksums and metadata.is_complete
        if not is_usable:
            raise Damaged(f"{self.name}/{ROOT} in the archive has arrays without checksums")
        return metadata

    def _check_identity(self) -> None:
        """Compare the spec, the versions and the keys that the dataset states with those of this code."""
        attributes = self._stored.attributes
        with reading(f"{self.name}/{ROOT}"):
            stated_spec, versions = json.loads(attributes["spec"]), json.loads(attributes["versions"])
            stated_keys = attributes["key"], attributes[KEYS_DIGEST]
            versions = {str(name): int(version) for name, version in versions.items()}
        if SweepSpec.parse(stated_spec) != self.spec:
            raise InvalidInput(f"{SWEEPS}/{self.id}.json", self.spec.name, "must be the spec of the dataset")
        if versions != engine_versions(self.grid):
            changes = describe_changes(changed_versions(versions)) or "it has other simulators or regimes"
            raise Conflict(
                f"{self.id} was computed by another version ({changes}): its runs would not be those that "
                "this version computes. Unpack the archive and open the dataset with sweep_service.open"
            )
        if stated_keys != (sweep_key(self.grid), digest_keys(self.plan.keys)):
            raise InvalidInput(f"{self.name}/{ROOT}", stated_keys[0], "must have the keys of its spec")

    def _make_attributes(self) -> dict[str, Any]:
        """Return the attributes of the new dataset: of the spec, and how, when and with what it was made."""
        stored = self._stored.attributes
        kept = {}
        for name, pattern in KEPT_ATTRIBUTES.items():
            if name in stored:
                if not isinstance(stored[name], str) or not re.fullmatch(pattern, stored[name]):
                    raise InvalidInput(f"{self.name}/{ROOT}", name, f"must match {pattern}")
                kept[name] = stored[name]
        with reading(f"{self.name}/{ROOT}"):
            datetime.fromisoformat(kept["created"])
            environment = json.loads(stored["environment"])
            texts = [text for item in environment.items() for text in item]
            if len(texts) > 100 or not all(_ENVIRONMENT.fullmatch(text) for text in texts):
                raise ValueError("its environment is no short list of names and versions")
        new = collect_provenance(self.spec, self.grid, kept.pop("extends", None))
        return new | kept | {"environment": json.dumps(environment), KEYS_DIGEST: digest_keys(self.plan.keys)}

    def _check_arrays(self) -> dict[Kind, dict[str, Variable]]:
        """Compare arrays and names of files with those that the spec implies; return the variables."""
        expected = expected_arrays(self.plan)
        allowed = {f"{self.name}/{ROOT}"}
        for array in expected.values():
            stored = self._stored.arrays.get(array.name)
            if stored is None or any(
                stored.metadata.get(key) != array.metadata.get(key) for key in STRUCTURE
            ):
                reason = "is missing" if stored is None else "has another shape, type or encoding"
                raise Damaged(f"{self.name}/{array.name} in the archive {reason}")
            allowed.add(f"{self.name}/{array.name}/{ROOT}")
            allowed.update(f"{self.name}/{key}" for key in array.chunk_keys())
        for name in self.archive.names:
            if name.startswith(f"{self.name}/") and name not in allowed:
                raise InvalidInput("file", name, "must be a file of the dataset that the spec describes")
        self._arrays = expected
        return self.plan.schema.variables

    def missing_chunks(self, kind: Kind) -> list[str]:
        """Return the keys of the chunks of values that the archive does not have."""
        keys = (key for variable in self.variables[kind].values() for key in self._keys(variable))
        return [key for key in keys if f"{self.name}/{key}" not in self.archive]

    def _keys(self, variable: Variable) -> Iterator[str]:
        return self._arrays[variable.name].chunk_keys()

    def _read_notes(self) -> Notes:
        name = f"{SWEEPS}/{self.id}{NOTES_SUFFIX}"
        if name not in self.archive:
            return Notes(self.spec.name)
        content = self.read(name, MAX_NOTES_BYTES)
        with _locating(name):
            with reading(name):
                record = unpack_json(content)
            return Notes(self.spec.name).change(read_change(record))

    def chunks(self, variable: Variable) -> Iterator[tuple[str, Buffer]]:
        """Yield the checked chunks of a variable by key. Chunks of which no run has ended may be missing."""
        array = self._arrays[variable.name]
        for key in array.chunk_keys():
            if f"{self.name}/{key}" in self.archive:
                yield key, self._read_chunk(variable, array, key)

    def _read_chunk(self, variable: Variable, array: StoredArray, key: str) -> Buffer:
        name = f"{self.name}/{key}"
        size = math.prod(array.chunk_shape) * np.dtype(variable.dtype).itemsize
        # Zstandard adds at most about 1/256 and a header to what it cannot compress.
        content = _SPEC.prototype.buffer.from_bytes(self.read(name, size + size // 128 + 1024))
        values = _decode(name, content, size).view(variable.dtype)
        flags = variable.attributes.get("flag_values")
        if flags is not None and not np.isin(values, [*flags, variable.fill]).all():
            raise InvalidInput(name, "a value", f"must have only the values {', '.join(map(str, flags))}")
        if variable.name.endswith(f"_{STATUS}") and np.any(values == Status.PENDING):
            extents = (slice(0, extent.stop - extent.start) for extent in array.region(key))
            inside = values.reshape(array.chunk_shape)[tuple(extents)]  # beyond the edge there is padding
            if np.any(inside == Status.PENDING):
                raise InvalidInput(name, Status.PENDING.label, "must have only runs that have ended")
        return content


def _decode(name: str, content: Buffer, size: int) -> AnyArray:
    """Return the bytes of a chunk; `size` is checked before anything is decompressed."""
    try:
        (compressed,) = sync(Crc32cCodec().decode([(content, _SPEC)]))
        if compressed is None or frame_size(compressed.to_bytes()[:18]) != size:
            raise ValueError("it has another size")
        (decoded,) = sync(ZstdCodec().decode([(compressed, _SPEC)]))
        if decoded is None or len(decoded) != size:
            raise ValueError("it has another size")
    except (ValueError, RuntimeError) as error:
        raise Damaged(f"{name} in the archive cannot be read: {error}") from None
    return np.frombuffer(decoded.to_bytes(), np.uint8)


def frame_size(header: bytes) -> int | None:
    """Return the decompressed size that a frame of Zstandard states (RFC 8878, 3.1.1.1), None if it does not.

    The library allocates this size before it reads further.
    """
    if len(header) < 6 or header[:4] != ZSTD_SIGNATURE:
        return None
    descriptor = header[4]
    is_single_segment = bool(descriptor & 0x20)
    start = 5 + (not is_single_segment) + (0, 1, 2, 4)[descriptor & 3]  # window, dictionary
    width = (int(is_single_segment), 2, 4, 8)[descriptor >> 6]
    field = header[start : start + width]
    if width == 0 or len(field) < width:
        return None
    return int.from_bytes(field, "little") + (256 if width == 2 else 0)


class _InMemory:
    """The part of an object store that creating a dataset needs."""

    def __init__(self) -> None:
        self.store = MemoryStore()

    @contextmanager
    def creating_dataset(self, name: str) -> Iterator[MemoryStore]:
        yield self.store

    def chunks(self, name: str) -> MemoryStore:
        return self.store


def expected_arrays(plan: SweepPlan) -> dict[str, StoredArray]:
    """Return the arrays that this version creates for a plan, by name."""
    objects: Any = _InMemory()
    SweepDataset.create(objects, "expected.zarr", plan, {})
    content = sync(objects.store.get(ROOT, default_buffer_prototype()))
    root = json.loads(content.to_bytes())
    arrays = root["consolidated_metadata"]["metadata"]
    return {name: StoredArray(name, entry) for name, entry in arrays.items() if "shape" in entry}


@contextmanager
def _locating(name: str) -> Iterator[None]:
    """Name the file of the archive in errors about its content."""
    try:
        yield
    except InvalidInput as error:
        raise InvalidInput(f"{name}: {error.field}", error.value, error.allowed) from error
