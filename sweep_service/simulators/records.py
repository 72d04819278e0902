"""What is kept of chains: observables at the asked times, and the overlaps where they are wanted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sweep_service.model.observables import HISTOGRAM_BINS, OBSERVABLES, States, observe
from sweep_service.model.overlaps import orthogonal_part
from sweep_service.model.risk import risks
from sweep_service.model.two_point import Pairs
from sweep_service.numerics.types import Array

# Samples of a chain that wait until their observables are computed at once, and their bytes: more would
# save little, and keep a run from stopping while a slow risk is computed for all of them.
TOGETHER, BUFFER = 32, 1 << 23


@dataclass(frozen=True)
class Sample:
    """What turns the overlaps of one chain into observables."""

    P: Array
    turn: Array | None  # U of a collapsed student, whose overlaps are those of the rows of R


class Records:
    """Outputs of all chains, (chain, time, ...), NaN where nothing was recorded; and what waits for more.

    Samples of a chain are turned into observables in batches that begin at fixed places in time, so
    that a run's last bits do not depend on its company or on where it was interrupted.
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
        together: int,
    ) -> None:
        self.width, self.pairs, self.names = width, pairs, names
        self.samples: Sequence[Sample] = ()  # of the chains on their way
        sizes = {"student": width, "teacher": k, "cosine_bin": HISTOGRAM_BINS}
        self.outputs = {
            name: np.full((chains, times, *(sizes[dim] for dim in OBSERVABLES[name].dims)), np.nan)
            for name in names
        }
        self.overlaps = overlaps
        if overlaps:
            self.outputs["overlap_student_teacher"] = np.full((chains, times, width, k), np.nan)
            self.outputs["overlap_student"] = np.full((chains, times, width, width), np.nan)
        self.batch = min(times, TOGETHER, max(1, BUFFER // (8 * rows * (rows + k))))
        self.M, self.Q = (
            np.empty((together, self.batch, rows, k)),
            np.empty((together, self.batch, rows, rows)),
        )
        self.filled = np.zeros(together, dtype=np.int64)  # samples that wait, of each chain on its way

    def add(self, chain: int, place: int, time: int, M: Array, Q: Array) -> None:
        """Record sample `time` of a chain; `place` is where it stands among those on their way."""
        row = time % self.batch
        self.M[place, row], self.Q[place, row] = M, Q
        self.filled[place] = row + 1
        if row + 1 == self.batch:
            self.flush(chain, place, time)

    def flush(self, chain: int, place: int, last: int) -> None:
        """Turn the samples that wait, the last of which is sample `last`, into outputs."""
        count = int(self.filled[place])
        if count == 0:
            return
        self.filled[place] = 0
        when = slice(last + 1 - count, last + 1)
        M, Q = self.M[place, :count], self.Q[place, :count]
        P, turn = self.samples[place].P, self.samples[place].turn
        risk = risks(M, Q, P, self.pairs, self.width)
        if turn is None:
            states, all_Q = States.of(risk, M, Q, P), Q
        else:
            all_M, norms = turn @ M, np.sum((turn @ Q) * turn, axis=2)
            states = States(risk, all_M, norms, P, orthogonal_part(M, Q, P))
            all_Q = turn @ Q @ turn.T if self.overlaps else Q
        for name, values in observe(states, self.names).items():
            self.outputs[name][chain, when] = values
        if self.overlaps:
            self.outputs["overlap_student_teacher"][chain, when] = states.M
            self.outputs["overlap_student"][chain, when] = all_Q
