"""Whether a student can represent its teacher, so that the risk has no floor of its own.

With fixed second layers an odd σ needs groups of students w_i = ±w*_r with Σ ±a_i/p = a*_r/k; other students
are silent. relu is homogeneous and x² a quadratic form, so students need only the signs of a*. A student that
learns its second layer needs p >= k.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from sweep_service.model.activations import Activation
from sweep_service.model.point import Point
from sweep_service.model.second_layer import SecondLayer
from sweep_service.numerics.types import Array

FLOOR = "R has a floor independent of gamma"
MAX_SUMS = 20_000  # partial assignments of students to teachers that are compared; beyond, none is refused
ROUNDING = 1e-9  # of sums of second layers, relative to the largest target


def explain_floor(point: Point) -> str:
    """Why the student cannot represent the teacher; "" if it can, or if that is not known."""
    p, k = point.p, point.k
    if point.second_layer_rate > 0.0:
        return f"p = {p} < k = {k}, so the teacher is not realisable: {FLOOR}" if p < k else ""
    if _has_sign_rule(point.activation) and point.activation is point.teacher_activation:
        return _explain_signs(point)
    if point.has_unit_second_layers:
        reason = f"p = {p} is not a multiple of k = {k}, so the teacher is not evenly realisable"
        return f"{reason}: {FLOOR}" if p % k else ""
    if point.activation is not point.teacher_activation or not point.activation.odd:
        return ""
    return _explain_sums(point)


@lru_cache(maxsize=256)
def _has_sign_rule(act: Activation) -> bool:
    """Whether scaling w_i replaces any a_i of the same sign."""
    x = np.linspace(-2.0, 2.0, 9)
    values = act.value(x)
    homogeneous = any(np.allclose(act.value(3.0 * x), 3.0**degree * values) for degree in (1, 2))
    return homogeneous and not act.odd


def _explain_signs(point: Point) -> str:
    """Each a*_r needs a student whose a_i has its sign."""
    students = _count_signs(point.second_layer, point.p)
    teachers = _count_signs(point.teacher_second_layer, point.k)
    about = "about " if point.second_layer.is_random or point.teacher_second_layer.is_random else ""
    for sign, given, needed in zip(("positive", "negative"), students, teachers, strict=True):
        if given < needed:
            return (
                f"{about}{given:g} students and {needed:g} teachers have a {sign} weight in the second "
                f"layer, so the teacher is not realisable: {FLOOR}"
            )
    return ""


def _count_signs(layer: SecondLayer, size: int) -> tuple[float, float]:
    """Numbers of positive and negative weights; expected ones if they are random."""
    if layer.is_random:
        return 0.5 * size, 0.5 * size
    weights = np.array(layer.values) if layer.values else np.full(size, layer.scale)
    return float(np.sum(weights > 0.0)), float(np.sum(weights < 0.0))


def _explain_sums(point: Point) -> str:
    """Groups of students must have the weights of teachers, Σ ±a_i/p = a*_r/k."""
    layers = {"student": point.second_layer, "teacher": point.teacher_second_layer}
    for name, layer in layers.items():
        if layer.kind == "gaussian":
            reason = f"a gaussian second layer of the {name} is not a sum of others"
            return f"{reason}, so the teacher is not realisable by fixed ones: {FLOOR}"
    student, teacher = (
        np.array(layer.values) if layer.values else np.full(size, layer.scale)
        for layer, size in zip(layers.values(), (point.p, point.k), strict=True)
    )
    if _can_sum(np.abs(student) / point.p, np.abs(teacher) / point.k):
        return ""
    return (
        "no groups of students have second layers that sum to those of the teachers, Σ ±a_i/p = a*_r/k, "
        f"so the teacher is not realisable: {FLOOR}"
    )


def _can_sum(weights: Array, targets: Array) -> bool:
    """Whether disjoint groups of weights, with signs, sum to the targets; true if there are too many sums."""
    unit = ROUNDING * max(float(targets.max()), 1e-300)
    if np.all(weights == weights[0]):
        counts = targets / max(weights[0], 1e-300)
        whole = np.abs(counts - np.round(counts)) <= 1e-9 * np.maximum(counts, 1.0)
        return bool(np.all(whole) and np.round(counts).sum() <= len(weights))
    sums = {(0,) * len(targets)}
    for weight in (round(float(number)) for number in weights / unit):
        sums |= {
            (*row[:r], row[r] + sign * weight, *row[r + 1 :])
            for row in sums
            for r in range(len(targets))
            for sign in (1, -1)
        }
        if len(sums) > MAX_SUMS:
            return True
    goal = targets / unit
    return any(np.all(np.abs(np.array(row, dtype=float) - goal) <= len(weights) + 1) for row in sums)
