"""Prices of regimes: seconds of an integration on the machine where they were measured.

An integration evaluates its flow N times and the risk once per sample. N depends on the integrator, on the
student's activation and on time; the seconds of an evaluation depend on the form of the flow and on the pair
of activations. `planning/costs.py` applies the calibration of this machine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np

from sweep_service.dynamics.compiled_overlap_flow import MAX_COMPILED_WIDTH
from sweep_service.dynamics.evaluations import Effort, extend_effort, is_rough, predict_effort
from sweep_service.dynamics.fluctuations.adjoint.transposed_jacobian import has_smooth_slope
from sweep_service.dynamics.fluctuations.price import fluctuation_seconds
from sweep_service.dynamics.fluctuations.requirements import MAX_COVARIANCE_SIZE
from sweep_service.dynamics.mean_field.mixture import MixtureNodeFlow
from sweep_service.dynamics.mean_field.nodes import is_smooth, teacher_nodes
from sweep_service.dynamics.mean_field.pairwise import MIN_SERIES_WIDTH, PairwiseFlow
from sweep_service.dynamics.mean_field.square import SquareFlow
from sweep_service.dynamics.options import RegimeOptions
from sweep_service.dynamics.regimes import REGIMES, choose_mean_field_form, choose_quadrature
from sweep_service.dynamics.sampling.compiled_sampling import MAX_COMPILED_SAMPLING_WIDTH
from sweep_service.dynamics.sampling.erf_lanes import MIN_WIDTH
from sweep_service.dynamics.sampling.variance import QMC_POINTS, Method, choose_method
from sweep_service.dynamics.solve import MAX_COMPILED_JACOBIAN_SIZE, MAX_DIFFERENCED_JACOBIAN_SIZE
from sweep_service.model.activations import SQUARE, Activation
from sweep_service.model.averages.closed_forms import ERF_CODE, MIXTURES, RELU_CODE, SQUARE_CODE, TANH_CODE
from sweep_service.model.averages.pair_prices import pair_price
from sweep_service.model.averages.two_point import has_closed_forms
from sweep_service.model.point import Point

DEFAULT_OPTIONS = RegimeOptions()
PER_CALL = 7e-4  # to build a flow
PER_SAMPLE = 8e-6  # to record a sample, beside its risk
PER_EVALUATION = 3e-6  # of the integrator, beside the flow, and for each component of the state
PER_COMPONENT = 3e-9
FINITE_D_EVALUATIONS = 3.0  # averages per evaluation, where the factor ‖x‖² needs a radial derivative
REFINEMENT_EVALUATIONS = 15  # of a mean-field flow, to check its quadrature
SELF_TERM_SECONDS = {ERF_CODE: 1.5e-8, TANH_CODE: 3.5e-7}  # of a neuron with itself, at the nodes of ξ
LU_SECONDS = 2.6e-11  # of a Jacobian, per n³
# Of a sampling term by quasi-Monte Carlo with QMC_POINTS: per student and per teacher, by their activation.
STUDENT_SECONDS = {ERF_CODE: 5.8e-5, RELU_CODE: 2.0e-5, TANH_CODE: 2.6e-5}
TEACHER_SECONDS = {ERF_CODE: 4.0e-5}
OTHER_STUDENT_SECONDS, OTHER_TEACHER_SECONDS = 1.1e-4, 1.2e-5
# The same for narrow students in compiled calls: per entry of the matrices, and per activation.
COMPILED_ENTRY_SECONDS = 1.75e-7
COMPILED_ACTIVATION_SECONDS = {ERF_CODE: 3.5e-6, RELU_CODE: 1e-7, TANH_CODE: 1.8e-6, SQUARE_CODE: 1e-7}
# Per pair of neurons and node of ξ, by the activation of the student; those of tanh and of users are series.
PAIR_NODE_SECONDS = {ERF_CODE: 0.4e-9, RELU_CODE: 0.75e-9}
SERIES_NODE_SECONDS, SERIES_NEURON_SECONDS = 2e-9, 1e-6
LEARNED_SHARE = 1.2  # of a sum with E[σσ], relative to one without
SQUARE_NEURON_SECONDS = 3e-8  # of a square student, whose pairs are summed in closed form
# Per evaluation and neuron squared, beside the averages: of second layers, and again if they are learned.
LAYER_SECONDS, LAYER_PAIR_SECONDS = 2e-6, 5e-9
SCHEDULE_SECONDS = 6e-6  # of u(t), per evaluation


@dataclass(frozen=True)
class Price:
    """The price of an integration; `work_class` names the formula, for its calibration."""

    work_class: str
    evaluation: float  # seconds of an evaluation of the flow
    sample: float  # seconds to record a sample
    jacobian: float  # seconds of a compiled Jacobian, with its decomposition; 0 if there is none
    size: int  # components of the state
    effort: Effort
    extra_evaluations: int = 0
    fluctuation_points: int = 0  # of the sampling term, where fluctuations are predicted
    smooth: bool = True  # whether the student's activation is, which makes fluctuations cheaper

    def seconds(self, last: float, samples: int) -> float:
        """Return the seconds of an integration to t = last that records `samples` samples."""
        evaluations, jacobians = self.effort(last)
        if not self.jacobian:  # by differences, whose evaluations cost as much as the others
            evaluations += jacobians * self.size
        seconds = self.seconds_of(evaluations, samples) + jacobians * self.jacobian
        if self.fluctuation_points:
            points = self.fluctuation_points
            if self.size > MAX_COVARIANCE_SIZE:  # the trajectory is integrated a second time
                seconds *= 2.0
            seconds += fluctuation_seconds(self.size, self.evaluation, points, last, samples, self.smooth)
        return seconds

    def seconds_of(self, evaluations: float, samples: int) -> float:
        """Return the seconds of an integration with this number of evaluations, without Jacobians."""
        step = self.evaluation + PER_EVALUATION + PER_COMPONENT * self.size
        return PER_CALL + (evaluations + self.extra_evaluations) * step + samples * self.sample


def seconds_to_ten(point: Point, regime: str) -> float:
    """Return the seconds of an integration to t = 10, by which `auto` compares regimes."""
    return price_regime(point, regime).seconds(10.0, 0)


def flow_class(point: Point, regime: str) -> str:
    """Return the class of work of a regime at a point: the form of its flow, and the student's activation."""
    return price_regime(point, regime).work_class


def price_regime(point: Point, regime: str, options: RegimeOptions = DEFAULT_OPTIONS) -> Price:
    """Return the price of a regime at a point, without drawing a start."""
    if REGIMES[regime].mean_field:
        return _price_mean_field(point, regime, options)
    return _price_overlaps(point, regime, options)


def _price_overlaps(point: Point, regime: str, options: RegimeOptions) -> Price:
    """The price of a flow of (M, Q), compiled or not, with or without the sampling term."""
    p, k, student, teacher = point.p, point.k, point.activation, point.teacher_activation
    own, mixed = pair_price(student, student), pair_price(student, teacher)
    keeps_norm = options.finite_d_factor or REGIMES[regime].is_map
    size = p * k + p * (p + 1) // 2 + _count_learned(point, p)
    averages = FINITE_D_EVALUATIONS if keeps_norm else 1.0
    pairs = p * p * own.slopes + p * k * mixed.slopes + own.call + mixed.call
    closed = has_closed_forms(student, teacher)
    narrow = p <= MAX_COMPILED_WIDTH and not keeps_norm
    compiled = narrow and (closed or not point.second_layer_rate)
    evaluation = 2e-6 + 8e-11 * p * p * (p + k) if compiled else 2.5e-5 + 3e-9 * p * p + 4e-11 * p**3
    has_jacobian = compiled and closed
    jacobian = size * (evaluation + pairs) + LU_SECONDS * size**3 if has_jacobian else 0.0
    form, precise = "numerical" if not closed else "small" if compiled else "wide", True
    evaluation += averages * pairs
    if REGIMES[regime].sampled:
        method = choose_method(student, teacher, p)
        evaluation += 6e-6 + averages * _price_sampling(method, point, options.qmc_points)
        form, precise = f"{form}-{method}", method != "qmc"
    limit = MAX_COMPILED_JACOBIAN_SIZE if has_jacobian else MAX_DIFFERENCED_JACOBIAN_SIZE
    # Not read where the law does not depend on it, so that points which differ in gamma have the same price.
    noise_rate = point.largest_noise_rate if REGIMES[regime].sampled and not precise else 0.0
    effort = predict_effort(
        student, teacher, noise_rate,
        width=p, implicit=precise and size <= limit, precise=precise, sampled=REGIMES[regime].sampled,
    )  # fmt: skip
    rough = is_rough(student, precise, REGIMES[regime].sampled)
    effort = extend_effort(effort, point, implicit=precise and size <= limit, rough=rough, precise=precise)
    if REGIMES[regime].is_map:
        effort = partial(_count_steps, point.delta_t)
    evaluation += _price_full_model(point)
    sample = PER_SAMPLE + 1e-5 + p * p * own.values + p * k * mixed.values + own.call
    price = Price(f"ode/{form}/{student.name}", evaluation, sample, jacobian, size, effort)
    if not (options.fluctuations and REGIMES[regime].has_fluctuations):
        return price
    return replace(
        price, work_class=f"{price.work_class}/fluctuations", fluctuation_points=options.qmc_points,
        smooth=has_smooth_slope(student),
    )  # fmt: skip


def _price_full_model(point: Point) -> float:
    """Seconds per evaluation of second layers, their learning, and a schedule."""
    if not point.non_default:
        return 0.0
    p, k, seconds = point.p, point.k, 0.0 if point.schedule.is_default else SCHEDULE_SECONDS
    if not point.has_unit_second_layers:
        seconds += LAYER_SECONDS + LAYER_PAIR_SECONDS * p * p
    if point.second_layer_rate:
        own = pair_price(point.activation, point.activation)
        mixed = pair_price(point.activation, point.teacher_activation)
        seconds += LAYER_SECONDS + LAYER_PAIR_SECONDS * p * p
        seconds += p * p * own.values + p * k * mixed.values + own.call + mixed.call
    return seconds


def _count_steps(delta_t: float, last: float) -> tuple[float, float]:
    return last / delta_t, 0.0


def _price_sampling(method: Method, point: Point, qmc_points: int) -> float:
    """Seconds of E[σ'σ'𝓔*²] by one of the methods of `variance`."""
    p, k, n = point.p, point.k, point.p + point.k
    student, teacher = point.activation.code, point.teacher_activation.code
    if method == "tilted":
        pairs = k * k * pair_price(point.teacher_activation, point.teacher_activation).values
        return p * (p + 1) / 2 * (2.4e-5 + pairs)
    if method == "square":
        return 1.9e-5 + 1e-10 * p**3 if teacher == SQUARE_CODE else 2.5e-5 + 1.65e-10 * p**3
    if method == "erf" and p >= MIN_WIDTH:
        return 4e-6 + 1.5e-9 * p * p * n + 1.65e-10 * p * p * n * n
    if method == "erf":
        return 1.5e-6 + 9.8e-9 * p * p * n + 1.15e-10 * p * p * n * n
    if method == "mixed":
        teachers = k * (k + 1) / 2 * pair_price(point.teacher_activation, point.teacher_activation).values
        mixed = p * k * pair_price(point.activation, point.teacher_activation).values
        return 1.5e-6 + 9.8e-9 * p * p * n + 1.15e-10 * p**4 + p * (p + 1) / 2 * (mixed + teachers)
    if p <= MAX_COMPILED_SAMPLING_WIDTH and student is not None and teacher is not None:
        sampled = COMPILED_ENTRY_SECONDS * (n * n + p * p)
        sampled += p * COMPILED_ACTIVATION_SECONDS[student] + k * COMPILED_ACTIVATION_SECONDS[teacher]
        return 1.2e-5 + sampled * qmc_points / QMC_POINTS
    students = p * STUDENT_SECONDS.get(student, OTHER_STUDENT_SECONDS)  # type: ignore[arg-type]
    teachers = k * TEACHER_SECONDS.get(teacher, OTHER_TEACHER_SECONDS)  # type: ignore[arg-type]
    sampled = 6e-5 + students + teachers + 1.9e-7 * p * p
    return 4e-5 + sampled * qmc_points / QMC_POINTS + 4e-9 * n**3


def _price_mean_field(point: Point, regime: str, options: RegimeOptions) -> Price:
    """The price of a flow of (M, q) in its cheapest form."""
    entry, k, student, teacher = REGIMES[regime], point.k, point.activation, point.teacher_activation
    p = options.particles if entry.particles else point.p
    D = None if entry.infinite_d else max(point.d - k, 0)
    form = choose_mean_field_form(student, teacher, p, k)
    nodes, precise, has_self_terms = 1, not entry.particles, options.self_terms and not entry.particles
    series, xi_nodes = choose_quadrature(student, D, 1e-9 if precise else 1e-6)
    if form.flow is SquareFlow:
        name, evaluation, risk = "square", 1.9e-5 + 3e-8 * p, 2e-5 + 2e-8 * p
    elif form.flow is PairwiseFlow and student is SQUARE:
        name, evaluation, risk = "square", 2.5e-5 + SQUARE_NEURON_SECONDS * p, 2e-5 + 2e-8 * p
    elif form.flow is PairwiseFlow:
        name = "pairs"
        evaluation, risk = _price_pairs(point, p, xi_nodes if D else 1)
    elif form.flow is MixtureNodeFlow:
        name, nodes = "mixture", count_teacher_nodes(student, teacher, k, form.order)
        orders = series + 1 if D else 1
        evaluation, risk = _price_mixture(student, p, nodes * orders, has_self_terms)
    else:
        name, nodes = "nodes", count_teacher_nodes(student, teacher, k, form.order)
        evaluation, risk = 1.2e-6 * p * nodes, 0.6e-6 * p * nodes * (2 if has_self_terms else 1)
    size = p * (k + 1) + _count_learned(point, p)
    implicit = precise and size <= MAX_DIFFERENCED_JACOBIAN_SIZE
    effort = predict_effort(
        student, teacher, 0.0, width=p, implicit=implicit, precise=precise, mean_field=True
    )
    effort = extend_effort(effort, point, implicit=implicit, rough=False, precise=precise)
    evaluation += 0.0 if point.schedule.is_default else SCHEDULE_SECONDS
    sample, work_class = PER_SAMPLE + risk, f"ode/{name}/{student.name}"
    has_quadrature = form.flow is not SquareFlow and not (form.flow is PairwiseFlow and D is None)
    refinement = REFINEMENT_EVALUATIONS if has_quadrature else 0
    return Price(work_class, evaluation, sample, 0.0, size, effort, refinement)


def _count_learned(point: Point, p: int) -> int:
    """The number of weights of the second layer that are part of the state."""
    return p if point.second_layer_rate else 0


def _price_pairs(point: Point, p: int, nodes: int) -> tuple[float, float]:
    """Seconds of an evaluation and of a risk as sums over pairs of neurons at each node of ξ."""
    student, k = point.activation, point.k
    own, mixed = pair_price(student, student), pair_price(student, point.teacher_activation)
    share, seconds = LEARNED_SHARE if point.second_layer_rate else 1.0, 2e-5 + mixed.call
    if student.code in PAIR_NODE_SECONDS:
        per_node, risk_node = (
            share * PAIR_NODE_SECONDS[student.code],
            LEARNED_SHARE * PAIR_NODE_SECONDS[student.code],
        )
    elif p >= MIN_SERIES_WIDTH and not student.kinks:
        per_node, risk_node = share * SERIES_NODE_SECONDS, LEARNED_SHARE * SERIES_NODE_SECONDS
        seconds += SERIES_NEURON_SECONDS * p
    else:
        per_node, risk_node = own.slopes + (own.values if share > 1.0 else 0.0), own.slopes + own.values
        seconds += nodes * own.call
    pairs = p * p * 2e-10 * k
    evaluation = seconds + pairs + nodes * p * p * per_node + p * k * mixed.slopes
    return evaluation, seconds + pairs + nodes * p * p * risk_node + p * k * mixed.values


def _price_mixture(student: Activation, p: int, nodes: int, has_self_terms: bool) -> tuple[float, float]:
    """Seconds of an evaluation and of a risk at nodes of λ* and orders of ξ, for erf and tanh."""
    assert student.code is not None
    functions = 1.35e-9 * nodes * len(MIXTURES[student.code][0]) * p
    self_terms = p * SELF_TERM_SECONDS[student.code] * int(has_self_terms)
    return 2e-5 + functions + self_terms, 1e-5 + 0.45 * functions + 1.5 * self_terms


@lru_cache(maxsize=256)
def count_teacher_nodes(student: Activation, teacher: Activation, k: int, order: int) -> int:
    """Return the number of nodes of λ* of orthonormal teachers."""
    _, weights = teacher_nodes(np.eye(k), order, student.odd, is_smooth(student, teacher))
    return int(np.count_nonzero(weights))
