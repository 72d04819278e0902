"""Each formula of docs/notations.md holds for the equations of its paper, in the paper's own variables."""

import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy import special, stats
from scipy.integrate import solve_ivp

import sweep_service as ss

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "notations.md").read_text("utf-8")


def read_formulas(author):
    """The column "from ours" of a section, by the symbol of the paper."""
    section = re.search(rf"^## {author}.*?\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)[1]
    return dict(re.findall(r"^\| ([^|]+) \| [^|]+ \| `([^|`]+)` \|$", section, re.MULTILINE))


def convert(author, symbol, **ours):
    return eval(read_formulas(author)[symbol], {"sqrt": np.sqrt}, ours)


def test_every_formula_is_evaluated_by_a_test():
    """All but those that are a single name, such as d for N."""
    text = Path(__file__).read_text("utf-8")
    for author in re.findall(r"^## (.*?)(?:,| and| \()", PAGE, re.MULTILINE):
        formulas = read_formulas(author)
        assert formulas
        for symbol, formula in formulas.items():
            if not formula.isidentifier():
                assert f'convert("{author}", "{symbol}"' in text, (author, symbol)


# The equations of Saad and Solla with second layers, as Goldt et al. write them, for g = erf(x/√2).


def three_point(C):
    """E[g'(u) v g(w)] for the covariance C of (u, v, w)."""
    L = (1 + C[0, 0]) * (1 + C[2, 2]) - C[0, 2] ** 2
    return 2 / np.pi * (C[1, 2] * (1 + C[0, 0]) - C[0, 1] * C[0, 2]) / ((1 + C[0, 0]) * np.sqrt(L))


def four_point(C):
    """E[g'(u) g'(v) g(w) g(z)] for the covariance C of (u, v, w, z)."""
    L4 = (1 + C[0, 0]) * (1 + C[1, 1]) - C[0, 1] ** 2
    L0 = (
        L4 * C[2, 3] - C[1, 2] * C[1, 3] * (1 + C[0, 0]) - C[0, 2] * C[0, 3] * (1 + C[1, 1])
        + C[0, 1] * (C[0, 2] * C[1, 3] + C[0, 3] * C[1, 2])
    )  # fmt: skip
    L1, L2 = (
        L4 * (1 + C[n, n]) - C[1, n] ** 2 * (1 + C[0, 0]) - C[0, n] ** 2 * (1 + C[1, 1])
        + 2 * C[0, 1] * C[0, n] * C[1, n]
        for n in (2, 3)
    )  # fmt: skip
    return 4 / np.pi**2 / np.sqrt(L4) * np.arcsin(L0 / np.sqrt(L1 * L2))


def committee_flow(R, Q, T, v, v_star, eta, sigma2):
    """dR/dα and dQ/dα for φ = Σ_k v_k g(λ_k) and steps of η v_k g'(λ_k) (y - φ) x/√N."""
    K, n = len(Q), len(Q) + len(T)
    omega, c = np.block([[Q, R], [R.T, T]]), np.append(-v, v_star)  # y - φ = Σ c g + noise
    mean = np.zeros((K, n))  # E[g'(λ_i) λ_b (y - φ)]
    for i, b, j in product(range(K), range(n), range(n)):
        mean[i, b] += c[j] * three_point(omega[np.ix_((i, b, j), (i, b, j))])
    square = np.zeros((K, K))  # E[g'(λ_i) g'(λ_j) (y - φ)²]
    for i, j in product(range(K), repeat=2):
        square[i, j] = sigma2 * 2 / np.pi / np.sqrt((1 + Q[i, i]) * (1 + Q[j, j]) - Q[i, j] ** 2)
        for a, b in product(range(n), repeat=2):
            square[i, j] += c[a] * c[b] * four_point(omega[np.ix_((i, j, a, b), (i, j, a, b))])
    drift = eta * v[:, None] * mean
    return drift[:, K:], drift[:, :K] + drift[:, :K].T + eta**2 * np.outer(v, v) * square


def generalisation_error(R, Q, T, v, v_star):
    omega, c = np.block([[Q, R], [R.T, T]]), np.append(-v, v_star)
    norms = np.sqrt(1 + np.diag(omega))
    return 0.5 * c @ (2 / np.pi * np.arcsin(omega / np.outer(norms, norms))) @ c


def solve_committee(start, v, v_star, eta, sigma2, alphas):
    """R, Q and ε_g at each α."""
    R, Q, T = start
    K, M = R.shape

    def split(y):
        return y[: K * M].reshape(K, M), y[K * M :].reshape(K, K)

    def field(_, y):
        return np.concatenate([part.ravel() for part in committee_flow(*split(y), T, v, v_star, eta, sigma2)])

    y0 = np.concatenate([R.ravel(), Q.ravel()])
    solution = solve_ivp(field, (0.0, alphas[-1]), y0, t_eval=alphas, rtol=1e-7, atol=1e-9, method="LSODA")
    states = [split(y) for y in solution.y.T]
    return [(R, Q, generalisation_error(R, Q, T, v, v_star)) for R, Q in states]


def explicit_start(p, k):
    rng = np.random.default_rng(p)
    M = np.eye(k)[np.arange(p) % k] * 0.5 + 0.1 * rng.standard_normal((p, k))
    return M, M @ M.T + 0.3 * np.eye(p), np.eye(k)


def integrate(point, start, times, regime="high_dimensional"):
    init = dict(zip(("M", "Q", "P"), start, strict=True))
    point = {"d": 1000, "k": start[0].shape[1], "p": len(start[0]), **point}
    return ss.integrate({**point, "init": {"kind": "overlaps", **init}}, regime=regime, times=times)


@pytest.mark.parametrize(("author", "p", "k"), [("Saad", 2, 2), ("Goldt", 3, 2)])
def test_equations_of_committees(author, p, k):
    """Saad and Solla: v = v* = 1, K = M. Goldt et al.: v = 1/K, v* = 1/M."""
    gamma, noise, start, times = 1.5, 0.01, explicit_start(p, k), np.array([0.0, 1.0, 8.0])
    ds = integrate({"gamma": gamma, "noise": noise}, start, times)
    ours = {"p": p, "gamma": gamma, "noise": noise, "t": times, "R": ds.risk.values}
    if author == "Saad":
        v, v_star = np.ones(p), np.ones(k)
        eta, alphas = convert("Saad", "η", **ours), convert("Saad", "α", **ours)
        sigma2, error = convert("Saad", "σ²", **ours), convert("Saad", "ε_g", **ours)
    else:
        v, v_star = np.full(p, 1 / p), np.full(k, 1 / k)
        eta, alphas = convert("Goldt", "η", **ours), convert("Goldt", "α", **ours)
        sigma2, error = convert("Goldt", "σ²", **ours), convert("Goldt", "ε_g", **ours)
    theirs = solve_committee(start, v, v_star, eta, sigma2, alphas)
    for index, (R, Q, expected) in enumerate(theirs):  # their tolerance of 1e-7, over about 100 steps
        np.testing.assert_allclose(ds.overlap_student_teacher[index], R, atol=3e-6)
        np.testing.assert_allclose(ds.overlap_student[index], Q, atol=3e-6)
        assert error[index] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("k", [2, 3, 5])
def test_symmetric_plateau_of_saad_and_solla(k):
    """R = 1/√(K(2K-1)), Q = 1/(2K-1), and the ε_g that they give."""
    start = np.full((k, k), 1 / np.sqrt(k * (2 * k - 1))), np.full((k, k), 1 / (2 * k - 1)), np.eye(k)
    ds = integrate({"gamma": 0.1}, start, [0.0, 1.0], "classical")
    error = convert("Saad", "ε_g", p=k, R=ds.risk.values)
    expected = k / np.pi * (np.pi / 6 - k * np.arcsin(1 / (2 * k)))
    np.testing.assert_allclose(error, expected, rtol=1e-9)  # a fixed point: rounding
    if k == 2:
        assert f"{ds.risk.values[0]:.4f}" == re.search(r"which is R = (\S+) for K = 2", PAGE)[1]


@pytest.mark.parametrize(("author", "p", "k"), [("Saad", 3, 3), ("Goldt", 4, 2)])
def test_noise_floors_of_committees(author, p, k):
    """ε_g = η σ² K/(2π√3) of sums, η σ²/(2π√3 K) of means, for small η."""
    gamma, noise, M = 0.01 * p, 1e-3, np.eye(k)[np.arange(p) % k]
    ds = integrate({"gamma": gamma, "noise": noise}, (M, M @ M.T, np.eye(k)), [0.0, 1000.0])
    ours = {"p": p, "gamma": gamma, "noise": noise, "R": ds.risk.values[-1]}
    if author == "Saad":
        eta, sigma2, error = (convert("Saad", symbol, **ours) for symbol in ("η", "σ²", "ε_g"))
        expected = eta * sigma2 * p / (2 * np.pi * np.sqrt(3))
    else:
        eta, sigma2, error = (convert("Goldt", symbol, **ours) for symbol in ("η", "σ²", "ε_g"))
        expected = eta * sigma2 / (2 * np.pi * np.sqrt(3) * p)
    assert error == pytest.approx(expected, rel=0.01)  # corrections of order γ/p = 0.01


def test_powers_of_veiga(tmp_path):
    """The scaling design realises p and γ, the unit of time and the strength of the noise terms."""
    d, kappa, delta = np.array([16, 256]), 0.5, 0.25
    ours = {"p0": 2, "gamma0": 3.0, "kappa": kappa, "delta": delta, "d": d}
    ds = ss.run({
        "scaling": {"p0": 2, "gamma0": 3.0}, "fixed": {"k": 2}, "time": {"max": 1.0, "samples": 2},
        "axes": {"d": d.tolist(), "kappa": kappa, "delta": delta, "regime": "classical"},
        "observables": ["risk"],
    }, data=tmp_path, workers=0, progress=False)  # fmt: skip
    np.testing.assert_allclose(ds.p, convert("Veiga", "p", **ours))
    np.testing.assert_allclose(ds.gamma, convert("Veiga", "γ", **ours))
    np.testing.assert_allclose(ds.gamma_over_p, convert("Veiga", "γ/p", **ours))
    step = convert("Veiga", "δt", **ours, t=ds.delta_t.values, nu=1)
    np.testing.assert_allclose(step, 1 / d ** (1 + kappa + delta))
    steps = ds.sgd_steps.values.ravel()  # to t = 1, rounded
    np.testing.assert_allclose(steps, convert("Veiga", "δt", **ours, t=1.0, nu=1) / step, atol=0.5)
    (ratio,) = re.findall(r"the ratio to ours is then `(.*?)`", PAGE)
    other = ds.delta_t.values * eval(ratio, {}, ours)
    np.testing.assert_allclose(other, 1 / d ** (1 + 2 * (kappa + delta)))


def hermite_rule(d, nodes=24):
    """Nodes and weights of N(0, I_d)."""
    x, w = np.polynomial.hermite_e.hermegauss(nodes)
    X = np.stack(np.meshgrid(*[x] * d), axis=-1).reshape(-1, d)
    return X, np.prod(np.stack(np.meshgrid(*[w / w.sum()] * d), axis=-1).reshape(-1, d), axis=1)


def erf(x):
    return special.erf(x / np.sqrt(2))


def erf_slope(x):
    return np.sqrt(2 / np.pi) * np.exp(-x * x / 2)


def test_particles_of_mei_montanari_and_nguyen():
    """dθ_i/ds = 2 E[(y - ŷ) σ'(θ_i·x) x] for inputs N(0, I_D), the flow that ρ follows for ξ = 1."""
    d, p, k, noise, times = 2, 3, 2, 0.05, np.array([0.0, 1.0, 6.0])
    rng = np.random.default_rng(0)
    theta, theta_star = 0.7 * rng.standard_normal((p, d)), np.eye(d)
    X, weights = hermite_rule(d)
    labels = erf(X @ theta_star.T).mean(1)

    def field(_, y):
        fields = X @ y.reshape(p, d).T
        error = labels - erf(fields).mean(1)
        return 2 * ((erf_slope(fields) * (weights * error)[:, None]).T @ X).ravel()

    init = {"kind": "weights", "W": np.sqrt(d) * theta, "W_star": np.sqrt(d) * theta_star}
    point = {"d": d, "p": p, "k": k, "gamma": 1e-3, "noise": noise, "init": init}
    ds = ss.integrate(point, regime="classical", times=times)
    ours = {"d": d, "p": p, "gamma": 1e-3, "noise": noise, "t": times, "R": ds.risk.values}
    clock = convert("Mei", "time", **ours)
    states = solve_ivp(field, (0, clock[-1]), theta.ravel(), t_eval=clock, rtol=1e-9, atol=1e-11).y.T
    risks = [weights @ (labels - erf(X @ y.reshape(p, d).T).mean(1)) ** 2 + noise for y in states]
    np.testing.assert_allclose(convert("Mei", "R_N", **ours), risks, rtol=1e-6)  # 24 nodes per dimension
    steps = times / (ours["gamma"] / (p * d))
    np.testing.assert_allclose(clock, steps * convert("Mei", "ε", **ours))


def one_step(theta, theta_star, X, label_noise, step):
    """θ_i += step (y - f) σ'(θ_i·X) X for networks that are means."""
    error = erf(theta_star @ X).mean() + label_noise - erf(theta @ X).mean()
    return theta + step * error * np.outer(erf_slope(theta @ X), X)


def our_step(W, W_star, x, label_noise, gamma):
    """w_i += (γ/p) σ'(λ_i) 𝓔 x, as in docs/theory.md."""
    error = erf(W_star @ x).mean() + label_noise - erf(W @ x).mean()
    return W + gamma / len(W) * error * np.outer(erf_slope(W @ x), x)


def test_single_steps():
    """One update on the same sample: 2ε of Mei et al., δ/p of Ben Arous et al., η v/√N of Goldt et al."""
    d, p, k, gamma = 7, 3, 2, 0.8
    rng = np.random.default_rng(1)
    W, W_star, X = (rng.standard_normal(shape) for shape in ((p, d), (k, d), d))
    new_W = our_step(W, W_star, X / np.sqrt(d), 0.1, gamma)
    ours = {"d": d, "p": p, "gamma": gamma}
    theta = one_step(
        convert("Mei", "θ_i", W=W, d=d), convert("Mei", "θ_i", W=W_star, d=d), X, 0.1,
        2 * convert("Mei", "ε", **ours),
    )  # fmt: skip
    np.testing.assert_allclose(theta, convert("Mei", "θ_i", W=new_W, d=d), rtol=1e-12)
    theta = one_step(
        convert("Ben Arous", "θ_i", W=W, d=d), convert("Ben Arous", "θ_i", W=W_star, d=d), X, 0.1,
        convert("Ben Arous", "δ", **ours) / p,
    )  # fmt: skip
    np.testing.assert_allclose(theta, convert("Ben Arous", "θ_i", W=new_W, d=d), rtol=1e-12)
    fields = W @ X / np.sqrt(d)
    error = erf(W_star @ X / np.sqrt(d)).mean() + 0.1 - erf(fields).mean()
    w = W + convert("Goldt", "η", **ours) / np.sqrt(d) / p * error * np.outer(erf_slope(fields), X)
    np.testing.assert_allclose(w, new_W, rtol=1e-12)


def test_sums_of_saad_and_solla():
    """J_i += (η/N) δ_i ξ for outputs that are sums, K = M, on the same sample."""
    d, p, gamma, noise = 7, 3, 0.8, 0.04
    rng = np.random.default_rng(2)
    W, W_star, xi, z = (rng.standard_normal(shape) for shape in ((p, d), (p, d), d, ()))
    J, B = convert("Saad", "J_i", W=W, d=d), convert("Saad", "J_i", W=W_star, d=d)
    sigma = np.sqrt(convert("Saad", "σ²", p=p, noise=noise))
    error = erf(B @ xi).sum() + sigma * z - erf(J @ xi).sum()
    J = J + convert("Saad", "η", gamma=gamma, p=p) / d * error * np.outer(erf_slope(J @ xi), xi)
    new_W = our_step(W, W_star, xi / np.sqrt(d), np.sqrt(noise) * z, gamma)
    np.testing.assert_allclose(J, convert("Saad", "J_i", W=new_W, d=d), rtol=1e-12)


def test_effective_dynamics_of_ben_arous():
    """du/ds of L = ½(f - y)² for δ = c/n in time ℓδ: the flow of a committee with v = 1/p, at α = s/c."""
    p, k, gamma, d, times = 2, 2, 1.2, 1000, np.array([0.0, 2.0, 10.0])
    start = explicit_start(p, k)
    ds = integrate({"gamma": gamma, "d": d}, start, times)
    ours = {"d": d, "p": p, "gamma": gamma, "t": times}
    c = d * convert("Ben Arous", "δ", **ours)
    theirs = solve_committee(
        start, np.full(p, 1 / p), np.full(k, 1 / k), c, 0.0, convert("Ben Arous", "t", **ours) / c
    )
    for index, (R, Q, _) in enumerate(theirs):
        np.testing.assert_allclose(ds.overlap_student_teacher[index], R, atol=3e-6)  # as above
        np.testing.assert_allclose(ds.overlap_student[index], Q, atol=3e-6)


def test_population_risk_and_steps_of_arnaboldi():
    """½ E(y - f)² over inputs and label noise, and the steps that `simulate` takes to t = 1."""
    d, p, k, gamma, noise = 5, 3, 2, 0.5, 0.3
    rng = np.random.default_rng(3)
    W, W_star = rng.standard_normal((p, d)), rng.standard_normal((k, d))
    init = {"kind": "weights", "W": W, "W_star": W_star}
    point = {"d": d, "p": p, "k": k, "gamma": gamma, "noise": noise, "init": init}
    ds = ss.simulate(point, times=[0.0, 1.0])
    x = rng.standard_normal((100_000, d)) / np.sqrt(d)
    y = erf(x @ W_star.T).mean(1) + np.sqrt(noise) * rng.standard_normal(len(x))
    losses = 0.5 * (y - erf(x @ W.T).mean(1)) ** 2
    ours = {"d": d, "p": p, "gamma": gamma, "noise": noise, "t": 1.0, "R": float(ds.risk[0])}
    error = stats.sem(losses)
    assert convert("Arnaboldi", "R", **ours) == pytest.approx(losses.mean(), abs=4 * error)
    assert convert("Arnaboldi", "ν", **ours) == pytest.approx(int(ds.attrs["steps"]), abs=0.5)
    assert convert("Arnaboldi", "δt", **ours) * convert("Arnaboldi", "ν", **ours) == pytest.approx(1.0)
