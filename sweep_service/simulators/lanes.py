"""What the simulators with eight chains in the lanes of vectors have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from sweep_service.numerics.simd import CHAIN_LANES
from sweep_service.numerics.types import AnyArray, Array
from sweep_service.simulators.chain import FULL_MODEL, Chain, Simulator
from sweep_service.simulators.kernels.coefficients import make_moving

T = TypeVar("T")


class ChainsInLanes(Simulator):
    """Up to eight chains; unused lanes hold copies of the first chain."""

    max_chains = CHAIN_LANES
    supports = FULL_MODEL
    is_scaled = False  # whether the weights have a scale inside a block

    def __init__(self, chains: Sequence[Chain]) -> None:
        super().__init__(chains)
        eight = fill_lanes(chains)
        self.keys = np.stack([chain.key for chain in eight], axis=-1).reshape(-1)
        self.limits = np.array([chain.divergence_limit for chain in eight])
        self.moving = make_moving(
            _stack([chain.second_layer for chain in eight]), chains[0].is_learned,
            self.is_scaled and chains[0].weight_decay > 0.0,
        )  # fmt: skip
        self.coefficients = chains[0].coefficients._replace(
            rate=np.array([chain.rate for chain in eight]),
            root_noise=np.array([chain.root_noise for chain in eight]),
            teacher_second_layer=_stack([chain.teacher_second_layer for chain in eight]),
        )

    def diverged_lanes(self) -> AnyArray:
        """`diverged` of all lanes."""
        diverged = np.full(CHAIN_LANES, -1)
        diverged[: len(self.diverged)] = self.diverged
        return diverged

    def second_layers(self) -> Array | None:
        second_layer = self.moving.second_layer
        return None if second_layer is None else second_layer.reshape(-1, CHAIN_LANES).T[: len(self.chains)]


def fill_lanes(items: Sequence[T], count: int = CHAIN_LANES) -> list[T]:
    """`count` items, the missing ones being the first."""
    return [*items, *[items[0]] * (count - len(items))]


def _stack(second_layers: Sequence[Array | None]) -> Array | None:
    """Second layers (neurons, 8) as a flat array, with chains in the lanes; None for ones."""
    present = [weights for weights in second_layers if weights is not None]
    return np.stack(present, axis=-1).reshape(-1) if present else None
