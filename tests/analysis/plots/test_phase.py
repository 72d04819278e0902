"""Plots of phase diagrams: cells, surfaces, labels and missing values."""

import numpy as np
import pytest
import xarray as xr
from matplotlib.colors import LogNorm, Normalize

from sweep_service.analysis.plots import colormaps, style
from sweep_service.analysis.plots.phase import cell_edges, plot_phase_diagram
from sweep_service.errors import InvalidInput
from tests.analysis.plots.rendering import rendered

P, GAMMA = [2, 4, 8, 16], [0.05, 0.2, 1.0, 5.0, 20.0]


def grid(values, **attrs):
    return xr.DataArray(values, {"p": P, "gamma": GAMMA}, ("p", "gamma"), "sgd_risk", attrs)


def points(count=20, seed=0, **attrs):
    rng = np.random.default_rng(seed)
    d, gamma = 10 ** rng.uniform(1, 3, count), 10 ** rng.uniform(-2, 0, count)
    attributes = {"x": "gamma", "y": "d", "value": "sgd_risk", **attrs}
    return xr.DataArray(gamma / d, {"d": ("point", d), "gamma": ("point", gamma)}, "point", attrs=attributes)


RISKS = 10 ** np.linspace(-4, 0, 20).reshape(4, 5)


def test_grid_of_risks():
    figure = plot_phase_diagram(grid(RISKS, at={"d": 50}), ratio_lines=True)
    rendered(figure)
    axes, bar = figure.axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert (axes.get_xlabel(), axes.get_ylabel()) == (r"learning rate $\gamma$", "student width $p$")
    assert axes.get_title(loc="left") == "$d$ = 50"
    assert [text.get_text() for text in axes.get_yticklabels()] == ["2", "4", "8", "16"]
    assert bar.get_ylabel() == "excess risk $R$ (SGD)"
    mesh = axes.collections[0]
    assert isinstance(mesh.norm, LogNorm)
    assert mesh.get_clim() == pytest.approx((1e-4, 1.0))
    np.testing.assert_array_equal(mesh.get_array().reshape(4, 5), RISKS)
    labels = [text.get_text() for text in axes.texts]
    assert any("0.1" in label for label in labels)  # of γ/p
    assert axes.get_legend() is None


def test_cells_meet_half_way():
    np.testing.assert_allclose(
        cell_edges(np.array([1.0, 10.0, 100.0]), log=True), 10 ** np.array([-0.5, 0.5, 1.5, 2.5])
    )
    np.testing.assert_allclose(cell_edges(np.array([0.0, 1.0, 3.0]), log=False), [-0.5, 0.5, 2.0, 4.0])
    low, high = cell_edges(np.array([7.0]), log=True)
    assert low < 7.0 < high


def test_unsorted_rows_are_drawn_in_order():
    mesh = plot_phase_diagram(grid(RISKS).isel(p=[2, 0, 3, 1])).axes[0].collections[0]
    np.testing.assert_array_equal(mesh.get_array().reshape(4, 5), RISKS)


def test_missing_values_are_hatched():
    values = RISKS.copy()
    values[1, 2] = np.nan
    axes = plot_phase_diagram(grid(values)).axes[0]
    assert axes.patch.get_hatch()
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["no value"]


@pytest.mark.parametrize("values", [np.full((4, 5), np.nan), np.zeros((4, 5)), np.full((4, 5), np.inf)])
def test_grids_without_a_range(values):
    rendered(plot_phase_diagram(grid(values)))


def test_one_cell():
    rendered(plot_phase_diagram(grid(RISKS).isel(p=[0], gamma=[0])))


@pytest.mark.parametrize(
    ("name", "values", "kind", "ends"),
    [
        ("sgd_risk", [1e-3, 1.0], LogNorm, (1e-3, 1.0)),
        ("sgd_risk", [0.5, 1.0], Normalize, (0.5, 1.0)),
        ("sgd_risk", [-4e-16, 1e-3, 1.0], LogNorm, (1e-3, 1.0)),  # round-off
        ("sgd_over_ode", [0.5, 1.2], LogNorm, (0.5, 2.0)),
        ("ratio", [-1.0, 2.0], Normalize, (-1.0, 3.0)),
        ("sgd_specialisation", [0.001, 1.0], Normalize, (0.001, 1.0)),
        ("slope", [-1.0, 1.0], Normalize, (-1.0, 1.0)),
    ],
)
def test_colour_scales(name, values, kind, ends):
    norm, _ = colormaps.choose_scale(name, values)
    assert type(norm) is kind
    assert (norm.vmin, norm.vmax) == pytest.approx(ends)


def test_limits_make_two_diagrams_comparable():
    (mesh,) = plot_phase_diagram(grid(RISKS), limits=(1e-6, 10.0)).axes[0].collections
    assert mesh.get_clim() == pytest.approx((1e-6, 10.0))


def test_phases_have_a_legend_in_fixed_order():
    values = np.full((4, 5), "bad", dtype=object)
    values[0, :2], values[1, 1], values[3, 3] = "perfect", None, "zebra"
    figure = plot_phase_diagram(grid(values))
    rendered(figure)
    (axes,) = figure.axes
    legend = axes.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["perfect", "bad", "zebra", "no value"]
    colours = axes.collections[0].get_cmap().colors
    assert list(colours[:2]) == [style.GREEN, style.ORANGE]
    texts = grid(values.astype(str))
    texts = texts.where(texts != "None", "")
    assert len(plot_phase_diagram(texts).axes[0].get_legend().get_texts()) == 4


def test_points_make_a_surface_on_logarithmic_axes():
    result = points(at={"k": 2})
    figure = plot_phase_diagram(result)
    rendered(figure)
    axes, _ = figure.axes
    (surface,) = axes.collections
    assert len(surface.get_array()) > 1000
    corners = np.concatenate([path.vertices for path in surface.get_paths()])
    middle = corners.reshape(-1, 4, 2)[:, :3].mean(axis=1)  # γ/d is linear in the logarithms
    np.testing.assert_allclose(surface.get_array(), middle[:, 0] / middle[:, 1], rtol=0.05)


def test_points_without_value_are_crossed_out():
    result = points()
    result[:3] = np.nan
    crosses, dots = plot_phase_diagram(result).axes[0].lines
    assert (len(crosses.get_xdata()), len(dots.get_xdata())) == (3, 17)


@pytest.mark.parametrize("count", [1, 3])
def test_few_points_are_drawn_as_markers(count):
    figure = plot_phase_diagram(points(count))
    rendered(figure)
    assert len(figure.axes[0].collections[0].get_offsets()) == count


def test_points_on_a_line_are_drawn_as_markers():
    result = points()
    result["d"] = ("point", 100 * result.gamma.values)
    assert len(plot_phase_diagram(result).axes[0].collections[0].get_offsets()) == 20


def test_labels_at_points_and_no_values():
    result = points()
    named = result.copy(data=np.where(result > 1e-3, "bad", "plateau"))
    figure = plot_phase_diagram(named)
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == ["plateau", "bad"]
    rendered(plot_phase_diagram(result * np.nan))


def test_other_shapes_are_rejected():
    with pytest.raises(InvalidInput):
        plot_phase_diagram(xr.DataArray([1.0], dims="point"))


@pytest.mark.parametrize(
    ("name", "low", "high", "shown"),
    [
        ("sgd_risk", 0.0018, 0.0061, ["0.002", "0.003", "0.004", "0.005", "0.006"]),
        ("sgd_over_ode", 1 / 1.12, 1.12, ["0.9", "0.95", "1", "1.05", "1.1"]),
        (
            "sgd_risk",
            2e-4,
            3e-3,
            [r"$2\times10^{-4}$", r"$5\times10^{-4}$", "$10^{-3}$", r"$2\times10^{-3}$"],
        ),
        ("sgd_bound", 0.02, 1.5, ["0.02", "0.05", "0.1", "0.2", "0.5", "1"]),
    ],
)
def test_colour_bar_has_a_few_numbers(name, low, high, shown):
    diagram = grid(np.geomspace(low, high, 20).reshape(4, 5), value=name)
    figure = plot_phase_diagram(diagram)
    rendered(figure)
    axis = figure.axes[1].yaxis
    ticks = [(tick.get_loc(), tick.label1.get_text()) for tick in (*axis.majorTicks, *axis.minorTicks)]
    inside = [(at, text) for at, text in sorted(ticks) if low * 0.999 <= at <= high * 1.001 and text]
    assert [text for _, text in inside] == shown
