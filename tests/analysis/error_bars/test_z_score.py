"""z-scores of curves with a known distance, and of exact SGD."""

import numpy as np
import pytest
import xarray as xr
from scipy import stats

import sweep_service as ss
from sweep_service.errors import InvalidInput
from sweep_service.status import Status
from tests.analysis.synthetic import add_fluctuations, assert_described, make_dataset

TIMES = np.concatenate([[0.0], np.geomspace(0.01, 10.0, 200)])
D = np.array([50, 500, 5000])
DELTA_T = 2.0 / (4 * D)  # of p = 4 and gamma = 2
SHIFT = 0.3
CLASSICAL_EXCESS = 0.004
SCORES = xr.DataArray([[1.5, -0.5], [0.25, -2.0]], dims=("seed", "repeat"))


def decay(time):
    return 0.1 * np.exp(-time)


def std(time):
    return 0.2 + 0.1 * np.exp(-time)


def sweep(scores=SCORES, **options):
    """SGD at its steps: R + δt shift + z √δt std with the given z for each run."""

    def curve(time, d, regime):
        if regime is None:
            step = 2.0 / (4 * d)
            return decay(np.round(time / step) * step) + step * SHIFT
        return decay(time) + (CLASSICAL_EXCESS if regime == "classical" else 0.0)

    dataset = make_dataset(
        curve, {"d": D}, p=4, gamma=2.0, times=TIMES, seeds=2, repeats=2,
        regimes=["classical", "high_dimensional"], **options,
    )  # fmt: skip
    dataset = add_fluctuations(dataset, std, SHIFT)
    step = dataset["delta_t"]
    taken = (dataset["time"] / step).round() * step
    moved = dataset["sgd_risk"] + scores * np.sqrt(step) * std(taken)
    return dataset.assign(sgd_risk=moved.transpose(*dataset["sgd_risk"].dims))


def late(array):
    return array.where(array["time"] >= 1.0, drop=True).squeeze(drop=True)


def test_runs_have_their_scores():
    result = sweep().sweep.z_score()
    # PCHIP errs by 5e-6 in the risk, see test_discrepancy, which is 1e-3 of the smallest std
    wanted = SCORES.expand_dims(d=D)
    np.testing.assert_allclose(late(result["z_score"]).isel(time=-1), wanted, atol=2e-3)
    np.testing.assert_allclose(result["z_score"].mean("time").squeeze(), wanted, atol=2e-3)
    np.testing.assert_allclose(result["largest"].squeeze(), abs(wanted), atol=2e-3)
    assert result["z_score"].dims[-3:] == ("seed", "repeat", "time")
    np.testing.assert_allclose(late(result["std"]).isel(time=-1, seed=0), 0.2 * np.sqrt(DELTA_T), rtol=1e-3)
    np.testing.assert_allclose(late(result["offset"]).isel(time=-1, seed=0), DELTA_T * SHIFT, rtol=1e-6)
    ratio = result["nonlinearity"].squeeze().isel(time=-1, seed=0)
    np.testing.assert_allclose(ratio, np.sqrt(DELTA_T) * SHIFT / 0.2, rtol=1e-3)
    assert_described(result)


def test_first_ten_steps_do_not_count():
    scores = sweep().sweep.z_score()["z_score"].sel(d=50).squeeze()  # δt = 0.01
    assert scores.where(scores["time"] < 0.099, drop=True).isnull().all()
    assert scores.where(scores["time"] > 0.1, drop=True).notnull().all()


def test_offset_is_what_separates_regimes():
    dataset = sweep()
    ours, classical = (dataset.sweep.z_score(name) for name in ("high_dimensional", "classical"))
    np.testing.assert_array_equal(ours["z_score"], classical["z_score"])
    difference = ours["offset"].drop_vars("regime") - classical["offset"]
    np.testing.assert_allclose(difference, CLASSICAL_EXCESS, rtol=1e-9)
    alone = dataset.sweep.z_score("classical", offset=False)["z_score"]
    expected = classical["z_score"] + classical["offset"] / classical["std"]
    np.testing.assert_allclose(alone, expected.transpose(*alone.dims), atol=1e-9)
    every = dataset.sweep.z_score("ode", offset=False)["z_score"]
    assert every.dims[-1] == "time"
    np.testing.assert_allclose(every.sel(regime="classical").transpose(*alone.dims), alone)


def test_discrepancy_in_standard_deviations():
    dataset = sweep()
    result = dataset.sweep.discrepancy(kind="z")
    runs = abs(dataset.sweep.z_score("ode", offset=False)["z_score"]).max("time")
    np.testing.assert_allclose(
        result["discrepancy"].squeeze(), runs.mean(["seed", "repeat"]).squeeze(), rtol=1e-12
    )
    assert "over_initial_risk" not in result
    assert (result["runs"] == 4).all()
    seeds = runs.mean("repeat")
    error = (seeds.std("seed", ddof=1) / np.sqrt(2)).transpose(*result["discrepancy"].dims)
    np.testing.assert_allclose(result["standard_error"], error, rtol=1e-9)
    along = dataset.sweep.discrepancy(b="high_dimensional", kind="z", over="time")["discrepancy"]
    assert along.sizes["time"] == len(TIMES) - 1


def test_runs_without_results_have_no_scores():
    status = np.array([[Status.DONE, Status.DIVERGED], [Status.PENDING, Status.DONE]])
    largest = sweep(status=status).sweep.z_score()["largest"].isel(d=0).squeeze()
    np.testing.assert_array_equal(largest.notnull(), status == Status.DONE)


def test_diverged_theories_have_no_scores():
    dataset = sweep()
    status = dataset["ode_status"].where(dataset["d"] != 50, Status.DIVERGED)
    largest = dataset.assign(ode_status=status).sweep.z_score()["largest"]
    assert largest.sel(d=50).isnull().all()
    assert largest.sel(d=[500, 5000]).notnull().all()


def test_wide_students_have_no_shift():
    dataset = sweep()
    dataset["ode_risk_shift"] = dataset["ode_risk_shift"] * np.nan
    assert dataset.sweep.z_score()["z_score"].isnull().all()
    assert dataset.sweep.z_score(offset=False)["largest"].notnull().all()


@pytest.mark.parametrize(
    ("dataset", "options", "match"),
    [
        (lambda ds: ds.drop_vars("ode_risk_std"), {}, "fluctuations: true"),
        (lambda ds: ds.sel(regime=["classical"]), {"regime": "classical"}, "keep that regime"),
        (lambda ds: ds, {"regime": "sgd"}, "must be a theory"),
        (lambda ds: ds, {"regime": "odd"}, "source"),
        (lambda ds: ds.drop_vars(["sgd_risk", "sgd_status"]), {}, "sgd"),
    ],
)
def test_invalid_calls_are_rejected(dataset, options, match):
    with pytest.raises(InvalidInput, match=match):
        dataset(sweep()).sweep.z_score(**options)


@pytest.mark.parametrize(("field", "options"), [("of", {"of": "overlaps"}), ("a", {"a": "classical"})])
def test_z_is_of_the_risk_of_sgd(field, options):
    with pytest.raises(InvalidInput) as error:
        sweep().sweep.discrepancy(**options, kind="z")
    assert error.value.field == field


def score_exact_sgd(runs):
    """z of runs from one start at δt = 0.00125, about both regimes."""
    point = {"d": 200, "p": 2, "k": 2, "gamma": 0.5, "noise": 1e-2, "init": {"kind": "informed"}}
    times = np.concatenate([[0.0], np.geomspace(0.05, 1.0, 12)])
    sgd = ss.simulate(point, times=times, repeat=range(runs), overlaps=False)
    theory = {"times": times, "overlaps": False}
    ours = ss.integrate(point, regime="high_dimensional", fluctuations=True, **theory)
    merged = sgd.sweep.merge(ours, ss.integrate(point, regime="classical", **theory))
    own = merged.sweep.z_score()["z_score"].isel(time=-1).squeeze()
    wrong = merged.sweep.z_score("classical", offset=False)["z_score"].isel(time=-1).squeeze()
    return own, wrong


@pytest.mark.parametrize("runs", [300, pytest.param(2000, marks=pytest.mark.slow)])
def test_scores_of_exact_sgd_are_standard_normal(runs):
    own, wrong = score_exact_sgd(runs)
    # the chance that the right law fails is 1 %, and the seeds are fixed
    assert stats.kstest(own, "norm").pvalue > 0.01
    assert stats.kstest(wrong, "norm").pvalue < 1e-6
