"""One-pass SGD as a careful physicist writes it: NumPy, double precision, one chain, step by step.

`tests/test_benchmarks.py` checks that it agrees with the package on the same inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

import numpy as np
from scipy.special import erf

from sweep_service.model.point import Point
from sweep_service.numerics.types import Array

Input = tuple[Array, float]  # x (d), and z of the label noise √Δ z

# σ and σ', by the names of the package
ACTIVATIONS: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "erf": (
        lambda x: erf(x / math.sqrt(2.0)),
        lambda x: math.sqrt(2.0 / math.pi) * np.exp(-0.5 * x * x),
    ),
    "square": (lambda x: x * x, lambda x: 2.0 * x),
    "relu": (lambda x: np.maximum(x, 0.0), lambda x: (x > 0.0).astype(float)),
    "tanh": (np.tanh, lambda x: 1.0 - np.tanh(x) ** 2),
}


def numpy_sgd(point: Point, W: Array, W_star: Array, inputs: Iterable[Input]) -> Array:
    """Change W (p, d) in place by one step for each input, and return it."""
    sigma, slope = ACTIVATIONS[point.activation.name]
    sigma_star, _ = ACTIVATIONS[point.teacher_activation.name]
    rate, root_noise = point.gamma / point.p, math.sqrt(point.noise)
    for x, z in inputs:
        lam = W @ x
        lam_star = W_star @ x
        # sums, because .mean() would double the time of a small step
        error = sigma_star(lam_star).sum() / point.k + root_noise * z - sigma(lam).sum() / point.p
        W += np.outer(rate * error * slope(lam), x)
    return W


def draw_inputs(d: int, steps: int, rng: np.random.Generator) -> Iterator[Input]:
    for _ in range(steps):
        yield rng.standard_normal(d) / math.sqrt(d), rng.standard_normal()


def start_weights(point: Point, seed: int = 0) -> tuple[Array, Array]:
    """W (p, d) and W* (k, d) at the start that the package draws."""
    students, teachers = point.start(seed).coordinates(point.d)
    W, W_star = np.zeros((point.p, point.d)), np.zeros((point.k, point.d))
    W[:, : students.shape[1]] = math.sqrt(point.d) * students
    W_star[:, : teachers.shape[1]] = math.sqrt(point.d) * teachers
    return W, W_star
