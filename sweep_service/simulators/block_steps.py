"""The steps inside a block, shared by S2 and the wide forms of S3.

L are the fields of the block's inputs on the weights at its beginning, and G is the Gram matrix of the
inputs. The field of sample b is λ_b = L_b + Σ_b' G_bb' c_b' with c = (γu/(pb)) a 𝓔 σ'(λ), summed over the
samples b' of earlier batches. A block is computed in short stretches of whole batches; before each, one
matrix product adds the effect of the earlier ones.

If steps keep a share of the weights, these are W = s V. Inside a block V moves, by c̃ = c/s with s after the
step, and L, C belong to V.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from sweep_service.numerics.simd import round_up_to_lanes
from sweep_service.numerics.types import Array
from sweep_service.simulators.chain import Chain
from sweep_service.simulators.kernels.coefficients import Moving, StepFactors
from sweep_service.simulators.kernels.vector_rows import push_samples, take_steps


class BlockSteps(ABC):
    """The steps of one chain, which also move its second layer."""

    def __init__(self, chain: Chain, moving: Moving) -> None:
        self.chain, self.moving = chain, moving
        self.first = 0  # the step of the first factor

    def set_factors(self, first: int, factors: StepFactors) -> None:
        """Use these factors for the steps from `first` on."""
        self.first, self.moving = first, self.moving._replace(factors=factors)

    @abstractmethod
    def take(self, step: int, L: Array, T: Array, G: Array, z: Array, C: Array) -> float:
        """Take the steps of a block from `step` on, and return s at its end.

        L (B, wide) and T (B, tall) are the fields of students and teachers, G (B, B) is the Gram matrix, of
        which the lower half is used, and z (B) are normals. L is updated to the fields at each step, and
        C (B, wide) is filled.
        """

    @abstractmethod
    def push(self, step: int, L: Array, T: Array, z: Array, C: Array) -> None:
        """Fill C for samples of the batch of one step."""

    def finish(self, step: int) -> float:
        """Move the second layer after the last `push` of a step; returns the share of the weights kept."""
        if self.moving.change is not None:
            assert self.moving.second_layer is not None
            self.moving.second_layer[:] += self.moving.change
            self.moving.change[:] = 0.0
        return self.kept(step)

    def factor(self, step: int) -> float | None:
        """u of a step; None for a constant schedule."""
        rate = self.moving.factors.rate
        return None if rate is None else float(rate[step - self.first])

    def kept(self, step: int) -> float:
        """The share of the weights that a step keeps."""
        kept = self.moving.factors.kept
        return 1.0 if kept is None else float(kept[step - self.first])


def make_block_steps(chain: Chain, moving: Moving) -> BlockSteps:
    """The compiled steps if both activations have kernels, else those in Python."""
    return CompiledSteps(chain, moving) if chain.compiled else PythonSteps(chain, moving)


class CompiledSteps(BlockSteps):
    def __init__(self, chain: Chain, moving: Moving) -> None:
        super().__init__(chain, moving)
        self.mask, self.coefficients = chain.mask, chain.coefficients
        self.work = np.empty(2 * round_up_to_lanes(chain.k))
        # samples from which BLAS is faster than the loop, in whole batches
        stretch = 64 if chain.rows <= 300 else 16
        self.stretch = max(chain.batch, stretch - stretch % chain.batch)

    def take(self, step: int, L: Array, T: Array, G: Array, z: Array, C: Array) -> float:
        scale = self.moving.scale
        if scale is not None:
            scale[0] = 1.0
        for begin in range(0, len(L), self.stretch):
            end = min(begin + self.stretch, len(L))
            if begin:
                L[begin:end] += G[begin:end, :begin] @ C[:begin]
            take_steps(
                L.reshape(-1), T.reshape(-1), G.reshape(-1), z, C.reshape(-1), self.mask, begin, end,
                step - self.first, self.coefficients, self.moving, self.work,
            )  # fmt: skip
        return 1.0 if scale is None else float(scale[0])

    def push(self, step: int, L: Array, T: Array, z: Array, C: Array) -> None:
        push_samples(
            L.reshape(-1), T.reshape(-1), z, C.reshape(-1), self.mask, step - self.first, self.coefficients,
            self.moving._replace(scale=None), self.work,
        )  # fmt: skip


class PythonSteps(BlockSteps):
    """Steps in Python, with the NumPy functions of the activations."""

    def take(self, step: int, L: Array, T: Array, G: Array, z: Array, C: Array) -> float:
        batch, scale = self.chain.batch, 1.0
        targets = self._targets(T, z)
        C[:, self.chain.rows :] = 0.0
        for begin in range(0, len(L), batch):
            now = step + begin // batch
            after = scale * self.kept(now)
            for b in range(begin, begin + batch):
                L[b] += G[b, :begin] @ C[:begin]
                self._push_sample(now, scale, targets[b], L[b], C[b])
                C[b] /= after
            self.finish(now)
            scale = after
        return scale

    def push(self, step: int, L: Array, T: Array, z: Array, C: Array) -> None:
        targets = self._targets(T, z)
        C[:, self.chain.rows :] = 0.0
        for b in range(len(L)):
            self._push_sample(step, 1.0, targets[b], L[b], C[b])

    def _targets(self, T: Array, z: Array) -> Array:
        chain = self.chain
        values = chain.teacher_activation.value(T[:, : chain.k])
        if chain.teacher_second_layer is not None:
            values = values * chain.teacher_second_layer
        return np.asarray(values.mean(axis=1) + chain.root_noise * z)

    def _push_sample(self, step: int, scale: float, target: float, fields: Array, c: Array) -> None:
        chain, p, factor = self.chain, self.chain.rows, self.factor(step)
        field = scale * fields[:p]
        values, slopes = chain.activation.value(field), chain.activation.slope(field)
        if self.moving.second_layer is None:
            output = float(np.sum(values))
        else:
            output = float(values @ self.moving.second_layer[:p])
            slopes = slopes * self.moving.second_layer[:p]
        push = (chain.rate if factor is None else chain.rate * factor) * (target - output / chain.width)
        c[:p] = push * slopes
        if self.moving.change is not None:
            self.moving.change[:p] += chain.second_layer_rate / chain.d * push * values
