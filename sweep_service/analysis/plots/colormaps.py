"""Colours of values over a plane: scales, categories, and the surface through scattered points."""

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

FEWEST = 7  # points that make a surface; fewer are shown as they are
FLAT = 1e-6  # of its length: a cloud narrower than this is a line
BOUNDED = ("specialisation", "cosine", "diverged", "share")  # on [0, 1]: equal steps mean the same
PIECES = 20_000  # small triangles of a surface
SHORT = 10.0  # a factor within which a logarithmic bar has round numbers as a linear one has
WIDEST = 40  # letters beside a colour bar
BLANK = "no value"


def is_categorical(values: AnyArray) -> bool:
    return values.dtype.kind in "OUS"


def named(values: AnyArray) -> AnyArray:
    """Categories as texts, without those that say that there is none."""
    texts = [one if isinstance(one, str) else "" for one in values.ravel().tolist()]
    return np.array(texts, dtype=object).reshape(values.shape)


def scale(name: str, values: Any) -> tuple[Any, Any]:
    """The norm and the map of colours for such values.

    Ratios diverge from 1; what is positive and spans more than a decade is logarithmic.
    """
    from matplotlib import colormaps
    from matplotlib.colors import LogNorm, Normalize

    numbers = style.finite(values)
    if numbers.size == 0:
        return Normalize(0.0, 1.0), style.sequential()
    low, high = float(numbers.min()), float(numbers.max())
    if "ratio" in name or "_over_" in name:
        if low > 0:
            reach = max(high, 1.0 / low, 1.01)
            return LogNorm(1.0 / reach, reach), colormaps["RdBu_r"]
        reach = max(high - 1.0, 1.0 - low)
        return Normalize(1.0 - reach, 1.0 + reach), colormaps["RdBu_r"]
    positive = numbers[numbers > 0]
    if positive.size and not any(word in name for word in BOUNDED):
        is_positive = low > 0 or "risk" in name or "discrepancy" in name  # but for round-off
        if is_positive and high > 10.0 * positive.min():
            return LogNorm(float(positive.min()), high), colormaps["viridis"]
    if low == high:  # one colour, in the middle of its bar
        low, high = low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)
    return Normalize(low, high), colormaps["viridis"]


def clipped(values: Array, norm: Any) -> Array:
    """A risk that round-off made negative has the lowest colour; what has no value stays without."""
    return np.where(np.isnan(values), np.nan, np.clip(values, norm.vmin, norm.vmax))


def bar(axes: Axes, drawn: Any, text: str, **options: Any) -> Any:
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import MaxNLocator, NullLocator

    shown = axes.figure.colorbar(drawn, ax=axes, pad=0.02, aspect=28, **options)
    text = text.replace(
        " - ", "\N{NO-BREAK SPACE}\N{MINUS SIGN}\N{NO-BREAK SPACE}"
    )  # a difference stays whole
    shown.set_label(textwrap.fill(text, WIDEST))
    low, high = drawn.get_clim()
    is_log = isinstance(drawn.norm, LogNorm)
    if not is_log or high < SHORT * low:  # no crowd of numbers, nor one alone
        ticks = MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(low, high)
        shown.set_ticks([tick for tick in ticks if low <= tick <= high])
        shown.long_axis.set_minor_locator(NullLocator())
        shown.long_axis.set_major_formatter(lambda value, _: style.number(value))
    else:
        style.log_axis(shown.long_axis)
    shown.outline.set_linewidth(0.4)
    return shown


def value_label(array: xr.DataArray) -> str:
    """What the colours mean, from the array's own attributes."""
    name = str(array.attrs.get("value", array.name or ""))
    units = str(array.attrs.get("units", "1"))
    quantity = name.removeprefix("sgd_").removeprefix("ode_")
    if style.is_known(name) or style.is_known(quantity) or "long_name" not in array.attrs:
        return style.label(name, units)
    return str(array.attrs["long_name"]) + ("" if units in ("1", "") else f" ({units})")


def net_of(x: Array, y: Array) -> Triangulation | None:
    """Triangles between points in the plane as it is drawn; None where they are few, or on a line."""
    from matplotlib.tri import Triangulation

    cloud = np.column_stack([x, y])
    if len(np.unique(cloud, axis=0)) < FEWEST:
        return None
    cloud = (cloud - cloud.mean(axis=0)) / np.maximum(np.ptp(cloud, axis=0), 1e-300)
    widths = np.linalg.svd(cloud, compute_uv=False)
    if widths[1] <= FLAT * widths[0]:
        return None
    return Triangulation(x, y, Triangulation(*cloud.T).triangles)


def surface(
    axes: Axes,
    net: Triangulation,
    values: Array,
    norm: Any,
    cmap: Any,
    logs: Sequence[bool] = (False, False),
) -> Any:
    """Small triangles with values linear between the points, of their logarithms where colours are so.

    matplotlib's own shading mixes colours in place of values, and does not know logarithmic axes.
    """
    from matplotlib.colors import LogNorm
    from matplotlib.tri import LinearTriInterpolator, Triangulation, UniformTriRefiner

    is_log = isinstance(norm, LogNorm)
    heights = np.log(values) if is_log else values
    depth = int(np.clip(np.log(PIECES / len(net.triangles)) / np.log(4.0), 1, 5))
    fine, found = UniformTriRefiner(net).refine_field(
        heights, LinearTriInterpolator(net, heights), subdiv=depth
    )
    heights = np.asarray(found, dtype=float)
    x, y = (np.exp(column) if log else column for column, log in zip((fine.x, fine.y), logs, strict=True))
    drawn = axes.tripcolor(
        Triangulation(x, y, fine.triangles), np.exp(heights) if is_log else heights,
        norm=norm, cmap=cmap, rasterized=True, edgecolors="face", linewidth=0.3,
    )  # fmt: skip
    return drawn


def blank(axes: Axes) -> Any:
    """Hatches the ground, which shows where nothing is drawn over it; its entry for a legend."""
    from matplotlib.patches import Patch

    look: dict[str, Any] = {"facecolor": "0.94", "edgecolor": "0.65", "hatch": "/////", "linewidth": 0.0}
    axes.patch.set(**look)
    return Patch(**look, label=BLANK)
