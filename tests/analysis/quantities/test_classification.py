"""Phases of points and of the plane, where they are certain and where they are undecided."""

import numpy as np
import pytest

from sweep_service.analysis.floor_law.coefficient import noise_coefficient
from sweep_service.analysis.quantities.classification import phase, predict_region, scaling_phase
from sweep_service.analysis.runs import null_risk
from sweep_service.errors import InvalidInput
from sweep_service.status import Status
from tests.analysis.synthetic import assert_described, make_dataset
from tests.stored import compute_dataset

WORDS = ("perfect", "plateau", "unspecialised", "bad", "bad", "undecided")  # of d = 1 … 6 below


def curve(t, d):
    """R_null is 0.083 with k = 2, the floor of γ = 0.5, p = 4, Δ = 0.1 about 1.1e-3."""
    slow = np.maximum(t, 1e-3)
    return {1: 5e-5, 2: 2e-3, 3: 0.02, 4: 0.02, 5: 0.02 * slow**0.3, 6: 0.02 * slow**-0.3}[d]


def order(t, d):
    return 0.2 if d == 3 else 0.8


@pytest.mark.parametrize("points", [False, True])
def test_every_phase(points):
    axes = {"d": np.arange(1, 7)} | ({"p": np.full(6, 4), "gamma": np.full(6, 0.5)} if points else {})
    dataset = make_dataset(
        curve, axes, points=points, noise=0.1, observables={"specialisation": order}, seeds=2
    )
    result = phase(dataset)
    assert_described(result)
    assert result.phase.values.reshape(-1).tolist() == list(WORDS)
    np.testing.assert_allclose(result.order_parameter.values.reshape(-1), [0.8, 0.8, 0.2, 0.8, 0.8, 0.8])
    np.testing.assert_allclose(result.null_risk, null_risk(dataset).item())
    np.testing.assert_allclose(
        result.law.values.reshape(-1), (noise_coefficient(dataset) * 0.5 * 0.1 / 4).values.reshape(-1)
    )
    assert result.d.values.tolist() == [1, 2, 3, 4, 5, 6]


def test_thresholds_are_arguments():
    dataset = make_dataset(curve, {"d": np.arange(1, 7)}, noise=0.1, observables={"specialisation": order})
    known = {
        # 5 rises to 0.07, 6 falls to 0.006
        "perfect": (0.5, ["perfect", "plateau", "perfect", "perfect", "bad", "perfect"]),
        "plateau": (1.5, ["perfect", "bad", *WORDS[2:]]),
        "specialised": (0.1, [*WORDS[:2], "bad", *WORDS[3:]]),
        "flat": (0.35, [*WORDS[:5], "bad"]),
    }
    for name, (value, phases) in known.items():
        assert phase(dataset, **{name: value}).phase.values.reshape(-1).tolist() == phases, name


@pytest.mark.parametrize("trend", [-0.3, 0.0, 0.3])
def test_run_on_a_low_noise_floor_is_not_perfect(trend):
    """A floor of 1.1e-6 is below 1e-3 R_null = 8.3e-5. Fluctuations on a floor may look like a trend."""

    def low_floor(t, d):
        return d / 10 * 1.2e-6 * (np.maximum(t, 1e-3) / 75.0) ** trend

    dataset = make_dataset(low_floor, {"d": [10, 20, 200]}, noise=1e-4, seeds=2)
    assert phase(dataset).phase.values.reshape(-1).tolist() == ["plateau", "plateau", "perfect"]
    assert phase(dataset.assign_coords(noise=0.0)).phase.values.reshape(-1).tolist() == ["perfect"] * 3


def test_without_noise_or_order_parameter():
    """Then no point is a plateau or unspecialised."""
    result = phase(make_dataset(curve, {"d": np.arange(1, 7)}))
    assert result.phase.values.reshape(-1).tolist() == ["perfect", "bad", "bad", "bad", "bad", "undecided"]
    assert np.isnan(result.order_parameter).all()


def test_share_of_diverged_runs():
    status = np.full((4, 1, 1, 2, 5), Status.DONE)
    status[1, ..., :4] = Status.DIVERGED
    status[2, 0, 0, 0] = Status.DIVERGED
    status[3] = Status.PENDING
    result = phase(make_dataset(lambda t: 0.02, {"d": [1, 2, 3, 4]}, seeds=2, repeats=5, status=status))
    result = result.isel(p=0, gamma=0)
    assert result.phase.values.tolist() == ["bad", "diverged", "diverged", "undecided"]
    np.testing.assert_allclose(result.diverged_share, [0.0, 0.8, 0.5, np.nan])
    # The Wilson interval by its definition: the shares whose deviation reaches the measured one.
    for at, share in enumerate([0.0, 0.8, 0.5]):
        for end in (result.diverged_low.values[at], result.diverged_high.values[at]):
            if 1e-12 < end < 1 - 1e-12:
                assert (share - end) ** 2 == pytest.approx(1.959964**2 * end * (1 - end) / 10)
    assert result.diverged_low.values[0] == pytest.approx(0.0, abs=1e-12)
    assert result.diverged_high.values[0] == pytest.approx(0.2775, abs=1e-4)
    assert result.runs.values.tolist() == [10, 2, 5, 0]
    calm = phase(
        make_dataset(lambda t: 0.02, {"d": [1, 2, 3, 4]}, seeds=2, repeats=5, status=status), diverged=0.6
    )
    assert calm.phase.values.reshape(-1).tolist() == ["bad", "diverged", "bad", "undecided"]


def test_theories():
    dataset = make_dataset(curve, {"d": np.arange(1, 7)}, noise=0.1, regimes=("classical", "mean_field"))
    words = phase(dataset).phase.values.reshape(-1).tolist()
    assert words[:2] == ["perfect", "plateau"]
    result = phase(dataset, "ode").isel(p=0, gamma=0)
    assert result.phase.dims == ("d", "regime")
    assert result.phase.sel(regime="mean_field").values.tolist() == list(words)
    # Gradient flow knows no label noise, so it has no floor on which it could stay.
    assert result.phase.sel(regime="classical").values.tolist() == [words[0], "bad", *words[2:]]
    assert phase(dataset, "classical").phase.values.reshape(-1).tolist() == [words[0], "bad", *words[2:]]


# ---- scaling

PAIRS = [(0.5, 0.2), (0.0, 0.0), (0.25, -0.25), (-0.3, 0.0), (0.1, -0.5)]
BIG = [30, 100, 300, 1000]


def scaled(pairs=PAIRS, dimensions=BIG, law=lambda t, d, kappa, delta: 1e-3 * d ** -(kappa + delta), **more):
    rows = [(d, kappa, delta) for kappa, delta in pairs for d in dimensions]
    axes = dict(zip(("d", "kappa", "delta"), map(np.array, zip(*rows, strict=True)), strict=True))
    axes |= {"p": np.full(len(rows), 4), "gamma": np.full(len(rows), 0.5)}
    return make_dataset(law, axes, points=True, **more)


@pytest.mark.parametrize("seeds", [1, 8])
def test_scaling_phases_with_noise(seeds):
    result = scaling_phase(scaled(seeds=seeds, scatter=0.05))
    assert_described(result)
    assert list(zip(result.kappa.values, result.delta.values, strict=True)) == PAIRS
    np.testing.assert_allclose(result.theory, [-sum(pair) for pair in PAIRS])
    # five samples of 5 % in the last half, and Σ(ln d - mean)² = 6.7: 0.05/sqrt(5 · 6.7), four times
    np.testing.assert_allclose(result.slope, result.theory, atol=4 * 0.0086 / np.sqrt(seeds))
    assert result.phase.values.tolist() == ["perfect", "plateau", "plateau", "bad", "bad"]
    assert result.region.values.tolist() == ["perfect", "plateau", "plateau", "bad", "bad"]
    assert result.dimensions.values.tolist() == [4] * 5


def test_errors_of_slopes_are_their_scatter():
    """400 cases of eight runs: the errors from the weights, enlarged where a line does not fit, are
    slightly too large (by 16 % on average with two degrees of freedom), never too small."""
    pairs = [(0.0, 1e-6 * i) for i in range(400)]
    result = scaling_phase(scaled(pairs, seeds=8, scatter=0.3))
    scatter = result.slope.std().item()
    assert 0.95 * scatter < np.sqrt(np.mean(result.slope_error.values**2)) < 1.5 * scatter


def test_too_few_dimensions_and_slopes_between():
    few = scaling_phase(scaled(dimensions=[30, 100]))
    assert set(few.phase.values.tolist()) == {"undecided"}
    assert np.isnan(few.slope).all()
    weak = scaling_phase(scaled([(0.06 + 1e-5 * i, 0.0) for i in range(50)], seeds=8, scatter=0.1))
    assert 0.003 < weak.slope_error.mean() < 0.02  # so -0.06 is neither flat nor certainly below -0.05
    assert {"undecided"} < set(weak.phase.values.tolist()) <= {"undecided", "plateau", "perfect"}
    surely = scaling_phase(scaled([(0.06, 0.0)], seeds=8, scatter=1e-4))
    assert surely.phase.item() == "perfect"
    assert scaling_phase(scaled([(0.06, 0.0)], seeds=8, scatter=1e-4), flat=0.07).phase.item() == "plateau"


def test_diverged_points_are_left_out_of_the_case():
    status = np.full((len(PAIRS) * 4, 1, 1), Status.DONE)
    status[0], status[4:6] = Status.DIVERGED, Status.PENDING
    result = scaling_phase(scaled(status=status))
    assert result.dimensions.values.tolist() == [3, 2, 4, 4, 4]
    assert result.phase.values.tolist() == ["perfect", "undecided", "plateau", "bad", "bad"]


def test_other_axes_are_cases():
    rows = [(d, noise) for noise in (0.0, 0.1) for d in BIG]
    axes = dict(zip(("d", "noise"), map(np.array, zip(*rows, strict=True)), strict=True))
    axes |= {
        name: np.full(8, value) for name, value in (("kappa", 0.5), ("delta", 0.0), ("p", 4), ("gamma", 1.0))
    }
    dataset = make_dataset(
        lambda t, d, noise: 1e-3 * d**-0.5 + noise, axes, points=True, regimes=("classical",)
    )
    result = scaling_phase(dataset)
    assert result.noise.values.tolist() == [0.0, 0.1]
    assert result.phase.values.tolist() == ["perfect", "plateau"]
    theory = scaling_phase(dataset, "ode")
    assert theory.phase.dims == ("case", "regime")
    assert theory.phase.values[:, 0].tolist() == ["perfect", "plateau"]


def test_product_is_not_a_scaling_sweep():
    with pytest.raises(InvalidInput, match="kappa"):
        scaling_phase(make_dataset(curve, {"d": [1, 2, 3]}))


def test_regions_of_the_plane():
    kappa = np.array([0.5, 0.3, -0.2, -0.5, -1.0, 0.02])
    delta = np.array([0.0, -0.3, 0.0, 0.0, 0.0, 0.0])
    known = ["perfect", "plateau", "bad", "undescribed", "undescribed", "perfect"]
    assert predict_region(kappa, delta).tolist() == known
    assert predict_region(kappa, delta, tolerance=0.05).tolist() == [*known[:5], "plateau"]
    assert predict_region(0.1 + 0.2, -0.3) == "plateau"  # 5.6e-17


def test_real_scaling_sweep(tmp_path):
    """Where κ + δ = 1 the noise floor vanishes as 1/d: SGD from a planted start shows it at d = 8 … 32."""
    spec = {
        "axes": {"d": [8, 16, 32], "kappa": 0.0, "delta": [0.0, 1.0]},
        "scaling": {"p0": 2, "gamma0": 2.0},
        "fixed": {"k": 2, "noise": 1e-2},
        "init": {"kind": "planted"},
        "seeds": {"repeat": 8},
        "time": {"max": 60, "samples": 5, "tail": 32},
    }
    dataset = compute_dataset(tmp_path, spec)
    result = scaling_phase(dataset).sortby("delta")
    assert result.delta.values.tolist() == [0.0, 1.0]
    # γ/p = 1 is not small: c falls by 10 % as γ/p does, and grows by 6 % with d; over ln 4 that is 0.1
    np.testing.assert_allclose(result.slope, result.theory, atol=0.15 + 4 * float(result.slope_error.max()))
    assert result.phase.values.tolist()[1] == "perfect"
    # All are on their floor, where fluctuations make the trend of most of them falling or rising.
    assert set(phase(dataset).phase.values.tolist()) == {"plateau"}


def test_uncertain_slopes_are_plateaus():
    """|b| <= 2se holds for any slope with a large error, here for 1/d, unless the error is bounded."""
    dataset = scaled([(0.0, 1.0)], [8, 10, 12], seeds=4, scatter=4.0, rng=3)
    result = scaling_phase(dataset)
    assert result.slope_error > 1.0
    assert result.phase.item() == "plateau"
    assert scaling_phase(dataset, largest_error=0.25).phase.item() == "undecided"
    known = scaling_phase(scaled([(0.0, 1.0)], seeds=2, scatter=0.05), largest_error=0.25)
    assert known.phase.item() == "perfect"
