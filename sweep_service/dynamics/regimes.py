"""The registry of regimes, the limiting theories of SGD.

An overlap regime is a sum of terms; a mean-field regime states how neurons interact.
`docs/extending.md` adds a regime in a few lines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from sweep_service.dynamics.cautions import (
    Caution,
    fast_gradient_flow,
    mean_field_without_sampling,
    narrow_mean_field,
    noise_at_infinite_width,
    noise_leaves_span,
    start_without_invariance,
)
from sweep_service.dynamics.compiled_overlap_flow import SmallFlow
from sweep_service.dynamics.full_model import full_model_constants
from sweep_service.dynamics.map_flow import MapFlow
from sweep_service.dynamics.mean_field.flow import MeanFieldFlow, MeanFieldSystem
from sweep_service.dynamics.mean_field.mixture import MixtureNodeFlow
from sweep_service.dynamics.mean_field.nodes import AnyNodeFlow, is_smooth
from sweep_service.dynamics.mean_field.pairwise import PairwiseFlow
from sweep_service.dynamics.mean_field.square import SquareFlow
from sweep_service.dynamics.options import RegimeOptions
from sweep_service.dynamics.overlap_flow import (
    OverlapFlow,
    System,
    Term,
    WeightFlow,
    drift,
    label_noise,
    sampling,
)
from sweep_service.dynamics.sampling.variance import choose_variance, sobol_points
from sweep_service.dynamics.state import State
from sweep_service.errors import RegimeUndefined
from sweep_service.model.activations import ERF, RELU, SQUARE, TANH, Activation
from sweep_service.model.averages.two_point import make_pairs
from sweep_service.model.initial import Start
from sweep_service.model.parameters import FIRST_PARAMETERS, later_parameters
from sweep_service.model.point import STRUCTURED_PARAMETERS, Point
from sweep_service.model.second_layer import Readout
from sweep_service.numerics.types import Array
from sweep_service.registries import declare_registry
from sweep_service.status import DivergedQuantity


class Flow(Protocol):
    """dy/dt as a function of y and t, with its start y0, and the state and the risk at any y."""

    y0: Array
    system: Any  # the constants of the trajectory
    precision: float  # relative error of the right-hand side that is worth resolving in time

    def __call__(self, y: Array, t: float = 0.0, /) -> Array: ...

    def state(self, y: Array, /) -> State: ...

    def risk(self, y: Array, /) -> float: ...

    def diverged_quantity(self, y: Array, /) -> DivergedQuantity:
        """The quantity by which a state is not bounded."""

    def refine(self) -> Flow | None:
        """The same flow on a finer quadrature, or None if there is nothing to refine."""

    @property
    def final_state_guess(self) -> Array | None:
        """A state near the end, which a quadrature must resolve as well as the start; None without one."""

    @property
    def jacobian(self) -> Callable[[Array, float], Array] | None: ...

    @property
    def breaks(self) -> tuple[float, ...]:
        """Times at which dy/dt is not smooth in t."""

    @property
    def delta_t(self) -> float | None:
        """The step of a map; None for an ODE."""


@dataclass(frozen=True)
class Setup:
    """The inputs from which a regime builds its flow."""

    point: Point
    start: Start
    seed: int
    options: RegimeOptions


@dataclass(frozen=True)
class Regime:
    """A limiting theory.

    `build` makes its flow. `refuse` returns the field, its value and what is allowed if the theory is not
    defined for a start, otherwise None. Each of `cautions` warns where the theory may be inaccurate.
    `version` is raised if and only if the numbers change, because stored runs are reused by it. A point with
    a parameter that the regime does not support is refused, and `auto` does not choose the regime there.
    """

    name: str
    title: str
    equations: str
    valid_when: str
    build: Callable[[Setup], Any]
    refuse: Callable[[Setup], tuple[str, Any, str] | None] = lambda _: None
    mean_field: bool = False
    sampled: bool = False  # has the sampling term, the most expensive one
    infinite_d: bool = False  # mean field with Ξ = I, which is cheaper
    particles: bool = False  # evolves points of the p = ∞ law instead of neurons
    has_fluctuations: bool = False  # SGD scatters about it, see `fluctuations`
    is_map: bool = False  # takes steps of SGD's size, instead of those of an integrator
    cautions: tuple[Caution, ...] = ()
    supports: tuple[str, ...] = FIRST_PARAMETERS
    version: int = 1
    independent_of: tuple[str, ...] = ()  # parameters; runs that differ only in these are computed once

    def ignored_parameters(self, options: RegimeOptions) -> frozenset[str]:
        """Parameters that the results do not depend on; with ‖x‖² in the noise term they depend on d."""
        ignored = frozenset(self.independent_of)
        return ignored - {"d"} if options.finite_d_factor and "noise" not in ignored else ignored

    def make_flow(self, setup: Setup) -> Flow:
        """Build the flow, or raise if the regime does not support the point or is undefined there."""
        setup.point.require_support(self.supports, f"the regime {self.name}")
        reason = self.refuse(setup)
        if reason is not None:
            raise RegimeUndefined(*reason)
        flow: Flow = self.build(setup)
        return flow


def overlap_regime(
    *always: Term, optional: Mapping[str, Term] | None = None
) -> Callable[[Setup], OverlapFlow | WeightFlow]:
    """Builder of flows of the full state (M, Q) that sum these terms.

    `optional` terms belong to a parameter, and are left out where it is at its default: results that were
    stored before the parameter existed stay the same to the bit.
    """

    def build(setup: Setup) -> OverlapFlow | WeightFlow:
        point, start = setup.point, setup.start.overlaps
        extra = tuple(term for name, term in (optional or {}).items() if name in point.non_default)
        terms = (*always, *extra)
        system = make_system(setup, sampled=sampling in terms)
        if terms == (drift,) and point.p > MAX_WIDTH_OF_OVERLAPS and start.rank < point.p:
            return WeightFlow(system, start)
        small = drift in terms and SmallFlow.is_applicable(system, point.p)  # SmallFlow includes the drift
        return (SmallFlow if small else OverlapFlow)(system, terms, start)

    return build


def make_system(setup: Setup, sampled: bool) -> System:
    """The constants of a flow of the full state; `sampled` if it has the sampling term."""
    point, options = setup.point, setup.options
    average, method = (
        choose_variance(point.activation, point.teacher_activation, point.p, point.k, options.qmc_points)
        if sampled
        else (None, "none")
    )
    can_vanish = setup.start.readout is not None and point.activation.curvature is None
    return System(
        gamma_over_p=point.gamma_over_p,
        noise=point.noise,
        P=setup.start.overlaps.P,
        pairs=make_pairs(point.activation, point.teacher_activation),
        variance=average,
        variance_method=method,
        finite_d=point.d if options.finite_d_factor else None,
        batch=point.batch,
        first_norms=np.diag(setup.start.overlaps.Q).copy() if can_vanish else None,
        others=point.others,
        **full_model_constants(point, setup.start.readout),
    )


def build_map(setup: Setup) -> MapFlow:
    """The map of single steps, which keeps ‖x‖² and the mean push of a batch."""
    point = setup.point
    return MapFlow(
        replace(make_system(setup, sampled=True), finite_d=point.d), setup.start.overlaps, point.delta_t
    )


def mean_field_regime(
    *, infinite_d: bool, projected: bool = False, pde: bool = False
) -> Callable[[Setup], MeanFieldFlow]:
    """Builder of flows of (M, q, a); `pde` evolves points of the p = ∞ law instead of the p neurons."""

    def build(setup: Setup) -> MeanFieldFlow:
        point, options, start = setup.point, setup.options, setup.start
        M, q, readout = (
            draw_particles(setup)
            if pde
            else (start.overlaps.M, start.overlaps.orthogonal_norms, start.readout)
        )
        system = MeanFieldSystem(
            P=start.overlaps.P,
            pairs=make_pairs(point.activation, point.teacher_activation),
            student=point.activation,
            teacher=point.teacher_activation,
            D=None if infinite_d else start.d - start.teacher_rank,
            noise=0.0 if pde else point.gamma_over_p / point.batch * point.noise,
            self_terms=options.self_terms and not pde,
            projected=projected,
            finite_d=point.d if options.finite_d_factor else None,
            precision=1e-6 if pde else 1e-9,  # the law is sampled: R errs by 1e-3
            **full_model_constants(point, readout),
        )
        return cheapest_flow(system, M, q)

    return build


def cheapest_flow(system: MeanFieldSystem, M: Array, q: Array) -> MeanFieldFlow:
    """Build the flow in its cheapest form.

    The quadratures are what a start needs; `integrate` refines them where the flow asks for more.
    """
    p, k = M.shape
    form = choose_mean_field_form(system.student, system.teacher, p, k)
    series, xi_nodes = choose_quadrature(system.student, system.D, system.precision)
    if form.flow is AnyNodeFlow and not is_smooth(system.student, system.teacher):
        system = replace(system, precision=1e-6)
    if form.flow is SquareFlow:
        return SquareFlow(system, M, q)
    if form.flow is PairwiseFlow:
        return PairwiseFlow(system, M, q, xi_nodes)
    node_flow = MixtureNodeFlow if form.flow is MixtureNodeFlow else AnyNodeFlow
    return node_flow(system, M, q, order=form.order, series=series)


# Up to a dimension: orders of the series, and nodes of ξ for σ without and with a kink.
QUADRATURES = (
    (2, 14, 12, 64), (3, 10, 12, 64), (5, 10, 12, 24), (10, 6, 12, 24), (20, 6, 8, 12), (60, 4, 6, 8),
    (math.inf, 3, 4, 4),
)  # fmt: skip


class MeanFieldForm(NamedTuple):
    """A form of the mean-field flow, and the order of its quadrature over λ*; 0 if it has none."""

    flow: type[MeanFieldFlow]
    order: int = 0


def choose_mean_field_form(student: Activation, teacher: Activation, p: int, k: int) -> MeanFieldForm:
    """Closed form, sum over pairs, or nodes of λ*, by the measured break-even widths."""
    if student is SQUARE and teacher is SQUARE:
        return MeanFieldForm(SquareFlow)
    if not is_smooth(student, teacher):  # nodes of λ* err by 1e-3: pairs as long as they can be paid
        most = 50_000 if student is RELU or not student.kinks else 1000
        return MeanFieldForm(PairwiseFlow) if p <= most else MeanFieldForm(AnyNodeFlow, 48)
    if student is ERF and p > {1: 70, 2: 900, 3: 14_000}.get(k, np.inf):
        return MeanFieldForm(MixtureNodeFlow, 24)
    if student is TANH and p > {1: 60, 2: 600, 3: 10_000}.get(k, np.inf):
        return MeanFieldForm(MixtureNodeFlow, 48 if k == 1 else 36)
    if student is SQUARE:
        return MeanFieldForm(PairwiseFlow)
    if student not in (ERF, TANH) and p > {1: 1500, 2: 10_000}.get(k, np.inf):
        return MeanFieldForm(AnyNodeFlow, 64 if k == 1 else 48)
    return MeanFieldForm(PairwiseFlow)


def choose_quadrature(student: Activation, D: int | None, precision: float) -> tuple[int, int]:
    """Orders of the series and nodes of the rule for ξ in D dimensions."""
    dimension = np.inf if D is None else D
    series, smooth, kinked = next(row for most, *row in QUADRATURES if dimension <= most)
    xi_nodes = kinked if student.curvature is None else smooth
    return series, xi_nodes // 2 if precision > 1e-7 else xi_nodes


def draw_particles(setup: Setup) -> tuple[Array, Array, Readout | None]:
    """(m, q, a) of the p = ∞ law at t = 0: at Sobol points, or the start's neurons if they are the law.

    The weights a of neurons are independent of (m, q), unless both are given as numbers.
    """
    point, start, layer = setup.point, setup.start, setup.point.second_layer
    overlaps, k, constant = start.overlaps, setup.point.k, setup.point.second_layer.is_constant
    uniforms = sobol_points(setup.options.particles, k + 1 if constant else k + 2)
    particles = point.init.particles(uniforms[:, : k + 1], point.shape, setup.seed)
    M, q = (overlaps.M, overlaps.orthogonal_norms) if particles is None else particles
    if start.readout is None:
        return M, q, None
    if particles is None and not layer.is_random:
        return M, q, start.readout
    if particles is None:  # any neuron with any weight
        neurons = (uniforms[:, 0] * len(M)).astype(int)
        M, q = M[neurons], q[neurons]
    return M, q, Readout(layer.law(uniforms[:, -1]), start.readout.teacher)


def _refuse_small_dimension(setup: Setup) -> tuple[str, Any, str] | None:
    rank = setup.start.teacher_rank
    if setup.point.d < rank:
        return "d", setup.point.d, f"must be >= {rank}, the rank of the teacher, in mean field"
    return None


def _refuse_without_invariance(setup: Setup) -> tuple[str, Any, str] | None:
    point = setup.point
    if (reason := _refuse_small_dimension(setup)) is not None:
        return reason
    if setup.start.invariant is False and not setup.start.is_projected:
        return (
            "init.kind",
            point.init.kind,
            "must be invariant under rotations orthogonal to the teacher (gaussian, spherical, informed, "
            "planted) in mean field: it replaces the overlaps of orthogonal parts by their law",
        )
    return None


def _refuse_without_projection(setup: Setup) -> tuple[str, Any, str] | None:
    reason = _refuse_without_invariance(setup)
    if reason is None and not setup.start.is_projected:
        total = float(setup.start.overlaps.orthogonal_norms.sum())
        return (
            "init",
            f"tr Q⊥(0) = {total:.3g}",
            "must have Q⊥(0) = 0 (informed, planted) in mean_field_projected",
        )
    return reason


# Parameters of the full model, which all flows take into account.
FULL_MODEL = (*FIRST_PARAMETERS, *later_parameters(), *STRUCTURED_PARAMETERS)

MAX_WIDTH_OF_OVERLAPS = 30  # beyond it, gradient flow on weights of low rank is cheaper

# Append only: datasets store the regime that `auto` chose by its position here.
REGIMES = {
    regime.name: regime
    for regime in (
        Regime(
            "high_dimensional", "SS-ODE", "dM = Ψ_M, dQ = Ψ_GF + (γ/p) Ψ_Var",
            "γ/(pd) → 0 at γ/p = O(1)", overlap_regime(drift, label_noise, sampling),
            sampled=True, has_fluctuations=True, version=4, independent_of=("d",), supports=FULL_MODEL,
        ),
        Regime(
            "classical", "GF-ODE", "dM = Ψ_M, dQ = Ψ_GF", "γ/p → 0; independent of d given Ω(0)",
            overlap_regime(drift), cautions=(fast_gradient_flow,), version=4,
            independent_of=("d", "gamma", "noise", "batch"), supports=FULL_MODEL,
        ),
        Regime(
            "classical_noise", "GF-ODE-NOISE", "dM = Ψ_M, dQ = Ψ_GF + (γ/p) Δ E[σ'σ']",
            "small γ/p with label noise: catches the late plateau", overlap_regime(drift, label_noise),
            cautions=(fast_gradient_flow,), version=4, independent_of=("d",), supports=FULL_MODEL,
        ),
        Regime(
            "mean_field", "MF-ODE", "dM = E_Ξ Ψ_M, dq = E_Ξ Ψ⊥_ii", "p → ∞ at any d > k",
            mean_field_regime(infinite_d=False), _refuse_without_invariance, mean_field=True,
            cautions=(narrow_mean_field, mean_field_without_sampling), version=3, supports=FULL_MODEL,
        ),
        Regime(
            "mean_field_high_dimensional", "HDMF-ODE", "MF-ODE with Ξ = I", "p, d → ∞",
            mean_field_regime(infinite_d=True), _refuse_small_dimension, mean_field=True, infinite_d=True,
            cautions=(narrow_mean_field, mean_field_without_sampling, start_without_invariance), version=3,
            independent_of=("d",), supports=FULL_MODEL,
        ),
        Regime(
            "mean_field_projected", "M only", "HDMF-ODE with q ≡ 0", "p → ∞ from Q⊥(0) = 0, a fixed point",
            mean_field_regime(infinite_d=True, projected=True), _refuse_without_projection, mean_field=True,
            infinite_d=True,
            cautions=(narrow_mean_field, mean_field_without_sampling, noise_leaves_span), version=3,
            independent_of=("d", "gamma", "noise", "batch"), supports=FULL_MODEL,
        ),
        Regime(
            "mean_field_pde", "DF-PDE", "MF-ODE without self terms on points of the law of (m, q, a)",
            "p = ∞: independent of p and of the students' seed",
            mean_field_regime(infinite_d=False, pde=True), _refuse_without_invariance, mean_field=True,
            particles=True, cautions=(noise_at_infinite_width,), version=3, independent_of=("batch",),
            supports=FULL_MODEL,
        ),
        Regime(
            "high_dimensional_map", "SS map", "M' = M + δt Ψ_M, Q' = Q + δt (Ψ_GF + (γ/p) Ψ_Var/b + …)",
            "steps of any size δt: batches b of the order of d, p and k fixed", build_map, sampled=True,
            is_map=True, version=3, supports=FULL_MODEL,
        ),
    )
}  # fmt: skip
declare_registry("regime", REGIMES)
