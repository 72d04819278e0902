"""`ds.sweep` of `simulate` and `integrate` gives the numbers of a stored sweep of the same point."""

import numpy as np
import pytest
import xarray as xr

import sweep_service as ss
from sweep_service.errors import InvalidInput
from sweep_service.status import Status
from tests.stored import compute_dataset

INIT = {"kind": "gaussian"}  # a random teacher: P depends on the seed
FIXED = {"k": 2, "noise": 1e-2}
POINT = {"d": 30, "p": 4, "gamma": 0.5, **FIXED, "init": INIT}
REGIMES = ("classical_noise", "mean_field")
SEEDS, REPEATS = range(2), range(3)
SPEC = {
    "axes": {"d": 30, "p": 4, "gamma": 0.5, "regime": list(REGIMES)},
    "fixed": FIXED,
    "init": INIT,
    "seeds": {"init": 2, "repeat": 3},
    "time": {"max": 20.0, "samples": 40},
}
ANALYSES = {
    "final_risk": {}, "plateaus": {}, "specialisation_time": {}, "cosines": {}, "labels": {},
    "noise_floor": {}, "phase": {}, "bounded": {}, "time_to": {"risk": 0.05},
}  # fmt: skip


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """The stored sweep, with the parameters of its point as single values."""
    return compute_dataset(tmp_path_factory.mktemp("point"), SPEC).isel(d=0, p=0, gamma=0).load()


@pytest.fixture(scope="module")
def sgd(stored):
    return ss.simulate(POINT, times=stored.time.values, seed=SEEDS, repeat=REPEATS)


@pytest.fixture(scope="module")
def theories(stored):
    return [ss.integrate(POINT, times=stored.time.values, seed=SEEDS, regime=name) for name in REGIMES]


def assert_same(result, wanted):
    """Equal values; coordinates may be more than those of the sweep."""
    names = list(wanted.data_vars) if isinstance(wanted, xr.Dataset) else [None]
    for name in names:
        values, expected = (array if name is None else array[name] for array in (result, wanted))
        assert values.dims == expected.dims, name
        if expected.dtype.kind == "f":
            # R_null is a mean over the seeds of the same P, which may round differently
            np.testing.assert_allclose(values, expected, rtol=1e-12, err_msg=str(name))
        else:
            np.testing.assert_array_equal(values, expected, err_msg=str(name))


@pytest.mark.parametrize("name", ANALYSES)
def test_sgd_has_the_numbers_of_a_sweep(stored, sgd, name):
    wanted = getattr(stored.sweep, name)(**ANALYSES[name])
    assert_same(getattr(sgd.sweep, name)(**ANALYSES[name]), wanted)


@pytest.mark.parametrize("name", ANALYSES)
def test_theory_has_the_numbers_of_a_sweep(stored, theories, name):
    for regime, theory in zip(REGIMES, theories, strict=True):
        wanted = getattr(stored.sel(regime=regime).sweep, name)(source=regime, **ANALYSES[name])
        assert_same(getattr(theory.sweep, name)(**ANALYSES[name]), wanted)
        assert_same(getattr(theory.sweep, name)(source=regime, **ANALYSES[name]), wanted)


def test_single_runs_and_selected_ones(stored, sgd):
    run = ss.simulate(POINT, times=stored.time.values, seed=1, repeat=2)
    wanted = stored.sel(seed=1, repeat=2).sweep.final_risk()
    for result in (run, sgd.sel(seed=1, repeat=2), sgd.isel(seed=[1, 0], repeat=[2]).sel(seed=1, repeat=2)):
        assert_same(result.sweep.final_risk(), wanted)
    assert_same(run.sweep.labels(), stored.sel(seed=1, repeat=2).sweep.labels())


def test_explicit_starts(stored):
    overlaps = {"kind": "overlaps", "M": [[0.1], [0.2]], "Q": [[1.0, 0.1], [0.1, 1.0]], "P": [[2.0]]}
    point = {"d": 20, "p": 2, "k": 1, "gamma": 0.2, "init": overlaps}
    result = ss.integrate(point, times=stored.time.values, regime="classical")
    expected = 0.1 / np.sqrt(2.0)  # M/√(Q P), where P is that of the start
    np.testing.assert_allclose(result.sweep.cosines().isel(time=0, student=0, teacher=0), expected)
    other = {**overlaps, "P": [[1.0]]}
    smaller = ss.integrate({**point, "init": other}, times=stored.time.values, regime="classical")
    null = [dataset.sweep.phase()["null_risk"] for dataset in (result, smaller)]
    assert null[0] > null[1]


def test_diverged_runs_count_as_diverged():
    point = {"d": 10, "p": 2, "k": 1, "gamma": 50.0, "activation": "square", "init": INIT}
    result = ss.simulate(point, times=[0.0, 1.0, 10.0, 100.0], repeat=range(2))
    assert (result.status == "diverged").all()
    early = result.isel(time=slice(2))  # finite numbers of a run that diverges later
    for dataset in (result, early):
        phase = dataset.sweep.phase()
        assert (phase["phase"], phase["diverged_share"]) == ("diverged", 1.0)
        assert dataset.sweep.bounded()["largest_norm"] == np.inf


def test_points_can_be_concatenated():
    """The coordinates distinguish points, so that they make a sweep along an axis."""
    rates = [0.2, 0.5, 1.0]
    times = np.linspace(0.0, 5.0, 30)
    parts = [ss.simulate({**POINT, "gamma": rate}, times=times, repeat=REPEATS) for rate in rates]
    joined = xr.concat(parts, "gamma", data_vars="minimal", coords="different", compat="equals")
    wanted = [float(part.sweep.final_risk()["final_risk"]) for part in parts]
    np.testing.assert_allclose(joined.sweep.final_risk()["final_risk"], wanted, rtol=1e-12)
    with pytest.warns(RuntimeWarning, match="not settled"):
        fit = joined.sweep.exponent("final_risk", "gamma")
    np.testing.assert_allclose(fit["mean"][0], wanted, rtol=1e-12)
    assert joined.gamma.values.tolist() == rates


# ---- SGD and theories together


def test_merged_results_have_the_numbers_of_a_sweep(stored, sgd, theories):
    merged = sgd.sweep.merge(*theories)
    assert merged.sgd_risk.dims == ("seed", "repeat", "time")
    assert merged.ode_risk.dims == ("regime", "seed", "time")
    assert (merged.ode_status == Status.DONE).all()
    for options in ({}, {"b": "mean_field"}, {"kind": "bias"}, {"of": "overlaps", "b": "classical_noise"}):
        assert_same(merged.sweep.discrepancy(**options), stored.sweep.discrepancy(**options))
    assert_same(merged.sweep.final_risk("ode"), stored.sweep.final_risk("ode"))
    one = sgd.sel(seed=0).sweep.merge(ss.integrate(POINT, times=stored.time.values, regime=REGIMES[0]))
    wanted = stored.sel(seed=[0], regime=[REGIMES[0]]).sweep.discrepancy()
    assert_same(one.sweep.discrepancy(), wanted)


def test_curves_of_merged_results(sgd, theories):
    figure = sgd.sweep.merge(*theories).sweep.plot_curves()
    texts = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert [text for text in texts if text.strip()] == ["SGD", "classical noise", "mean field"]


def test_different_points_are_not_merged(sgd, theories):
    times = sgd.time.values
    for change, field in (
        ({"gamma": 0.1}, "gamma"), ({"activation": "relu"}, "activation"),
        ({"init": {"kind": "gaussian", "scale": 2.0}}, "init.scale"),
        ({"init": {"kind": "informed"}}, "init.kind"),
        ({"init": {"kind": "gaussian", "orthonormal_teacher": True}}, "init.teacher"),
    ):  # fmt: skip
        other = ss.integrate({**POINT, **change}, times=times[:2], seed=SEEDS, regime="classical")
        with pytest.raises(InvalidInput) as error:
            sgd.isel(time=slice(2)).sweep.merge(other)
        assert error.value.field == field
    for result, field in (
        (theories[0].isel(time=slice(5)), "time"), (theories[0].sel(seed=[1]), "seed"), (sgd, "sgd"),
        (xr.Dataset(), "others"),
    ):  # fmt: skip
        with pytest.raises(InvalidInput) as error:
            sgd.sweep.merge(result)
        assert error.value.field == field
    with pytest.raises(InvalidInput, match="once"):
        sgd.sweep.merge(theories[0], theories[0])


# ---- what a single point cannot have


@pytest.mark.parametrize(
    ("name", "options", "field", "text"),
    [
        ("phase_diagram", {"x": "gamma", "y": "p"}, "x", "single point"),
        ("plot_phase_diagram", {"x": "gamma", "y": "p"}, "x", "single point"),
        ("collapse", {}, "along", "single point"),
        ("exponent", {"of": "final_risk"}, "along", "single point"),
        ("triangle", {}, "triangle", "sweep over a triangle"),
        ("scaling_phase", {}, "kappa", "scaling sweep"),
        ("discrepancy", {}, "b", r"ss\.integrate.*merge"),
        ("plot_rates", {}, "b", r"ss\.integrate.*merge"),
        ("final_risk", {"source": "ode"}, "source", "sgd"),
        ("plot_curves", {"gamma": 0.1}, "gamma", "0.5"),
    ],
)
def test_analyses_that_need_a_sweep_say_so(sgd, name, options, field, text):
    with pytest.raises(InvalidInput, match=text) as error:
        getattr(sgd.sweep, name)(**options)
    assert error.value.field == field


def test_discrepancy_of_a_theory_alone_needs_sgd(theories):
    with pytest.raises(InvalidInput, match=r"ss\.simulate.*merge"):
        theories[0].sweep.discrepancy()


def test_fixed_parameters_can_be_selected(sgd):
    figure = sgd.sweep.plot_curves(gamma=0.5, activation="erf", seed=1)
    assert len(figure.axes[0].lines) == 1


@pytest.mark.parametrize("suffix", [".csv", ".nc", ".json", ".parquet"])
def test_export(sgd, tmp_path, suffix):
    path = tmp_path / f"point{suffix}"
    sgd.sweep.export(path)
    assert path.stat().st_size > 1000
    if suffix == ".csv":
        rows = path.read_text().splitlines()
        assert len(rows) == 1 + 2 * 3 * sgd.sizes["time"]
        assert {"source", "gamma", "k", "noise", "init.kind", "risk", "status"} <= set(rows[0].split(","))
        assert ",done" in rows[1]
