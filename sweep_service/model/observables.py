"""The registry of observables, the same for SGD and every ODE.

An observable is a function of `States`, which holds all samples of one trajectory, and returns an array
whose first axis is time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from sweep_service.errors import InvalidInput, unknown_name
from sweep_service.model.overlaps import inside_norms, orthogonal_part
from sweep_service.numerics.types import Array
from sweep_service.registries import declare_registry

MAX_NEGATIVE_RISK = 1e-6  # for teachers of norm one; see `_risk`
HISTOGRAM_BINS = 64


@dataclass(frozen=True)
class States:
    """Samples of a trajectory, time first, in the form common to mean field and full overlaps."""

    risk: Array  # (time,)
    M: Array  # (time, p, k)
    norms: Array  # Q_ii (time, p)
    P: Array  # (k, k)
    # Computes Q⊥ up to a rotation of the neurons (time, r, r), which few observables need; None in mean
    # field, where only its diagonal exists.
    make_orthogonal: Callable[[], Array] | None = None
    orthogonal_norms: Array | None = None  # q = diag Q⊥ (time, p), if it is part of the state
    second_layers: Array | None = None  # a (time, p); None for ones
    teacher_second_layer: Array | None = None  # a* (k,); None for ones

    @classmethod
    def of(cls, risk: Array, M: Array, Q: Array, P: Array) -> States:
        """States of full overlaps, M (time, p, k) and Q (time, p, p)."""
        norms = np.diagonal(Q, axis1=1, axis2=2)
        return cls(risk, M, norms, P, partial(orthogonal_part, M, Q, P))

    @cached_property
    def orthogonal(self) -> Array | None:
        """Q⊥ (time, r, r); None in mean field."""
        return None if self.make_orthogonal is None else self.make_orthogonal()

    @cached_property
    def q(self) -> Array:
        """diag Q⊥ (time, p), never negative."""
        if self.orthogonal_norms is not None:
            return self.orthogonal_norms
        return np.maximum(self.norms - inside_norms(self.M, self.P), 0.0)

    @cached_property
    def cosines(self) -> Array:
        """|M_jr|/√(Q_jj P_rr) (time, p, k); zero for a neuron of length zero."""
        length = np.sqrt(np.maximum(self.norms, 0.0))[:, :, None] * np.sqrt(np.diag(self.P))
        with np.errstate(invalid="ignore"):
            return np.abs(self.M) / np.where(length > 0.0, length, np.inf) + 0.0 * length

    @cached_property
    def a(self) -> Array:
        """The second layer (time, p)."""
        ones = 1.0 + 0.0 * self.norms  # NaN of a sample that diverged stays NaN
        return ones if self.second_layers is None else self.second_layers

    @cached_property
    def a_star(self) -> Array:
        """The second layer of the teacher (k,)."""
        return np.ones(self.M.shape[2]) if self.teacher_second_layer is None else self.teacher_second_layer


@dataclass(frozen=True)
class Observable:
    """A function of the state at each sample. Norms are squared lengths: |w_i|²/d = Q_ii."""

    name: str
    about: str  # the long name in datasets
    function: Callable[[States], Array]
    dims: tuple[str, ...] = ()  # beyond time
    default: bool = False
    needs_all_overlaps: bool = False  # then NaN in mean field


def _risk(states: States) -> Array:
    """R, which is a mean square: values that are negative within the error of zero are zero.

    R is a difference of sums of order one. It is negative by rounding, 1e-16, or because the errors of an
    integrator and of a sampled term have moved (M, Q) to overlaps that no network has: -2e-7 at most in
    tests. A value below the bound is kept, because it is a mistake.
    """
    scale = max(1.0, float(np.max(np.diag(states.P), initial=0.0))) ** 2  # R of a square activation is ~ P²
    is_zero = (states.risk < 0.0) & (states.risk >= -MAX_NEGATIVE_RISK * scale)
    return np.where(is_zero, 0.0, states.risk)


def _specialisation(states: States) -> Array:
    ordered = np.sort(states.cosines, axis=2)
    margin = ordered[:, :, -1] - (ordered[:, :, -2] if ordered.shape[2] > 1 else 0.0)
    return np.mean(margin, axis=1)


def _operator_norm(states: States) -> Array:
    assert states.orthogonal is not None
    norms = np.full(len(states.orthogonal), np.nan)
    for row, Q in enumerate(states.orthogonal):
        if np.all(np.isfinite(Q)):
            norms[row] = np.linalg.norm(Q, 2)
    return norms


def _off_diagonal_rms(states: States) -> Array:
    """Computed from ‖Q⊥‖² - Σ q², which is invariant under a rotation of the neurons."""
    assert states.orthogonal is not None
    p = states.q.shape[1]
    squares = np.sum(states.orthogonal**2, axis=(1, 2)) - np.sum(states.q**2, axis=1)
    return np.sqrt(np.maximum(squares, 0.0) / max(p * (p - 1), 1))


def _cosine_histogram(states: States) -> Array:
    """Share of neurons in each bin of the signed cosine, shape (time, k, bins)."""
    signed = np.clip(np.copysign(states.cosines, states.M), -1.0, 1.0)
    bins = np.minimum(((signed + 1.0) * (HISTOGRAM_BINS / 2)), HISTOGRAM_BINS - 1)
    times, p, k = signed.shape
    shares = np.full((times, k, HISTOGRAM_BINS), np.nan)
    for t in range(times):
        for r in range(k):
            if np.all(np.isfinite(bins[t, :, r])):
                shares[t, r] = np.bincount(bins[t, :, r].astype(int), minlength=HISTOGRAM_BINS) / p
    return shares


def _second_layer_overlap(states: States) -> Array:
    """Each neuron is compared with the teacher of its largest |cosine|, with the sign of that cosine."""
    nearest = np.argmax(states.cosines, axis=2)
    signs = np.sign(np.take_along_axis(states.M, nearest[:, :, None], axis=2)[:, :, 0])
    targets = signs * states.a_star[nearest]
    norms = np.linalg.norm(states.a, axis=1) * np.linalg.norm(targets, axis=1)
    with np.errstate(invalid="ignore"):
        return np.sum(states.a * targets, axis=1) / np.where(norms > 0.0, norms, np.inf) + 0.0 * norms


OBSERVABLES = {
    observable.name: observable
    for observable in (
        Observable("risk", "excess risk ½ E[(f* - f)²], without the label noise Δ/2", _risk, default=True),
        Observable(
            "specialisation",
            "mean over neurons of largest minus second largest |cosine| with a teacher",
            _specialisation,
            default=True,
        ),
        Observable("largest_norm", "max_i Q_ii", lambda s: np.max(s.norms, axis=1), default=True),
        Observable(
            "mean_orthogonal_norm", "tr Q⊥/p, Q⊥ = Q - M P⁻¹ Mᵀ", lambda s: np.mean(s.q, axis=1), default=True
        ),
        Observable("mean_norm", "tr Q/p", lambda s: np.mean(s.norms, axis=1)),
        Observable(
            "cosine",
            "mean over neurons of the largest |cosine| with a teacher",
            lambda s: np.mean(np.max(s.cosines, axis=2), axis=1),
            default=True,
        ),
        Observable(
            "orthogonal_operator_norm", "largest eigenvalue of Q⊥", _operator_norm, needs_all_overlaps=True
        ),
        Observable(
            "off_diagonal_rms", "root mean square of Q⊥_ij, i ≠ j", _off_diagonal_rms, needs_all_overlaps=True
        ),
        Observable(
            "cosines",
            "cosine of each neuron with each teacher",
            lambda s: np.copysign(s.cosines, s.M),
            dims=("student", "teacher"),
        ),
        Observable(
            "cosine_histogram",
            "share of neurons by cosine with each teacher",
            _cosine_histogram,
            dims=("teacher", "cosine_bin"),
        ),
        Observable("second_layer", "second layer a of the student", lambda s: s.a, dims=("student",)),
        Observable("second_layer_mean", "mean of the second layer a", lambda s: np.mean(s.a, axis=1)),
        Observable(
            "second_layer_spread", "standard deviation of a over neurons", lambda s: np.std(s.a, axis=1)
        ),
        Observable(
            "second_layer_overlap",
            "cosine of a with a* of the nearest teachers, counted with the sign of their cosine",
            _second_layer_overlap,
        ),
    )
}
declare_registry("observable", OBSERVABLES)


def select_observables(names: Sequence[str] | None, field: str = "observables") -> tuple[str, ...]:
    """Names of the requested observables in the registry's order, risk included; None gives the defaults."""
    if names is None:
        return tuple(name for name, observable in OBSERVABLES.items() if observable.default)
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise InvalidInput(field, names, f"must be a list of names from {', '.join(OBSERVABLES)}")
    for name in names:
        if not isinstance(name, str) or name not in OBSERVABLES:
            raise unknown_name(field, name, OBSERVABLES)
    return tuple(name for name in OBSERVABLES if name == "risk" or name in names)


def observe(states: States, names: Sequence[str]) -> Mapping[str, Array]:
    """Values of observables by name, time first; NaN if the states lack what an observable needs."""
    values = {}
    for name in names:
        observable = OBSERVABLES[name]
        if observable.needs_all_overlaps and states.orthogonal is None:
            values[name] = np.full(states.risk.shape, np.nan)
        else:
            values[name] = observable.function(states)
    return values
