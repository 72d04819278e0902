"""The last states of the SGD runs of a sweep, in objects of about a megabyte beside the dataset.

`<id>.states/kept.state` says which runs have a state and how many share an object; `<id>.states/<n>.state`
holds those of the n-th so many runs. The merger writes the states before the list, and the list before it
marks the runs in the ledger, so a crash leaves at most states that are written again. A lost or damaged state
costs time only: its run can be computed anew, to the same values.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sweep_service.errors import Damaged, NotFound, reading
from sweep_service.numerics.npz import read_arrays
from sweep_service.numerics.types import AnyArray, Array
from sweep_service.planning.keys import KEY_DTYPE
from sweep_service.store.objects import Objects

STATES_SUFFIX = ".states"
OBJECT_BYTES = 1 << 20
MAX_RUNS_PER_OBJECT = 1024
log = logging.getLogger(__name__)


class KeptState(NamedTuple):
    """The key of a run and its last state."""

    key: bytes
    values: Array


@dataclass(frozen=True)
class KeptList:
    """Which runs have a state, and how many runs share an object."""

    is_kept: AnyArray
    runs_per_object: int

    @classmethod
    def empty(cls, runs: int, largest_state: int) -> KeptList:
        """Return the list of a sweep with so many runs and states of at most so many numbers."""
        runs_per_object = OBJECT_BYTES // max(1, 8 * largest_state)
        return cls(np.zeros(runs, bool), min(MAX_RUNS_PER_OBJECT, max(1, runs_per_object)))


class KeptStates:
    """The kept states of one sweep."""

    def __init__(self, objects: Objects, sweep_id: str) -> None:
        self.objects, self.folder = objects, f"{sweep_id}{STATES_SUFFIX}"

    def read_list(self) -> KeptList | None:
        """Return the list; None if no state is kept, or the list is damaged."""
        name = f"{self.folder}/kept.state"
        try:
            content = self.objects.get(name)
            with reading(name):
                arrays = read_arrays(content)
                is_kept = np.unpackbits(arrays["kept"], count=int(arrays["runs"])).astype(bool)
                return KeptList(is_kept, int(arrays["runs_per_object"]))
        except NotFound:
            return None
        except Damaged as error:
            log.warning("the states cannot be continued: %s", error)
            return None

    def write(self, states: Mapping[int, KeptState], default: KeptList) -> None:
        """Add states by the number of their run; `default` is the list if there is none yet."""
        kept = self.read_list() or default
        for block, numbers in _group(states, kept.runs_per_object).items():
            stored = self._read_object(block)
            self._write_object(block, {**stored, **{number: states[number] for number in numbers}})
        kept.is_kept[list(states)] = True
        arrays = {
            "kept": np.packbits(kept.is_kept),
            "runs": np.array(len(kept.is_kept)),
            "runs_per_object": np.array(kept.runs_per_object),
        }
        self.objects.put(f"{self.folder}/kept.state", _pack(arrays))

    def read(self, numbers: AnyArray) -> dict[int, KeptState]:
        """Return the states of those of these runs that have one."""
        kept = self.read_list()
        if kept is None:
            return {}
        states: dict[int, KeptState] = {}
        for block, wanted in _group(numbers.tolist(), kept.runs_per_object).items():
            stored = self._read_object(block)
            states |= {number: stored[number] for number in wanted if number in stored}
        return states

    def _read_object(self, block: int) -> dict[int, KeptState]:
        name = f"{self.folder}/{block}.state"
        try:
            content = self.objects.get(name)
            with reading(name):
                arrays = read_arrays(content)
                values = np.split(arrays["values"], np.cumsum(arrays["sizes"])[:-1])
                keys = [key.tobytes() for key in arrays["keys"]]
                states = map(KeptState, keys, values)
                return dict(zip(arrays["numbers"].tolist(), states, strict=True))
        except NotFound:
            return {}
        except Damaged as error:
            log.warning("states are lost: %s", error)
            return {}

    def _write_object(self, block: int, states: Mapping[int, KeptState]) -> None:
        numbers = sorted(states)
        keys = b"".join(states[number].key for number in numbers)
        arrays: dict[str, AnyArray] = {
            "numbers": np.array(numbers, np.int64),
            "sizes": np.array([states[number].values.size for number in numbers], np.int64),
            "keys": np.frombuffer(keys, np.uint8).reshape(-1, KEY_DTYPE.itemsize),
            "values": np.concatenate([states[number].values for number in numbers]),
        }
        self.objects.put(f"{self.folder}/{block}.state", _pack(arrays))


def _group(numbers: Mapping[int, KeptState] | list[int], runs_per_object: int) -> dict[int, list[int]]:
    blocks: dict[int, list[int]] = {}
    for number in numbers:
        blocks.setdefault(number // runs_per_object, []).append(number)
    return blocks


def _pack(arrays: Mapping[str, AnyArray]) -> bytes:
    file = io.BytesIO()
    np.savez(file, **dict(arrays))  # type: ignore[arg-type]
    return file.getvalue()
