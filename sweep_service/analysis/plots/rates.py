"""Rates: points with errors on logarithmic axes, the fitted power law, and reference slopes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sweep_service.analysis.plots import style
from sweep_service.errors import InvalidInput

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MIN_LOG_SPAN = 1e-9  # of the parameter: below it, its values are equal up to rounding
MAX_LEGEND_ENTRIES = 14  # a taller legend leaves no room for the axes


def plot_rates(
    x: Any,
    y: Any,
    error: Any = None,
    fit: Mapping[Any, Any] | None = None,
    slopes: Sequence[float] = (),
    axes: Axes | None = None,
    *,
    xlabel: str = "delta_t",
    ylabel: str = "discrepancy",
    name: str = "",
    colour: str = style.BLUE,
) -> Figure:
    """Draw points with standard errors; a second call on the same axes adds another series.

    `fit` has `exponent`, `standard_error` and `prefactor`, like a case of `exponent()`; `slopes` are drawn
    through the middle of the points. Labels are names of parameters, or any text.
    """
    x, y = (np.atleast_1d(np.asarray(values, dtype=float)) for values in (x, y))
    if x.shape != y.shape:
        raise InvalidInput("y", y.shape, f"must have the shape of x, {x.shape}")
    bars = (
        np.full(y.shape, np.nan)
        if error is None
        else np.broadcast_to(np.asarray(error, dtype=float), y.shape)
    )
    valid = np.isfinite(x) & np.isfinite(y) & (x > 0) & (y > 0)
    x, y, bars = x[valid], y[valid], bars[valid]
    from matplotlib.container import ErrorbarContainer

    with style.canvas(axes) as (figure, axes):
        axes.set(xscale="log", yscale="log", xlabel=_label(xlabel), ylabel=_label(ylabel))
        is_single = len(x) > 0 and np.ptp(np.log(x)) < MIN_LOG_SPAN and not axes.has_data()
        if is_single:
            axes.set_autoscale_on(False)
        if len(x):
            lower = np.minimum(bars, 0.9 * y)  # a bar down to zero would have no end on this axis
            axes.errorbar(
                x, y, [np.nan_to_num(lower), np.nan_to_num(bars)], fmt="o", color=colour, mfc="w", capsize=2,
                elinewidth=0.8, label=name or "measured", zorder=3,
            )  # fmt: skip
            span = np.array([x.min(), x.max()]) * ([1.0, 1.0] if len(x) > 1 else [0.5, 2.0])
            if fit is not None and np.isfinite(float(fit["exponent"])):
                power, power_error = float(fit["exponent"]), float(fit["standard_error"])
                exponent_text = style.format_with_error(power, power_error)
                axes.plot(
                    span,
                    float(fit["prefactor"]) * span**power,
                    color=colour,
                    label=f"exponent {exponent_text}",
                )
            middle = np.exp(np.mean(np.log(x))), np.exp(np.mean(np.log(y)))
            for slope, line in zip(slopes, ("--", ":", "-.") * len(slopes), strict=False):
                reference = middle[1] * (span / middle[0]) ** slope
                axes.plot(
                    span, reference, ls=line, color="0.45", lw=0.9, label=f"slope {slope:g}".replace("-", "−")
                )
            if is_single:  # the limits that matplotlib chooses for one value are round-off
                axes.set(xlim=[0.5 * x.min(), 2.0 * x.max()], ylim=[0.5 * y.min(), 2.0 * y.max()])
            style.format_log_ticks(axes)
            handles, names = axes.get_legend_handles_labels()
            is_line = [not isinstance(handle, ErrorbarContainer) for handle in handles]
            order = np.argsort(is_line, kind="stable")  # points first
            shown = order[:MAX_LEGEND_ENTRIES]
            labels = [names[index] for index in shown]
            if len(shown) < len(order):
                labels[-1] += f", and {len(order) - len(shown)} more"
            axes.legend([handles[index] for index in shown], labels, loc="best")
    return figure


def _label(name: str) -> str:
    return style.axis_label(name) if style.has_label(name) else name
