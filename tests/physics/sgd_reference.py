"""Shared by tests of simulators: runs measured in steps, SGD in plain NumPy, comparisons of laws."""

import numpy as np
from scipy import stats

import sweep_service as ss
from sweep_service.model.point import Point
from sweep_service.simulators.kernels.streams import CHUNK, INPUT, NOISE, chain_key, fill_normals
from sweep_service.simulators.simulate import stream_key

GAUSSIAN = {"kind": "gaussian", "orthonormal_teacher": True}
LOST = 1e300  # replaces values of diverged chains: larger than all others, and equal to each other


def run(point, steps, **settings):
    """`simulate`, recorded after given numbers of steps: risk, M and Q."""
    steps, settings = np.asarray(steps), {"observables": ["risk"], "overlaps": True, **settings}
    ds = ss.simulate(point, times=steps * Point.parse(point).delta_t, **settings)
    np.testing.assert_array_equal(ds.step, steps)
    return ds


def features(ds):
    """Risk, and entries of Q and M on and off the diagonal: (chain, time, feature)."""
    Q, M = ds.overlap_student.values, ds.overlap_student_teacher.values
    kept = [ds.risk.values, Q[..., 0, 0], Q[..., 0, -1], M[..., 0, 0], M[..., -1, -1]]
    stacked = np.stack(kept, axis=-1)
    return np.where(np.isfinite(stacked), stacked, LOST).reshape(-1, *stacked.shape[-2:])


def entries(ds):
    """All different entries of M and Q at the last time, (chain, entry)."""
    p = ds.sizes["student"]
    last, lower = ds.isel(time=-1), np.tril_indices(p)
    M, Q = last.overlap_student_teacher.values, last.overlap_student.values
    return np.hstack([M.reshape(len(M), -1), Q[:, lower[0], lower[1]]])


def smallest_p(first, second):
    """The smallest Kolmogorov-Smirnov p-value over all features of two samples (chain, ...)."""
    pairs = zip(first.reshape(len(first), -1).T, second.reshape(len(second), -1).T, strict=True)
    return min(stats.ks_2samp(a, b).pvalue for a, b in pairs)


def largest_z(first, second):
    """Largest z-score of the differences of all means and covariances of two samples (chain, entry)."""
    result = []
    for moments in (lambda x: x, _products):
        a, b = moments(first), moments(second)
        error = np.sqrt(a.var(axis=0) / len(a) + b.var(axis=0) / len(b))
        result.append(np.max(np.abs(a.mean(axis=0) - b.mean(axis=0)) / error))
    return max(result)


def _products(x):
    """Centred products, whose means are the covariances."""
    centred, (a, b) = x - x.mean(axis=0), np.tril_indices(x.shape[1])
    return centred[:, a] * centred[:, b]


def key_of(point, seed=0, repeat=0):
    return chain_key(stream_key(Point.parse(point), seed, repeat))


def normals(key, purpose, count, first=0):
    """Numbers first..first+count-1 of a stream."""
    chunk = first // CHUNK
    out = np.empty(-(-(first + count) // CHUNK) * CHUNK - chunk * CHUNK)
    fill_normals(key, purpose, chunk, 1.0, out)
    return out[first - chunk * CHUNK :][:count]


def plain_sgd(point, steps, seed=0, repeat=0):
    """M and Q after each of `steps`, from weights, the definition, and the inputs that S1 draws."""
    M, Q, _ = full_sgd(point, steps, seed, repeat)
    return M, Q


def full_sgd(point, steps, seed=0, repeat=0):
    """M, Q and a after each of `steps`, of the full model."""
    point = Point.parse(point)
    key, d, b = key_of(point, seed, repeat), point.d, point.batch
    start = point.start(seed)
    W, W_star = (np.sqrt(d) * np.pad(x, ((0, 0), (0, d - x.shape[1]))) for x in start.coordinates(d))
    a, a_star = (np.ones(point.p), np.ones(point.k)) if start.readout is None else start.readout
    X = normals(key, INPUT, steps[-1] * b * d).reshape(-1, b, d) / np.sqrt(d)
    z = normals(key, NOISE, steps[-1] * b).reshape(-1, b)
    result = []
    for step in range(steps[-1] + 1):
        if step in steps:
            result.append((W @ W_star.T / d, W @ W.T / d, a))
        if step < steps[-1]:
            x, fields = X[step], X[step] @ W.T
            y = point.teacher_activation.value(x @ W_star.T) @ a_star / point.k
            error = y + np.sqrt(point.noise) * z[step] - point.activation.value(fields) @ a / point.p
            rate = point.gamma / point.p * float(point.schedule.factor(step * point.delta_t))
            push = rate / b * error[:, None] * point.activation.slope(fields) * a
            learned = rate / (b * d) * point.second_layer_rate * error @ point.activation.value(fields)
            W, a = W + push.T @ x - rate * point.weight_decay / d * W, a + learned
    return tuple(np.array(values) for values in zip(*result, strict=True))
