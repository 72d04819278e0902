"""Symbols, scales and colours; the settings of matplotlib stay as they were."""

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
    assert style.number(value) == shown


def test_labels_have_symbols():
    assert style.label("gamma") == r"learning rate $\gamma$"
    assert style.label("sgd_risk") == "excess risk $R$ (SGD)"
    assert style.label("sgd_seconds", "s") == "seconds (s) (SGD)"
    assert style.text("noise", 0.01) == r"$\Delta$ = 0.01"
    assert style.text("p", [4, 16, 8]) == "$p$ = 4 … 16"
    assert style.text("init.scale", 2.0) == "scale = 2"
    assert style.with_error(0.4965, 0.0033) == "0.4965 ± 0.0033"
    assert style.with_error(-1.0, float("nan")) == "−1"


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


def test_no_two_colours_are_alike_without_red_or_green():
    """Viénot's projection for protanopes and deuteranopes keeps the palette apart."""
    hexes = [style.BLUE, style.GREEN, style.VERMILLION, style.PURPLE, style.SKY, style.ORANGE, style.BLACK]
    rgb = np.array([[int(one[at : at + 2], 16) / 255 for at in (1, 3, 5)] for one in hexes]) ** 2.2
    for seen in ([[0.112, 0.888], [0.112, 0.888]], [[0.293, 0.707], [0.293, 0.707]]):
        two = np.column_stack([rgb[:, :2] @ np.array(seen[0]), rgb[:, 2]]) ** (1 / 2.2)
        apart = np.linalg.norm(two[:, None] - two[None], axis=-1) + np.eye(len(hexes))
        assert apart.min() > 0.08  # a twelfth of the range is seen at the size of a marker


def test_unknown_categories_have_colours():
    found = style.category_colours(["zebra", "bad", "perfect", "ape"])
    assert list(found) == ["perfect", "bad", "ape", "zebra"]
    assert len(set(found.values())) == 4


def test_settings_are_put_back():
    before = dict(matplotlib.rcParams)
    with style.style(), style.style():
        assert matplotlib.rcParams["pdf.fonttype"] == 42
    assert dict(matplotlib.rcParams) == before


def test_one_thread_at_a_time():
    inside, most = [], []

    def enter():
        for _ in range(5):
            with style.style():
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=enter) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
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
def test_ticks_of_logarithmic_axes_are_few_and_plain(ends, shown):
    with style.style():
        axes = style.new_figure(3, 3).add_subplot()
        axes.plot(ends, ends)
        axes.set(xscale="log", xlim=ends)
        style.log_ticks(axes)
        axes.figure.draw_without_rendering()
        low, high = ends
        ticks = [
            (value, text)
            for axis in (axes.xaxis,)
            for minor in (False, True)
            for value, text in zip(
                axis.get_ticklocs(minor=minor),
                [one.get_text() for one in axis.get_ticklabels(minor=minor)],
                strict=False,
            )
            if low * (1 - 1e-9) <= value <= high * (1 + 1e-9) and text
        ]
    assert [text for _, text in sorted(ticks)] == shown
    assert isinstance(axes.yaxis.get_major_formatter(), ScalarFormatter)  # a linear axis is left alone
