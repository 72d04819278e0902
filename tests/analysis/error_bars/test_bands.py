"""Predicted bands of curves."""

import numpy as np

from sweep_service.analysis.curves import compute_curves
from sweep_service.analysis.plots.curves import draw_curves
from sweep_service.analysis.views import VIEWS
from tests.analysis.error_bars.test_values import SPEC
from tests.analysis.synthetic import add_fluctuations, make_dataset
from tests.stored import compute_dataset

TIMES = np.concatenate([[0.0], np.geomspace(0.01, 10.0, 20)])
REGIMES = ["classical", "high_dimensional"]


def sweep(**options):
    dataset = make_dataset(
        lambda time: 0.1 * np.exp(-time / 5.0), {"d": [50, 200]}, p=1, gamma=0.5, times=TIMES,
        regimes=REGIMES, **options,
    )  # fmt: skip
    return add_fluctuations(dataset, 0.05, 0.3)


def curve_of(dataset, regime="high_dimensional", **options):
    curves = compute_curves(dataset, d=50, **options)["curves"]
    return next(curve for curve in curves if curve.get("regime") == regime)


def test_band_is_about_the_shifted_mean():
    """At d = 50, δt = 0.01."""
    curve = curve_of(sweep())
    mean, low, high = (np.array(curve["predicted"][name])[1:] for name in ("mean", "low", "high"))
    np.testing.assert_allclose(mean, np.array(curve["mean"])[1:] + 0.01 * 0.3, rtol=1e-12)
    np.testing.assert_allclose(high - mean, 1.96 * 0.1 * 0.05, rtol=1e-4)
    np.testing.assert_allclose(mean - low, high - mean, rtol=1e-9)
    assert curve["predicted"]["low"][0] == curve["mean"][0]


def test_band_includes_the_scatter_of_starts():
    dataset = sweep(seeds=2)
    shifted = dataset["ode_risk"] + np.array([[-0.01], [0.01]])
    curve = curve_of(dataset.assign(ode_risk=shifted))
    width = np.array(curve["predicted"]["high"]) - np.array(curve["predicted"]["mean"])
    np.testing.assert_allclose(width[1:], 1.96 * np.hypot(0.1 * 0.05, 0.01), rtol=1e-4)


def test_only_the_risk_of_its_regime_has_a_band():
    dataset = sweep(observables={"cosine": lambda time: 0.5 + 0.0 * time})
    assert "predicted" not in curve_of(dataset, "classical")
    assert "predicted" not in curve_of(dataset, observable="cosine")
    assert "predicted" not in curve_of(dataset.drop_vars("ode_risk_std"))
    alone = compute_curves(dataset, d=50, regime="classical")["curves"]
    assert all("predicted" not in curve for curve in alone)
    steps = curve_of(dataset, time="steps")
    assert len(steps["predicted"]["low"]) == len(steps["x"]) == len(TIMES)


def test_figure_shows_the_band():
    dataset = sweep(repeats=3, scatter=0.1)
    with_band = VIEWS["curves"].plot(dataset, {"d": 50}).axes[0]
    without = draw_curves(compute_curves(dataset.drop_vars("ode_risk_std"), d=50)).axes[0]
    assert len(with_band.lines) == len(without.lines) + 3
    texts = [text.get_text() for text in with_band.get_legend().get_texts()]
    assert "predicted 95 %" in texts


def test_bands_hold_the_runs_of_a_stored_sweep(tmp_path):
    """Of 60 runs at the last time, 95 % ± 2.8 % are in the band if it is right."""
    spec = {**SPEC, "axes": {"d": 200, "p": 2, "gamma": 0.2, "regime": "high_dimensional"}}
    stored = compute_dataset(tmp_path, {**spec, "seeds": {"init": 1, "repeat": 60}})
    curves = compute_curves(stored)["curves"]
    predicted = next(curve["predicted"] for curve in curves if "predicted" in curve)
    runs = stored.sgd_risk.squeeze().transpose("time", "repeat").values
    low, high = (np.array(predicted[name])[:, None] for name in ("low", "high"))
    share = np.mean((runs >= low) & (runs <= high), axis=1)
    assert np.all(share[4:] >= 0.86)  # more than three errors below are 1 in 1000
    assert share[4:].min() < 1.0  # a band that holds all runs is too wide


def test_json_of_curves_has_the_band():
    result = VIEWS["curves"].to_json(compute_curves(sweep(), d=50))
    predicted = [curve["predicted"] for curve in result["curves"] if "predicted" in curve]
    assert [sorted(band) for band in predicted] == [["high", "low", "mean"]]
    assert all(len(band["mean"]) == len(TIMES) for band in predicted)
