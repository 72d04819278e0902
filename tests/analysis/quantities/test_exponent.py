"""Known exponents are recovered within correct errors."""

import numpy as np
import pytest
import xarray as xr

from sweep_service.analysis.quantities import exponent as module
from sweep_service.analysis.quantities.exponent import exponent, fit_power_law
from sweep_service.errors import InvalidInput
from sweep_service.status import Status
from tests.analysis.synthetic import assert_described, make_dataset

D = [30, 100, 300, 1000]


def floors(power, d=D, **options):
    def curve(time, d):
        return 0.01 * d**power + 0.0 * time

    return make_dataset(curve, {"d": d}, **options)


def test_power_law_without_noise():
    result = exponent(floors(-0.75), "final_risk", "d").squeeze()
    assert float(result["exponent"]) == pytest.approx(-0.75, abs=1e-12)
    assert float(result["prefactor"]) == pytest.approx(0.01, rel=1e-10)
    assert int(result["points"]) == 4
    np.testing.assert_allclose(result["d"], D)
    np.testing.assert_allclose(result["mean"], 0.01 * np.array(D) ** -0.75)
    assert_described(result)


def test_slopes_of_starts_are_averaged():
    """By NumPy's regressions for each start, through the mean logarithms of its repeats."""
    dataset = floors(-0.5, seeds=3, repeats=4, scatter=0.2)
    dataset["sgd_risk"].values[:] = dataset["sgd_risk"].values[..., -1:]  # flat
    result = exponent(dataset, "final_risk", "d").squeeze()
    logarithms = np.log(dataset["sgd_risk"].isel(p=0, gamma=0, time=-1)).mean("repeat")  # (d, seed)
    fits = [np.polyfit(np.log(D), logarithms.isel(seed=seed), 1) for seed in range(3)]
    slopes, intercepts = np.transpose(fits)
    assert float(result["exponent"]) == pytest.approx(slopes.mean(), rel=1e-10)
    error = slopes.std(ddof=1) / np.sqrt(3)
    assert float(result["standard_error"]) == pytest.approx(error, rel=1e-10)
    assert float(result["high"]) == pytest.approx(slopes.mean() + 4.302653 * error, rel=1e-6)  # t of two
    assert float(result["prefactor"]) == pytest.approx(np.exp(intercepts.mean()), rel=1e-10)
    np.testing.assert_allclose(result["geometric_mean"], np.exp(logarithms.mean("seed")), rtol=1e-10)


def test_start_that_is_missing_somewhere_counts_less():
    """Start 0 has all four points; start 1 only the two in the middle, with a fifth of Σ(x - x̄)²."""
    x = np.array([1.0, 10.0, 100.0, 1000.0])
    table = np.stack([x**0.5, 2.0 * x**1.0], axis=1)
    table[[0, 3], 1] = np.nan
    fit = fit_power_law(x, table)
    share = 0.5 / (5.0 + 0.5)
    assert fit["exponent"] == pytest.approx((1 - share) * 0.5 + share * 1.0, rel=1e-12)
    assert fit["points"] == 4
    alone = table.copy()
    alone[:3, 1] = np.nan  # one start has a slope: the residuals of the means determine the error
    assert np.isfinite(fit_power_law(x, alone)["standard_error"])


def test_transients_give_a_warning_with_their_number():
    """R falls as 1/t at the two largest d: -1 is the law, but the slope is that of a transient."""

    def curve(time, d):
        return 1.0 / d + np.where(d > 200, 10.0 / np.maximum(time, 1e-3), 0.0)

    with pytest.warns(RuntimeWarning, match="2 of 4 points have not settled"):
        result = exponent(make_dataset(curve, {"d": D}), "final_risk", "d")
    assert result["unsettled"].values.tolist() == [2]
    assert "2 of 4 points" in result.attrs["warning"]
    assert float(result["exponent"].squeeze()) > -0.5
    assert exponent(floors(-1.0), "final_risk", "d")["unsettled"].values.tolist() == [0]


def test_one_run_has_the_error_of_its_residuals():
    many = np.geomspace(30, 3000, 40).astype(int)  # a few would have the long tails of Student's t
    dataset = floors(-0.5, many)
    noise = np.random.default_rng(0).standard_normal((40, 1, 1, 1, 1, 1))
    dataset["sgd_risk"] = dataset["sgd_risk"] * np.exp(0.2 * noise)
    result = exponent(dataset, "final_risk", "d").squeeze()
    assert 0 < float(result["standard_error"]) < 0.05
    assert abs(float(result["exponent"]) + 0.5) < 4 * float(result["standard_error"])


def test_discrepancy_has_exponent_one_half():
    """Deviations of size √δt with a random sign for each run."""

    def curve(time, d, regime):
        return 0.1 * np.exp(-time) + (0.0 if regime else 0.5 * np.sqrt(2.0 / (4 * d)) * (time > 0))

    dataset = make_dataset(
        curve, {"d": D}, p=4, gamma=2.0, seeds=8, regimes=["high_dimensional"], scatter=0.0
    )
    random = np.random.default_rng(0)
    noise = 1.0 + 0.1 * random.standard_normal(dataset["sgd_risk"].shape[:-1])
    moved = dataset["sgd_risk"] * 0 + curve(dataset["time"], 1.0, "x")
    dataset["sgd_risk"] = (moved + (dataset["sgd_risk"] - moved) * noise[..., None]).transpose(
        *dataset["sgd_risk"].dims
    )
    result = exponent(dataset, b="high_dimensional").squeeze()
    assert float(result["low"]) < 0.5 < float(result["high"])
    assert float(result["standard_error"]) < 0.05
    assert result.attrs == {"of": "discrepancy", "along": "delta_t"}


def test_exponent_of_the_overlap_discrepancy():
    """Entries deviate by δt^0.7, one of them by twice as much; the risk does not deviate."""
    dataset = make_dataset(
        lambda time: 0.1 * np.exp(-time), {"d": D}, p=4, gamma=2.0, regimes=["high_dimensional"]
    )
    entries = xr.DataArray([[1.0, -2.0], [0.5, 0.0]], dims=("student", "teacher"))
    for kind, size in (("sgd", dataset["delta_t"] ** 0.7), ("ode", 0.0)):
        dataset[f"{kind}_overlap_student_teacher"] = 0.0 * dataset[f"{kind}_risk"] + size * entries
    result = exponent(dataset, "overlap_discrepancy", b="high_dimensional").squeeze()
    assert float(result["exponent"]) == pytest.approx(0.7, abs=1e-9)
    assert float(result["prefactor"]) == pytest.approx(2.0, rel=1e-8)


def test_cases_of_a_product():
    def curve(time, d, noise):
        return 0.01 * d ** (-0.5 if noise else -1.0) + 0.0 * time

    dataset = make_dataset(curve, {"d": D, "noise": [0.0, 0.1]})
    result = exponent(dataset, "final_risk", "d")
    np.testing.assert_allclose(result["exponent"], [-1.0, -0.5])
    assert result["noise"].values.tolist() == [0.0, 0.1]


def test_cases_of_points():
    rows = [(d, kappa, delta) for kappa in (0.0, 0.5) for delta in (0.25, 0.5) for d in D]
    d, kappa, delta = (np.array(column) for column in zip(*rows, strict=True))
    d = np.append(d, 3000)  # one case has another value
    kappa, delta = np.append(kappa, 0.5), np.append(delta, 0.5)

    def curve(time, d, kappa, delta):
        return 0.01 * d ** -(kappa + delta) + 0.0 * time

    axes = {"d": d, "p": np.full(len(d), 4), "gamma": 1.0 / d, "kappa": kappa, "delta": delta}
    result = exponent(make_dataset(curve, axes, points=True), "final_risk", "d")
    np.testing.assert_allclose(result["exponent"], -(result["kappa"] + result["delta"]))
    assert result["points"].values.tolist() == [4, 4, 4, 5]
    assert np.isnan(result["mean"].values[:3, 4]).all()
    by_kappa = exponent(make_dataset(curve, axes, points=True), "final_risk", "d", by=["kappa"])
    assert by_kappa.sizes["case"] == 2


def test_too_few_values_give_nan():
    assert np.isnan(fit_power_law(np.array([2.0, 2.0]), np.ones((2, 3)))["exponent"])
    status = np.full((4, 1, 1, 1, 1), Status.PENDING)
    status[0] = Status.DONE
    result = exponent(floors(-0.5, status=status), "final_risk", "d").squeeze()
    assert np.isnan(float(result["exponent"]))
    assert int(result["points"]) == 1


def test_invalid_options_are_rejected():
    for options, field in (({"of": "odd"}, "of"), ({"along": "odd"}, "along"), ({"by": ["odd"]}, "along")):
        with pytest.raises(InvalidInput) as error:
            exponent(floors(-0.5), **{"of": "final_risk", "along": "d", **options})
        assert error.value.field == field
    for of, name in (
        ("discrepancy", "source"),
        ("final_risk", "a"),
        ("final_risk", "b"),
        ("final_risk", "odd"),
    ):
        with pytest.raises(
            InvalidInput, match=f"{name} = 'sgd': is not an option of {of}, which takes "
        ) as error:
            exponent(floors(-0.5), of, "d", **{name: "sgd"})
        assert error.value.field == name
    names = make_dataset(lambda time: 0.1, {"activation": np.array(["erf", "relu"])})
    with pytest.raises(InvalidInput, match="must be a number") as error:
        exponent(names, "final_risk", "activation")
    assert error.value.field == "along"
    assert set(module.QUANTITIES) == {"discrepancy", "overlap_discrepancy", "final_risk"}
