"""Numbers of seeds from known scatter."""

import numpy as np
import pytest

import sweep_service as ss
from sweep_service.errors import InvalidInput
from tests.analysis.synthetic import add_fluctuations, assert_described, make_dataset

TIMES = np.concatenate([[0.0], np.geomspace(0.01, 10.0, 40)])
MEAN = 0.1


def flat(time):
    return MEAN + 0.0 * time


def sweep(scatter=0.2, **options):
    options = {"seeds": 1, "regimes": ["high_dimensional"], "times": TIMES, "d": 50, "p": 1, **options}
    dataset = make_dataset(flat, {"gamma": [0.5, 2.0]}, scatter=scatter, **options)  # δt = 0.01 and 0.04
    return add_fluctuations(dataset, 0.2)


def theory(dataset):
    return dataset.drop_vars(["sgd_risk", "sgd_status"])


def test_prediction_needs_no_runs():
    result = theory(sweep()).sweep.seeds_needed(relative_error=0.1)
    # sd = 0.2 √δt = 0.02 and 0.04, which is 0.2 and 0.4 of the mean: (0.2/0.1)² = 4 and 16
    late = result.isel(time=slice(1, None))
    for place, wanted in enumerate((4, 16)):
        assert (late["predicted"].isel(gamma=place) == wanted).all()
    np.testing.assert_allclose(late["predicted_scatter"].squeeze().isel(time=0), [0.2, 0.4])
    assert (result["predicted"].isel(time=0) == 1).all()
    assert "measured" not in result
    assert_described(result)


def test_numbers_are_rounded_up():
    predicted = theory(sweep()).sweep.seeds_needed(relative_error=0.0999)["predicted"]
    assert predicted.isel(time=-1).squeeze().values.tolist() == [5, 17]


def test_starts_add_their_scatter_and_repeats_reduce_that_of_sgd():
    dataset = sweep(seeds=5, repeats=4)
    levels = MEAN * np.array([0.8, 0.9, 1.0, 1.1, 1.2])
    risk = 0.0 * dataset["ode_risk"] + np.reshape(levels, (5, 1))
    result = dataset.assign(ode_risk=risk).sweep.seeds_needed(relative_error=0.1)
    wanted = np.sqrt([0.2**2 / 4 + 0.025, 0.4**2 / 4 + 0.025])  # 0.025 is the variance of the levels
    np.testing.assert_allclose(result["predicted_scatter"].squeeze().isel(time=-1), wanted, rtol=1e-12)


def test_measured_numbers_hold_the_truth_in_their_intervals():
    """Lognormal runs whose relative standard deviation is √(exp(s²) - 1) at s = 0.2."""
    dataset = make_dataset(flat, {"d": np.arange(400) + 10}, seeds=10, scatter=0.2, times=TIMES[-6:])
    result = dataset.sweep.seeds_needed(relative_error=0.02)
    truth = (np.exp(0.2**2) - 1.0) / 0.02**2
    # of 2400 intervals 95 % hold the truth, with an error of 0.5 %, and up to 1.5 % less as the law has tails
    covered = (result["measured_low"] <= np.ceil(truth)) & (truth <= result["measured_high"])
    assert 0.92 < float(covered.mean()) < 0.97
    np.testing.assert_allclose(result["measured"].mean(), truth, rtol=0.03)  # 400 × 6 draws: an error of 1 %
    assert "predicted" not in result


def test_repeats_of_one_seed_are_draws():
    dataset = sweep(repeats=6)
    result = dataset.sweep.seeds_needed()
    runs = dataset["sgd_risk"].squeeze()
    scatter = runs.std("repeat", ddof=1) / runs.mean("repeat")
    np.testing.assert_allclose(result["measured_scatter"].squeeze(), scatter, rtol=1e-9)
    np.testing.assert_array_equal(result["measured"].squeeze(), np.ceil((scatter / 0.05) ** 2).clip(min=1))


def test_few_draws_measure_nothing():
    result = sweep(seeds=4).sweep.seeds_needed()
    assert result["measured"].isnull().all()
    assert result["measured_high"].isnull().all()
    assert sweep(seeds=5).sweep.seeds_needed()["measured"].notnull().all()


def test_final_risk():
    """Of constant curves: the sd of the average of perfectly correlated samples is that of a sample."""
    dataset = sweep(scatter=0.0, repeats=8)
    factors = 1.0 + 0.3 * np.linspace(-1.0, 1.0, 8)
    scaled = dataset["sgd_risk"] * np.reshape(factors, (8, 1))
    result = dataset.assign(sgd_risk=scaled).sweep.seeds_needed("final_risk", relative_error=0.1)
    assert "time" not in result.dims
    assert result["predicted"].squeeze().values.tolist() == [4, 16]
    np.testing.assert_allclose(result["measured_scatter"], factors.std(ddof=1), rtol=1e-9)


def test_other_observables_are_measured():
    dataset = sweep(observables={"specialisation": lambda time: 0.5 + 0.0 * time}, repeats=5)
    result = dataset.sweep.seeds_needed("specialisation")
    assert (result["measured"] == 1).all()
    assert "predicted" not in result


def test_shift_of_wide_students_is_left_out():
    dataset = theory(sweep())
    dataset["ode_risk_shift"] = dataset["ode_risk_shift"] * np.nan
    assert dataset.sweep.seeds_needed(relative_error=0.1)["predicted"].isel(time=-1).values.ravel()[0] == 4


@pytest.mark.parametrize(
    ("dataset", "options", "match"),
    [
        (lambda ds: theory(ds).drop_vars("ode_risk_std"), {}, "fluctuations: true"),
        (theory, {"value": "specialisation"}, "needs runs of SGD"),
        (lambda ds: ds, {"value": "odd"}, "observable"),
        (lambda ds: ds, {"relative_error": 0.0}, "relative_error"),
    ],
)
def test_invalid_calls_are_rejected(dataset, options, match):
    with pytest.raises(InvalidInput, match=match):
        dataset(sweep()).sweep.seeds_needed(**options)


def test_matrices_are_rejected():
    dataset = sweep(repeats=5)
    dataset["sgd_overlap_student_teacher"] = dataset["sgd_risk"].expand_dims(teacher=2, axis=-1)
    with pytest.raises(InvalidInput, match="without teacher"):
        dataset.sweep.seeds_needed("overlap_student_teacher")


def test_prediction_is_that_of_the_runs():
    """200 runs of exact SGD: their sd has an error of 5 %, the number of seeds of 10 %."""
    point = {"d": 200, "p": 2, "k": 2, "gamma": 0.5, "noise": 1e-2, "init": {"kind": "informed"}}
    times = [0.0, 0.2, 0.5, 1.0]
    ours = ss.integrate(point, times=times, regime="high_dimensional", fluctuations=True)
    before = ours.sweep.seeds_needed(relative_error=0.002)
    sgd = ss.simulate(point, times=times, repeat=range(200))
    after = sgd.sweep.merge(ours).sweep.seeds_needed(relative_error=0.002)
    np.testing.assert_array_equal(after["predicted"].squeeze(), before["predicted"])
    late = after.isel(time=slice(1, None))
    np.testing.assert_allclose(late["measured"] / late["predicted"], 1.0, atol=0.25)
    assert ((late["measured_low"] <= late["predicted"]) & (late["predicted"] <= late["measured_high"])).all()
