"""Exponents that were put in come out, within errors that are right."""

import numpy as np
import pytest
import xarray as xr

from sweep_service.analysis.quantities import exponent as module
from sweep_service.analysis.quantities.exponent import exponent, fitted
from sweep_service.errors import InvalidInput
from sweep_service.status import Status
from tests.analysis.synthetic import assert_described, made

D = [30, 100, 300, 1000]


def floors(power, d=D, **options):
    def curve(time, d):
        return 0.01 * d**power + 0.0 * time

    return made(curve, {"d": d}, **options)


def test_a_power_without_noise():
    found = exponent(floors(-0.75), "final_risk", "d").squeeze()
    assert float(found["exponent"]) == pytest.approx(-0.75, abs=1e-12)
    assert float(found["prefactor"]) == pytest.approx(0.01, rel=1e-10)
    assert int(found["points"]) == 4
    np.testing.assert_allclose(found["d"], D)
    np.testing.assert_allclose(found["mean"], 0.01 * np.array(D) ** -0.75)
    assert_described(found)


def test_errors_cover_the_truth():
    """Of 200 fits to noisy runs the 95 % interval misses about one in twenty: fewer than 30, 5 sd away."""
    random = np.random.default_rng(1)
    x, missed, errors, slopes = np.array(D, dtype=float), 0, [], []
    for seed in range(200):
        table = (x**0.5)[:, None] * np.exp(0.3 * random.standard_normal((4, 12)))
        fit = fitted(x, table, seed)
        missed += not fit["low"] <= 0.5 <= fit["high"]
        errors.append(fit["standard_error"])
        slopes.append(fit["exponent"])
    assert missed < 30
    assert np.mean(slopes) == pytest.approx(0.5, abs=4 * np.std(slopes) / np.sqrt(200))
    # a bootstrap of 12 runs is short of the truth by √(11/12), and weights are noisy
    assert np.mean(errors) == pytest.approx(np.std(slopes), rel=0.2)


def test_exact_points_weigh_more():
    random = np.random.default_rng(0)
    x = np.array([1.0, 10.0, 100.0])
    table = np.stack([
        1.0 + 1e-4 * random.standard_normal(50),
        np.exp(0.5 * random.standard_normal(50)) * 100.0,  # wrong by far, and says that it is not sure
        10.0 + 1e-3 * random.standard_normal(50),
    ])  # fmt: skip
    assert fitted(x, table)["exponent"] == pytest.approx(0.5, abs=1e-3)


def test_the_bootstrap_is_the_same_each_time():
    dataset = floors(-0.5, seeds=3, repeats=4, scatter=0.2)
    first, second = (exponent(dataset, "final_risk", "d") for _ in range(2))
    assert first.identical(second)
    assert float(first["standard_error"].squeeze()) > 0


def test_one_run_has_the_error_of_its_residuals():
    many = np.geomspace(30, 3000, 40).astype(int)  # few would have the long tails of Student's t
    found = exponent(floors(-0.5, many, scatter=0.2), "final_risk", "d").squeeze()
    assert 0 < float(found["standard_error"]) < 0.05
    assert abs(float(found["exponent"]) + 0.5) < 4 * float(found["standard_error"])


def test_half_of_the_discrepancy():
    """Deviations of size √δt with a sign of their own for each run."""

    def curve(time, d, regime):
        return 0.1 * np.exp(-time) + (0.0 if regime else 0.5 * np.sqrt(2.0 / (4 * d)) * (time > 0))

    dataset = made(curve, {"d": D}, p=4, gamma=2.0, seeds=8, regimes=["high_dimensional"], scatter=0.0)
    random = np.random.default_rng(0)
    noise = 1.0 + 0.1 * random.standard_normal(dataset["sgd_risk"].shape[:-1])
    moved = dataset["sgd_risk"] * 0 + curve(dataset["time"], 1.0, "x")
    dataset["sgd_risk"] = (moved + (dataset["sgd_risk"] - moved) * noise[..., None]).transpose(
        *dataset["sgd_risk"].dims
    )
    found = exponent(dataset, b="high_dimensional").squeeze()
    assert float(found["low"]) < 0.5 < float(found["high"])
    assert float(found["standard_error"]) < 0.05
    assert found.attrs == {"of": "discrepancy", "along": "delta_t"}


def test_the_power_of_the_largest_overlap():
    """Entries that are off by δt^0.7, in one of them twice as far; the risk is not off at all."""
    dataset = made(lambda time: 0.1 * np.exp(-time), {"d": D}, p=4, gamma=2.0, regimes=["high_dimensional"])
    entries = xr.DataArray([[1.0, -2.0], [0.5, 0.0]], dims=("student", "teacher"))
    for kind, size in (("sgd", dataset["delta_t"] ** 0.7), ("ode", 0.0)):
        dataset[f"{kind}_overlap_student_teacher"] = 0.0 * dataset[f"{kind}_risk"] + size * entries
    found = exponent(dataset, "overlap_discrepancy", b="high_dimensional").squeeze()
    assert float(found["exponent"]) == pytest.approx(0.7, abs=1e-9)
    assert float(found["prefactor"]) == pytest.approx(2.0, rel=1e-8)


def test_cases_of_a_product():
    def curve(time, d, noise):
        return 0.01 * d ** (-0.5 if noise else -1.0) + 0.0 * time

    dataset = made(curve, {"d": D, "noise": [0.0, 0.1]})
    found = exponent(dataset, "final_risk", "d")
    np.testing.assert_allclose(found["exponent"], [-1.0, -0.5])
    assert found["noise"].values.tolist() == [0.0, 0.1]


def test_cases_of_points():
    rows = [(d, kappa, delta) for kappa in (0.0, 0.5) for delta in (0.25, 0.5) for d in D]
    d, kappa, delta = (np.array(column) for column in zip(*rows, strict=True))
    d = np.append(d, 3000)  # one case has one more
    kappa, delta = np.append(kappa, 0.5), np.append(delta, 0.5)

    def curve(time, d, kappa, delta):
        return 0.01 * d ** -(kappa + delta) + 0.0 * time

    axes = {"d": d, "p": np.full(len(d), 4), "gamma": 1.0 / d, "kappa": kappa, "delta": delta}
    found = exponent(made(curve, axes, points=True), "final_risk", "d")
    np.testing.assert_allclose(found["exponent"], -(found["kappa"] + found["delta"]))
    assert found["points"].values.tolist() == [4, 4, 4, 5]
    assert np.isnan(found["mean"].values[:3, 4]).all()
    one = exponent(made(curve, axes, points=True), "final_risk", "d", by=["kappa"])
    assert one.sizes["case"] == 2


def test_what_cannot_be_fitted_is_nan():
    assert np.isnan(fitted(np.array([2.0, 2.0]), np.ones((2, 3)))["exponent"])
    status = np.full((4, 1, 1, 1, 1), Status.PENDING)
    status[0] = Status.DONE
    found = exponent(floors(-0.5, status=status), "final_risk", "d").squeeze()
    assert np.isnan(float(found["exponent"]))
    assert int(found["points"]) == 1


def test_what_is_refused():
    for words, field in (({"of": "odd"}, "of"), ({"along": "odd"}, "along"), ({"by": ["odd"]}, "along")):
        with pytest.raises(InvalidInput) as found:
            exponent(floors(-0.5), **{"of": "final_risk", "along": "d", **words})
        assert found.value.field == field
    for of, name in (
        ("discrepancy", "source"),
        ("final_risk", "a"),
        ("final_risk", "b"),
        ("final_risk", "odd"),
    ):
        with pytest.raises(
            InvalidInput, match=f"{name} = 'sgd': is no option of {of}, which takes "
        ) as found:
            exponent(floors(-0.5), of, "d", **{name: "sgd"})
        assert found.value.field == name
    words = made(lambda time: 0.1, {"activation": np.array(["erf", "relu"])})
    with pytest.raises(InvalidInput, match="must be a number") as found:
        exponent(words, "final_risk", "activation")
    assert found.value.field == "along"
    assert set(module.OF) == {"discrepancy", "overlap_discrepancy", "final_risk"}
