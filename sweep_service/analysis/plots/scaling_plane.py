"""The (κ, δ) plane of Veiga et al. (2022), p ~ d^κ and γ ~ d^-δ: predicted regions and measured phases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from sweep_service.analysis.plots import colormaps, style
from sweep_service.numerics.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Range of κ + δ, name, colour, and a hatch for readers who cannot distinguish the colours.
REGIONS = (
    (0.0, np.inf, "perfect learning", style.GREEN, ""),
    (-0.5, 0.0, "bad learning", style.ORANGE, "///"),
    (-np.inf, -0.5, "no ODE description", style.VERMILLION, "xxx"),
)
LINE_NAME = "plateau"
MARKERS = {"perfect": "o", "plateau": "s", "bad": "^", "undecided": "X"}
MIN_RANGES = ((-0.1, 1.0), (-1.4, 0.9))  # of κ and of δ
LETTER_KAPPA = 0.026  # width of a letter along a line, in units of κ
ASPECT_RATIO = 1.2  # width of the axes over their height
NOTE_OFFSETS = (0.0, 0.08, 0.16)  # in κ, from a point to its marker and to the number beside it
SLOPE_NAMES = ("exponent", "slope")
SLOPE_NOTE = r", and slope of $\ln R$ in $\ln d$"


def plot_plane(cases: xr.Dataset | None = None, axes: Axes | None = None) -> Figure:
    """Draw the regions of κ + δ, and the measured `phase` of each case as a marker with its exponent."""
    kappa, delta = (
        np.array([]) if cases is None else np.atleast_1d(cases[name].values).astype(float)
        for name in ("kappa", "delta")
    )
    with style.canvas(axes, height=3.2) as (figure, axes):
        (left, right), (low, high) = (
            (min([min_range[0], *(values - 0.1)]), max([min_range[1], *(values + 0.1)]))
            for values, min_range in zip((kappa, delta), MIN_RANGES, strict=True)
        )
        axes.set(xlim=(left, right), ylim=(low, high))
        x = np.array([left, right])
        for start, end, text, colour, hatch in REGIONS:
            below, above = (np.clip(total - x, low - 9, high + 9) for total in (start, end))
            axes.fill_between(x, below, above, color=colour, alpha=0.22, lw=0)
            if hatch:
                look: dict[str, Any] = {"facecolor": "none", "edgecolor": colour, "hatch": hatch}
                axes.fill_between(x, below, above, alpha=0.25, lw=0, **look)
            _write_name(axes, kappa, delta, (start, end), text)
        axes.plot(x, -x, color=style.BLUE, lw=2.2)
        _write_name(axes, kappa, delta, (0.0, 0.0), LINE_NAME, color=style.BLUE)
        axes.spines[["top", "right"]].set_visible(True)
        axes.set(xlabel=style.axis_label("kappa"), ylabel=style.axis_label("delta"))
        if cases is not None:
            handles = _draw_cases(axes, cases, kappa, delta)
            text = "measured" + (SLOPE_NOTE if any(name in cases for name in SLOPE_NAMES) else "")
            style.legend_below(axes, handles, 4, title=text, alignment="left", handlelength=1.2)
    return figure


def _write_name(
    axes: Axes, kappa: Array, delta: Array, between: tuple[float, float], text: str, color: str = "0.15"
) -> None:
    """Write a name along a line of constant κ + δ, as far as possible from points and borders."""
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    k, d = (
        values.ravel() for values in np.meshgrid(np.linspace(left, right, 81), np.linspace(low, high, 81))
    )
    width, height = (right - left) / ASPECT_RATIO, high - low
    on_line, ends = between[0] == between[1], ((between[0], -1.0), (between[1], 1.0))
    if on_line:
        d = between[0] - k
    distance = np.full(k.shape, np.inf)
    for offset in np.linspace(-0.5, 0.5, 7) * LETTER_KAPPA * len(text):  # κ of some of the letters
        x, y = k + offset, d - offset
        sides = [(x - left) / width, (right - x) / width, (y - low) / height, (high - y) / height]
        if not on_line:
            sides += [(end - x - y) * sign / np.hypot(width, height) for end, sign in ends]
        for a, b in zip(kappa, delta, strict=True):
            sides += [np.hypot((x - a - shift) / width, (y - b) / height) for shift in NOTE_OFFSETS]
        distance = np.minimum(distance, np.min(sides, axis=0))
    best = np.argmax(distance)
    artist = axes.text(
        k[best], d[best], text, rotation=-45, rotation_mode="anchor", transform_rotates_text=True,
        ha="center", va="bottom" if on_line else "center", fontsize=8, zorder=4,
    )  # fmt: skip
    style.outline([artist])
    artist.set_color(color)


def _draw_cases(axes: Axes, cases: xr.Dataset, kappa: Array, delta: Array) -> list[Any]:
    phases = colormaps.to_texts(np.atleast_1d(cases["phase"].values))
    slopes = next((np.atleast_1d(cases[name].values) for name in SLOPE_NAMES if name in cases), None)
    handles = []
    for phase, colour in style.category_colours(phases).items():
        mask, name = phases == phase, phase or colormaps.NO_VALUE
        look: dict[str, Any] = {"marker": MARKERS.get(phase, "P"), "mfc": colour, "ls": "none", "label": name}
        handles += axes.plot(kappa[mask], delta[mask], **look, mec="k", mew=0.6, ms=6.5, zorder=5)
    if slopes is not None:
        for x, y, slope in zip(kappa, delta, slopes, strict=True):
            if np.isfinite(slope):
                number = f"{round(slope, 2) + 0.0:.2f}".replace("-", "\N{MINUS SIGN}")
                placement: dict[str, Any] = {"xytext": (5, 0), "textcoords": "offset points", "va": "center"}
                style.outline([axes.annotate(number, (x, y), **placement, fontsize=6.5, zorder=6)])
    return handles
