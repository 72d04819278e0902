"""Quantities against plain loops over the runs of a real sweep, some of whose runs are missing."""

import numpy as np
import pytest

from sweep_service.status import Status
from tests.stored import compute_dataset

SPEC = {
    "axes": {"d": [6, 12], "p": 4, "gamma": [0.5, 60.0], "activation": "square", "regime": "classical"},
    "fixed": {"k": 2},
    "init": {"kind": "informed"},
    "seeds": {"init": 4, "repeat": 2},
    "time": {"max": 3.0, "samples": 20},
    "observables": ["risk", "overlaps", "largest_norm", "specialisation"],
}
TRIANGLE = {
    "axes": {"regime": "classical"},
    "triangle": {"delta_t": 0.01, "resolution": 3, "gamma_max": 2.0},
    "fixed": {"k": 2},
    "time": {"max": 0.1, "samples": 3},
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return compute_dataset(tmp_path_factory.mktemp("sweep"), SPEC).load()


@pytest.fixture(scope="module")
def dataset(whole):
    """Seed 0 is missing at d = 6, and a repeat of seed 1 at d = 12: failed runs have no values."""
    status = whole["sgd_status"].copy(deep=True)
    status.loc[{"d": 6, "seed": 0}] = Status.FAILED
    status.loc[{"d": 12, "seed": 1, "repeat": 1}] = Status.FAILED
    return whole.assign(sgd_status=status)


def iterate_points(dataset):
    for d in dataset["d"].values:
        for gamma in dataset["gamma"].values:
            yield (
                dataset.sel(d=d, gamma=gamma).squeeze("p", drop=True),
                {"d": d, "gamma": gamma},
            )


def iterate_runs(point):
    """The runs of a point that have ended."""
    for seed in point["seed"].values:
        for repeat in point["repeat"].values:
            run = point.sel(seed=seed, repeat=repeat)
            if int(run["sgd_status"]) in (Status.DONE, Status.DIVERGED):
                yield run


def test_bounds(dataset):
    result = dataset.sweep.bounded(K=2.0).squeeze("p", drop=True)
    shares = []
    for point, at in iterate_points(dataset):
        largest = []
        for run in iterate_runs(point):
            norms = np.einsum("tii->ti", run["sgd_overlap_student"].values)
            is_diverged = int(run["sgd_status"]) == Status.DIVERGED
            largest.append(np.inf if is_diverged else norms.max())
        actual = result.sel(at)
        np.testing.assert_allclose(actual["largest_norm"], max(largest), rtol=1e-12)
        assert float(actual["share"]) == pytest.approx(np.mean(np.array(largest) <= 2.0))
        assert bool(actual["bounded"]) == (max(largest) <= 2.0)
        assert int(actual["runs"]) == len(largest) < 8
        shares.append(float(actual["share"]))
    assert min(shares) < 1.0 == max(shares)


def test_labels(whole):
    """|M_jr|/√Q_jj above 0.9, at the last time with a value; P is the identity."""
    result = whole.sweep.labels(threshold=0.7).squeeze("p", drop=True)
    seen = set()
    for point, at in iterate_points(whole):
        for run in iterate_runs(point):
            M, Q = run["sgd_overlap_student_teacher"].values, run["sgd_overlap_student"].values
            last = np.flatnonzero(np.isfinite(M).all(axis=(1, 2)))[-1]
            for j in range(4):
                cosines = [M[last, j, r] / np.sqrt(Q[last, j, j]) for r in range(2)]
                nearest = int(np.argmax(np.abs(cosines)))
                label = nearest if abs(cosines[nearest]) > 0.7 else -1
                draw = {name: run[name].item() for name in ("seed", "repeat")}
                actual = result.sel(at | draw | {"student": j})
                assert int(actual["label"]) == label
                assert float(actual["cosine"]) == pytest.approx(cosines[nearest], rel=1e-9)
                seen.add(label)
    assert {-1} < seen


def test_coordinates_of_the_triangle(tmp_path):
    """Logarithms of d, p and 1/γ in units of their sum at the corners, by hand; each corner is a point."""
    dataset = compute_dataset(tmp_path, TRIANGLE)
    result = dataset.sweep.triangle("sgd_risk")
    d, p, gamma = (result[name].values for name in ("d", "p", "gamma"))
    np.testing.assert_allclose(gamma / (p * d), 0.01, rtol=1e-12)
    d_min, p_min, gamma_max = 3, 2, 2.0  # k + 1 and k
    total = np.log(gamma_max / (0.01 * d_min * p_min))
    np.testing.assert_allclose(result["u_d"], np.log(d / d_min) / total, atol=1e-12)
    np.testing.assert_allclose(result["u_p"], np.log(p / p_min) / total, atol=1e-12)
    np.testing.assert_allclose(result["u_gamma"], np.log(gamma_max / gamma) / total, atol=1e-12)
    np.testing.assert_allclose(result["u_d"] + result["u_p"] + result["u_gamma"], 1.0, rtol=1e-12)
    for name in ("u_d", "u_p", "u_gamma"):
        assert float(result[name].max()) > 0.95  # up to the rounding of d and p


def test_missing_seeds(dataset):
    """Means over the seeds that exist, weighted by their runs, and the scatter of their means."""
    final = dataset.sweep.final_risk().squeeze("p", drop=True)
    rates = dataset.sel(gamma=[0.5]).sweep.discrepancy(b="classical").squeeze(drop=True)
    times = dataset["time"].values
    for point, at in iterate_points(dataset.sel(gamma=[0.5])):
        by_seed = {}
        for run in iterate_runs(point):
            late = times >= times[-1] / 2
            knots = np.concatenate([[times[-1] / 2], times[late]])
            values = np.interp(knots, times, run["sgd_risk"].values)
            average = np.trapezoid(values, knots) / (times[-1] / 2)
            by_seed.setdefault(run["seed"].item(), []).append(average)
        runs = [value for values in by_seed.values() for value in values]
        actual = final.sel(at)
        assert float(actual["final_risk"]) == pytest.approx(np.mean(runs), rel=1e-12)
        sums = [np.sum(np.array(values) - np.mean(runs)) for values in by_seed.values()]
        seeds = len(by_seed)
        error = np.sqrt(np.sum(np.square(sums)) * seeds / (seeds - 1)) / len(runs)
        assert float(actual["standard_error"]) == pytest.approx(error, rel=1e-9)
        assert int(actual["runs"]) == len(runs) == (6 if at["d"] == 6 else 7)
        assert seeds == (3 if at["d"] == 6 else 4)
        assert int(rates["runs"].sel(d=at["d"])) == len(runs)
