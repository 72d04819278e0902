"""Colours of values in a plane: scales, categories, and the surface through scattered points."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sweep_service.analysis.plots import style
from sweep_service.numerics.types import AnyArray, Array

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.tri import Triangulation

MIN_SURFACE_POINTS = 7  # fewer points are drawn as markers
MIN_RELATIVE_WIDTH = 1e-6  # relative to the length: a narrower set of points is a line
UNIT_INTERVAL_VALUES = ("specialisation", "cosine", "diverged", "share")  # in [0, 1], so the scale is linear
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


def choose_scale(name: str, values: Any) -> tuple[Any, Any]:
    """The norm and the colour map for values with this name.

    Ratios have a diverging map around 1. Positive values over more than a decade have a logarithmic norm.
    """
    from matplotlib import colormaps
    from matplotlib.colors import LogNorm, Normalize

    numbers = style.finite_values(values)
    if numbers.size == 0:
        return Normalize(0.0, 1.0), style.sequential_colormap()
    low, high = float(numbers.min()), float(numbers.max())
    if "ratio" in name or "_over_" in name:
        if low > 0:
            bound = max(high, 1.0 / low, 1.01)
            return LogNorm(1.0 / bound, bound), colormaps["RdBu_r"]
        bound = max(high - 1.0, 1.0 - low)
        return Normalize(1.0 - bound, 1.0 + bound), colormaps["RdBu_r"]
    positive = numbers[numbers > 0]
    if positive.size and not any(text in name for text in UNIT_INTERVAL_VALUES):
        is_positive = low > 0 or "risk" in name or "discrepancy" in name  # except for round-off
        if is_positive and high > 10.0 * positive.min():
            return LogNorm(float(positive.min()), high), colormaps["viridis"]
    if low == high:  # one colour, in the middle of the bar
        low, high = low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)
    return Normalize(low, high), colormaps["viridis"]


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


def draw_surface(
    axes: Axes,
    triangulation: Triangulation,
    values: Array,
    norm: Any,
    cmap: Any,
    logs: Sequence[bool] = (False, False),
) -> Any:
    """Draw a surface that interpolates values linearly, or their logarithms if the norm is logarithmic.

    matplotlib's own shading interpolates colours instead of values, and does not support logarithmic axes.
    """
    from matplotlib.colors import LogNorm
    from matplotlib.tri import LinearTriInterpolator, Triangulation, UniformTriRefiner

    is_log = isinstance(norm, LogNorm)
    heights = np.log(values) if is_log else values
    subdivisions = int(np.clip(np.log(SURFACE_TRIANGLES / len(triangulation.triangles)) / np.log(4.0), 1, 5))
    refined, interpolated = UniformTriRefiner(triangulation).refine_field(
        heights, LinearTriInterpolator(triangulation, heights), subdiv=subdivisions
    )
    heights = np.asarray(interpolated, dtype=float)
    x, y = (
        np.exp(column) if log else column for column, log in zip((refined.x, refined.y), logs, strict=True)
    )
    mappable = axes.tripcolor(
        Triangulation(x, y, refined.triangles), np.exp(heights) if is_log else heights,
        norm=norm, cmap=cmap, rasterized=True, edgecolors="face", linewidth=0.3,
    )  # fmt: skip
    return mappable


def hatch_background(axes: Axes) -> Any:
    """Hatch the background, which shows where there is no value, and return its legend entry."""
    from matplotlib.patches import Patch

    pattern: dict[str, Any] = {"facecolor": "0.94", "edgecolor": "0.65", "hatch": "/////", "linewidth": 0.0}
    axes.patch.set(**pattern)
    return Patch(**pattern, label=NO_VALUE)
