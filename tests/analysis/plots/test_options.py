"""Drawing options: explicit signatures, what each changes in a figure, and errors with what is allowed."""

import inspect

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure

from sweep_service.analysis.accessor import METHODS
from sweep_service.analysis.plots import colormaps, style
from sweep_service.analysis.plots.options import READERS, read_levels, read_limits
from sweep_service.analysis.view_plots import PLOTS
from sweep_service.analysis.views import VIEWS
from sweep_service.errors import InvalidInput
from tests.analysis.plots.rendering import rendered
from tests.analysis.synthetic import make_dataset

THEORIES = ("classical",)
GAMMAS, WIDTHS = [0.1, 0.2, 0.5, 1.0, 2.0], [2, 4, 8, 16]


def product_law(time, gamma, p):
    """A risk whose lines of equal value are lines of equal γ/p."""
    return gamma / p + 0.0 * time


@pytest.fixture(scope="module")
def grid():
    return make_dataset(product_law, {"gamma": GAMMAS, "p": WIDTHS}, regimes=THEORIES)


@pytest.fixture(scope="module")
def point_cloud():
    rng = np.random.default_rng(0)
    columns = {"gamma": 10 ** rng.uniform(-2, 0, 40), "p": rng.integers(2, 100, 40)}
    return make_dataset(product_law, columns, points=True)


# ---- signatures


@pytest.mark.parametrize("view", PLOTS)
def test_options_are_named_parameters(view):
    function = PLOTS[view]
    name = f"plot_{view.replace('-', '_')}"
    assert METHODS[name] is function
    parameters = inspect.signature(getattr(make_dataset(product_law).sweep, name)).parameters
    assert parameters["ax"].kind is inspect.Parameter.KEYWORD_ONLY
    assert set(VIEWS[view].drawing) <= set(parameters)
    kinds = {parameter.kind for parameter in parameters.values()}
    assert inspect.Parameter.VAR_POSITIONAL not in kinds
    assert [name for name, p in parameters.items() if p.kind is p.VAR_KEYWORD] == ["select"]
    assert all(parameter.annotation is not parameter.empty for parameter in parameters.values())
    text = function.__doc__
    assert all(name in text.partition("Parameters")[2] for name in parameters)


def test_every_drawing_option_has_a_reader():
    assert {option for view in VIEWS.values() for option in view.drawing} == set(READERS)


# ---- colours


@pytest.mark.parametrize(
    ("name", "values", "options", "kind", "ends"),
    [
        ("sgd_largest_norm", [1.0, 3.0], {}, LogNorm, (1.0, 3.0)),
        ("sgd_largest_norm", [1.0, 2.9], {}, Normalize, (1.0, 2.9)),
        ("sgd_largest_norm", [0.0, 2.9], {}, Normalize, (0.0, 2.9)),
        ("sgd_specialisation_time", [1.0, 50.0], {}, LogNorm, (1.0, 50.0)),
        ("sgd_cosine", [0.01, 0.9], {}, Normalize, (0.01, 0.9)),
        ("sgd_cosine", [0.01, 0.9], {"scale": "log"}, LogNorm, (0.01, 0.9)),
        ("sgd_diverged", [0.0, 0.25, 1.0], {"scale": "log"}, LogNorm, (0.25, 1.0)),
        ("sgd_risk", [1e-3, 1.0], {"scale": "linear"}, Normalize, (1e-3, 1.0)),
        ("sgd_risk", [1.0, 1.0], {"scale": "log"}, LogNorm, (0.5, 2.0)),
        ("sgd_over_ode", [0.5, 1.2], {"scale": "linear"}, Normalize, (0.5, 1.5)),
        ("sgd_over_ode", [0.5, 1.2], {"limits": (0.9, 1.5)}, LogNorm, (0.9, 1.5)),
        ("sgd_risk", [1e-3, 1.0], {"limits": (0.0, 2.0)}, Normalize, (0.0, 2.0)),
    ],
)
def test_scale_of_colours(name, values, options, kind, ends):
    norm, _ = colormaps.choose_scale(name, values, **options)
    assert type(norm) is kind
    assert (norm.vmin, norm.vmax) == pytest.approx(ends)


def test_colour_options_reach_the_figure(grid):
    plot = grid.sweep.plot_phase_diagram
    mesh = plot("gamma", "p").axes[0].collections[0]
    assert isinstance(mesh.norm, LogNorm)
    assert mesh.get_cmap().name == "viridis"
    mesh = plot("gamma", "p", scale="linear", cmap="magma", limits=(0.0, 2.0)).axes[0].collections[0]
    assert type(mesh.norm) is Normalize
    assert mesh.get_cmap().name == "magma"
    assert mesh.get_clim() == (0.0, 2.0)
    own = matplotlib.colormaps["Greys"]
    assert plot("gamma", "p", cmap=own).axes[0].collections[0].get_cmap() == own
    assert plot("gamma", "p", ratio_lines=True).axes[0].texts


# ---- contours


def contour_lines(axes):
    return [lines for lines in axes.collections if hasattr(lines, "levels")]


def test_contours_of_a_grid_are_at_their_values(grid):
    figure = grid.sweep.plot_phase_diagram("gamma", "p", levels=[0.05, 0.1, 0.2])
    rendered(figure)
    axes, bar = figure.axes
    (lines,) = contour_lines(axes)
    assert {text.get_text() for text in axes.texts} == {"0.05", "0.1", "0.2"}
    assert len(lines.get_paths()) == 3
    for path, level in zip(lines.get_paths(), (0.05, 0.1, 0.2), strict=True):
        gamma, p = path.vertices.T
        inside = (gamma >= 0.1) & (gamma <= 2.0) & (p >= 2) & (p <= 16)
        assert inside.sum() > 10
        # ln(γ/p) is linear on the drawn axes; between fine columns matplotlib is linear in γ, to (1/8)²/8
        np.testing.assert_allclose((gamma / p)[inside], level, rtol=5e-3)
    assert any(len(marks.get_paths()) == 3 for marks in bar.collections)


def test_contours_of_points_are_at_their_values(point_cloud):
    figure = point_cloud.sweep.plot_phase_diagram("gamma", "p", levels=[0.01])
    rendered(figure)
    (lines,) = contour_lines(figure.axes[0])
    gamma, p = lines.get_paths()[0].vertices.T
    np.testing.assert_allclose(gamma / p, 0.01, rtol=1e-2)  # straight between the corners of fine triangles
    assert [text.get_text() for text in figure.axes[0].texts] == ["0.01"]


def test_a_number_of_levels_gives_round_ones(grid):
    (lines,) = contour_lines(grid.sweep.plot_phase_diagram("gamma", "p", levels=5).axes[0])
    assert 3 <= len(lines.levels) <= 5
    norm = LogNorm(6e-3, 1.0)
    for count, wanted in (
        (9, [0.01, 0.02, 0.05, 0.1, 0.2, 0.5]), (4, [0.01, 0.03, 0.1, 0.3]), (2, [0.01, 0.1]), (0, []),
    ):  # fmt: skip
        np.testing.assert_allclose(colormaps.choose_levels(count, norm), wanted)
    np.testing.assert_allclose(colormaps.choose_levels(1, LogNorm(1e-6, 1.0)), [1e-5])
    np.testing.assert_allclose(colormaps.choose_levels(4, Normalize(0.0, 1.0)), [0.2, 0.4, 0.6, 0.8])


def test_levels_outside_the_values_draw_nothing(grid):
    axes = grid.sweep.plot_phase_diagram("gamma", "p", levels=[1e-9]).axes[0]
    assert contour_lines(axes) == []


def test_contours_stop_at_missing_values(grid):
    missing = grid.copy(deep=True)
    missing["sgd_risk"].loc[{"gamma": 0.5, "p": 4}] = np.nan
    missing["sgd_status"].loc[{"gamma": 0.5, "p": 4}] = 0
    figure = missing.sweep.plot_phase_diagram("gamma", "p", levels=[0.1])
    rendered(figure)
    gamma, p = np.concatenate([path.vertices for path in contour_lines(figure.axes[0])[0].get_paths()]).T
    near = (np.abs(np.log(gamma / 0.5)) < 0.1) & (np.abs(np.log(p / 4)) < 0.1)
    assert not near.any()


# ---- time and curves


@pytest.fixture(scope="module")
def sizes():
    times = np.array([0.0, 0.01, 0.3, 1.0, 7.0])
    law = {"d": [10, 100], "gamma": [0.5]}
    return make_dataset(lambda time, d: (1 + time) / d, law, times=times, regimes=THEORIES, p=4)


def drawn_times(axes, marker):
    return [line.get_xdata() for line in axes.lines if line.get_marker() == marker]


def test_units_of_time(sizes):
    times = sizes["time"].values[1:]
    for unit, scale_of, label in (
        ("t", lambda d: 1.0, "time $t$"),
        ("steps", lambda d: 4 * d / 0.5, r"steps $\nu$"),
        ("samples/d", lambda d: 4 / 0.5, r"samples per dimension $\nu/d$"),
    ):
        figure = sizes.sweep.plot_curves(time=unit)
        rendered(figure)
        axes = figure.axes[0]
        assert axes.get_xlabel() == label
        for d, line in zip([10, 100], drawn_times(axes, "None"), strict=True):
            np.testing.assert_allclose(line[1:], times * scale_of(d), rtol=1e-12)
        for d, line in zip([10, 100], drawn_times(axes, "o"), strict=True):
            steps = np.rint(times * 4 * d / 0.5)  # SGD makes whole steps
            wanted = times if unit == "t" else steps if unit == "steps" else steps / d
            np.testing.assert_allclose(line, wanted[wanted > 0], rtol=1e-12)


def test_time_still_selects(sizes):
    figure = sizes.sweep.plot_curves(time="0.2:2")
    assert drawn_times(figure.axes[0], "None")[0].tolist() == [0.3, 1.0]


def test_scales_and_colours_of_curves(sizes):
    axes = sizes.sweep.plot_curves(scale="linear", time_scale="linear", cmap="magma").axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("linear", "linear")
    colours = {line.get_color() for line in axes.lines if line.get_marker() == "None"}
    assert colours == set(style.sequential_colours(2, matplotlib.colormaps["magma"]))
    axes = sizes.sweep.plot_curves("risk", scale="log").axes[0]
    assert axes.get_yscale() == "log"


def test_second_curves_on_the_same_axes_keep_the_first(sizes):
    sgd = sizes.drop_vars(["ode_risk", "ode_status"]).sel(d=[10])
    theory = sizes.drop_vars(["sgd_risk", "sgd_status"]).sel(d=[10])
    figure = sgd.sweep.plot_curves(scale="linear")
    axes = figure.axes[0]
    assert theory.sweep.plot_curves(ax=axes) is figure
    rendered(figure)
    texts = [text.get_text() for text in axes.get_legend().get_texts() if text.get_text().strip()]
    assert texts == ["SGD", "classical"]
    assert len(axes.lines) == 2
    assert axes.get_yscale() == "linear"  # that of the first


def test_selected_regime_is_a_line(sizes):
    """A theory is drawn as one even if its regime is no dimension any more."""
    axes = sizes.sel(d=[10]).isel(regime=0).sweep.plot_curves().axes[0]
    assert [line.get_marker() for line in axes.lines] == ["o", "None"]


# ---- texts and errors


def test_options_as_text_are_those_of_python():
    assert read_levels("5") == read_levels(5) == 5
    assert read_levels("5.0") == read_levels([5.0]) == read_levels(5.0) == (5.0,)
    assert read_levels("0.1,0.01") == read_levels((0.1, 0.01)) == (0.01, 0.1)
    assert read_levels(np.array([1.0, 1.0])) == (1.0,)
    assert read_limits("1e-3,1") == read_limits([1e-3, 1]) == (1e-3, 1.0)
    assert READERS["ratio_lines"]("true") is READERS["ratio_lines"](True) is True


@pytest.mark.parametrize(
    ("view", "options", "field", "allowed"),
    [
        ("curves", {"scale": "logarithmic"}, "scale", "one of linear, log"),
        ("curves", {"time_scale": "odd"}, "time_scale", "one of linear, log"),
        ("curves", {"time": "epochs"}, "time", "t, steps, samples/d, or a selection"),
        ("curves", {"levels": 3}, "selection", "must be one of"),
        ("phase-diagram", {"cmap": "veridis"}, "cmap", "viridis"),
        ("phase-diagram", {"cmap": 3}, "cmap", "viridis"),
        ("phase-diagram", {"levels": "many"}, "levels", "number"),
        ("phase-diagram", {"levels": 31}, "levels", "30"),
        ("phase-diagram", {"levels": -1}, "levels", "0"),
        ("phase-diagram", {"levels": [np.nan]}, "levels", "finite"),
        ("phase-diagram", {"levels": np.arange(31.0)}, "levels", "at most 30"),
        ("phase-diagram", {"limits": "1"}, "limits", "two numbers"),
        ("phase-diagram", {"limits": (1.0, 0.1)}, "limits", "ascending"),
        ("phase-diagram", {"limits": (0.0, 1.0), "scale": "log"}, "limits", "positive"),
        ("phase-diagram", {"ratio_lines": "maybe"}, "ratio_lines", "false, true"),
        ("phase-diagram", {"value": "sgd_phase", "levels": 3}, "levels", "label"),
        ("phase-diagram", {"value": "sgd_phase", "scale": "log"}, "scale", "label"),
        ("phase-diagram", {"levels": [0.1], "p": 4, "y": "d"}, "levels", "two values of each axis"),
        ("phase-diagram", {"value": "sgd_diverged", "scale": "log"}, "scale", "must be linear"),
    ],
)
def test_bad_options_say_what_is_allowed(grid, view, options, field, allowed):
    options = {**({"x": "gamma", "y": "p"} if view == "phase-diagram" else {}), **options}
    with pytest.raises(InvalidInput, match=allowed) as error:
        PLOTS[view](grid, **options)
    assert error.value.field == field


def test_few_points_have_no_contours(point_cloud):
    few = point_cloud.isel(point=slice(4))
    few.sweep.plot_phase_diagram("gamma", "p")
    with pytest.raises(InvalidInput, match="at least 7 points"):
        few.sweep.plot_phase_diagram("gamma", "p", levels=2)


def test_axes_of_another_figure_are_used(grid):
    figure = Figure()
    panels = figure.subplots(1, 2)
    assert grid.sweep.plot_phase_diagram("gamma", "p", ax=panels[1]) is figure
    assert panels[1].collections
    assert not panels[0].collections
