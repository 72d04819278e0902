"""One right-hand side of the mean field, O(p) against O(p²)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.baselines import pairwise_flow
from benchmarks.harness import Row, interleaved, relative_to_largest
from sweep_service.dynamics.mean_field import MeanFieldFlow, MeanFieldSystem, PairwiseFlow
from sweep_service.dynamics.mean_field_nodes import ErfNodeFlow
from sweep_service.dynamics.regimes import cheapest_flow
from sweep_service.dynamics.xi import Xi
from sweep_service.model.activations import ERF
from sweep_service.model.two_point import pairs

FLOOR = 300.0
PAIR_NODES = 12  # of ξ, what `cheapest_flow` gives to pairs at small D
REFERENCE_NODES = 32
DIMENSION = 100  # sets the scale of a start where D is infinite


def mean_field(quick: bool) -> Iterator[Row]:
    wide = 1000 if quick else 5000
    for p, k, floor in ((wide, 1, None if quick else FLOOR), (200 if quick else 1000, 2, None)):
        for regime, D in (("MF", 3), ("HDMF", None)):
            flow = node_flow(p, k, D)
            M, q = flow.start
            pairwise = PairwiseFlow(flow.system, M, q, PAIR_NODES)
            true = fused(flow, REFERENCE_NODES)
            error, coarse = (relative_to_largest(f, true) for f in (flow(flow.y0), pairwise(flow.y0)))
            ours, ours_pairs, plain = interleaved(
                lambda flow=flow: flow(flow.y0),
                lambda pairwise=pairwise: pairwise(pairwise.y0),
                lambda flow=flow: fused(flow, PAIR_NODES),
                repeats=2 if quick else 7,
                budget=5.0,
            )
            name = f"mean_field/{regime}-p{p}-k{k}"
            nodes = f"{len(pairwise.xi.nodes)} node{'s'[: len(pairwise.xi.nodes) - 1]} of ξ"
            order = f"ErfNodeFlow ({len(flow.weights)} nodes of λ*, {flow.kappa.size} orders)"
            yield Row(
                name, order, ours.seconds, f"PairwiseFlow ({nodes})", ours_pairs.seconds, error, coarse, floor,
                note=f"Errors are those of dy/dt against {REFERENCE_NODES} nodes of ξ.",
            )  # fmt: skip
            yield Row(
                f"{name}-loop", order, ours.seconds, f"a fused loop over pairs j < i ({nodes})", plain.seconds,
                error, relative_to_largest(plain.value, true), floor,
            )  # fmt: skip


def node_flow(p: int, k: int, D: int | None) -> ErfNodeFlow:
    """The O(p) flow of the package at a Gaussian start with P = I, built without any p by p matrix."""
    rng = np.random.default_rng(1)
    d = DIMENSION if D is None else k + D
    M = rng.standard_normal((p, k)) / np.sqrt(d)
    q = rng.chisquare(d - k, p) / d
    system = MeanFieldSystem(P=np.eye(k), pairs=pairs(ERF, ERF), student=ERF, teacher=ERF, D=D, noise=0.0)
    flow = cheapest_flow(system, M, q)
    assert isinstance(flow, ErfNodeFlow)
    return flow


def fused(flow: MeanFieldFlow, nodes: int) -> np.ndarray:
    """dy/dt at the start by the plain loop."""
    M, q = flow.state(flow.y0)
    xi = Xi.rule(flow.system.D, nodes)
    dM, dq = pairwise_flow(M, q, flow.system.P, flow.inverse, xi.nodes, xi.weights)
    return np.concatenate([dM.ravel(), dq])
