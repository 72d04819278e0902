"""Operations of kernels on optional values: the branch of a value that is None is removed when it compiles.

A parameter at its default is passed as None, so that a kernel without it is the same as if the parameter did
not exist. Only the variants that a sweep needs are compiled.
"""

from __future__ import annotations

from sweep_service.numerics.jit import kernel
from sweep_service.numerics.simd import join, load4, load8, store


@kernel(force_inline=True)
def times(x, factor):
    """x · factor, or x without a factor."""
    if factor is None:
        return x
    return x * factor


@kernel(force_inline=True)
def keep(values, at, value):
    """Store a vector, if there is an array for it."""
    if values is not None:
        store(values, at, value)


@kernel(force_inline=True)
def weights4(weights, at):
    """weights[at : at + 4], or None without weights."""
    if weights is None:
        return None
    return load4(weights, at)


@kernel(force_inline=True)
def weights4_twice(weights, at):
    """weights[at : at + 4] in both halves of a vector, or None without weights."""
    if weights is None:
        return None
    return join(load4(weights, at), load4(weights, at))


@kernel(force_inline=True)
def weights8(weights, at):
    """weights[at : at + 8], or None without weights."""
    if weights is None:
        return None
    return load8(weights, at)


@kernel(force_inline=True)
def mask4(x, weights, mask, at):
    """x with zeros as padding: x · mask, or x where weights that are padded with zeros have done it."""
    if weights is None:
        return x * load4(mask, at)
    return x


@kernel(force_inline=True)
def mask8(x, weights, mask, at):
    """`mask4` for eight lanes."""
    if weights is None:
        return x * load8(mask, at)
    return x


@kernel(force_inline=True)
def take(values, at):
    """values[at], or None without values."""
    if values is None:
        return None
    return values[at]


@kernel(force_inline=True)
def step_of(sample, batch):
    """The step to which a sample belongs."""
    if batch is None:
        return sample
    return sample // batch


@kernel(force_inline=True)
def ends_batch(sample, batch):
    """Whether `sample` is the last of its batch."""
    if batch is None:
        return True
    return sample % batch == batch - 1
