"""Symbols, scales and colours; the settings of matplotlib are restored."""

import subprocess
import sys
import threading

import matplotlib
import numpy as np
import pytest
from matplotlib.ticker import ScalarFormatter

from sweep_service.analysis.plots import style
from sweep_service.dynamics.regimes import REGIMES


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.1, "0.1"), (0.05, "0.05"), (1000, "1000"), (999.9999, "1000"), (1422.6, "1423"), (12345, "12345"),
        (1e-3, "$10^{-3}$"), (1e5, "$10^{5}$"), (-1e-4, "$-10^{-4}$"), (3.2e-5, r"$3.2\times10^{-5}$"),
        (0, "0"), (-0.75, "−0.75"), (float("nan"), "nan"), (np.inf, "inf"), ("mean_field", "mean field"),
    ],
)  # fmt: skip
def test_numbers_are_short(value, shown):
    assert style.format_number(value) == shown


def test_labels_have_symbols():
    assert style.axis_label("gamma") == r"learning rate $\gamma$"
    assert style.axis_label("sgd_risk") == "excess risk $R$ (SGD)"
    assert style.axis_label("sgd_seconds", "s") == "seconds (s) (SGD)"
    assert style.format_parameter("noise", 0.01) == r"$\Delta$ = 0.01"
    assert style.format_parameter("p", [4, 16, 8]) == "$p$ = 4 … 16"
    assert style.format_parameter("init.scale", 2.0) == "scale = 2"
    assert style.format_with_error(0.4965, 0.0033) == "0.4965 ± 0.0033"
    assert style.format_with_error(-1.0, float("nan")) == "−1"


@pytest.mark.parametrize(
    ("name", "values", "log"),
    [
        ("d", [5, 500], True),
        ("p", [2, 4, 8, 16], True),
        ("gamma", [0.5, 1.0], False),  # a short range
        ("noise", [0.0, 0.1], False),
        ("kappa", [0.01, 1.0], False),
        ("sgd_risk", [1e-5, np.nan, 0.1], True),
        ("risk", [np.nan], False),
    ],
)
def test_logarithmic_axes(name, values, log):
    assert style.is_log(name, values) is log


def test_every_regime_has_its_own_style():
    assert set(style.REGIME_STYLES) == set(REGIMES)
    assert len(set(style.REGIME_STYLES.values())) == len(REGIMES)
    assert {colour for colour, _ in style.REGIME_STYLES.values()} <= set(style.OKABE_ITO)
    assert style.regime_style("auto") == (style.BLACK, "-")


def test_colours_differ_for_colour_blind_readers():
    """Viénot's projections for protanopes and deuteranopes keep the colours distinct."""
    hexes = [style.BLUE, style.GREEN, style.VERMILLION, style.PURPLE, style.SKY, style.ORANGE, style.BLACK]
    rgb = np.array([[int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)] for colour in hexes]) ** 2.2
    for seen in ([[0.112, 0.888], [0.112, 0.888]], [[0.293, 0.707], [0.293, 0.707]]):
        two = np.column_stack([rgb[:, :2] @ np.array(seen[0]), rgb[:, 2]]) ** (1 / 2.2)
        apart = np.linalg.norm(two[:, None] - two[None], axis=-1) + np.eye(len(hexes))
        assert apart.min() > 0.08  # a twelfth of the range is visible at the size of a marker


def test_unknown_categories_have_colours():
    result = style.category_colours(["zebra", "bad", "perfect", "ape"])
    assert list(result) == ["perfect", "bad", "ape", "zebra"]
    assert len(set(result.values())) == 4


def test_settings_are_restored():
    before = dict(matplotlib.rcParams)
    with style.use_style(), style.use_style():
        assert matplotlib.rcParams["pdf.fonttype"] == 42
    assert dict(matplotlib.rcParams) == before


def test_one_thread_at_a_time():
    inside, most = [], []

    def enter():
        for _ in range(5):
            with style.use_style():
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=enter) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) == 1
    assert matplotlib.rcParams["svg.hashsalt"] is None


def test_import_is_light_and_drawing_needs_no_pyplot():
    code = """
import sys
from sweep_service.analysis.plots import collapse, cosines, curves, phase, rates, save
from sweep_service.analysis.plots import scaling_plane, triangle
assert "matplotlib" not in sys.modules
import io
save.save(scaling_plane.plot_plane(), io.BytesIO())
save.save(rates.plot_rates([1, 2], [3, 4]), io.BytesIO(), "pdf")
assert "matplotlib.figure" in sys.modules and "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize(
    ("ends", "shown"),
    [
        ((1.0, 30.0), ["1", "2", "5", "10", "20"]),
        ((0.03, 0.4), ["0.05", "0.1", "0.2"]),
        ((1.3e-3, 4e-3), [r"$2\times10^{-3}$"]),
        ((1e-4, 1.0), [rf"$10^{{{power}}}$" for power in range(-4, 1)]),
    ],
)
def test_logarithmic_axes_have_few_plain_ticks(ends, shown):
    with style.use_style():
        axes = style.new_figure(3, 3).add_subplot()
        axes.plot(ends, ends)
        axes.set(xscale="log", xlim=ends)
        style.format_log_ticks(axes)
        axes.figure.draw_without_rendering()
        low, high = ends
        ticks = [
            (value, text)
            for axis in (axes.xaxis,)
            for minor in (False, True)
            for value, text in zip(
                axis.get_ticklocs(minor=minor),
                [text.get_text() for text in axis.get_ticklabels(minor=minor)],
                strict=False,
            )
            if low * (1 - 1e-9) <= value <= high * (1 + 1e-9) and text
        ]
    assert [text for _, text in sorted(ticks)] == shown
    assert isinstance(axes.yaxis.get_major_formatter(), ScalarFormatter)  # a linear axis is not changed
