"""The start half_way: every student begins on the way to the first teacher."""

import numpy as np

from sweep_service.model.initial import InitKind


def draw(rng, shape, parameters, L):
    """Return the coordinates of the students, (p, k); `L` has those of the teachers, with P = L Lᵀ."""
    return np.repeat(parameters["share"] * L[:1], shape.p, axis=0)


HALF_WAY = InitKind(
    name="half_way",
    formula="w_i = share · w*_1",
    parameters={"share": (0.5, {"above": 0.0, "most": 1.0})},
    draw=draw,
    law=None,
    teacher="orthonormal",
    any_teacher=True,
    invariant=True,
    fixed_overlaps=True,
    least_d=lambda p, k: k,
)
