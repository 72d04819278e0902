"""`Chain`, one student that learns by SGD, and `Simulator`, the interface of all simulators."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from sweep_service.dynamics.integrators import DIVERGENCE_FACTOR
from sweep_service.model.activations import Activation
from sweep_service.model.parameters import FIRST_PARAMETERS, Scalar
from sweep_service.numerics.simd import round_up_to_lanes
from sweep_service.numerics.types import AnyArray, Array


@dataclass(frozen=True)
class Chain:
    """The start and the parameters of a chain.

    `students` (rows, r) and `teachers` (k, r) are coordinates in an orthonormal basis, divided by √d.
    """

    students: Array
    teachers: Array
    d: int
    width: int  # p in the factors 1/p and γ/p; a collapsed student has fewer rows
    gamma: float
    noise: float
    activation: Activation
    teacher_activation: Activation
    key: AnyArray  # three words, see streams.chain_key
    others: Mapping[str, Scalar] = field(
        default_factory=dict
    )  # values of the parameters outside FIRST_PARAMETERS

    @property
    def rows(self) -> int:
        return len(self.students)

    @property
    def k(self) -> int:
        return len(self.teachers)

    @property
    def rate(self) -> float:
        return self.gamma / self.width

    @property
    def root_noise(self) -> float:
        return math.sqrt(self.noise)

    @property
    def shares(self) -> Array:
        return np.array([1.0 / self.width, 1.0 / self.k])

    @property
    def compiled(self) -> bool:
        """Whether both activations have a branch in `activate`."""
        return self.activation.code is not None and self.teacher_activation.code is not None

    @property
    def codes(self) -> AnyArray:
        assert self.activation.code is not None
        assert self.teacher_activation.code is not None
        return np.array([self.activation.code, self.teacher_activation.code])

    @cached_property
    def divergence_limit(self) -> float:
        """Bound on tr Q beyond which a chain has diverged: 10⁶ times the larger of its start and p."""
        return DIVERGENCE_FACTOR * max(float(self.width), float(np.vdot(self.students, self.students)))

    @property
    def mask(self) -> Array:
        """One for each row, then zeros that pad the last vector."""
        return (np.arange(round_up_to_lanes(self.rows)) < self.rows).astype(float)

    def weights(self) -> tuple[Array, Array]:
        """W (rows, d) and W* (k, d)."""
        root = math.sqrt(self.d)
        W, W_star = np.zeros((self.rows, self.d)), np.zeros((self.k, self.d))
        rank = self.students.shape[1]
        W[:, :rank] = root * self.students
        W_star[:, :rank] = root * self.teachers
        return W, W_star


class Simulator(ABC):
    """The state of a group of chains with the same shape and activations."""

    max_chains = 1  # per instance
    supports: tuple[str, ...] = FIRST_PARAMETERS  # parameters that it takes into account
    block_size = 1  # `advance` is interrupted only after multiples of this many steps since the last record

    def __init__(self, chains: Sequence[Chain]) -> None:
        self.chains = chains
        self.diverged = np.full(len(chains), -1, dtype=np.int64)  # step at which divergence was detected

    @abstractmethod
    def advance(self, first: int, last: int) -> None:
        """Take steps first..last-1, and set `diverged` for chains beyond their bound."""

    @abstractmethod
    def overlaps(self) -> tuple[Array, Array]:
        """Current M (chains, rows, k) and Q (chains, rows, rows)."""

    @abstractmethod
    def state(self) -> dict[str, AnyArray]:
        """Arrays that `advance` changes, by name, for checkpoints."""


def compute_overlaps(W: Array, W_star: Array, d: int) -> tuple[Array, Array]:
    """M and Q of weights (chains, rows, d).

    The weights are made contiguous first, because BLAS rounds other layouts differently.
    """
    W, W_star = np.ascontiguousarray(W), np.ascontiguousarray(W_star)
    return W @ W_star.swapaxes(1, 2) / d, W @ W.swapaxes(1, 2) / d
