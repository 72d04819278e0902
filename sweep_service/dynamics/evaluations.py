"""Predicted numbers of evaluations of a flow, as functions of time: fits to measurements.

Each law holds for one integrator and one kind of student. LSODA takes steps that grow with time and needs
Jacobians once it is implicit. DOP853 is limited by accuracy, N ~ √t, except where x² makes the flow stiff.
The kink of relu makes a sampled term rough, the more so the larger γ/p is. Learned second layers and weight
decay make a flow stiffer, which costs explicit steps most.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from sweep_service.dynamics.integrators import STIFF_TIME
from sweep_service.model.activations import Activation
from sweep_service.model.averages.closed_forms import SQUARE_CODE
from sweep_service.model.point import Point

Effort = Callable[[float], tuple[float, float]]  # time -> evaluations, Jacobians
UNCORRELATED_SHARE = 0.75  # of the evaluations, where student and teacher are uncorrelated
MAX_ROUGH_RATE = 1.2  # γ/p above which a rough sampling term needs no more steps
# Sampled relu students diverge for larger γ/p, at about this time over γ/p.
MIN_DIVERGING_RATE, DIVERGENCE_TIME = 2.5, 150.0

# Exponents of 1 + ρ by which the evaluations of LSODA and of explicit steps grow, and their growth by decay.
IMPLICIT_EXPONENT, EXPLICIT_EXPONENT = 0.17, 0.45
IMPLICIT_DECAY_FACTOR = 1.1
MIXED_SIGNS_FACTOR = 2.0  # of neurons with a kink and weights of both signs, which vanish or cross it
EVALUATIONS_PER_BREAK = 25.0  # to begin again where the rate is not smooth in time
SCHEDULE_NODES = 65


def predict_effort(
    student: Activation,
    teacher: Activation,
    gamma_over_p: float,
    *,
    width: int,
    implicit: bool,
    precise: bool,
    sampled: bool = False,
    mean_field: bool = False,
) -> Effort:
    """Choose the law of a flow.

    `implicit` means LSODA and otherwise DOP853; `precise` a relative tolerance of 1e-9 or less.
    """
    law = _choose_law(student, teacher, gamma_over_p, width, implicit, precise, sampled, mean_field)
    learns_nothing = student.odd and teacher.code == SQUARE_CODE  # only its norms decay
    return partial(_scale, UNCORRELATED_SHARE, law) if learns_nothing else law


def is_rough(student: Activation, precise: bool, sampled: bool) -> bool:
    """Whether a sampling term by points is rough, because of a kink."""
    return not precise and sampled and student.curvature is None


def extend_effort(law: Effort, point: Point, *, implicit: bool, rough: bool, precise: bool) -> Effort:
    """Extend a law at the defaults to the second layer, decay and schedule of a point.

    The steps of a rough sampling term are too short for the rates of second layers to limit them.
    """
    if not point.non_default:
        return law
    rate, decay = point.second_layer_rate, point["weight_decay"]
    factor = 1.0 if rough else (1.0 + rate) ** (IMPLICIT_EXPONENT if implicit else EXPLICIT_EXPONENT)
    if decay:
        factor *= IMPLICIT_DECAY_FACTOR if implicit else 1.0 + 0.95 * decay**0.6
    if precise and point.activation.curvature is None and not point.second_layer.is_constant:
        factor *= MIXED_SIGNS_FACTOR
    if point.schedule.is_default:
        return partial(_scale, factor, law)
    return partial(_scale, factor, partial(_follow, law, point, rough or law is _stiff))


def _follow(law: Effort, point: Point, is_limited: bool, last: float) -> tuple[float, float]:
    """A law along the schedule: a slower rate saves evaluations, but fewer than its share of the time.

    It saves all of it where the rate limits each step, by stability or by a rough sampling term.
    """
    nodes = last * np.linspace(0.0, 1.0, SCHEDULE_NODES) ** 2  # early times are closer
    effective = float(np.trapezoid(point.schedule.factor(nodes), nodes))
    evaluations, jacobians = law(effective if is_limited else math.sqrt(last * effective))
    breaks = sum(time < last for time in point.schedule.breaks)
    return evaluations + EVALUATIONS_PER_BREAK * breaks, jacobians


def _choose_law(
    student: Activation,
    teacher: Activation,
    gamma_over_p: float,
    width: int,
    implicit: bool,
    precise: bool,
    sampled: bool,
    mean_field: bool,
) -> Effort:
    is_square = student.code == SQUARE_CODE
    if implicit:
        if not is_square:
            return partial(_lsoda, mean_field)
        return partial(_square_lsoda, sampled, 1.0 if teacher.code == SQUARE_CODE else 0.65)
    if is_rough(student, precise, sampled):
        return partial(_rough, gamma_over_p, width)
    if is_square and teacher.code == SQUARE_CODE:
        return _stiff
    if is_square:
        return partial(_power_law, 105.0 if precise else 70.0, 0.42)
    if precise:
        factor = (60.0 if mean_field else 80.0) * (0.75 if student.curvature is None else 1.0)
        return partial(_power_law, factor, 0.52)
    if sampled:
        return partial(_power_law, 32.0 * (1.0 + gamma_over_p) ** -0.35, 0.55)
    return partial(_power_law, 35.0, 0.47)


def _scale(factor: float, law: Effort, last: float) -> tuple[float, float]:
    evaluations, jacobians = law(last)
    return factor * evaluations, factor * jacobians


def _power_law(factor: float, exponent: float, last: float) -> tuple[float, float]:
    return 25.0 + factor * last**exponent, 0.0


def _lsoda(mean_field: bool, last: float) -> tuple[float, float]:
    evaluations = 20.0 + 85.0 * min(last, 300.0) ** 0.43 + 500.0 * _decades(last, 300.0)
    if mean_field:  # stays explicit
        return 0.85 * evaluations, 0.0
    return evaluations, 33.0 * _decades(last, 180.0)


def _square_lsoda(sampled: bool, factor: float, last: float) -> tuple[float, float]:
    late, jacobians = (
        (700.0, 70.0 * _decades(last, 40.0)) if sampled else (250.0, 35.0 * _decades(last, 70.0))
    )
    evaluations = 20.0 + 200.0 * min(last, 100.0) ** 0.43 + late * _decades(last, 100.0)
    return factor * evaluations, factor * jacobians


def _stiff(last: float) -> tuple[float, float]:
    """Stability limits the steps, until the method changes to one that it does not limit."""
    return 250.0 + 19.0 * min(last, STIFF_TIME) + 3.0 * max(last - STIFF_TIME, 0.0), 0.0


def _rough(rate: float, width: int, last: float) -> tuple[float, float]:
    if rate > MIN_DIVERGING_RATE:
        last = min(last, DIVERGENCE_TIME / rate)
    return 60.0 + 812.0 * width**0.16 * min(rate, MAX_ROUGH_RATE) ** 0.635 * last**0.42, 0.0


def _decades(last: float, first: float) -> float:
    return max(0.0, math.log10(last / first)) if last > 0.0 else 0.0
