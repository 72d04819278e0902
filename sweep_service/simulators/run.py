"""The SGD loop: runs chains in slices, so that it can be stopped and resumed, and records them."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sweep_service.errors import Stopped
from sweep_service.numerics.jit import thread_work_seconds
from sweep_service.numerics.types import AnyArray, Array
from sweep_service.simulators.chain import Chain, Simulator
from sweep_service.simulators.chain_state import read_chain, write_chain
from sweep_service.simulators.checkpoint import Checkpoint, pack, unpack, unreadable_checkpoint
from sweep_service.simulators.records import RecordingContext, Records
from sweep_service.status import DivergedQuantity, Status

SLICE_SECONDS = 0.1  # time between two calls of `stopped`
CHECKPOINT_INTERVAL_SECONDS = 30.0
KEPT = "kept/"  # before the numbers of chains whose last states are in a checkpoint


@dataclass(frozen=True)
class ChainOutcomes:
    """The outcome of each chain."""

    status: AnyArray  # values of Status
    steps: AnyArray
    seconds: Array
    second_layer_diverged: AnyArray  # whether the second layer was beyond its bound when tr Q was not

    @property
    def diverged_quantity(self) -> AnyArray:
        """Values of DivergedQuantity. The bound of tr Q bounds M as well."""
        diverged = self.status == Status.DIVERGED
        quantity = np.where(
            self.second_layer_diverged, DivergedQuantity.SECOND_LAYER, DivergedQuantity.OVERLAP_STUDENT
        )
        return np.where(diverged, quantity, DivergedQuantity.NONE).astype(np.int8)


@dataclass(frozen=True)
class Continuation:
    """Where chains continue: the number of samples that are recorded, and the state of each chain then."""

    samples: int
    states: Sequence[Array]


class ChainLoop:
    """Runs groups of chains one after another, from record to record, in slices of about SLICE_SECONDS.

    `last_states` holds the last state of each chain that did not diverge, if `keep_states` is true.
    """

    def __init__(
        self,
        draw: Callable[[int], tuple[Chain, RecordingContext]],
        chains: int,
        form: Callable[[int], type[Simulator]],
        record_steps: AnyArray,
        records: Records,
        stopped: Callable[[], bool] | None,
        checkpoint: Checkpoint | None,
        identity: str,
        continuation: Continuation | None = None,
        keep_states: bool = False,
    ) -> None:
        self.draw, self.chains, self.form, self.records = draw, chains, form, records
        self.record_steps = record_steps
        self.stopped, self.checkpoint, self.identity = stopped, checkpoint, identity
        pending = np.full(chains, Status.PENDING.value, dtype=np.int8)
        self.outcomes = ChainOutcomes(
            pending, np.zeros(chains, np.int64), np.zeros(chains), np.zeros(chains, bool)
        )
        self.continuation, self.keep_states = continuation, keep_states
        self.last_states: dict[int, Array] = {}
        samples = 0 if continuation is None else continuation.samples
        steps = int(record_steps[samples - 1]) if samples else 0
        self.start = np.array([0, samples, steps])
        self.position = self.start.copy()  # first chain of the group, next record, steps taken
        self.slice, self.block_size, self.last_saved = 0, 1, clock.monotonic()
        self.last_charged = 0.0

    def __call__(self) -> ChainOutcomes:
        """Run all chains to their end. Overflows are ignored, because divergence is recorded as a status."""
        with np.errstate(all="ignore"):
            return self._run(self._load())

    def _run(self, resumed: Mapping[str, AnyArray] | None) -> ChainOutcomes:
        while (first := int(self.position[0])) < self.chains:
            self.last_charged = thread_work_seconds()
            simulator = self.form(self.chains - first)
            size = simulator.max_chains
            members = [self.draw(chain) for chain in range(first, min(first + size, self.chains))]
            group = simulator([chain for chain, _ in members])
            self.records.contexts = [context for _, context in members]
            self.block_size = group.block_size
            if self.continuation is not None:
                for slot in range(len(members)):
                    write_chain(group, slot, self.continuation.states[first + slot])
            if resumed is not None:
                _restore(_group_arrays(group), resumed)
                resumed = None
            self._run_group(first, group)
            self.position[:] = first + size, *self.start[1:]
        if self.checkpoint is not None:
            self.checkpoint.clear()
        return self.outcomes

    def _run_group(self, first: int, group: Simulator) -> None:
        """Run one group from its current position to its last record."""
        slots = range(len(group.chains))
        limits = np.array([chain.divergence_limit for chain in group.chains])
        while self.position[1] < len(self.record_steps):
            record = int(self.position[1])
            self._advance(first, group, int(self.record_steps[record]))
            M, Q = group.overlaps()
            second_layers = group.second_layers()
            bounded = np.trace(Q, axis1=1, axis2=2) < limits
            unbounded_second_layer = self._find_unbounded_second_layers(group, second_layers) & bounded
            self.outcomes.second_layer_diverged[first : first + len(slots)] |= unbounded_second_layer
            # chains that diverged since the simulator last checked
            lost = (~bounded | unbounded_second_layer) & (group.diverged < 0)
            group.diverged[lost] = self.record_steps[record]
            for slot in slots:
                if group.diverged[slot] < 0:
                    second_layer = None if second_layers is None else second_layers[slot]
                    self.records.add(first + slot, slot, record, M[slot], Q[slot], second_layer)
            self.position[1] += 1
            self._charge_time(first, len(slots))
            if np.all(group.diverged >= 0):
                break
        for slot in slots:
            diverged = group.diverged[slot] >= 0
            self.outcomes.status[first + slot] = Status.DIVERGED if diverged else Status.DONE
            self.outcomes.steps[first + slot] = group.diverged[slot] if diverged else self.record_steps[-1]
            samples = (
                np.searchsorted(self.record_steps, group.diverged[slot])
                if diverged
                else len(self.record_steps)
            )
            self.records.flush(first + slot, slot, int(samples) - 1)
            if self.keep_states and not diverged:
                self.last_states[first + slot] = read_chain(group, slot)

    def _find_unbounded_second_layers(self, group: Simulator, second_layers: Array | None) -> AnyArray:
        """Which chains have a second layer beyond its bound; only one that is learned can be."""
        if second_layers is None or not group.chains[0].is_learned:
            return np.zeros(len(group.chains), bool)
        limits = np.array([chain.second_layer_limit for chain in group.chains])
        return np.asarray(~(np.max(np.abs(second_layers), axis=1) < limits))

    def _advance(self, first: int, group: Simulator, until: int) -> None:
        while (now := int(self.position[2])) < until and not np.all(group.diverged >= 0):
            if self.stopped is not None and self.stopped():
                self._save(group)
                raise Stopped("the simulation was stopped")
            if clock.monotonic() - self.last_saved > CHECKPOINT_INTERVAL_SECONDS:
                self._save(group)
            self.slice = max(self.slice - self.slice % group.block_size, group.block_size)
            last = min(until, now + self.slice)
            began = clock.perf_counter()
            group.advance(now, last)
            seconds = clock.perf_counter() - began
            self._charge_time(first, len(group.chains))
            if last - now == self.slice:
                self.slice = int(self.slice * min(4.0, max(0.25, SLICE_SECONDS / max(seconds, 1e-9))))
            self.position[2] = last

    def _charge_time(self, first: int, chains: int) -> None:
        """Divide the work time since the last call among the chains of a group."""
        now = thread_work_seconds()
        self.outcomes.seconds[first : first + chains] += (now - self.last_charged) / chains
        self.last_charged = now

    def _save(self, group: Simulator) -> None:
        if self.checkpoint is not None:
            kept = {f"{KEPT}{chain}": state for chain, state in self.last_states.items()}
            arrays = {**self._loop_arrays(), **_group_arrays(group), **kept}
            self.checkpoint.save(pack(self.identity, arrays))
        self.last_saved = clock.monotonic()

    def _load(self) -> Mapping[str, AnyArray] | None:
        content = None if self.checkpoint is None else self.checkpoint.load()
        if content is None:
            return None
        arrays = unpack(self.identity, content)
        _restore(self._loop_arrays(), arrays)
        self.last_states = {
            int(name.removeprefix(KEPT)): array for name, array in arrays.items() if name.startswith(KEPT)
        }
        return arrays

    def _loop_arrays(self) -> dict[str, AnyArray]:
        """Arrays of a checkpoint, without those of the current group."""
        records, outcomes = self.records, self.outcomes
        return {
            "position": self.position,
            "status": outcomes.status,
            "steps": outcomes.steps,
            "seconds": outcomes.seconds,
            "second_layer_diverged": outcomes.second_layer_diverged,
            "buffer/M": records.M,
            "buffer/Q": records.Q,
            "buffer/filled": records.filled,
            **({} if records.second_layers is None else {"buffer/second_layers": records.second_layers}),
            **{f"output/{name}": array for name, array in records.outputs.items()},
        }


def _group_arrays(group: Simulator) -> dict[str, AnyArray]:
    return {"diverged": group.diverged, **{f"state/{name}": array for name, array in group.state().items()}}


def _restore(targets: Mapping[str, AnyArray], arrays: Mapping[str, AnyArray]) -> None:
    """Copy the arrays of a checkpoint into `targets`."""
    for name, target in targets.items():
        if name not in arrays or arrays[name].shape != target.shape or arrays[name].dtype != target.dtype:
            raise unreadable_checkpoint()
        target[...] = arrays[name]
