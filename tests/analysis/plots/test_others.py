"""Plots of the (κ, δ) plane, cosines, rates and collapses."""

import re

import numpy as np
import pytest
import xarray as xr

from sweep_service.analysis.plots import style
from sweep_service.analysis.plots.collapse import plot_collapse
from sweep_service.analysis.plots.cosines import plot_cosine_histograms, plot_cosine_plane
from sweep_service.analysis.plots.rates import plot_rates
from sweep_service.analysis.plots.scaling_plane import plot_plane
from sweep_service.errors import InvalidInput
from tests.analysis.plots.rendering import rendered
from tests.analysis.synthetic import make_dataset


def names(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


# ---- the plane


def cases(phases, **variables):
    count = len(phases)
    coords = {"kappa": ("case", np.linspace(0, 0.5, count)), "delta": ("case", np.linspace(0.5, -1, count))}
    return xr.Dataset({"phase": ("case", phases), **{n: ("case", v) for n, v in variables.items()}}, coords)


def test_plane_writes_names_inside_their_regions():
    (axes,) = rendered(plot_plane()).axes
    places = {text.get_text(): sum(text.get_position()) for text in axes.texts}
    assert places["perfect learning"] > 0
    assert places["plateau"] == pytest.approx(0, abs=1e-9)
    assert -0.5 < places["bad learning"] < 0
    assert places["no ODE description"] < -0.5
    assert axes.get_xlabel() == r"exponent of the width $\kappa$"


def test_plane_shows_measured_phases():
    result = cases(["perfect", "plateau", "bad", "undecided"], slope=[-0.5, -0.001, 0.3, np.nan])
    (axes,) = rendered(plot_plane(result)).axes
    assert names(axes) == ["perfect", "plateau", "bad", "undecided"]
    marks = {line.get_label(): line for line in axes.lines if line.get_marker() not in ("None", "")}
    assert marks["perfect"].get_markerfacecolor() == style.GREEN
    assert len({line.get_marker() for line in marks.values()}) == 4  # not distinguished by colour alone
    texts = [text.get_text() for text in axes.texts]
    assert {"−0.50", "0.00", "0.30"} <= set(texts)
    assert "nan" not in texts


def test_plane_grows_with_its_points():
    (axes,) = plot_plane(cases(["bad"]).assign_coords(kappa=("case", [2.0]), delta=("case", [-3.0]))).axes
    assert axes.get_xlim()[1] > 2.0
    assert axes.get_ylim()[0] < -3.0


# ---- cosines


def paths(runs=2, times=6, students=4, teachers=2):
    angle = np.random.default_rng(0).uniform(0, 2, (runs, times, students))
    values = np.stack([np.cos(angle), np.sin(angle)][:teachers], axis=-1)
    dims = ("seed", "time", "student", "teacher")
    return xr.DataArray(values, {"time": np.r_[0.0, np.geomspace(0.1, 100, times - 1)]}, dims)


def test_cosine_plane_shows_every_neuron():
    sgd, theory = paths(), paths(1)
    sgd[0, :, 0] = np.nan  # padding where p differs
    (axes,) = rendered(plot_cosine_plane(sgd, theory)).axes
    assert names(axes) == ["SGD", "theory", "start", "end", "symmetric"]
    widths = [line.get_linewidth() for line in axes.lines if len(line.get_xdata()) == 6]
    assert len(widths) == 7 + 4
    starts = next(line for line in axes.lines if line.get_label() == "start")
    np.testing.assert_allclose(starts.get_xydata(), theory.isel(seed=0, time=0).values)
    assert any(tuple(line.get_xydata()[0]) == pytest.approx((0.5**0.5, 0.5**0.5)) for line in axes.lines)


def test_cosine_plane_without_values():
    rendered(plot_cosine_plane(paths() * np.nan))
    rendered(plot_cosine_plane(paths(1, 1 + 1, 1)))
    with pytest.raises(InvalidInput):
        plot_cosine_plane(paths(teachers=1))


def test_histograms_are_densities():
    figure = rendered(plot_cosine_histograms(paths(students=1000), [0.0, 100.0]))
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["$t$ = 0", "$t$ = 100"]
    for axes in figure.axes:
        values, sides, _ = axes.patches[0].get_data()
        assert np.sum(values * np.diff(sides)) == pytest.approx(1.0)
    assert names(figure.axes[0]) == ["teacher 1", "teacher 2"]
    chosen = rendered(plot_cosine_histograms(paths().assign_coords(teacher=[1, 3]), [0.0]))
    assert names(chosen.axes[0]) == ["teacher 2", "teacher 4"]


def test_stored_histograms_are_drawn_as_they_are():
    shares = np.full((3, 1, 64), 1 / 64)
    stored = xr.DataArray(
        shares,
        {"time": [0.0, 1.0, 2.0], "cosine_bin": np.linspace(-1, 1, 64)},
        ("time", "teacher", "cosine_bin"),
    )
    figure = plot_cosine_histograms(stored)
    assert len(figure.axes) == 3
    np.testing.assert_allclose(figure.axes[0].patches[0].get_data().values, 0.5)
    with pytest.raises(InvalidInput):
        plot_cosine_histograms(stored, [0.0, 1.0], axes=figure.axes)
    rendered(plot_cosine_histograms(stored * np.nan, [1.0]))


# ---- rates


def test_rates_show_their_exponent():
    x = np.geomspace(1e-4, 1e-2, 5)
    fit = {"exponent": 0.5, "standard_error": 0.012, "prefactor": 3.0}
    (axes,) = rendered(plot_rates(x, 3 * x**0.5, 0.1 * x**0.5, fit, (0.5, 1))).axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert (axes.get_xlabel(), axes.get_ylabel()) == (r"step $\delta t$", "discrepancy $D$")
    assert names(axes) == ["measured", "exponent 0.500 ± 0.012", "slope 0.5", "slope 1"]
    line = next(line for line in axes.lines if line.get_label().startswith("exponent"))
    np.testing.assert_allclose(line.get_ydata(), 3 * line.get_xdata() ** 0.5)


def test_legend_of_many_rates_leaves_room():
    """24 entries were taller than the figure."""
    axes, fit = None, {"exponent": -1.0, "standard_error": 0.1, "prefactor": 1.0}
    for at in range(12):
        figure = plot_rates([1.0, 2.0], [2.0, 1.0], fit=fit, axes=axes, name=f"series {at}")
        axes = figure.axes[0]
    rendered(figure)
    assert names(axes)[-1].endswith("and 10 more")


def test_rates_of_one_point_and_of_none():
    rendered(plot_rates([1e-3], [1.0], np.nan))
    rendered(plot_rates([0.01, 0.01 * (1 + 1e-15)], [0.08225, 0.09]))  # one value, up to rounding
    rendered(plot_rates([0.01], [0.08225]))
    (axes,) = rendered(plot_rates([1.0, 2.0], [np.nan, 0.0])).axes  # nothing positive
    assert axes.get_legend() is None
    with pytest.raises(InvalidInput):
        plot_rates([1, 2], [1])


def test_second_series_on_the_same_axes():
    figure = plot_rates([1, 2], [1, 2], name="one")
    assert plot_rates([1, 2], [2, 4], name="two", axes=figure.axes[0], colour=style.GREEN) is figure
    assert names(figure.axes[0]) == ["one", "two"]


# ---- collapses


def curves(count=3):
    d, time = 10.0 * 2 ** np.arange(count), np.r_[0.0, np.geomspace(0.1, 100, 20)]
    values = np.exp(-time[None] / d[:, None])
    return xr.DataArray(values, {"d": d, "time": time}, ("d", "time"), "sgd_risk")


def test_collapse_has_three_panels():
    before = curves()
    scaled = before.assign_coords(scaled=before["time"] / before["d"])
    scaled = scaled.transpose("d", "time")
    scaled["scaled"] = scaled["scaled"].transpose("d", "time")
    scaled["scaled"].attrs["label"] = "$t/d$"
    spread = xr.DataArray(np.full(21, 0.02), {"x": np.geomspace(0.01, 1, 21)}, "x")
    raw, after, beneath = rendered(plot_collapse(before, scaled, spread)).axes
    assert names(raw) == ["$d$ = 10", "$d$ = 20", "$d$ = 40"]
    assert (raw.get_xlabel(), beneath.get_xlabel()) == ("time $t$", "$t/d$")
    assert (raw.get_xscale(), after.get_xscale(), beneath.get_xscale()) == ("log", "log", "log")
    np.testing.assert_allclose(beneath.lines[0].get_ydata(), 2.0)
    assert beneath.get_ylabel() == "spread (%)"
    assert len(after.lines) == 3


def test_overlay_has_one_column():
    before = curves(8)
    spread = before.std("d") / before.mean("d")
    figure = rendered(plot_collapse(before, spread=spread))
    assert len(figure.axes) == 3  # with the colour bar of eight values
    rendered(plot_collapse(curves(1)))
    rendered(plot_collapse(curves() * np.nan, spread=spread * np.nan))


def test_collapse_rejects_other_shapes():
    with pytest.raises(InvalidInput):
        plot_collapse(curves().isel(d=0))
    with pytest.raises(InvalidInput):
        plot_collapse(curves(), axes=[])


@pytest.mark.parametrize(
    ("kind", "curve", "title"),
    [
        ("power", lambda t, d: d**-0.4 / (1 + t * d**-0.7), r"a = 0\.\d+ ± 0\.\d+, b = 0\.\d+ ± 0\.\d+"),
        ("logshift", lambda t, d: 1.01 - np.tanh((t - 8 * np.log(d)) / 10), r"b = [78]\.\d+ ± 0\.\d+"),
        ("logshift", lambda t, d: (1 + t) ** (-np.log10(d)), r"the curves do not collapse: S = .*"),
    ],
)
def test_result_of_a_collapse_is_the_title(kind, curve, title):
    """A fit that failed leaves no empty panel."""
    dataset = make_dataset(curve, {"d": [10, 30, 100]}, seeds=4, scatter=0.02, times=np.linspace(0, 100, 51))
    panels = rendered(dataset.sweep.plot_collapse(kind)).axes
    assert re.fullmatch(title, panels[-1].get_title(loc="left"))
    assert len(panels) == (1 if "not collapse" in title else 2)
