"""`Chain`, one student that learns by SGD, and `Simulator`, the interface of all simulators."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from sweep_service.dynamics.integrators import DIVERGENCE_FACTOR
from sweep_service.errors import InvalidInput
from sweep_service.model.activations import Activation
from sweep_service.model.parameters import FIRST_PARAMETERS, Scalar
from sweep_service.model.point import CONSTANT, STRUCTURED_PARAMETERS, Point
from sweep_service.model.schedule import Schedule
from sweep_service.model.user_kernels import explain_uncompiled, has_offset, kernel_code
from sweep_service.numerics.simd import round_up_to_lanes
from sweep_service.numerics.types import AnyArray, Array
from sweep_service.simulators.kernels.coefficients import (
    CONSTANT_STEPS,
    Coefficients,
    Moving,
    StepFactors,
    make_moving,
)

# The parameters of the full model, which every form of every simulator takes into account.
FULL_MODEL = (*FIRST_PARAMETERS, "second_layer_rate", "batch", "weight_decay", *STRUCTURED_PARAMETERS)
# Steps whose factors are computed at once.
FACTORS_PER_SLICE = 1 << 16
# Relative rounding of ν δt. A step of a schedule at the time of step ν acts on it in spite of rounding.
TIME_ROUNDING = 2.0**-50
# Inside a block the decay of the weights is collected in one scale, which must not underflow.
MIN_SCALE = 1e-100


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
    second_layer: Array | None = None  # a (rows,); None for ones that are not learned
    teacher_second_layer: Array | None = None  # a* (k,); None exactly if `second_layer` is
    second_layer_rate: float = 0.0
    batch: int = 1
    weight_decay: float = 0.0
    schedule: Schedule = CONSTANT

    @property
    def rows(self) -> int:
        return len(self.students)

    @property
    def k(self) -> int:
        return len(self.teachers)

    @property
    def rate(self) -> float:
        """γ/(pb)."""
        return self.gamma / (self.width * self.batch)

    @property
    def delta_t(self) -> float:
        return self.gamma / (self.width * self.d)

    @property
    def is_learned(self) -> bool:
        """Whether the second layer is learned."""
        return self.second_layer_rate > 0.0

    @property
    def has_constant_steps(self) -> bool:
        """Whether `step_factors` are `CONSTANT_STEPS`."""
        return self.schedule.is_default and not self.weight_decay

    @property
    def root_noise(self) -> float:
        return math.sqrt(self.noise)

    @property
    def shares(self) -> Array:
        return np.array([1.0 / self.width, 1.0 / self.k])

    @cached_property
    def compiled(self) -> bool:
        """Whether kernels know both activations."""
        return not explain_uncompiled(self.activation, self.teacher_activation, self.is_learned)

    @property
    def codes(self) -> AnyArray:
        return np.array([kernel_code(self.activation), kernel_code(self.teacher_activation)], dtype=np.intp)

    @cached_property
    def has_offset(self) -> bool:
        """Whether rows of zeros, which pad vectors, have outputs that weights of zero have to remove."""
        is_offset = has_offset(self.activation) or has_offset(self.teacher_activation)
        return self.second_layer is None and self.compiled and is_offset

    @property
    def output_weights(self) -> Array | None:
        """a, or None for ones that need not be written."""
        return np.ones(self.rows) if self.has_offset else self.second_layer

    @property
    def teacher_output_weights(self) -> Array | None:
        return np.ones(self.k) if self.has_offset else self.teacher_second_layer

    @cached_property
    def divergence_limit(self) -> float:
        """Bound on tr Q beyond which a chain has diverged: 10⁶ times the larger of its start and p."""
        return DIVERGENCE_FACTOR * max(float(self.width), float(np.vdot(self.students, self.students)))

    @property
    def second_layer_limit(self) -> float:
        """Bound on |a_i|: 10⁶ times the larger of its start and one."""
        start = np.ones(1) if self.second_layer is None else self.second_layer
        return DIVERGENCE_FACTOR * max(1.0, float(np.max(np.abs(start))))

    @property
    def mask(self) -> Array:
        """One for each row, then zeros that pad the last vector."""
        return (np.arange(round_up_to_lanes(self.rows)) < self.rows).astype(float)

    @property
    def coefficients(self) -> Coefficients:
        """Constants of the kernels in which lanes hold neurons."""
        return Coefficients(
            self.rate, self.root_noise, self.shares, self.codes, pad(self.teacher_output_weights),
            self.second_layer_rate / self.d if self.is_learned else None,
            self.batch if self.batch > 1 else None,
        )  # fmt: skip

    def moving(self) -> Moving:
        """A new state of what moves beside the weights, where lanes hold neurons."""
        return make_moving(pad(self.output_weights), self.is_learned, self.weight_decay > 0.0)

    def step_factors(self, first: int, last: int) -> StepFactors:
        """u of steps first..last-1, and the shares 1 - γuκ_w/(pd) of the weights that they keep."""
        decay, rate = self.weight_decay * self.delta_t, None
        if not self.schedule.is_default:
            steps = np.arange(first, last, dtype=float)
            rate = self.schedule.factor(steps * (self.delta_t * (1.0 + TIME_ROUNDING)))
        if not decay:
            return StepFactors(rate, None)
        return StepFactors(rate, np.full(last - first, 1.0 - decay) if rate is None else 1.0 - decay * rate)

    def limit_steps(self, steps: int) -> int:
        """At most `steps`, and so few that the scale of the weights does not underflow inside a block."""
        least = 1.0 - self.weight_decay * self.delta_t * self.schedule.largest_factor
        if least**steps > MIN_SCALE:
            return steps
        return max(1, int(math.log(MIN_SCALE) / math.log(least)))

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
    moving: Moving

    def __init__(self, chains: Sequence[Chain]) -> None:
        self.chains = chains
        self.diverged = np.full(len(chains), -1, dtype=np.int64)  # step at which divergence was detected

    def advance(self, first: int, last: int) -> None:
        """Take steps first..last-1, and set `diverged` for chains beyond their bound."""
        chain = self.chains[0]
        if chain.has_constant_steps:
            self._advance(first, last, CONSTANT_STEPS)
            return
        size = max(self.block_size, FACTORS_PER_SLICE - FACTORS_PER_SLICE % self.block_size)
        for begin in range(first, last, size):
            end = min(begin + size, last)
            self._advance(begin, end, chain.step_factors(begin, end))
            if np.all(self.diverged >= 0):
                return

    @abstractmethod
    def _advance(self, first: int, last: int, factors: StepFactors) -> None:
        """`advance`, with the factors of the steps."""

    @abstractmethod
    def overlaps(self) -> tuple[Array, Array]:
        """Current M (chains, rows, k) and Q (chains, rows, rows)."""

    def second_layers(self) -> Array | None:
        """Current a (chains, rows); None for ones that are not learned."""
        (chain,) = self.chains
        second_layer = None if chain.second_layer is None else self.moving.second_layer
        return None if second_layer is None else second_layer[None, : chain.rows]

    @abstractmethod
    def weight_state(self) -> dict[str, AnyArray]:
        """Arrays of weights or overlaps that `advance` changes, by name."""

    def state(self) -> dict[str, AnyArray]:
        """Arrays that `advance` changes, by name, for checkpoints."""
        arrays = self.weight_state()
        if self.chains[0].is_learned and self.moving.second_layer is not None:
            arrays["second_layer"] = self.moving.second_layer
        return arrays


def check_kept_share(point: Point) -> None:
    """Refuse a weight decay by which the weights would change their sign in a step."""
    if point.weight_decay == 0.0:
        return
    rate = point.delta_t * point.schedule.largest_factor
    if point.weight_decay * rate >= 1.0:
        allowed = f"must be below {1.0 / rate:.6g}, as a step removes the share weight_decay · γ u/(p d)"
        raise InvalidInput("weight_decay", point.weight_decay, allowed)


def pad(weights: Array | None) -> Array | None:
    """Weights with zeros that fill the last vector."""
    if weights is None:
        return None
    padded = np.zeros(round_up_to_lanes(len(weights)))
    padded[: len(weights)] = weights
    return padded


def compute_overlaps(W: Array, W_star: Array, d: int) -> tuple[Array, Array]:
    """M and Q of weights (chains, rows, d).

    The weights are made contiguous first, because BLAS rounds other layouts differently.
    """
    W, W_star = np.ascontiguousarray(W), np.ascontiguousarray(W_star)
    return W @ W_star.swapaxes(1, 2) / d, W @ W.swapaxes(1, 2) / d
