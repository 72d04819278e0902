"""Plots of the triangle: corners, ticks, lines of equal γ/p and the choice of auto."""

import numpy as np
import pytest
import xarray as xr
from matplotlib.collections import LineCollection
from matplotlib.contour import ContourSet

from sweep_service.analysis.plots.triangle import CORNERS, HEIGHT, LABEL_OFFSET, plot_triangle
from sweep_service.errors import InvalidInput
from tests.analysis.plots.rendering import rendered


def triangle(resolution=5, delta_t=1e-3, **attrs):
    whole = np.log(1.0 / (delta_t * 2 * 3))
    shares = [(i, j) for i in range(resolution + 1) for j in range(resolution + 1 - i)]
    u_d, u_p = np.array(shares).T / max(resolution, 1)
    d, p = 3 * np.exp(whole * u_d), 2 * np.exp(whole * u_p)
    columns = {"d": d, "p": p, "gamma": delta_t * p * d, "u_d": u_d, "u_p": u_p, "u_gamma": 1 - u_d - u_p}
    regime = np.where(p > 64, "mean_field", "high_dimensional")
    coords = {name: ("point", values) for name, values in {**columns, "auto_regime": regime}.items()}
    attributes = {"delta_t": delta_t, "value": "discrepancy", **attrs}
    return xr.DataArray(columns["gamma"] / p, coords, "point", attrs=attributes)


def test_triangle_has_labels_and_legend():
    figure = plot_triangle(triangle())
    rendered(figure)
    axes, bar = figure.axes
    texts = {text.get_text(): text.get_position() for text in axes.texts}
    positions = {text.split("\n")[0]: position for text, position in texts.items() if "\n" in text}
    for name, corner in zip(("high-dimensional", "mean field", "classical"), CORNERS, strict=True):
        assert positions[name][0] == corner[0]
        assert (positions[name][1] > 0) == (corner[1] > 0)
    for side in (
        "input dimension $d$",
        "student width $p$",
        r"learning rate $\gamma$",
        r"$\delta t$ = $10^{-3}$",
    ):
        assert side in texts
    assert bar.get_xlabel() == "discrepancy $D$"
    legend = axes.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["high dimensional", "mean field"]


def test_ticks_and_lines_are_at_their_values():
    axes = plot_triangle(triangle()).axes[0]
    whole = np.log(1.0 / (1e-3 * 2 * 3))
    right = [
        artist for artist in axes.texts if artist.get_position()[0] >= 0.5
    ]  # the numbers of p are on the left
    heights = {text.get_text(): text.get_position()[1] for text in right}
    assert heights["100"] / HEIGHT == pytest.approx(np.log(100 / 3) / whole)  # d, on the side without p
    dashed = [line.get_ydata() for line in axes.lines if line.get_linestyle() == "--"]
    wanted = np.log(0.1 / 1e-3 / 3) / whole * HEIGHT
    assert any(np.allclose(line, wanted) for line in dashed)
    (text,) = [text for text in axes.texts if text.get_text() == r"$\gamma/p=$ 0.1"]
    assert abs(text.get_position()[1] - wanted) == pytest.approx(LABEL_OFFSET[1])


def test_line_labels_cover_no_point():
    figure = plot_triangle(triangle(6))
    rendered(figure)
    axes = figure.axes[0]
    points = np.concatenate(
        [artist.get_offsets() for artist in axes.collections if hasattr(artist, "get_sizes")]
    )
    positions = axes.transData.transform(points[:28])
    for text in (artist for artist in axes.texts if "gamma/p" in artist.get_text()):
        box = text.get_window_extent()
        assert not any(box.contains(*position) for position in positions), text.get_text()


def test_points_are_barycentric():
    axes = plot_triangle(triangle(1)).axes[0]
    result = np.concatenate([artist.get_offsets() for artist in axes.collections])
    assert {tuple(row) for row in result.round(9)} == {tuple(row) for row in CORNERS.round(9)}


@pytest.mark.parametrize("resolution", [0, 1])
def test_few_points(resolution):
    rendered(plot_triangle(triangle(resolution)))


def test_missing_values_are_crossed_out():
    values = triangle()
    values[:3] = np.nan
    rendered(plot_triangle(values))
    rendered(plot_triangle(values * np.nan))
    crosses = [line for line in plot_triangle(values).axes[0].lines if line.get_marker() == "x"]
    assert [len(line.get_xdata()) for line in crosses] == [3]


def test_colour_limits_without_regimes():
    axes = plot_triangle(triangle().drop_vars("auto_regime"), limits=(1e-5, 1.0)).axes[0]
    assert axes.get_legend() is None
    assert axes.collections[0].get_clim() == pytest.approx((1e-5, 1.0))


def contours(figure):
    """Numbers of contours in the triangle, and their positions on the colour bar."""
    lines = [artist for artist in figure.axes[0].collections if isinstance(artist, ContourSet)]
    on_bar = [artist for artist in figure.axes[1].collections if isinstance(artist, LineCollection)]
    marks = sorted({round(float(path.vertices[0, 0]), 6) for path in on_bar[-1].get_paths()})
    return [len(artist.levels) for artist in lines], marks


def test_contours_are_on_the_colour_bar():
    values = triangle()
    lines, marks = contours(plot_triangle(values))
    assert (lines, len(marks)) == ([5], 5)  # evenly spaced in the logarithm, like the colours
    np.testing.assert_allclose(np.diff(np.log(marks)), np.diff(np.log(marks))[0], rtol=1e-3)
    lines, marks = contours(plot_triangle(values, levels=(0.02, 0.2, 5.0)))
    assert lines == [2]  # none outside the values
    assert marks[:2] == pytest.approx([0.02, 0.2], rel=1e-4)  # a bar is drawn by interpolation


def test_labels_are_rejected():
    labels = triangle(value="sgd_phase").copy(data=np.full(21, "bad"))
    with pytest.raises(InvalidInput, match="a triangle cannot show labels") as error:
        plot_triangle(labels)
    assert error.value.field == "value"
