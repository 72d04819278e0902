"""What a step of SGD needs beside weights and inputs, as named tuples that kernels are specialised by.

With σ, σ' at the fields λ of b samples, their errors 𝓔, and the factor u of the schedule, one step is
    w_i ← s w_i + (γu/(pb)) Σ a_i σ'(λ_i) 𝓔 x
    a_i ← a_i + ρ (γu/(pdb)) Σ σ(λ_i) 𝓔
from the same samples and the old weights, where s is the share of the weights that a step keeps. A field
is None where its parameter is at its default.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sweep_service.numerics.jit import kernel
from sweep_service.numerics.simd import fma, load4, load8, store
from sweep_service.numerics.types import AnyArray, Array

# Kernels address the fields by their order. This file contains kernels, so an edit of it starts a new cache.


class Coefficients(NamedTuple):
    """Constants of a step."""

    rate: Any  # γ/(pb); one per chain where chains share vectors
    root_noise: Any  # √Δ, likewise
    shares: Array  # 1/p and 1/k, the factors of the two outputs; a collapsed student has fewer rows than p
    codes: AnyArray  # of the activations of student and teacher
    teacher_second_layer: Array | None  # a*, padded with zeros
    learning: float | None  # ρ/d
    batch: int | None  # b


class StepFactors(NamedTuple):
    """What varies from step to step, over consecutive steps; None where it is always one."""

    rate: Array | None  # u
    kept: Array | None  # s

    def skip(self, steps: int) -> StepFactors:
        """The factors without those of the first steps."""
        return StepFactors(*(None if values is None else values[steps:] for values in self))


CONSTANT_STEPS = StepFactors(None, None)


class Moving(NamedTuple):
    """What changes beside the weights, and buffers."""

    second_layer: Array | None  # a, padded with zeros
    values: Array | None  # σ(λ_i) of one or two samples, if a is learned
    change: Array | None  # change of a, summed over a batch, if a is learned
    scale: Array | None  # (1,): inside a block, the weights are this times those that are stored
    factors: StepFactors


def make_moving(second_layer: Array | None, is_learned: bool, is_scaled: bool) -> Moving:
    learned = second_layer if is_learned else None
    return Moving(
        second_layer,
        None if learned is None else np.zeros(2 * learned.size),
        None if learned is None else np.zeros_like(learned),
        np.ones(1) if is_scaled else None,
        CONSTANT_STEPS,
    )


@kernel(force_inline=True)
def learn4(coefficients, moving, push, number=0):
    """Add a sample to the second layer, or to its change by a batch; `push` is (γu/(pb)) 𝓔.

    Its values are number `number` of those that are kept.
    """
    learning = coefficients.learning
    out = _learner(coefficients.batch, moving.second_layer, moving.change)
    _learn4(learning, moving.values, number, out, push)


@kernel(force_inline=True)
def learn8(coefficients, moving, push):
    """`learn4` for eight chains."""
    learning = coefficients.learning
    _learn8(learning, moving.values, _learner(coefficients.batch, moving.second_layer, moving.change), push)


@kernel(force_inline=True)
def _learner(batch, second_layer, change):
    if batch is None:
        return second_layer
    return change


@kernel(force_inline=True)
def _learn4(learning, values, number, out, push):
    if learning is not None:
        first = number * out.size
        for i in range(0, out.size, 4):
            store(out, i, fma(load4(values, first + i), push * learning, load4(out, i)))


@kernel(force_inline=True)
def _learn8(learning, values, out, push):
    if learning is not None:
        for i in range(0, out.size, 8):
            store(out, i, fma(load8(values, i), push * learning, load8(out, i)))


@kernel(force_inline=True)
def move_second_layer(coefficients, moving):
    """Add the change by a batch to the second layer."""
    _move_second_layer(coefficients.learning, coefficients.batch, moving)


@kernel(force_inline=True)
def _move_second_layer(learning, batch, moving):
    if learning is not None and batch is not None:
        second_layer, change = moving.second_layer, moving.change
        for i in range(change.size):
            second_layer[i] += change[i]
            change[i] = 0.0


@kernel(force_inline=True)
def reset_scale(scale):
    if scale is not None:
        scale[0] = 1.0


@kernel(force_inline=True)
def shrink_scale(scale, kept):
    """Multiply the scale by the share of the weights that a step keeps."""
    if scale is not None:
        scale[0] *= kept


@kernel(force_inline=True)
def scale_of(scale):
    """The scale of the weights before a step; None if it is always one."""
    if scale is None:
        return None
    return scale[0]


@kernel(force_inline=True)
def divide_by_next_scale(x, scale, kept):
    """x divided by the scale after a step, as a change of the stored weights is multiplied by it later."""
    if scale is None:
        return x
    return x / (scale[0] * kept)
