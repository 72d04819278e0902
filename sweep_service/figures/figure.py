"""A figure: the sweeps that it needs, its golden numbers, and its drawing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, SupportsFloat

from sweep_service.presets import PRESETS, read_assumptions

if TYPE_CHECKING:
    import matplotlib.figure
    import xarray as xr

Datasets = Mapping[str, "xr.Dataset"]


@dataclass(frozen=True)
class Check:
    """A number of a figure and its bound. NaN fails."""

    name: str
    value: float
    bound: str
    passed: bool

    @classmethod
    def at_most(cls, name: str, value: SupportsFloat, high: float) -> Check:
        return cls(name, float(value), f"<= {high:g}", float(value) <= high)

    @classmethod
    def at_least(cls, name: str, value: SupportsFloat, low: float) -> Check:
        return cls(name, float(value), f">= {low:g}", float(value) >= low)

    @classmethod
    def within(cls, name: str, value: SupportsFloat, low: float, high: float) -> Check:
        return cls(name, float(value), f"in [{low:g}, {high:g}]", low <= float(value) <= high)

    def __str__(self) -> str:
        value = "none" if math.isnan(self.value) else f"{self.value:.3g}"
        return f"{self.name}: {value} ({self.bound}){'' if self.passed else ' FAILED'}"


@dataclass(frozen=True)
class Figure:
    """A figure of the papers, of the full model or of the error bars.

    `check` and `draw` take its datasets by name: "" is the main one.

    The names of the others follow the name of the figure: that of the preset `rates-full-gamma` is `gamma`.
    """

    name: str
    title: str
    presets: tuple[str, ...]  # of the quick form
    full_presets: tuple[str, ...]  # with more points, starts or time
    assumptions: tuple[str, ...]  # of its checks, beside those of its presets
    check: Callable[[Datasets], list[Check]]
    draw: Callable[[Datasets], matplotlib.figure.Figure]

    def list_assumptions(self, presets: Iterable[str]) -> list[str]:
        """What these presets and the checks of the figure assume beyond the papers, each once."""
        texts = [text for preset in presets if preset in PRESETS for text in read_assumptions(preset)]
        return list(dict.fromkeys([*texts, *self.assumptions]))

    def dataset_name(self, preset: str) -> str:
        """The name of the dataset of a preset."""
        return preset.removeprefix(self.name).removeprefix("-full").removeprefix("-")
