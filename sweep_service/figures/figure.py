"""What a figure of the papers is: the sweeps it needs, the numbers that must come out, and its drawing."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, SupportsFloat

if TYPE_CHECKING:
    import matplotlib.figure
    import xarray as xr

Parts = Mapping[str, "xr.Dataset"]


@dataclass(frozen=True)
class Check:
    """One number of a figure against its bound; NaN passes none."""

    name: str
    value: float
    bound: str
    passed: bool

    @classmethod
    def at_most(cls, name: str, value: SupportsFloat, most: float) -> Check:
        return cls(name, float(value), f"<= {most:g}", float(value) <= most)

    @classmethod
    def at_least(cls, name: str, value: SupportsFloat, least: float) -> Check:
        return cls(name, float(value), f">= {least:g}", float(value) >= least)

    @classmethod
    def within(cls, name: str, value: SupportsFloat, low: float, high: float) -> Check:
        return cls(name, float(value), f"in [{low:g}, {high:g}]", low <= float(value) <= high)

    def __str__(self) -> str:
        value = "none" if math.isnan(self.value) else f"{self.value:.3g}"
        return f"{self.name}: {value} ({self.bound}){'' if self.passed else ' FAILED'}"


@dataclass(frozen=True)
class Figure:
    """A figure of the papers. `check` and `draw` get datasets by part: "" is the main one.

    The others are named by what follows the figure's name: that of `rates-full-gamma` is `gamma`.
    """

    name: str
    title: str
    presets: tuple[str, ...]  # in their quick form
    full: tuple[str, ...]
    assumptions: tuple[str, ...]  # where the papers leave something open
    check: Callable[[Parts], list[Check]]
    draw: Callable[[Parts], matplotlib.figure.Figure]

    def part(self, preset: str) -> str:
        """What the dataset of one of its presets is called."""
        return preset.removeprefix(self.name).removeprefix("-full").removeprefix("-")
