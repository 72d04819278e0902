"""Mean field of square students and teachers, in closed form."""

from __future__ import annotations

import numpy as np

from sweep_service.dynamics.mean_field.flow import Derivative, MeanFieldFlow, weigh
from sweep_service.numerics.jit import kernel
from sweep_service.numerics.types import Array


class SquareFlow(MeanFieldFlow):
    """σ = σ* = x²: the averages over ξ are moments, E ξ² = 1/D; O(p k²)."""

    @property
    def spread(self) -> float:
        """E ξ² = 1/D, or 0 if neurons have no orthogonal parts or D = ∞."""
        return 1.0 / self.system.D if self.system.D and not self.system.is_frozen else 0.0

    def derivative(self, M: Array, q: Array, a: Array | None) -> Derivative:
        P, p, k, teacher = self.system.P, self.p, self.k, self.system.teacher_second_layer
        Qd, own, spread = self.norms(M, q), float(self.system.self_terms), self.spread
        N = M @ self.inverse
        if a is not None and teacher is not None:
            da = np.empty(p) if self.system.is_learned else None
            return *weighted_squares(M, N, P, q, Qd, a, teacher / k, own, spread, da), da
        tau = np.trace(P) / k - Qd.sum() / p
        others = spread * (q.sum() - own * q)
        dM = 2.0 * tau * M + 4.0 * (M @ P / k - (N @ (M.T @ M) + own * q[:, None] * M) / p)
        # without self terms a neuron overlaps itself by o_ii + q_i ξ, of which only ξ² contributes to dq
        return dM, 4.0 * tau * q - 8.0 / p * q * (own * Qd + others), None

    def risk(self, y: Array) -> float:
        (M, q), a = self.unpack(y), self.second_layer(y)
        P, p, k, teacher = self.system.P, self.p, self.k, self.system.teacher_second_layer
        own, spread = float(self.system.self_terms), self.spread
        Qd = self.norms(M, q)
        inside, weighted_q = weigh(Qd - q, a), weigh(q, a)
        K = self.inverse @ (M.T @ weigh(M, a))
        tr_P, tr_Q = weigh(np.diag(P), teacher).sum(), weigh(Qd, a).sum()
        squares = weighted_q @ weighted_q
        tr_Q2 = np.sum(K * K.T) + own * (2.0 * inside @ weighted_q + squares)
        tr_Q2 += spread * (weighted_q.sum() ** 2 - own * squares)
        tr_P2 = np.sum(weigh(weigh(P * P, teacher).T, teacher))
        tr_M2 = np.sum(weigh(weigh(M * M, a).T, teacher))
        return 0.5 * (
            (tr_P**2 + 2.0 * tr_P2) / k**2
            - 2.0 * (tr_P * tr_Q + 2.0 * tr_M2) / (p * k)
            + (tr_Q**2 + 2.0 * tr_Q2) / p**2
        )


@kernel()
def weighted_squares(M, N, P, q, norms, a, share, own, spread, da):
    """dM_i/a_i, dq_i/a_i and da_i/ρ, unless `da` is None, for σ = x², with share = a*/k.

    `own` is 1 with self terms and 0 without them; `spread` is E ξ².
    """
    p, k = M.shape
    dM, dq, gram = np.empty((p, k)), np.empty(p), np.zeros((k, k))
    tau = total = 0.0
    for i in range(p):
        tau -= a[i] * norms[i] / p
        total += a[i] * q[i]
        for r in range(k):
            for t in range(k):
                gram[r, t] += a[i] * M[i, r] * M[i, t]
    for r in range(k):
        tau += share[r] * P[r, r]
    for i in range(p):
        itself, others = own * a[i], spread * (total - own * a[i] * q[i])
        squares = q[i] * (itself * (2.0 * norms[i] - q[i]) + others)  # Σ_j a_j E[C_ij²]
        target = 0.0
        for t in range(k):
            push = inside = 0.0
            for r in range(k):
                push += share[r] * M[i, r] * P[r, t]
                inside += N[i, r] * gram[r, t]
            dM[i, t] = 2.0 * tau * M[i, t] + 4.0 * (push - (inside + itself * q[i] * M[i, t]) / p)
            squares += inside * N[i, t]
            target += share[t] * M[i, t] * M[i, t]
        # without self terms a neuron overlaps itself by o_ii + q_i ξ, of which only ξ² contributes to dq
        dq[i] = 4.0 * tau * q[i] - 8.0 / p * q[i] * (itself * norms[i] + others)
        if da is not None:
            da[i] = tau * norms[i] + 2.0 * (target - squares / p)
    return dM, dq
