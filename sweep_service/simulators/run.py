"""The one SGD loop: chains in, their records out; in slices, so that it can be stopped and resumed."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from sweep_service.errors import Stopped
from sweep_service.numerics.jit import working_time
from sweep_service.numerics.types import AnyArray, Array
from sweep_service.simulators.chain import Chain, Simulator
from sweep_service.simulators.checkpoint import Checkpoint, pack, unpack, unreadable
from sweep_service.simulators.records import Records, Sample
from sweep_service.status import Status

SLICE = 0.1  # seconds between two looks at `stopped`
SAVE_EVERY = 30.0  # seconds between two checkpoints


@dataclass(frozen=True)
class Ends:
    """How each chain ended."""

    status: AnyArray  # a Status each
    steps: AnyArray
    seconds: Array


class Run:
    """Groups of chains one after another, each from record to record in slices of about SLICE seconds."""

    def __init__(
        self,
        draw: Callable[[int], tuple[Chain, Sample]],
        chains: int,
        form: Callable[[int], type[Simulator]],
        at: AnyArray,
        records: Records,
        stopped: Callable[[], bool] | None,
        checkpoint: Checkpoint | None,
        identity: str,
    ) -> None:
        self.draw, self.chains, self.form, self.at, self.records = draw, chains, form, at, records
        self.stopped, self.checkpoint, self.identity = stopped, checkpoint, identity
        pending = np.full(chains, Status.PENDING.value, dtype=np.int8)
        self.ends = Ends(pending, np.zeros(chains, np.int64), np.zeros(chains))
        self.position = np.zeros(3, dtype=np.int64)  # first chain of the group, next record, steps done
        self.slice, self.grain, self.saved = 0, 1, clock.monotonic()
        self.began = 0.0

    def __call__(self) -> Ends:
        """Run to the end. A chain that diverges overflows; that is found and kept as its status."""
        with np.errstate(all="ignore"):
            return self._run(self._load())

    def _run(self, resumed: Mapping[str, AnyArray] | None) -> Ends:
        while (first := int(self.position[0])) < self.chains:
            self.began = working_time()
            simulator = self.form(self.chains - first)
            size = simulator.most_chains
            drawn = [self.draw(chain) for chain in range(first, min(first + size, self.chains))]
            group = simulator([chain for chain, _ in drawn])
            self.records.samples = [sample for _, sample in drawn]
            self.grain = group.grain
            if resumed is not None:
                _fill(_arrays_of(group), resumed)
                resumed = None
            self._group(first, group)
            self.position[:] = first + size, 0, 0
        if self.checkpoint is not None:
            self.checkpoint.clear()
        return self.ends

    def _group(self, first: int, group: Simulator) -> None:
        """Take one group from where it stands to its last record."""
        place, limits = range(len(group.chains)), np.array([chain.limit for chain in group.chains])
        while self.position[1] < len(self.at):
            record = int(self.position[1])
            self._advance(first, group, int(self.at[record]))
            M, Q = group.overlaps()
            bounded = np.trace(Q, axis1=1, axis2=2) < limits
            group.diverged[~bounded & (group.diverged < 0)] = self.at[
                record
            ]  # since the simulator last looked
            for c in place:
                if group.diverged[c] < 0:
                    self.records.add(first + c, c, record, M[c], Q[c])
            self.position[1] += 1
            self._charge(first, len(place))
            if np.all(group.diverged >= 0):
                break
        for c in place:
            lost = group.diverged[c] >= 0
            self.ends.status[first + c] = Status.DIVERGED if lost else Status.DONE
            self.ends.steps[first + c] = group.diverged[c] if lost else self.at[-1]
            done = np.searchsorted(self.at, group.diverged[c]) if lost else len(self.at)
            self.records.flush(first + c, c, int(done) - 1)

    def _advance(self, first: int, group: Simulator, until: int) -> None:
        while (now := int(self.position[2])) < until and not np.all(group.diverged >= 0):
            if self.stopped is not None and self.stopped():
                self._save(group)
                raise Stopped("the simulation was asked to stop")
            if clock.monotonic() - self.saved > SAVE_EVERY:
                self._save(group)
            self.slice = max(self.slice - self.slice % group.grain, group.grain)
            last = min(until, now + self.slice)
            began = clock.perf_counter()
            group.advance(now, last)
            took = clock.perf_counter() - began
            self._charge(first, len(group.chains))
            if last - now == self.slice:
                self.slice = int(self.slice * min(4.0, max(0.25, SLICE / max(took, 1e-9))))
            self.position[2] = last

    def _charge(self, first: int, chains: int) -> None:
        """Share the work since the last time among the chains of a group."""
        now = working_time()
        self.ends.seconds[first : first + chains] += (now - self.began) / chains
        self.began = now

    def _save(self, group: Simulator) -> None:
        if self.checkpoint is not None:
            arrays = {**self._arrays(), **_arrays_of(group)}
            self.checkpoint.save(pack(self.identity, arrays))
        self.saved = clock.monotonic()

    def _load(self) -> Mapping[str, AnyArray] | None:
        content = None if self.checkpoint is None else self.checkpoint.load()
        if content is None:
            return None
        arrays = unpack(self.identity, content)
        _fill(self._arrays(), arrays)
        return arrays

    def _arrays(self) -> dict[str, AnyArray]:
        """What a checkpoint holds beside the group on its way."""
        records, ends = self.records, self.ends
        return {
            "position": self.position,
            "status": ends.status,
            "steps": ends.steps,
            "seconds": ends.seconds,
            "buffer/M": records.M,
            "buffer/Q": records.Q,
            "buffer/filled": records.filled,
            **{f"output/{name}": array for name, array in records.outputs.items()},
        }


def _arrays_of(group: Simulator) -> dict[str, AnyArray]:
    return {"diverged": group.diverged, **{f"state/{name}": array for name, array in group.state().items()}}


def _fill(room: Mapping[str, AnyArray], arrays: Mapping[str, AnyArray]) -> None:
    for name, array in room.items():
        if name not in arrays or arrays[name].shape != array.shape or arrays[name].dtype != array.dtype:
            raise unreadable()
        array[...] = arrays[name]
