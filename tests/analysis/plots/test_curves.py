"""Plots of curves: points, lines, bands, scales and legends."""

import numpy as np
import pytest

from sweep_service.analysis.plots import style
from sweep_service.analysis.plots.curves import MAX_MARKERS, thin_samples
from sweep_service.analysis.view_plots import plot_curves
from sweep_service.errors import InvalidInput
from sweep_service.status import Status
from tests.analysis.plots.rendering import rendered
from tests.analysis.synthetic import make_dataset

THEORIES = ("classical", "high_dimensional")


def falling(time, p=1, d=1):
    return p * d / (1 + time) ** 2


def drawn(figure, render=False):
    if render:
        rendered(figure)
    (axes, *others) = figure.axes
    names = [text.get_text() for text in axes.get_legend().get_texts() if text.get_text() != " "]
    marks = [line for line in axes.lines if line.get_marker() == "o"]
    return axes, others, names, marks, [line for line in axes.lines if line not in marks]


def test_one_point_is_coloured_by_regime():
    dataset = make_dataset(falling, regimes=THEORIES, seeds=4, scatter=0.2)
    axes, bars, names, marks, lines = drawn(plot_curves(dataset))
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("time $t$", "excess risk $R$")
    assert axes.get_title(loc="left") == r"$d$ = 100, $p$ = 4, $\gamma$ = 0.5"
    assert names == ["SGD", "classical", "high dimensional"]
    assert [line.get_color() for line in lines] == [style.regime_style(name)[0] for name in THEORIES]
    assert len(marks) == 1
    assert 20 < len(marks[0].get_xdata()) <= MAX_MARKERS
    assert min(marks[0].get_xdata()) > 0  # t = 0 cannot be shown
    assert (len(axes.collections), bars) == (1, [])  # one band


def test_few_values_are_in_the_legend():
    dataset = make_dataset(falling, {"p": [2, 4, 8]}, regimes=THEORIES)
    axes, bars, names, marks, lines = drawn(plot_curves(dataset))
    assert names == ["SGD", "classical", "high dimensional", "$p$ = 2", "$p$ = 4", "$p$ = 8"]
    assert (len(marks), len(lines), bars) == (3, 6, [])
    assert len({line.get_color() for line in lines}) == 3
    assert len({line.get_linestyle() for line in lines}) == 2
    assert not axes.collections  # one run has no band
    assert axes.get_title(loc="left") == r"$d$ = 100, $\gamma$ = 0.5"


def test_many_values_have_a_colour_bar():
    dataset = make_dataset(falling, {"p": np.arange(2, 22)}, regimes=("classical",), seeds=2, scatter=0.1)
    axes, (bar,), names, marks, _ = drawn(plot_curves(dataset), render=True)
    assert (len(marks), names) == (20, ["SGD", "classical"])
    assert bar.get_ylabel() == "student width $p$"
    assert [text.get_text() for text in bar.get_yticklabels()][0::5] == ["2", "21"]
    assert not axes.collections


def test_title_shows_other_axes_that_vary():
    dataset = make_dataset(falling, {"d": [10, 20], "p": [2, 4, 8]})
    axes, *_ = drawn(plot_curves(dataset))
    assert axes.get_title(loc="left") == r"$d$ = 10 … 20, $\gamma$ = 0.5"
    points = make_dataset(falling, {"d": [10, 20, 30], "p": [4, 2, 2], "gamma": [1.0, 1.0, 1.0]}, points=True)
    *_, names, _, _ = drawn(plot_curves(points))
    assert names[1:] == ["$d$ = 10", "$d$ = 20", "$d$ = 30"]  # d distinguishes all points, p does not


def test_selection_is_drawn_on_given_axes():
    dataset = make_dataset(falling, {"p": [2, 4]})
    with style.use_style():
        figure = style.new_figure(4, 2)
        left, right = figure.subplots(1, 2)
    assert plot_curves(dataset, "risk", ax=right, p=4) is figure
    assert (len(left.lines), len(right.lines)) == (0, 1)


def test_zero_and_negative_risks_are_left_out():
    dataset = make_dataset(lambda time: np.where(time > 1, -1e-16, 1 / (1 + 1e3 * time)))
    axes, _, _, marks, _ = drawn(plot_curves(dataset))
    assert axes.get_yscale() == "log"
    assert np.all(marks[0].get_ydata() > 0)
    assert max(marks[0].get_xdata()) <= 1


def test_flat_risk_and_other_observables_have_linear_axes():
    dataset = make_dataset(
        lambda time: 0.5 + 0.1 * np.sin(time), observables={"specialisation": lambda time: time / 100}
    )
    assert plot_curves(dataset).axes[0].get_yscale() == "linear"
    axes = plot_curves(dataset, "specialisation").axes[0]
    assert (axes.get_yscale(), axes.get_ylabel()) == ("linear", "specialisation")


@pytest.mark.parametrize("times", [[0.0], [0.0, 1.0], [0.0, 1.0, 2.0]])
def test_few_times(times):
    drawn(plot_curves(make_dataset(falling, times=np.array(times), regimes=THEORIES)), render=True)


def test_sweep_without_results_is_drawn_empty():
    *_, marks, lines = drawn(plot_curves(make_dataset(falling, status=Status.PENDING)), render=True)
    assert len(marks) == 1
    assert not len(marks[0].get_xdata())
    assert not lines


def test_unknown_observable_is_rejected():
    with pytest.raises(InvalidInput):
        plot_curves(make_dataset(falling), "charm")


def test_thinned_samples_are_evenly_spaced():
    time = np.concatenate([np.linspace(0.01, 0.1, 500), np.geomspace(0.11, 100, 50)])
    steps = np.diff(np.log(time[thin_samples(time, time, log=True)]))
    assert steps.max() < 2.1 * (np.log(1e4) / (MAX_MARKERS - 1))  # a neighbour is at most half a step off


def test_markers_of_equal_curves_do_not_overlap():
    dataset = make_dataset(
        lambda time: 1.0 / (1 + time), {"d": [10, 20, 40]}, times=np.geomspace(0.01, 100, 121)
    )
    *_, marks, _ = drawn(plot_curves(dataset))
    first, second, third = (set(line.get_xdata().tolist()) for line in marks)
    last = {max(first)}
    assert not (first & second | second & third | first & third) - last
    assert all(12 <= len(markers) <= MAX_MARKERS for markers in (first, second, third))
