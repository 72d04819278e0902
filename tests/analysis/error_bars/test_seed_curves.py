"""Numbers of seeds, z-scores and validity in the form of curves, against the methods that compute them."""

import numpy as np
import pytest

from sweep_service.analysis.contents import describe_contents
from sweep_service.analysis.views import VIEWS
from sweep_service.errors import InvalidInput
from tests.specs import ERROR_BARS_SPEC, SMALL_SPEC
from tests.stored import compute_dataset


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    spec = {**ERROR_BARS_SPEC, "seeds": {"init": 5, "repeat": 2}}
    return compute_dataset(tmp_path_factory.mktemp("bars"), spec).load()


def point_of(dataset, curve):
    return dataset.sel({name: [value] for name, value in curve["at"].items()})


def test_curves_of_seeds_are_the_numbers(stored):
    result = VIEWS["seeds"].compute(stored, relative_error="0.02")
    assert [curve["source"] for curve in result["curves"]] == ["sgd"] * 4 + ["ode"] * 4
    for curve in result["curves"]:
        numbers = point_of(stored, curve).sweep.seeds_needed(relative_error=0.02)
        name = {"sgd": "measured", "ode": "predicted"}[curve["source"]]
        np.testing.assert_array_equal(curve["mean"], numbers[name].squeeze())
        error = numbers[f"{name}_scatter"].squeeze() / np.sqrt(5)
        np.testing.assert_allclose(curve["error"], error, rtol=1e-12)
        assert curve["draws"] == 5
        assert curve["runs"] == {"sgd": 10, "ode": 5}[curve["source"]]
    assert result["draws_are"] == "seeds"
    measured = result["curves"][0]
    assert all(np.array(measured["low"]) < measured["mean"])
    assert all(np.array(measured["mean"]) < measured["high"])


def test_final_risk_has_one_time(stored):
    result = VIEWS["seeds"].compute(stored, value="final_risk", d=20, gamma=1.0)
    numbers = stored.sel(d=[20], gamma=[1.0]).sweep.seeds_needed("final_risk")
    assert result["time"] == [1.0]
    assert [curve["mean"] for curve in result["curves"]] == [
        [numbers["measured"].item()], [numbers["predicted"].item()],
    ]  # fmt: skip


@pytest.mark.parametrize("options", [{"value": "nonsense"}, {"relative_error": "big"}, {"relative_error": 0}])
def test_bad_options_are_refused(stored, options):
    with pytest.raises(InvalidInput, match=next(iter(options))):
        VIEWS["seeds"].compute(stored, **options)


def test_seeds_are_offered_where_they_are_known(stored, tmp_path):
    assert "seeds" in describe_contents(stored)["views"]
    two_draws = compute_dataset(tmp_path, SMALL_SPEC)
    assert "seeds" not in describe_contents(two_draws)["views"]
    assert "z_score" not in [entry["name"] for entry in describe_contents(two_draws)["observables"]]


def test_z_scores_as_an_observable(stored):
    """Runs and theories on one scale: their difference is the z of the runs about a theory."""
    result = VIEWS["curves"].compute(stored, observable="z_score", d=20, gamma=1.0)
    point, curves = stored.sel(d=[20], gamma=[1.0]), {c.get("regime", "sgd"): c for c in result["curves"]}
    assert set(curves) == {"sgd", "classical", "high_dimensional"}
    mean = point.sweep.z_score()["z_score"].mean(["seed", "repeat"]).squeeze()
    np.testing.assert_allclose(curves["sgd"]["mean"], mean, rtol=1e-12)
    for regime in ("classical", "high_dimensional"):
        of_regime = point.sweep.z_score(regime, offset=False)["z_score"].mean(["seed", "repeat"]).squeeze()
        difference = np.array(curves["sgd"]["mean"]) - curves[regime]["mean"]
        np.testing.assert_allclose(difference, of_regime, rtol=1e-9, atol=1e-12)
    assert result["band"] == pytest.approx([-1.96, 1.96], abs=1e-3)
    assert result["time"] == stored["time"].values[1:].tolist()
    figure = stored.sweep.plot_curves("z_score", d=20, gamma=1.0)
    assert figure.axes[0].get_yscale() == "linear"


def test_theory_alone_has_a_z_score(stored):
    """A selection of a regime keeps the prediction of `high_dimensional`."""
    result = VIEWS["curves"].compute(stored, observable="z_score", regime="classical", d=20, gamma=1.0)
    assert [curve.get("regime") for curve in result["curves"]] == [None, "classical"]


@pytest.mark.parametrize("observable", ["risk", "z_score"])
def test_validity_is_marked_on_curves_of_theories(stored, observable):
    result = VIEWS["curves"].compute(stored, observable=observable)
    for curve in result["curves"]:
        if curve["source"] == "sgd":
            assert "validity" not in curve
            continue
        codes = point_of(stored, curve).sweep.validity(curve["regime"])
        meanings = codes["validity"].attrs["flag_meanings"].split()
        expected = [meanings[code] for code in codes["validity"].squeeze().values]
        assert curve["validity"] == (["unknown"] if observable == "risk" else []) + expected
        assert curve["overall"] == meanings[codes["overall"].item()]
    assert any("holds" in curve.get("validity", ()) for curve in result["curves"])


@pytest.mark.parametrize("time_scale", [None, "log"])
def test_unknown_numbers_are_drawn_as_an_empty_figure(stored, time_scale, tmp_path):
    """Four draws are too few to measure; matplotlib refuses a logarithmic axis without a point."""
    few = stored.isel(seed=slice(4), repeat=[0]).drop_vars(
        ["ode_risk_std", "ode_risk_shift", "ode_nonlinearity"]
    )
    assert np.all(np.isnan(few.sweep.seeds_needed()["measured"]))
    few.sweep.plot_seeds(time_scale=time_scale).savefig(tmp_path / "figure.svg")
    assert (tmp_path / "figure.svg").stat().st_size > 0
