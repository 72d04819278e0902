"""One right-hand side of the mean field in O(p), against O(p²)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.baselines import half_pair_sums, pair_sums, pairwise_flow
from benchmarks.harness import Row, error_relative_to_largest, time_interleaved
from sweep_service.dynamics.integrate import refine_quadrature
from sweep_service.dynamics.mean_field.flow import MeanFieldFlow, MeanFieldSystem
from sweep_service.dynamics.mean_field.mixture import MixtureNodeFlow
from sweep_service.dynamics.mean_field.pairwise import PairwiseFlow
from sweep_service.dynamics.mean_field.xi import Xi
from sweep_service.dynamics.regimes import cheapest_flow
from sweep_service.model.activations import ERF, Activation
from sweep_service.model.averages.two_point import make_pairs

MIN_RATIO, MOST_ERROR = 300.0, 1e-6
PAIR_NODES = 12  # nodes of ξ, as `cheapest_flow` uses for pairs at small D
REFERENCE_NODES = 32
DIMENSION = 100  # sets the scale of a start if D is infinite


def mean_field(quick: bool) -> Iterator[Row]:
    sizes = ((300, 1, None), (1500, 2, None)) if quick else ((5000, 1, MIN_RATIO), (2000, 2, None))
    for p, k, floor in sizes:
        for regime, D in (("MF", 3), ("HDMF", None)):
            yield from compare(
                f"mean_field/{regime}-p{p}-k{k}", make_node_flow(p, k, D), floor, 1 if quick else 7
            )


def compare(name: str, flow: MixtureNodeFlow, floor: float | None, repeats: int) -> Iterator[Row]:
    """Compare with the loop as printed, and without bars with a tuned loop and the package's sum over pairs.

    A bar against our own sum over pairs would fall whenever that sum becomes faster.
    """
    y, nodes = flow.y0, len(Xi.rule(flow.system.D, PAIR_NODES).nodes)
    baselines = {
        "": (PairwiseFlow(flow.system, *flow.start, PAIR_NODES), "PairwiseFlow", None),
        "-loop": (partial(sum_over_pairs, flow, pair_sums), "a compiled loop over pairs", floor),
        "-half": (partial(sum_over_pairs, flow, half_pair_sums), "a compiled loop over half the pairs", None),
    }
    true = sum_over_pairs(flow, half_pair_sums, y, REFERENCE_NODES)
    error = error_relative_to_largest(flow(y), true)
    pair_sums(*(np.ones((1, 1)),) * 2, *(np.ones(1),) * 4)  # compile
    calls = [partial(call, y) for call, _, _ in baselines.values()]
    ours, *others = time_interleaved(partial(flow, y), *calls, repeats=repeats, budget=4.0)
    title = f"MixtureNodeFlow ({len(flow.weights)} nodes of λ*, orders to {2 * (flow.kappa.size - 1)})"
    for (suffix, (_, baseline, bar)), timing in zip(baselines.items(), others, strict=True):
        yield Row(
            name + suffix, title, ours.seconds, f"{baseline} ({nodes} × ξ)", timing.seconds,
            error, error_relative_to_largest(timing.value, true), bar, MOST_ERROR,
            note="" if suffix else f"Errors are those of dy/dt against {REFERENCE_NODES} nodes of ξ.",
        )  # fmt: skip


def make_node_flow(p: int, k: int, D: int | None) -> MixtureNodeFlow:
    """The O(p) flow of the package at a Gaussian start with P = I, built without any p by p matrix."""
    flow = cheapest_flow(make_system(ERF, k, D), *draw_start(p, k, D))
    flow, _ = refine_quadrature(flow, [flow.y0, flow.final_state_guess])  # as `integrate` does
    assert isinstance(flow, MixtureNodeFlow)
    return flow


def make_system(activation: Activation, k: int, D: int | None) -> MeanFieldSystem:
    pairs = make_pairs(activation, activation)
    return MeanFieldSystem(P=np.eye(k), pairs=pairs, student=activation, teacher=activation, D=D, noise=0.0)


def draw_start(p: int, k: int, D: int | None) -> tuple[np.ndarray, np.ndarray]:
    """M and q of Gaussian weights with P = I."""
    rng = np.random.default_rng(1)
    d = DIMENSION if D is None else k + D
    return rng.standard_normal((p, k)) / np.sqrt(d), rng.chisquare(d - k, p) / d


def sum_over_pairs(
    flow: MeanFieldFlow, sums: Callable[..., Any], y: Any, nodes: int = PAIR_NODES
) -> np.ndarray:
    """dy/dt by a plain loop over pairs."""
    M, q = flow.unpack(y)
    xi = Xi.rule(flow.system.D, nodes)
    dM, dq = pairwise_flow(M, q, flow.system.P, xi.nodes, xi.weights, sums)
    return np.concatenate([dM.ravel(), dq])
