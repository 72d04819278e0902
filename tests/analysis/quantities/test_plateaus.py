"""Plateaus with known start, length and height."""

import numpy as np
import pytest

from sweep_service.analysis.quantities.plateaus import plateaus
from sweep_service.errors import InvalidInput
from sweep_service.status import Status
from tests.analysis.synthetic import TIMES, assert_described, make_dataset

STEP = np.log10(TIMES[2] / TIMES[1])  # 1/12 decade


def steps(t, heights=(0.1, 0.01, 0.001), ends=(0.01, 1.0), starts=(0.1, 10.0)):
    """Flat at each height, with a power law between the end of a plateau and the start of the next."""
    x = np.log10(np.maximum(t, 1e-9))
    places = np.stack([np.log10(ends), np.log10(starts)], axis=1).reshape(-1)
    return 10 ** np.interp(x, places, np.repeat(np.log10(heights), 2)[1:-1])


@pytest.mark.parametrize("points", [False, True])
def test_three_plateaus(points):
    axes = {"d": [5, 6], "p": [2, 4], "gamma": [0.1, 0.2]} if points else {"d": [5, 6]}
    result = plateaus(make_dataset(steps, axes, points=points, scatter=0.001, seeds=2))
    assert_described(result)
    assert result.start.dims == (("point",) if points else ("d", "p", "gamma")) + ("plateau",)
    point = result.isel(point=1) if points else result.isel(d=1, p=0, gamma=0)
    assert point.kind.values.tolist() == ["initial", "intermediate", "final"]
    # The window of 0.15 decade contains the next slope, of -1 decade per decade, two steps too early or late;
    # |s| <= 0.2 still allows a little of it.
    np.testing.assert_allclose(np.log10(point.start), [-3, -1, 1], atol=2 * STEP)
    np.testing.assert_allclose(np.log10(point.end), [-2, 0, 2], atol=2 * STEP)
    np.testing.assert_allclose(point.decades, np.log10(point.end / point.start), atol=1e-12)
    np.testing.assert_allclose(point.height, [0.1, 0.01, 0.001], rtol=0.05)  # two edge samples of 12 and more
    # Half the height is log10(2) = 0.3 decade down a slope of 1: 3.6 samples, so the fourth.
    np.testing.assert_allclose(np.log10(point.exit[:2]), [-2 + 4 * STEP, 4 * STEP], atol=0.01 * STEP)
    assert np.isnan(point.exit[2])


def test_flat_curve_is_initial_and_steep_curve_has_no_plateau():
    def curve(t, d):
        return 0.1 + 0.0 * t if d == 5 else 0.1 / (1e-6 + t) ** 0.5

    result = plateaus(make_dataset(curve, {"d": [5, 6]})).isel(p=0, gamma=0)
    assert result.kind.values.tolist() == [["initial"], [""]]
    assert result.decades.values[0] == pytest.approx([5.0])
    assert result.height.values[0] == pytest.approx([0.1])
    assert np.isnan(result.height.values[1]).all()


def test_short_interval_is_not_a_plateau():
    short = make_dataset(lambda t: steps(t, ends=(0.01, 0.25), starts=(0.1, 10.0)))
    assert plateaus(short).kind.values.reshape(-1).tolist() == ["initial", "final"]
    sooner = plateaus(short, shortest=0.05).kind.values.reshape(-1).tolist()
    assert sooner == ["initial", "intermediate", "final"]
    slow = make_dataset(lambda t: 0.1 * (1e-9 + t) ** -0.15)
    assert plateaus(slow).kind.values.reshape(-1).tolist() == ["initial"]
    assert plateaus(slow, flat=0.1).kind.values.reshape(-1).tolist() == [""]


def test_plateau_as_high_as_the_start_is_initial():
    """A dip before it does not change that."""
    dip = make_dataset(lambda t: 0.1 * np.where((t > 0) & (t < 0.01), 0.3 + 70 * t, 1.0))
    result = plateaus(dip)
    assert result.start.values.reshape(-1)[0] > 1e-3
    assert result.kind.values.reshape(-1).tolist() == ["initial"]


def test_round_off_is_not_a_plateau():
    result = plateaus(make_dataset(lambda t: np.where(t < 1.0, 0.1, 1e-17)))
    assert result.kind.values.reshape(-1).tolist() == ["initial"]
    assert result.exit.item() == pytest.approx(1.0)  # but it is below half the height


def test_pending_and_diverged_runs():
    status = np.full((3, 1, 1, 2, 1), Status.DONE)
    status[1, ..., 0, 0] = Status.PENDING
    status[1, ..., 1, 0] = Status.DIVERGED
    status[2] = Status.PENDING
    result = plateaus(make_dataset(steps, {"d": [5, 6, 7]}, seeds=2, status=status)).isel(p=0, gamma=0)
    # The diverged run ends at t = 0.37, after the second plateau began.
    assert result.kind.values.tolist() == [
        ["initial", "intermediate", "final"],
        ["initial", "intermediate", ""],
        ["", "", ""],
    ]


def test_density_of_samples_does_not_matter():
    """A tail of samples in the last half, and samples sparser than the window."""
    plain = plateaus(make_dataset(steps)).isel(d=0, p=0, gamma=0)
    times = np.unique(np.concatenate([TIMES, np.linspace(50, 100, 200)]))
    tailed = plateaus(make_dataset(steps, times=times)).isel(d=0, p=0, gamma=0)
    np.testing.assert_allclose(tailed.height, plain.height, rtol=1e-3)
    assert tailed.kind.values.tolist() == plain.kind.values.tolist()
    sparse = plateaus(make_dataset(steps, times=np.concatenate([[0.0], np.logspace(-3, 2, 21)])))
    assert sparse.kind.values.reshape(-1).tolist() == ["initial", "intermediate", "final"]


def test_theories_and_bad_input():
    dataset = make_dataset(steps, regimes=("classical", "mean_field"))
    assert plateaus(dataset, "ode").start.dims == ("d", "p", "gamma", "regime", "plateau")
    assert plateaus(dataset, "mean_field").sizes["plateau"] == 3
    with pytest.raises(InvalidInput, match="two samples"):
        plateaus(dataset.isel(time=slice(0, 2)))


# ---- noise


SPARSE, DENSE = (np.concatenate([[0.0], np.logspace(-2, 2, number)]) for number in (33, 81))
# Times with 12 samples per decade, or 8, or 20, and the number of curves.
SETS = [pytest.param(TIMES, 100, id="few")] + [
    pytest.param(times, 1000, marks=pytest.mark.slow) for times in (TIMES, SPARSE, DENSE)
]


def shares(curve, scatter, seeds=1, number=100, times=TIMES):
    """The share of curves for each list of kinds."""
    axes = {"d": np.arange(number) + 5}
    result = plateaus(make_dataset(curve, axes, seeds=seeds, scatter=scatter, times=times, rng=1))
    kinds = ["+".join(filter(None, row)) for row in result.kind.values.reshape(number, -1)]
    return {kind: kinds.count(kind) / number for kind in set(kinds)}


def at_least(share, number):
    """The share, less two binomial standard deviations of a small number."""
    return share - (2 * np.sqrt(share * (1 - share) / number) if number < 1000 else 0.0)


@pytest.mark.parametrize(("times", "number"), SETS)
@pytest.mark.parametrize("scatter", [0.1, 0.2, 0.3])
def test_noisy_flat_curve_is_one_plateau(scatter, times, number):
    """With |s| <= 0.2 alone there were fragments at 10 %, and none at 30 %."""
    shares_of_kinds = shares(lambda t: 0.1, scatter, number=number, times=times)
    assert shares_of_kinds.get("initial", 0.0) >= at_least(0.95, number)


def test_noisy_steps_are_three_plateaus():
    """In 97 % of single runs with 10 % of noise, and of means over eight seeds with 30 %."""
    wanted = "initial+intermediate+final"
    assert shares(steps, 0.1)[wanted] >= 0.9
    assert shares(steps, 0.3, seeds=8)[wanted] >= 0.9


@pytest.mark.parametrize(("times", "number"), SETS)
@pytest.mark.parametrize("scatter", [0.1, 0.3])
@pytest.mark.parametrize("slope", [0.3, 0.5, 1.0])
def test_noise_does_not_make_plateaus_of_slopes(slope, scatter, times, number):
    """A slope of 0.3 had an intermediate plateau in three of four curves."""
    shares_of_kinds = shares(lambda t: 0.1 * (1e-9 + t) ** -slope, scatter, number=number, times=times)
    without = sum(share for kinds, share in shares_of_kinds.items() if "intermediate" not in kinds)
    assert without >= (1.0 if slope == 1.0 else at_least(0.95, number))


def test_values_of_the_draws_with_errors():
    """Four starts with their own heights and ends of the first plateau; two repeats each."""
    factors, delays = np.array([0.8, 0.9, 1.1, 1.2]), 10 ** np.array([-0.2, 0.0, 0.0, 0.2])
    dataset = make_dataset(steps, {"d": [5, 6]}, seeds=4, repeats=2)
    for seed in range(4):
        dataset.sgd_risk[:, :, :, seed] = factors[seed] * steps(TIMES / delays[seed])
    result = plateaus(dataset).isel(d=1, p=0, gamma=0)
    assert result.draw_height.dims == ("seed", "plateau")
    np.testing.assert_allclose(result.draw_height[:, 0], 0.1 * factors, rtol=0.05)
    np.testing.assert_allclose(np.log10(result.draw_end[:, 0] / delays), -2.0, atol=2 * STEP)
    for name in ("start", "end", "height", "exit"):
        draws = result[f"draw_{name}"].values
        error = np.std(draws, axis=0, ddof=1) / 2.0
        np.testing.assert_allclose(result[f"{name}_error"], error, rtol=1e-10)
    assert result.draws.values.tolist() == [4, 4, 4]
    assert np.isnan(result.exit_error[2])  # no curve leaves the last plateau
    single = plateaus(dataset.isel(seed=[0])).isel(d=1, p=0, gamma=0)
    assert single.draw_height.dims == ("seed", "repeat", "plateau")
    np.testing.assert_allclose(single.height_error, 0.0, atol=1e-15)  # its repeats are equal here


def test_draw_without_a_plateau_is_nan():
    dataset = make_dataset(steps, seeds=3)
    dataset.sgd_risk[:, :, :, 0] = 0.1 / (1e-3 + TIMES)
    result = plateaus(dataset).isel(d=0, p=0, gamma=0)
    assert np.isnan(result.draw_height.isel(seed=0)[1:]).all()
    assert result.draws.values[1:].tolist() == [2] * (result.sizes["plateau"] - 1)
