"""The panels: scatter and shift of SGD over t and d, the constant of the theorem, and a saddle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sweep_service.figures.error_bars.checks import STD_TOLERANCE
from sweep_service.figures.error_bars.moments import (
    THEORY,
    Moments,
    measure_moments,
    measured_constants,
    predicted_constant,
    read_prediction_without_d,
)
from sweep_service.figures.figure import Datasets
from sweep_service.figures.measures import squeeze_except
from sweep_service.figures.panels import panels

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure
    import xarray as xr

SHOWN_TIMES = (0.8, 3.2, 12.8)  # times in panels over d: whole steps in every dimension


def draw(datasets: Datasets) -> matplotlib.figure.Figure:
    """Draw the scatter and the shift over t and d, the constant of the theorem, and the saddle."""
    moments, many = (measure_moments(datasets[name]) for name in ("", "shift"))
    with panels(1, 1, 1, rows=2, height=6.0) as (figure, (std, ratio, constant, shift, offset, saddle)):
        _draw_std(std, datasets[""], moments)
        _draw_ratio(ratio, moments, many)
        _draw_constant(constant, datasets["theorem"])
        _draw_shift(shift, datasets[""], many)
        _draw_offset(offset, moments, many)
        _draw_saddle(saddle, measure_moments(datasets["saddle"]))
    return figure


def _draw_std(axes: matplotlib.axes.Axes, dataset: xr.Dataset, moments: Moments) -> None:
    from sweep_service.analysis.plots import style
    from sweep_service.analysis.plots.curves import thin_samples

    root = moments.std["delta_t"] ** 0.5
    for position, (colour, d) in enumerate(_colours(moments.std)):
        measured = (moments.std / root).sel(d=d)
        time = measured["time"].values
        indices = thin_samples(time, measured.values, True, shift=position / moments.std.sizes["d"])
        axes.plot(
            time[indices], measured.values[indices], "o", mfc="none", mec=colour, mew=0.7, label=f"$d$ = {d}"
        )
    predicted = read_prediction_without_d(dataset, "ode_risk_std")
    axes.plot(predicted["time"], predicted, color="k", zorder=3, label="predicted")
    axes.set(
        xscale="log", yscale="log", xlabel=style.axis_label("time"), ylabel=r"sd $R$ / $\sqrt{\delta t}$"
    )
    style.format_log_axis(axes.yaxis)
    style.legend_below(axes, axes.get_legend_handles_labels()[0], 2)


def _draw_ratio(axes: matplotlib.axes.Axes, moments: Moments, many: Moments) -> None:
    from sweep_service.analysis.plots import style

    axes.axhspan(1.0 - STD_TOLERANCE, 1.0 + STD_TOLERANCE, color="0.92", lw=0.0, label="5 %")
    axes.axhline(1.0, color="k", lw=0.8)
    for number, (colour, marker, time) in enumerate(_series()):
        for sample in _samples(moments, many):
            ratio, error = (a.sel(time=time, method="nearest") for a in (sample.ratio, sample.ratio_error))
            axes.errorbar(
                _spread(ratio["d"], number), ratio, error,
                fmt=marker, color=colour, mfc="w", capsize=2, elinewidth=0.8,
                label=f"$t$ = {time:g}" if sample is many else None,
            )  # fmt: skip
    axes.set(xscale="log", xlabel=style.axis_label("d"), ylabel="sd $R$ of SGD / predicted")
    style.legend_below(axes, axes.get_legend_handles_labels()[0], 2)


def _draw_saddle(axes: matplotlib.axes.Axes, moments: Moments) -> None:
    """Draw 95 % of the runs as bars beside the predicted band, and shade the times that are flagged."""
    from sweep_service.analysis.error_bars.bands import QUANTILE
    from sweep_service.analysis.plots import style

    time = moments.mean["time"].values
    mean, std, predicted, width = (
        squeeze_except(a, "time").values
        for a in (moments.mean, moments.std, moments.predicted_mean, moments.predicted_std)
    )
    flagged = squeeze_except(moments.is_flagged, "time").values
    axes.fill_between(
        time, 0.0, 1.0, where=flagged, transform=axes.get_xaxis_transform(), color=style.ORANGE, alpha=0.2,
        lw=0.0, label="nonlinear",
    )  # fmt: skip
    colour = style.regime_style(THEORY)[0]
    axes.plot(time, predicted, color=colour, label="predicted")
    axes.fill_between(
        time, predicted - QUANTILE * width, predicted + QUANTILE * width, color=colour, alpha=0.25, lw=0.0
    )
    axes.errorbar(
        time[::3], mean[::3], QUANTILE * std[::3],
        fmt="o", color="k", mfc="w", capsize=2, elinewidth=0.8, label="SGD, mean ± 1.96 sd",
    )  # fmt: skip
    late = time >= 10.0  # on the plateau
    axes.set(xlim=(0.0, time[-1]), ylim=(0.0, 1.6 * mean[late].max()))
    axes.set(xlabel=style.axis_label("time"), ylabel="excess risk $R$")
    axes.set_title("escape from a saddle", loc="left")
    axes.ticklabel_format(axis="y", scilimits=(0, 0))
    style.legend_below(axes, axes.get_legend_handles_labels()[0], 1)


def _draw_shift(axes: matplotlib.axes.Axes, dataset: xr.Dataset, moments: Moments) -> None:
    from sweep_service.analysis.plots import style

    shift, error = ((a / a["delta_t"]) for a in (moments.mean - moments.risk, moments.mean_error))
    for number, (colour, d) in enumerate(_colours(shift)):
        axes.errorbar(
            _spread(shift["time"], number), shift.sel(d=d), error.sel(d=d),
            fmt="o", color=colour, mfc="w", capsize=2, elinewidth=0.8, label=f"$d$ = {d}",
        )  # fmt: skip
    predicted = read_prediction_without_d(dataset, "ode_risk_shift")
    axes.plot(predicted["time"], predicted, color="k", zorder=1, label="predicted")
    axes.axhline(0.0, color="0.6", lw=0.8, zorder=0)
    axes.set(
        xscale="log", xlabel=style.axis_label("time"), ylabel=r"(mean $R$ $-$ $R_\mathrm{SS}$)/$\delta t$"
    )
    style.format_log_axis(axes.xaxis)
    axes.ticklabel_format(axis="y", scilimits=(0, 0))
    style.legend_below(axes, axes.get_legend_handles_labels()[0], 2)


def _draw_offset(axes: matplotlib.axes.Axes, moments: Moments, many: Moments) -> None:
    from sweep_service.analysis.plots import style

    for number, (colour, marker, time) in enumerate(_series()):
        for sample in _samples(moments, many):
            arrays = (sample.mean - sample.risk, sample.mean_error)
            offset, error = (array.sel(time=time, method="nearest") for array in arrays)
            axes.errorbar(
                _spread(offset["d"], number), offset, error,
                fmt=marker, color=colour, mfc="w", capsize=2, elinewidth=0.8,
                label=f"$t$ = {time:g}" if sample is many else None,
            )  # fmt: skip
        first = (moments.predicted_mean - moments.risk).isel(d=0).sel(time=time, method="nearest")
        d = np.geomspace(first["d"].item(), moments.mean["d"].values[-1])
        axes.plot(d, first.item() * d[0] / d, color=colour, zorder=1)  # δt times a number without d
    axes.set(xscale="log", xlabel=style.axis_label("d"), ylabel=r"mean $R$ $-$ $R_\mathrm{SS}$")
    axes.ticklabel_format(axis="y", scilimits=(0, 0))
    style.legend_below(axes, axes.get_legend_handles_labels()[0], 2)


def _draw_constant(axes: matplotlib.axes.Axes, dataset: xr.Dataset) -> None:
    from sweep_service.analysis.plots import style

    constant, predicted_error = predicted_constant(dataset)
    measured, error = measured_constants(dataset)
    axes.axhspan(
        constant - predicted_error, constant + predicted_error, color=style.VERMILLION, alpha=0.3, lw=0.0
    )
    axes.axhline(constant, color=style.VERMILLION, lw=0.8, label="predicted")
    axes.errorbar(
        measured["d"], measured, error, fmt="o", color="k", mfc="w", capsize=2, elinewidth=0.8, label="SGD"
    )
    axes.set(xscale="log", xlabel=style.axis_label("d"), ylabel=r"$D/(\sqrt{\delta t}\,R(0))$")
    axes.set_title(r"constant of $\sqrt{\delta t}$", loc="left")
    style.legend_below(axes, axes.get_legend_handles_labels()[0], 2)


def _colours(array: xr.DataArray) -> list[tuple[object, int]]:
    """A colour for each d."""
    from sweep_service.analysis.plots import style

    dimensions = array["d"].values.tolist()
    return list(zip(style.sequential_colours(len(dimensions)), dimensions, strict=True))


def _series() -> list[tuple[str, str, float]]:
    """Colour, marker and time of the series in panels over d."""
    from sweep_service.analysis.plots import style

    return list(zip(style.OKABE_ITO, style.MARKERS, SHOWN_TIMES, strict=False))


def _samples(moments: Moments, many: Moments) -> tuple[Moments, Moments]:
    """The moments of many runs, and the others at the dimensions that these lack."""
    others = ~moments.mean["d"].isin(many.mean["d"]).values
    return many, Moments(*(array.isel(d=others) for array in moments))


def _spread(x: xr.DataArray, number: int) -> xr.DataArray:
    """Positions on a logarithmic axis at which the bars of several series do not cover each other."""
    return x * 1.07 ** (number - 1)
