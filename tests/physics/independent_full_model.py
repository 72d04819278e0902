"""The full model in plain NumPy and SciPy, without a line of the package.

Second layers, batches, weight decay and schedules, with P = I. The flows for erf use the three- and
four-point functions of Saad and Solla, those for square exact cubature over the definitions.
"""

from typing import NamedTuple

import numpy as np
from scipy.integrate import solve_ivp

from tests.physics.independent import SIGMAS, xi_rule

NODES = 4  # per field: exact up to degree 7, and the sampling term of square has degree 6


class Setting(NamedTuple):
    gamma: float
    noise: float = 0.0
    teacher: tuple = (1.0, 1.0)  # its second layer
    rate: float = 0.0  # of the second layer
    decay: float = 0.0
    batch: int = 1
    factor: object = lambda t: 1.0  # of the rate, in units of the base rate


def overlaps(M, Q):
    return np.block([[Q, M], [M.T, np.eye(M.shape[1])]])


def readout(a, teacher):
    return np.concatenate([-np.asarray(a) / len(a), np.asarray(teacher) / len(teacher)])


# ---- erf


def two_point(omega):
    """E[σ(u) σ(v)]."""
    norms = 1.0 + np.diag(omega)
    return 2.0 / np.pi * np.arcsin(omega / np.sqrt(np.outer(norms, norms)))


def three_point(omega, p):
    """E[σ'(λ_i) λ_x σ(λ_y)] for students i."""
    norms = np.diag(omega)
    C11, C33 = 1.0 + norms[:p, None, None], 1.0 + norms[None, None, :]
    C12, C13, C23 = omega[:p, :, None], omega[:p, None, :], omega[None, :, :]
    return 2.0 / np.pi * (C23 * C11 - C12 * C13) / (C11 * np.sqrt(C11 * C33 - C13**2))


def four_point(omega, p):
    """E[σ'(λ_i) σ'(λ_j) σ(λ_x) σ(λ_y)] for students i and j."""
    n = len(omega)
    i, j, x, y = np.ogrid[:p, :p, :n, :n]
    ii, jj, ij = 1.0 + omega[i, i], 1.0 + omega[j, j], omega[i, j]
    L4 = ii * jj - ij**2

    def mixed(u, v):
        return (
            L4 * omega[u, v] - omega[j, u] * omega[j, v] * ii - omega[i, u] * omega[i, v] * jj
            + ij * (omega[i, u] * omega[j, v] + omega[i, v] * omega[j, u])
        )  # fmt: skip

    ratio = mixed(x, y) / np.sqrt((L4 + mixed(x, x)) * (L4 + mixed(y, y)))
    return 4.0 / np.pi**2 / np.sqrt(L4) * np.arcsin(np.clip(ratio, -1.0, 1.0))


def slopes(omega, p):
    """E[σ'(λ_i) σ'(λ_j)]."""
    Q = omega[:p, :p]
    norms = 1.0 + np.diag(Q)
    return 2.0 / np.pi / np.sqrt(np.outer(norms, norms) - Q**2)


def erf_risk(M, Q, a, teacher):
    c = readout(a, teacher)
    return 0.5 * c @ two_point(overlaps(M, Q)) @ c


def erf_moments(omega, a, setting):
    """E[g_i λ_x] with g_i = a_i σ'(λ_i) 𝓔, E[g_i g_j] and E[σ(λ_i) 𝓔]."""
    p, c = len(a), readout(a, setting.teacher)
    sampling = four_point(omega, p) @ c @ c + setting.noise * slopes(omega, p)
    pushes = a[:, None] * (three_point(omega, p) @ c)
    return pushes, np.outer(a, a) * sampling, two_point(omega)[:p] @ c


# ---- square


def square_moments(omega, a, setting):
    """The same for square, as sums over the nodes of a rule for as many normals as there are fields."""
    p, c = len(a), readout(a, setting.teacher)
    x, w = np.polynomial.hermite_e.hermegauss(NODES)
    normals = np.stack(np.meshgrid(*[x] * len(omega), indexing="ij"), axis=-1).reshape(-1, len(omega))
    weights = np.prod(
        np.stack(np.meshgrid(*[w / w.sum()] * len(omega), indexing="ij"), axis=-1), axis=-1
    ).ravel()
    values, vectors = np.linalg.eigh(omega)
    fields = normals @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
    error = fields**2 @ c
    slope = 2.0 * fields[:, :p] * a
    push = slope * error[:, None]
    sampling = (push.T * weights) @ push + setting.noise * (slope.T * weights) @ slope
    return (push.T * weights) @ fields, sampling, fields[:, :p].T ** 2 @ (weights * error)


def square_risk(M, Q, a, teacher):
    """½ E[𝓔²] with E[u² v²] = Q_uu Q_vv + 2 Q_uv²."""
    omega, c = overlaps(M, Q), readout(a, teacher)
    norms = np.diag(omega)
    return 0.5 * c @ (np.outer(norms, norms) + 2.0 * omega**2) @ c


# ---- flows of (M, Q, a)


def join(M, Q, a):
    return np.concatenate([M.ravel(), Q.ravel(), a])


def split(y, p, k):
    return y[: p * k].reshape(p, k), y[p * k : p * (k + p)].reshape(p, p), y[p * (k + p) :]


def sampled_flow(moments, M, Q, a, setting, times, stop=np.inf):
    """M, Q and a at these times on the flow in high dimension; ends where tr Q exceeds `stop`."""
    p, k = M.shape
    rate = setting.gamma / p

    def field(t, y):
        M, Q, a = split(y, p, k)
        u = setting.factor(t)
        pushes, sampling, learning = moments(overlaps(M, Q), a, setting)
        dQ = pushes[:, :p] + pushes[:, :p].T + rate * u / setting.batch * sampling - 2.0 * setting.decay * Q
        return u * join(pushes[:, p:] - setting.decay * M, dQ, setting.rate * learning)

    def excess(_, y):
        return np.trace(split(y, p, k)[1]) - stop

    excess.terminal = True
    start = join(M, Q, np.asarray(a, dtype=float))
    path = solve_ivp(
        field, (0.0, times[-1]), start, "LSODA", times, events=excess if np.isfinite(stop) else None,
        rtol=1e-9, atol=1e-12,
    )  # fmt: skip
    return [split(y, p, k) for y in path.y.T]


def erf_map(M, Q, a, setting, d, delta_t, steps):
    """M, Q and a after each step of the mean of SGD with a batch, with ‖x‖² in the sampling term."""
    p, rate, result = len(a), setting.gamma / len(a), []
    for _ in range(steps):
        omega, h = overlaps(M, Q), 1e-4
        pushes, sampling, learning = erf_moments(omega, a, setting)
        larger, smaller = (erf_moments(s * omega, a, setting)[1] for s in (1.0 + h, 1.0 - h))
        sampling = sampling + (larger - smaller) / (h * d)  # E[‖x‖² g] = E[g] + (2/d) ∂_s E_{sΩ}[g]
        squared = pushes @ np.linalg.solve(omega, pushes.T) / d
        second = sampling / setting.batch + (1.0 - 1.0 / setting.batch) * squared
        M, Q, a = (
            M + delta_t * pushes[:, p:],
            Q + delta_t * (pushes[:, :p] + pushes[:, :p].T + rate * second),
            a + setting.rate * delta_t * learning,
        )
        result.append((M, Q, a))
    return result


# ---- mean field


def erf_pair(a, b, c):
    """E[σσ], E[σ'σ'] and E[σ''(u) σ(v)]."""
    L = np.sqrt((1.0 + a) * (1.0 + b) - c * c)
    value = np.arcsin(c / np.sqrt((1.0 + a) * (1.0 + b)))
    return 2.0 / np.pi * value, 2.0 / np.pi / L, -2.0 / np.pi * c / ((1.0 + a) * L)


def relu_pair(a, b, c):
    norm = np.sqrt(a * b)
    cosine = np.clip(c / norm, -1.0, 1.0)
    sine, angle = np.sqrt(1.0 - cosine**2), np.pi - np.arccos(cosine)
    return (
        norm * (sine + cosine * angle) / (2.0 * np.pi),
        angle / (2.0 * np.pi),
        norm * sine / (2 * np.pi * a),
    )


PAIRS = {"erf": erf_pair, "relu": relu_pair}


def mean_field_moments(pair, M, q, a, teacher, D):
    """dM, dq, E[σ(λ_i) 𝓔] and the risk.

    Neurons overlap by M_i·M_j + √(q_i q_j) ξ, and with themselves by |M_i|² + q_i.
    """
    p, k = M.shape
    nodes, weights = xi_rule(D)
    q = np.maximum(q, 0.0)
    inside = M @ M.T
    norms = np.maximum(np.diag(inside) + q, 1e-12)
    ends = np.sqrt(np.outer(q, q))
    covariance = inside[:, :, None] + ends[:, :, None] * nodes
    covariance[np.arange(p), np.arange(p)] = norms[:, None]
    # A neuron overlaps with itself by q outside the teacher's span, which is √(q q) times 1.
    xi = np.broadcast_to(nodes, covariance.shape).copy()
    xi[np.arange(p), np.arange(p)] = 1.0
    value, slope, bend = pair(norms[:, None, None], norms[None, :, None], covariance)
    value_t, slope_t, bend_t = pair(norms[:, None], np.ones((1, k)), M)
    c, c_star = -a / p, np.asarray(teacher) / k
    A = (bend @ weights) @ c + bend_t @ c_star
    dM = a[:, None] * (A[:, None] * M + (slope @ weights * c) @ M + slope_t * c_star)
    dq = 2.0 * a * (q * A + (ends * ((slope * xi) @ weights)) @ c)
    learning = (value @ weights) @ c + value_t @ c_star
    own = pair(np.ones((k, k)), np.ones((k, k)), np.eye(k))[0]
    risk = 0.5 * (c @ (value @ weights) @ c + 2.0 * c @ value_t @ c_star + c_star @ own @ c_star)
    return dM, dq, learning, risk


def mean_field_risk(name, M, q, a, setting, D, times, longest=0.05):
    """R at these times on the mean-field flow, by Runge-Kutta steps of at most `longest`.

    Steps are fixed because neurons of relu may vanish, where no error estimate holds.
    """
    p, k = M.shape

    def moments(y):
        M, q, a = y[: p * k].reshape(p, k), y[p * k : p * k + p], y[p * k + p :]
        return mean_field_moments(PAIRS[name], M, q, a, setting.teacher, D)

    def field(y):
        dM, dq, learning, _ = moments(y)
        return np.concatenate([dM.ravel(), dq, setting.rate * learning])

    y, t, risks = np.concatenate([M.ravel(), q, a]), 0.0, []
    for time in times:
        count = int(np.ceil((time - t) / longest))
        for _ in range(count):
            h = (time - t) / count
            k1 = field(y)
            k2 = field(y + h / 2.0 * k1)
            k3 = field(y + h / 2.0 * k2)
            y = y + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + field(y + h * k3))
        t = time
        risks.append(moments(y)[3])
    return np.array(risks)


# ---- SGD


def embed(M, Q, d):
    """Weights of students and of teachers with these overlaps and P = I."""
    p, k = M.shape
    W_star = np.sqrt(d) * np.eye(k, d)
    W = np.zeros((p, d))
    W[:, :k] = M
    W[:, k : k + p] = np.linalg.cholesky(Q - M @ M.T)
    return np.sqrt(d) * W, W_star


def sgd(name, W, W_star, a, setting, steps, seed):
    """M, Q and a of chains after each of `steps`; W is (chain, p, d) or (p, d), a (chain, p) or (p,)."""
    sigma, rng = SIGMAS[name], np.random.default_rng(seed)
    W, a = W.copy(), np.array(a, dtype=float)
    (chains, p, d), k, b = W.shape, len(W_star), setting.batch
    teacher = np.asarray(setting.teacher)
    result = []
    for step in range(max(steps) + 1):
        if step in steps:
            result.append((W @ W_star.T / d, W @ W.transpose(0, 2, 1) / d, a.copy()))
        u = setting.factor(step * setting.gamma / (p * d))
        x = rng.standard_normal((chains, b, d)) / np.sqrt(d)
        fields = x @ W.transpose(0, 2, 1)
        labels = sigma.value(x @ W_star.T) @ teacher / k
        labels = labels + np.sqrt(setting.noise) * rng.standard_normal((chains, b))
        values = sigma.value(fields)
        error = labels - np.einsum("cbp,cp->cb", values, a) / p
        push = sigma.slope(fields) * a[:, None, :] * error[:, :, None]
        rate = setting.gamma * u / p
        W = (1.0 - rate * setting.decay / d) * W + rate / b * push.transpose(0, 2, 1) @ x
        a += setting.rate * rate / d / b * np.einsum("cbp,cb->cp", values, error)
    return result


def gaussian_starts(chains, p, k, d, rng):
    """Rows of W iid N(0, I), a iid N(0, 1), and W* orthogonal with norms √d."""
    return rng.standard_normal((chains, p, d)), rng.standard_normal((chains, p)), np.sqrt(d) * np.eye(k, d)


def small_start(p, d, seed=3):
    """Overlaps M and Q of p students in d dimensions with an orthonormal teacher of two, and a."""
    W, a, W_star = gaussian_starts(1, p, 2, d, np.random.default_rng(seed))
    return W[0] @ W_star.T / d, W[0] @ W[0].T / d, a[0]
