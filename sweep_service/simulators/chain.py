"""A chain: one student that learns by SGD; and what every simulator does with chains."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from sweep_service.dynamics.integrators import DIVERGED
from sweep_service.model.activations import Activation
from sweep_service.model.parameters import FIRST_PARAMETERS, Scalar
from sweep_service.numerics.simd import padded
from sweep_service.numerics.types import AnyArray, Array


@dataclass(frozen=True)
class Chain:
    """Where a chain starts and what moves it.

    `students` (rows, r) and `teachers` (k, r) are coordinates in an orthonormal basis, divided by √d.
    """

    students: Array
    teachers: Array
    d: int
    width: int  # p of the averages 1/p and of γ/p; a collapsed student has fewer rows
    gamma: float
    noise: float
    activation: Activation
    teacher_activation: Activation
    key: AnyArray  # three words, see streams.chain_key
    others: Mapping[str, Scalar] = field(default_factory=dict)  # parameters that were added later

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
        """Do both activations have a branch in `activate`?"""
        return self.activation.code is not None and self.teacher_activation.code is not None

    @property
    def codes(self) -> AnyArray:
        assert self.activation.code is not None
        assert self.teacher_activation.code is not None
        return np.array([self.activation.code, self.teacher_activation.code])

    @cached_property
    def limit(self) -> float:
        """A chain whose tr Q grows beyond it has diverged: Q_ii a million times what it was, or than one."""
        return DIVERGED * max(float(self.width), float(np.vdot(self.students, self.students)))

    @property
    def mask(self) -> Array:
        """One for each row, then zeros that fill the last vector up."""
        return (np.arange(padded(self.rows)) < self.rows).astype(float)

    def weights(self) -> tuple[Array, Array]:
        """W (rows, d) and W* (k, d)."""
        root = math.sqrt(self.d)
        W, W_star = np.zeros((self.rows, self.d)), np.zeros((self.k, self.d))
        used = self.students.shape[1]
        W[:, :used] = root * self.students
        W_star[:, :used] = root * self.teachers
        return W, W_star


class Simulator(ABC):
    """Some chains on their way. All chains of one simulator have the same shape and activations."""

    most_chains = 1  # that one instance carries
    supports: tuple[str, ...] = FIRST_PARAMETERS  # the parameters that it takes into account
    grain = 1  # work is cut only after multiples of so many steps since the last record

    def __init__(self, chains: Sequence[Chain]) -> None:
        self.chains = chains
        self.diverged = np.full(len(chains), -1, dtype=np.int64)  # the step where it was found out

    @abstractmethod
    def advance(self, first: int, last: int) -> None:
        """Do the steps first..last-1; set `diverged` where a chain has left all bounds."""

    @abstractmethod
    def overlaps(self) -> tuple[Array, Array]:
        """M (chains, rows, k) and Q (chains, rows, rows) now."""

    @abstractmethod
    def state(self) -> dict[str, AnyArray]:
        """The arrays that `advance` changes, by name: what a checkpoint must hold."""


def gram_of(W: Array, W_star: Array, d: int) -> tuple[Array, Array]:
    """M and Q of weights (chains, rows, d); contiguous first, as BLAS rounds other layouts differently."""
    W, W_star = np.ascontiguousarray(W), np.ascontiguousarray(W_star)
    return W @ W_star.swapaxes(1, 2) / d, W @ W.swapaxes(1, 2) / d
