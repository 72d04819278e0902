"""Curves that collapse with known exponents and delays, and curves that do not."""

import numpy as np
import pytest
import xarray as xr

from sweep_service.analysis.quantities.collapse import KINDS, collapse
from sweep_service.analysis.quantities.collapse_quality import Curves, collapse_quality
from sweep_service.analysis.quantities.master_curve import MeanCurves
from sweep_service.errors import InvalidInput
from sweep_service.status import Status
from tests.analysis.synthetic import TIMES, assert_described, make_dataset

SIZES = [10, 30, 100, 300]
LINEAR = np.linspace(0.0, 100.0, 101)


def master(u):
    """A constant, then a power law, with a smooth bend."""
    return 0.1 / (1 + u) ** 1.5


def powers(t, d):
    """R d^0.4 is a function of t d^-0.7."""
    return d**-0.4 * master(t * d**-0.7 * 10)


def delayed(t, d):
    """A function of t - 8 ln d."""
    return 0.05 * (1.01 - np.tanh((t - 8 * np.log(d)) / 10))


def order(t, d):
    return 0.5 + 0.4 * np.tanh((t - 3 - 8 * np.log(d)) / 10)


def test_every_kind_is_described():
    dataset = make_dataset(powers, {"d": SIZES}, seeds=2, scatter=0.02)
    for kind in KINDS:
        result = collapse(dataset, kind)
        assert_described(result)


# ---- overlay


def test_equal_curves_collapse():
    dataset = make_dataset(lambda t: master(t), {"d": SIZES}, seeds=4, repeats=4, scatter=0.1)
    result = collapse(dataset)
    assert result.collapsed.item()
    # 62 times of three degrees of freedom: the median of χ²/3 is 0.79, its scatter 0.1; errors that are
    # estimated from 16 runs make it slightly larger.
    assert 0.5 < result.median_chi2.item() < 1.3
    np.testing.assert_allclose(np.median(result.expected), 0.1 / 4, rtol=0.1)
    np.testing.assert_allclose(np.median(result.spread), 0.1 / 4, rtol=0.25)  # of four: biased by 8 %
    assert result.largest_spread.item() == result.spread.max()
    np.testing.assert_allclose(result["mean"], master(TIMES), rtol=0.06)  # four times 0.1/sqrt(64)
    assert result.spread.dims == ("time",)


def test_difference_within_two_percent_needs_many_runs():
    def apart(t, d):
        return master(t) * (1 + 0.1 * (d == 30))

    assert not collapse(
        make_dataset(apart, {"d": SIZES})
    ).collapsed  # one run: a spread of 5 % without errors
    assert collapse(make_dataset(apart, {"d": SIZES}, seeds=4, scatter=0.5)).collapsed  # hidden by the errors
    result = collapse(make_dataset(apart, {"d": SIZES}, seeds=100, scatter=0.05))
    assert not result.collapsed
    assert result.median_chi2 > 2
    strict = make_dataset(
        lambda t, d: master(t) * (1 + 0.01 * (d == 30)), {"d": SIZES}, seeds=100, scatter=0.01
    )
    assert not collapse(strict).collapsed  # a spread of 0.5 %, but ten deviations
    assert collapse(strict, largest_chi2=100).collapsed


def test_verdict_says_what_could_have_been_seen():
    """A true spread of twice the detectable one is seen, half of it is not; see also `difference`."""
    for factor, verdict in ((0.0, "not distinguishable"), (0.4, "not distinguishable"), (2.0, "different")):
        # the standard deviation of (1, -1, 1, -1) is 1.15; errors of 10 %/√16 are 2.5 %
        sizes = np.array(SIZES)

        def apart(t, d, factor=factor, sizes=sizes):
            sign = 1.0 - 2.0 * (np.searchsorted(sizes, d) % 2)
            return master(t) * (1 + sign * factor * 0.025 / 1.155)

        result = collapse(make_dataset(apart, {"d": SIZES}, seeds=4, repeats=4, scatter=0.1, rng=2))
        assert result.verdict.item() == verdict
        assert result.collapsed.item() == (verdict != "different")
        assert result.detectable_spread.item() == pytest.approx(0.025, rel=0.25)
    precise = collapse(make_dataset(lambda t: master(t), {"d": SIZES}, seeds=4, repeats=4, scatter=0.01))
    assert precise.verdict.item() == "collapsed"
    assert precise.detectable_spread.item() == pytest.approx(0.0025, rel=0.25)
    assert collapse(make_dataset(master, {"d": [10]})).verdict.item() == "undecided"


def test_one_run_without_scatter():
    result = collapse(make_dataset(lambda t: master(t), {"d": SIZES}))
    assert result.collapsed
    assert np.isnan(result.median_chi2)
    assert result.largest_spread < 1e-12


def test_zero_errors_at_the_start_are_allowed():
    """Repeats from one shared start have no scatter at t = 0, and overlaps differ there by round-off."""
    dataset = make_dataset(lambda t: master(t), {"d": SIZES}, repeats=16, scatter=0.1)
    dataset.sgd_risk[..., 0] = 0.1
    dataset.sgd_risk[1, ..., 0] *= 1 + 1e-14
    result = collapse(dataset)
    assert result.collapsed
    assert result.chi2[0] < 1e-6


def test_missing_runs_and_a_missing_size():
    status = np.full((4, 1, 1, 8, 1), Status.DONE)
    status[0], status[1, ..., :7, 0] = Status.PENDING, Status.DIVERGED
    dataset = make_dataset(lambda t: master(t), {"d": SIZES}, seeds=8, scatter=0.02, status=status)
    result = collapse(dataset)
    assert result.collapsed
    assert np.isfinite(result.spread).all()
    # One run and twice eight; the single run is assumed to scatter like the others.
    late = np.sqrt(np.mean(result.expected.values[40:] ** 2))
    assert late == pytest.approx(0.02 * np.sqrt((1 + 2 / 8) / 3), rel=0.15)
    nothing = collapse(dataset.isel(d=[0]))
    assert not nothing.collapsed
    assert np.isnan(nothing.largest_spread)
    assert not collapse(dataset.isel(d=[2])).collapsed  # one curve cannot collapse


# ---- powers and delays


def test_known_exponents():
    dataset = make_dataset(powers, {"d": SIZES}, seeds=8, scatter=0.1)
    result = collapse(dataset, "power", replicates=30)
    assert abs(result.a - 0.7) < 4 * result.a_error
    assert abs(result.b - 0.4) < 4 * result.b_error
    assert 0 < result.a_error < 0.05
    assert 0 < result.b_error < 0.05
    assert 0.3 < result.quality < 2.0
    assert result.scaled_risk.dims == ("d", "time")
    np.testing.assert_allclose(result.scaled_time[0], TIMES[1:] * 10.0 ** -float(result.a))
    at = np.array(result.scaled_time), np.array(result.scaled_risk)
    np.testing.assert_allclose(at[1], master(10 * at[0]), rtol=0.4)  # four times 0.1/sqrt(8), and a, b
    plain = collapse(make_dataset(powers, {"d": SIZES}), "power")  # one run without scatter
    assert plain.a.item() == pytest.approx(0.7, abs=0.01)  # lines between samples of a curve
    assert plain.b.item() == pytest.approx(0.4, abs=0.01)
    assert np.isnan(plain.a_error)
    assert plain.quality < 0.1


def test_errors_of_exponents_are_their_scatter():
    result = [
        collapse(make_dataset(powers, {"d": SIZES}, seeds=8, scatter=0.1, rng=rng), "power", replicates=10)
        for rng in range(8)
    ]
    for name in ("a", "b"):
        scatter = np.std([fit[name].item() for fit in result], ddof=1)
        stated = np.sqrt(np.mean([fit[f"{name}_error"].item() ** 2 for fit in result]))
        assert 0.5 < stated / scatter < 2.0  # eight values: uncertain by 27 %


def test_different_shapes_do_not_collapse():
    def shapes(t, d):
        return 0.1 / (1 + t) ** (0.5 + 0.5 * np.log10(d))

    assert collapse(make_dataset(shapes, {"d": SIZES}, seeds=8, scatter=0.02), "power").quality > 5


def test_known_delay():
    dataset = make_dataset(
        delayed, {"d": SIZES}, seeds=8, scatter=0.1, times=LINEAR, observables={"specialisation": order}
    )
    result = collapse(dataset, "logshift")
    assert abs(result.b - 8.0) < 4 * result.b_error
    assert 0 < result.b_error < 0.5
    assert 0.3 < result.quality < 2.0
    # interpolated in ln t between samples one apart, where the curve is linear in t: below 0.1
    assert result.delay_b.item() == pytest.approx(8.0, abs=0.05)
    assert result.delay_a.item() == pytest.approx(3.0, abs=0.2)
    np.testing.assert_allclose(result.scaled_time[0], LINEAR[1:] - result.b.item() * np.log(10), rtol=1e-12)


LOGARITHMIC = np.concatenate([[0.0], np.geomspace(5e-5, 5.0, 100)])


def escaping(seeds, times=LOGARITHMIC):
    """Phase retrieval at p = k = 1: m² grows as m0² e^{8t} from m0² = z²/d, and saturates."""
    sizes = [10, 100, 1000, 10_000, 100_000]
    dataset = make_dataset(
        lambda t: 1.0, {"d": sizes}, seeds=seeds, times=times, observables={"specialisation": lambda t: 0.0}
    )
    start = np.random.default_rng(0).standard_normal((5, 1, 1, seeds, 1, 1)) ** 2
    start = start / np.reshape(sizes, (5, 1, 1, 1, 1, 1))
    squared_cosine = start / (start + np.exp(-8.0 * times))
    return dataset.assign(
        sgd_risk=(dataset.sgd_risk.dims, 1.0 - squared_cosine),
        sgd_specialisation=(dataset.sgd_risk.dims, np.sqrt(squared_cosine)),
    )


@pytest.mark.parametrize("seeds", [8, 24])
def test_delay_of_phase_retrieval_on_logarithmic_times(seeds):
    """1/8 for each e-fold of d. Most samples are early, where a shift leaves nothing to compare."""
    result = collapse(escaping(seeds), "logshift", replicates=20)
    for name in ("b", "delay_b"):
        assert result[f"{name}_low"] < 0.125 < result[f"{name}_high"]
        assert 0.002 < result[f"{name}_error"] < 0.03
    assert (result.method == "curves") == (result.reason == "")
    any_quality = collapse(escaping(seeds), "logshift", replicates=20, largest_quality=np.inf)
    assert any_quality.method.item() == "curves"
    assert any_quality.b.item() == pytest.approx(0.125, abs=4 * any_quality.b_error.item())


def test_failed_fit_has_a_reason():
    """Curves of other shapes are no shift of one another."""

    def shapes(t, d):
        return 0.1 / (1 + t) ** (0.5 + 0.5 * np.log10(d))

    dataset = make_dataset(shapes, {"d": SIZES}, times=LINEAR, seeds=4, scatter=0.01)
    result = collapse(dataset, "logshift")
    assert result.reason.item() != ""
    assert result.method.item() == ""
    for name in ("b", "b_error", "b_low", "b_high", "scaled_time"):
        assert np.isnan(result[name]).all()
    assert result.quality > 5
    at_end = collapse(make_dataset(powers, {"d": SIZES}, seeds=2), "power", reach=0.3)
    assert "end of the range" in at_end.reason.item()
    assert np.isnan(at_end.a)


def test_delays_of_starts_are_averaged_and_need_two_sizes():
    """Every start has a line of its own, through equally weighted times."""
    dataset = make_dataset(
        delayed, {"d": SIZES}, seeds=4, times=LINEAR, observables={"specialisation": order}
    )
    shifts = np.zeros((4, 4))
    shifts[1] = [0.0, 4.0, 8.0, 12.0]  # the times at d = 30 scatter
    for at, d in enumerate(SIZES):
        for seed in range(4):
            dataset.sgd_specialisation.loc[{"d": d, "seed": seed}] = order(LINEAR - shifts[at, seed], d)
    result = collapse(dataset, "logshift")
    x = np.log(SIZES)
    slopes = [8.0 + np.polyfit(x, shifts[:, seed], 1)[0] for seed in range(4)]
    assert result.delay_b.item() == pytest.approx(np.mean(slopes), abs=0.05)
    error = np.std(slopes, ddof=1) / 2.0
    assert result.delay_b_error.item() == pytest.approx(error, rel=0.05)
    assert result.delay_b_high.item() == pytest.approx(result.delay_b.item() + 3.182 * error, abs=0.05)
    none = collapse(dataset.isel(time=slice(0, 20)), "logshift")  # before any run specialises
    assert np.isnan(none.delay_b)


def test_points_sources_and_pending_sizes():
    axes = {"d": [300, 10, 100, 30], "p": [2, 4, 2, 4], "gamma": [0.1, 0.2, 0.3, 0.4]}
    dataset = make_dataset(powers, axes, points=True, regimes=("classical",))
    for source in ("sgd", "ode", "classical"):
        result = collapse(dataset, "power", source=source)
        assert result.a.item() == pytest.approx(0.7, abs=0.01)
        assert result.d.values.tolist() == SIZES
    assert not collapse(dataset).collapsed
    dataset.sgd_status[1] = Status.PENDING
    assert collapse(dataset, "power").a.item() == pytest.approx(0.7, abs=0.01)
    dataset.sgd_status[:] = Status.PENDING
    assert np.isnan(collapse(dataset, "power").a)


def test_quality_by_hand():
    """Two curves, y = x and y = x + 1, with errors of one: half-way between samples of the other curve, the
    line through the two neighbours is exact and has the variance ½, so each term is 1/1.5."""
    x = np.arange(4.0)
    y, error = np.stack([x, x + 1.0]), np.ones((2, 4))
    size = np.array([0.0, 0.5])  # x - size: the second curve at -0.5 … 2.5, where y = x + 1.5
    inside = 3 + 3  # of eight points
    curves = Curves(x, y, error, np.ones(4), size)
    assert collapse_quality(curves, 1.0, 0.0) == pytest.approx(inside * 1.5**2 / 1.5 / inside)
    assert collapse_quality(curves, 20.0, 0.0) == np.inf  # they do not overlap


@pytest.mark.parametrize("repeats", [1, 3])
def test_replicates_scatter_like_the_mean_curves(repeats):
    """Exactly: the signs of any two draws are uncorrelated. Repeats of a seed are not draws of their own."""
    status = np.full((2, 1, 1, 5, repeats), Status.DONE)
    status[1, ..., 2, 0] = Status.PENDING
    dataset = make_dataset(powers, {"d": [10, 30]}, seeds=5, repeats=repeats, scatter=0.2, status=status)
    curves = MeanCurves(dataset.isel(p=0, gamma=0), "d", "sgd", 1e-9)
    replicates = np.array(list(curves.replicate(8)))
    np.testing.assert_allclose(replicates.mean(axis=0), curves.y, rtol=1e-12)
    np.testing.assert_allclose(replicates.std(axis=0), curves.error, rtol=1e-12)
    assert len(list(curves.replicate(2))) == 8  # more than draws


# ---- invalid input


def test_other_axes_must_have_one_value():
    dataset = make_dataset(powers, {"d": SIZES, "p": [2, 4]}, regimes=("classical", "mean_field"))
    with pytest.raises(InvalidInput, match="select one of 2, 4") as error:
        collapse(dataset)
    assert error.value.field == "p"
    with pytest.raises(InvalidInput, match="classical") as error:
        collapse(dataset.sel(p=[2]), source="ode")
    assert error.value.field == "regime"
    collapse(dataset.sel(p=2), "overlay", source="classical")
    with pytest.raises(InvalidInput, match="must be one of"):
        collapse(dataset.sel(p=[2]), along="kappa")
    with pytest.raises(InvalidInput, match="kind"):
        collapse(dataset, "powr")
    axes = {"d": [10, 30, 10, 30], "p": [2, 2, 4, 4], "gamma": [0.1] * 4}
    with pytest.raises(InvalidInput, match="select one value of p"):
        collapse(make_dataset(powers, axes, points=True))
    names = make_dataset(lambda t: 0.1, {"activation": ["erf", "relu"]})
    with pytest.raises(InvalidInput, match="positive numbers"):
        collapse(names, "power", along="activation")


# ---- shared starts


def from_starts(difference, regimes=()):
    """Ten starts that scatter by 30 %, the same for every d, each with eight repeats that scatter by 2 %."""
    init = {"kind": "informed", "shared": True}

    def curve(t, d):
        return master(t) * (1 + difference * (d == 30))

    dataset = make_dataset(curve, {"d": SIZES}, seeds=10, repeats=8, scatter=0.02, init=init, regimes=regimes)
    starts = np.exp(0.3 * np.random.default_rng(1).standard_normal(10))
    for name in ("sgd_risk", "ode_risk") if regimes else ("sgd_risk",):
        dataset[name] = dataset[name] * xr.DataArray(starts, dims="seed")
    return dataset.transpose("d", "p", "gamma", ...)


def test_scatter_of_shared_starts_does_not_hide_differences():
    """A difference of 1 % is hidden by ten starts that scatter by 30 %, unless the curves share them."""
    dataset = from_starts(0.01)
    result = collapse(dataset)
    assert not result.collapsed
    assert result.median_chi2 > 2
    assert np.median(result.expected) == pytest.approx(0.02 / np.sqrt(80), rel=0.15)
    apart = dataset.assign_attrs(spec=dataset.attrs["spec"].replace('"shared": true', '"shared": false'))
    assert collapse(apart).collapsed
    same = collapse(from_starts(0.0))
    assert same.collapsed
    assert 0.5 < same.median_chi2 < 1.3


def test_starts_depend_on_p_but_not_on_gamma():
    """Curves at several gamma have the same starts; at several p they do not, shared or not."""
    for along, shared in (("gamma", False), ("p", True)):
        values = [0.1, 0.2, 0.5] if along == "gamma" else [2, 4, 8]
        init = {"kind": "informed", "shared": shared}
        dataset = make_dataset(
            lambda t: master(t), {along: values}, seeds=10, repeats=8, scatter=0.02, init=init
        )
        starts = np.exp(0.3 * np.random.default_rng(1).standard_normal(10))
        dataset["sgd_risk"] = dataset["sgd_risk"] * xr.DataArray(starts, dims="seed")
        expected = np.median(collapse(dataset.transpose("d", "p", "gamma", ...), along=along).expected)
        scatter = (
            0.02 / np.sqrt(80) if along == "gamma" else np.std(starts, ddof=1) / starts.mean() / np.sqrt(10)
        )
        assert expected == pytest.approx(scatter, rel=0.15)


def test_theories_from_a_shared_start_have_no_errors():
    result = collapse(from_starts(0.01, regimes=("classical",)), source="classical")
    assert np.isnan(result.expected).all()
    assert result.collapsed  # a spread of 0.5 %
    assert not collapse(from_starts(0.1, regimes=("classical",)), source="classical").collapsed
