"""The (κ, δ) plane of Veiga et al. (2022), p ~ d^κ and γ ~ d^-δ: what theory says, what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from sweep_service.analysis.plots import colormaps, style
from sweep_service.numerics.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Between which κ + δ, with a hatch for who does not see its colour.
REGIONS = (
    (0.0, np.inf, "perfect learning", style.GREEN, ""),
    (-0.5, 0.0, "bad learning", style.ORANGE, "///"),
    (-np.inf, -0.5, "no ODE description", style.VERMILLION, "xxx"),
)
LINE = "plateau"
MARKS = {"perfect": "o", "plateau": "s", "bad": "^", "undecided": "X"}
LEAST = ((-0.1, 1.0), (-1.4, 0.9))  # of κ and of δ, shown at least
REACH = 0.026  # in κ, of a letter that is written along a line
WIDE = 1.2  # of the axes, in units of their height
NOTE = (0.0, 0.08, 0.16)  # in κ, from a point: its marker and the number beside it
SLOPES = ("exponent", "slope")
NUMBERS = r", and slope of $\ln R$ in $\ln d$"


def plot_plane(cases: xr.Dataset | None = None, axes: Axes | None = None) -> Figure:
    """Regions by κ + δ, over them the measured `phase` of each case as a marker, with its exponent."""
    kappa, delta = (
        np.array([]) if cases is None else np.atleast_1d(cases[name].values).astype(float)
        for name in ("kappa", "delta")
    )
    with style.canvas(axes, height=3.2) as (figure, axes):
        (left, right), (low, high) = (
            (min([least[0], *(at - 0.1)]), max([least[1], *(at + 0.1)]))
            for at, least in zip((kappa, delta), LEAST, strict=True)
        )
        axes.set(xlim=(left, right), ylim=(low, high))
        across = np.array([left, right])
        for start, end, text, colour, hatch in REGIONS:
            below, above = (np.clip(total - across, low - 9, high + 9) for total in (start, end))
            axes.fill_between(across, below, above, color=colour, alpha=0.22, lw=0)
            if hatch:
                look: dict[str, Any] = {"facecolor": "none", "edgecolor": colour, "hatch": hatch}
                axes.fill_between(across, below, above, alpha=0.25, lw=0, **look)
            _name(axes, kappa, delta, (start, end), text)
        axes.plot(across, -across, color=style.BLUE, lw=2.2)
        _name(axes, kappa, delta, (0.0, 0.0), LINE, color=style.BLUE)
        axes.spines[["top", "right"]].set_visible(True)
        axes.set(xlabel=style.label("kappa"), ylabel=style.label("delta"))
        if cases is not None:
            handles = _measured(axes, cases, kappa, delta)
            text = "measured" + (NUMBERS if any(one in cases for one in SLOPES) else "")
            style.legend_below(axes, handles, 4, title=text, alignment="left", handlelength=1.2)
    return figure


def _name(
    axes: Axes, kappa: Array, delta: Array, between: tuple[float, float], text: str, color: str = "0.15"
) -> None:
    """Along a line of one κ + δ, where its letters are farthest from points and from the region's ends."""
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    k, d = (one.ravel() for one in np.meshgrid(np.linspace(left, right, 81), np.linspace(low, high, 81)))
    width, height = (right - left) / WIDE, high - low
    on_line, ends = between[0] == between[1], ((between[0], -1.0), (between[1], 1.0))
    if on_line:
        d = between[0] - k
    free = np.full(k.shape, np.inf)
    for along in np.linspace(-0.5, 0.5, 7) * REACH * len(text):  # κ of some of its letters
        x, y = k + along, d - along
        sides = [(x - left) / width, (right - x) / width, (y - low) / height, (high - y) / height]
        if not on_line:
            sides += [(end - x - y) * sign / np.hypot(width, height) for end, sign in ends]
        for a, b in zip(kappa, delta, strict=True):
            sides += [np.hypot((x - a - shift) / width, (y - b) / height) for shift in NOTE]
        free = np.minimum(free, np.min(sides, axis=0))
    at = np.argmax(free)
    written = axes.text(
        k[at], d[at], text, rotation=-45, rotation_mode="anchor", transform_rotates_text=True,
        ha="center", va="bottom" if on_line else "center", fontsize=8, zorder=4,
    )  # fmt: skip
    style.outlined([written])
    written.set_color(color)


def _measured(axes: Axes, cases: xr.Dataset, kappa: Array, delta: Array) -> list[Any]:
    phases = colormaps.named(np.atleast_1d(cases["phase"].values))
    slopes = next((np.atleast_1d(cases[name].values) for name in SLOPES if name in cases), None)
    handles = []
    for phase, colour in style.category_colours(phases).items():
        here, name = phases == phase, phase or colormaps.BLANK
        look: dict[str, Any] = {"marker": MARKS.get(phase, "P"), "mfc": colour, "ls": "none", "label": name}
        handles += axes.plot(kappa[here], delta[here], **look, mec="k", mew=0.6, ms=6.5, zorder=5)
    if slopes is not None:
        for x, y, slope in zip(kappa, delta, slopes, strict=True):
            if np.isfinite(slope):
                number = f"{round(slope, 2) + 0.0:.2f}".replace("-", "\N{MINUS SIGN}")
                place: dict[str, Any] = {"xytext": (5, 0), "textcoords": "offset points", "va": "center"}
                style.outlined([axes.annotate(number, (x, y), **place, fontsize=6.5, zorder=6)])
    return handles
