"""Records of chains: observables at the requested times and, optionally, overlaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from sweep_service.model.averages.two_point import Pairs
from sweep_service.model.observables import HISTOGRAM_BINS, OBSERVABLES, States, observe
from sweep_service.model.overlaps import orthogonal_part
from sweep_service.model.risk import risks
from sweep_service.numerics.types import Array

# Observables are computed for a buffer of samples of a chain. A larger one would save little, and would
# delay stopping a simulation while a slow risk is computed for all of it.
MAX_BUFFERED_SAMPLES, MAX_BUFFERED_BYTES = 32, 1 << 23


@dataclass(frozen=True)
class RecordingContext:
    """Constants that observables of a chain need beside its overlaps."""

    P: Array
    isometry: Array | None  # U of a collapsed student, whose overlaps are those of the rows of R
    second_layer: Array | None = None  # a (p,) at the start; None for ones that are not learned
    teacher_second_layer: Array | None = None  # a* (k,)


class Records:
    """Outputs of all chains (chain, time, ...), NaN where nothing was recorded, and buffered samples.

    Observables are computed for buffers of samples that begin at fixed indices of time, so that the last
    bits of a chain do not depend on the chains it runs with or on where it was interrupted.
    """

    def __init__(
        self,
        chains: int,
        times: int,
        rows: int,
        k: int,
        width: int,
        pairs: Pairs,
        names: Sequence[str],
        overlaps: bool,
        group_size: int,
        second_layers: bool = False,
        first: int = 0,
    ) -> None:
        self.width, self.pairs, self.names = width, pairs, names
        self.first = first  # sample that is recorded first; earlier ones are stored already
        self.contexts: Sequence[RecordingContext] = ()  # of the current group of chains
        sizes = {"student": width, "teacher": k, "cosine_bin": HISTOGRAM_BINS}
        self.outputs = {
            name: np.full((chains, times, *(sizes[dim] for dim in OBSERVABLES[name].dims)), np.nan)
            for name in names
        }
        self.overlaps = overlaps
        if overlaps:
            self.outputs["overlap_student_teacher"] = np.full((chains, times, width, k), np.nan)
            self.outputs["overlap_student"] = np.full((chains, times, width, width), np.nan)
        self.capacity = min(
            times, MAX_BUFFERED_SAMPLES, max(1, MAX_BUFFERED_BYTES // (8 * rows * (rows + k)))
        )
        self.M, self.Q = (
            np.empty((group_size, self.capacity, rows, k)),
            np.empty((group_size, self.capacity, rows, rows)),
        )
        self.second_layers = np.empty((group_size, self.capacity, rows)) if second_layers else None
        self.filled = np.zeros(group_size, dtype=np.int64)  # buffered samples of each chain of the group

    def add(self, chain: int, slot: int, time: int, M: Array, Q: Array, second_layer: Array | None) -> None:
        """Record sample `time` of a chain; `slot` is its index in the current group."""
        row = time % self.capacity
        self.M[slot, row], self.Q[slot, row] = M, Q
        if self.second_layers is not None:
            self.second_layers[slot, row] = second_layer
        self.filled[slot] = row + 1
        if row + 1 == self.capacity:
            self.flush(chain, slot, time)

    def flush(self, chain: int, slot: int, last: int) -> None:
        """Compute the outputs of the buffered samples, the last of which is sample `last`."""
        count = int(self.filled[slot])
        if count == 0:
            return
        self.filled[slot] = 0
        begin = last + 1 - count
        when = slice(max(begin, self.first), last + 1)
        rows = slice(when.start - begin, count)
        M, Q = self.M[slot, rows], self.Q[slot, rows]
        second_layers = None if self.second_layers is None else self.second_layers[slot, rows]
        context = self.contexts[slot]
        P, isometry, a_star = context.P, context.isometry, context.teacher_second_layer
        risk = risks(M, Q, P, self.pairs, self.width, second_layers, a_star)
        if isometry is None:
            states, all_Q = States.of(risk, M, Q, P), Q
        else:
            all_M, norms = isometry @ M, np.sum((isometry @ Q) * isometry, axis=2)
            states = States(risk, all_M, norms, P, partial(orthogonal_part, M, Q, P))
            all_Q = isometry @ Q @ isometry.T if self.overlaps else Q
            if context.second_layer is not None:  # collapsed students keep it
                second_layers = np.broadcast_to(context.second_layer, (len(M), self.width))
        states = replace(states, second_layers=second_layers, teacher_second_layer=a_star)
        for name, values in observe(states, self.names).items():
            self.outputs[name][chain, when] = values
        if self.overlaps:
            self.outputs["overlap_student_teacher"][chain, when] = states.M
            self.outputs["overlap_student"][chain, when] = all_Q
