"""Colours of values in a plane: scales, categories, and the surface through scattered points."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sweep_service.analysis.plots import style
from sweep_service.analysis.plots.options import Limits, Scale
from sweep_service.errors import InvalidInput
from sweep_service.numerics.types import AnyArray, Array

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.tri import Triangulation

MIN_SURFACE_POINTS = 7  # fewer points are drawn as markers
MIN_RELATIVE_WIDTH = 1e-6  # relative to the length: a narrower set of points is a line
UNIT_INTERVAL_VALUES = ("specialisation", "cosine", "diverged", "share")  # in [0, 1], so the scale is linear
MIN_LOG_RATIO = 3.0  # of the largest to the smallest value, for logarithmic colours
SURFACE_TRIANGLES = 20_000  # drawn for a surface
MAX_LINEAR_TICK_RATIO = 10.0  # below it, a logarithmic bar has the ticks of a linear one
LABEL_WIDTH = 40  # characters in a line beside a colour bar
NO_VALUE = "no value"


def is_categorical(values: AnyArray) -> bool:
    """Whether values are labels instead of numbers."""
    return values.dtype.kind in "OUS"


def to_texts(values: AnyArray) -> AnyArray:
    """Categories as texts; empty for missing values."""
    texts = [value if isinstance(value, str) else "" for value in values.ravel().tolist()]
    return np.array(texts, dtype=object).reshape(values.shape)


def choose_scale(
    name: str,
    values: Any,
    scale: Scale | None = None,
    cmap: Colormap | None = None,
    limits: Limits | None = None,
) -> tuple[Any, Any]:
    """The norm and the colour map for values with this name.

    Ratios have a diverging map around 1, unless limits are given. By default, positive values over a factor
    of 3 or more have a logarithmic norm, except those that are between 0 and 1 by definition.
    """
    from matplotlib import colormaps
    from matplotlib.colors import LogNorm, Normalize

    numbers = style.finite_values(values if limits is None else limits)
    is_ratio = "ratio" in name or "_over_" in name
    colours = cmap if cmap is not None else colormaps["RdBu_r" if is_ratio else "viridis"]
    if numbers.size == 0:
        return Normalize(0.0, 1.0), colours
    low, high = float(numbers.min()), float(numbers.max())
    if scale is None:
        scale = "log" if (low > 0 if is_ratio else _is_log(name, numbers)) else "linear"
    if limits is not None:
        if scale == "log" and low <= 0.0:
            raise InvalidInput("limits", limits, "must be positive on a logarithmic scale")
        return (LogNorm if scale == "log" else Normalize)(low, high), colours
    if scale == "log":
        positive = numbers[numbers > 0]
        if positive.size == 0:
            raise InvalidInput("scale", scale, f"must be linear: {name or 'the value'} is nowhere positive")
        low = float(positive.min())
        if is_ratio:
            bound = max(high, 1.0 / low, 1.01)
            return LogNorm(1.0 / bound, bound), colours
        return (LogNorm(low, high) if low < high else LogNorm(low / 2.0, high * 2.0)), colours
    if is_ratio:
        bound = max(high - 1.0, 1.0 - low, 0.01)
        return Normalize(1.0 - bound, 1.0 + bound), colours
    if low == high:  # one colour, in the middle of the bar
        low, high = low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)
    return Normalize(low, high), colours


def _is_log(name: str, numbers: Array) -> bool:
    """Whether colours are logarithmic by default."""
    quantity = name.removeprefix("sgd_").removeprefix("ode_")
    positive = numbers[numbers > 0]
    if positive.size == 0 or quantity in UNIT_INTERVAL_VALUES:
        return False
    is_positive = numbers.min() > 0 or "risk" in name or "discrepancy" in name  # except for round-off
    return bool(is_positive and numbers.max() >= MIN_LOG_RATIO * positive.min())


def clip(values: Array, norm: Any) -> Array:
    """Clip values to the norm, as round-off may make a risk negative; NaN stays."""
    return np.where(np.isnan(values), np.nan, np.clip(values, norm.vmin, norm.vmax))


def add_colour_bar(axes: Axes, mappable: Any, text: str, **options: Any) -> Any:
    """Add a colour bar with a few round ticks and a label in short lines."""
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import MaxNLocator, NullLocator

    colour_bar = axes.figure.colorbar(mappable, ax=axes, pad=0.02, aspect=28, **options)
    text = text.replace(
        " - ", "\N{NO-BREAK SPACE}\N{MINUS SIGN}\N{NO-BREAK SPACE}"
    )  # no line break in a difference
    colour_bar.set_label(textwrap.fill(text, LABEL_WIDTH))
    low, high = mappable.get_clim()
    is_log = isinstance(mappable.norm, LogNorm)
    if not is_log or high < MAX_LINEAR_TICK_RATIO * low:  # a few round numbers
        ticks = MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(low, high)
        colour_bar.set_ticks([tick for tick in ticks if low <= tick <= high])
        colour_bar.long_axis.set_minor_locator(NullLocator())
        colour_bar.long_axis.set_major_formatter(lambda value, _: style.format_number(value))
    else:
        style.format_log_axis(colour_bar.long_axis)
    colour_bar.outline.set_linewidth(0.4)
    return colour_bar


def value_label(array: xr.DataArray) -> str:
    """The label of the colour bar, from the attributes of the array."""
    name = str(array.attrs.get("value", array.name or ""))
    units = str(array.attrs.get("units", "1"))
    quantity = name.removeprefix("sgd_").removeprefix("ode_")
    if style.has_label(name) or style.has_label(quantity) or "long_name" not in array.attrs:
        return style.axis_label(name, units)
    return str(array.attrs["long_name"]) + ("" if units in ("1", "") else f" ({units})")


def triangulate(x: Array, y: Array) -> Triangulation | None:
    """Triangulate points in the drawn plane; None if there are too few, or if they lie on a line."""
    from matplotlib.tri import Triangulation

    points = np.column_stack([x, y])
    if len(np.unique(points, axis=0)) < MIN_SURFACE_POINTS:
        return None
    points = (points - points.mean(axis=0)) / np.maximum(np.ptp(points, axis=0), 1e-300)
    widths = np.linalg.svd(points, compute_uv=False)
    if widths[1] <= MIN_RELATIVE_WIDTH * widths[0]:
        return None
    return Triangulation(x, y, Triangulation(*points.T).triangles)


def refine_surface(
    triangulation: Triangulation, values: Array, norm: Any, logs: Sequence[bool] = (False, False)
) -> tuple[Triangulation, Array]:
    """A fine triangulation, and heights that interpolate norm(values) linearly in the drawn plane.

    matplotlib's own shading interpolates colours instead of values, and does not support logarithmic axes.
    """
    from matplotlib.tri import LinearTriInterpolator, Triangulation, UniformTriRefiner

    heights = np.asarray(norm(values), dtype=float)
    subdivisions = int(np.clip(np.log(SURFACE_TRIANGLES / len(triangulation.triangles)) / np.log(4.0), 1, 5))
    refined, interpolated = UniformTriRefiner(triangulation).refine_field(
        heights, LinearTriInterpolator(triangulation, heights), subdiv=subdivisions
    )
    x, y = (
        np.exp(column) if log else column for column, log in zip((refined.x, refined.y), logs, strict=True)
    )
    return Triangulation(x, y, refined.triangles), np.asarray(interpolated, dtype=float)


def draw_surface(axes: Axes, surface: Triangulation, heights: Array, norm: Any, cmap: Any) -> Any:
    """Draw a surface of `refine_surface` in colours."""
    values = norm.inverse(np.clip(heights, 0.0, 1.0))
    return axes.tripcolor(
        surface, values, norm=norm, cmap=cmap, rasterized=True, edgecolors="face", linewidth=0.3
    )


# ---- contours


def choose_levels(levels: int | Sequence[float], norm: Any) -> Array:
    """The values of contour lines: those given, or round ones, about as many as a given number."""
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import MaxNLocator

    if not isinstance(levels, int | np.integer):
        return np.array(levels, dtype=float)
    if levels == 0:
        return np.array([])
    low, high = float(norm.vmin), float(norm.vmax)
    if isinstance(norm, LogNorm) and high > MAX_LINEAR_TICK_RATIO * low:
        return _round_log_levels(low, high, int(levels))
    ticks = np.asarray(MaxNLocator(int(levels) + 1, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high))
    return ticks[(ticks > low) & (ticks < high)]


def _round_log_levels(low: float, high: float, count: int) -> Array:
    """1, 2 and 5 times powers of ten, powers of ten alone, or every n-th of them: at most `count`."""
    powers = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1.0)
    for factors in ((1.0, 2.0, 5.0), (1.0, 3.0), (1.0,)):
        levels = np.multiply.outer(powers, factors).ravel()
        levels = levels[(levels > low) & (levels < high)]
        if len(levels) <= count:
            return levels
    return levels[:: -(-len(levels) // count)]


def label_contours(axes: Axes, lines: Any, levels: Array, normed_levels: Array) -> None:
    """Write its value on each line."""
    texts = {
        float(height): style.format_number(level) for height, level in zip(normed_levels, levels, strict=True)
    }
    style.outline(axes.clabel(lines, fmt=texts, fontsize=6, inline_spacing=2))


def draw_contours(
    axes: Axes, draw: Callable[..., Any], heights: Array, norm: Any, levels: Array, labelled: bool = True
) -> None:
    """Draw lines of equal value by `axes.contour` or `axes.tricontour`, whose heights are norm(values)."""
    normed_levels = np.asarray(norm(levels), dtype=float)
    is_visible = (normed_levels > np.nanmin(heights)) & (normed_levels < np.nanmax(heights))
    if not is_visible.any():
        return
    lines = draw(levels=normed_levels[is_visible], colors="k", linewidths=0.6, alpha=0.7)
    if labelled:
        style.add_halo(lines)
        label_contours(axes, lines, levels[is_visible], normed_levels[is_visible])


def hatch_background(axes: Axes) -> Any:
    """Hatch the background, which shows where there is no value, and return its legend entry."""
    from matplotlib.patches import Patch

    pattern: dict[str, Any] = {"facecolor": "0.94", "edgecolor": "0.65", "hatch": "/////", "linewidth": 0.0}
    axes.patch.set(**pattern)
    return Patch(**pattern, label=NO_VALUE)
