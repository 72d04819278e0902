"""The form of a view: what a person chooses before it is drawn, on the page or anywhere else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import xarray as xr

from sweep_service.analysis.axes import point_axes
from sweep_service.analysis.curves import single_observables
from sweep_service.analysis.point_values import values_of
from sweep_service.model.labels import label_of

Offers = Literal["observables", "values", "axes", "axes and step", "sources"]
# What is offered for each axis that a view does not show: every value or all of them, one value beginning
# with the first or with the one in the middle, or nothing.
Rest = Literal["all", "first", "middle", "nothing"]
FIRST_VALUES = ("sgd_risk", "ode_risk")  # to begin with, where there is one


@dataclass(frozen=True)
class Control:
    """One choice: the word that it sets, its title, and what it offers; fixed options are listed."""

    word: str
    title: str
    offers: Offers | tuple[str, ...]
    default: str = ""
    default_position: int = 0  # of the option to begin with, where no default is named or it is not offered

    def describe(self, dataset: xr.Dataset) -> dict[str, Any]:
        """The control for a dataset, as plain data."""
        options = _named(self.offers) if isinstance(self.offers, tuple) else OPTIONS[self.offers](dataset)
        values = [option["value"] for option in options]
        default = self.default or next((value for value in FIRST_VALUES if value in values), "")
        if values and default not in values:
            default = values[self.default_position]
        return {"word": self.word, "title": self.title, "options": options, "default": default}


@dataclass(frozen=True)
class Form:
    """The controls of a view, and what it asks about the axes that it does not show.

    The axes that it shows are `covers` and those chosen in `axis_controls`. With `one_regime` a theory must
    be chosen where there are several.
    """

    controls: tuple[Control, ...] = ()
    axis_controls: tuple[str, ...] = ()
    covers: tuple[str, ...] = ()
    rest: Rest = "all"
    one_regime: bool = False

    def describe(self, dataset: xr.Dataset) -> dict[str, Any]:
        """The form for a dataset, as plain data."""
        return {
            "controls": [control.describe(dataset) for control in self.controls],
            "axis_controls": list(self.axis_controls),
            "covers": list(self.covers),
            "rest": self.rest,
            "one_regime": self.one_regime,
        }


def _named(names: Any) -> list[dict[str, str]]:
    return [{"value": name, "title": name.replace("_", " ")} for name in names]


def _axes(dataset: xr.Dataset) -> list[dict[str, str]]:
    """Axes with several values."""
    names = [name for name, values in point_axes(dataset).items() if len(values) > 1]
    return [_symbol(name) for name in names]


def _symbol(name: str) -> dict[str, str]:
    label = label_of(name)
    return {"value": name, "title": (label.symbol if label is not None else "") or name}


def _sources(dataset: xr.Dataset) -> list[dict[str, str]]:
    regimes = [str(name) for name in dataset["regime"].values] if "regime" in dataset.dims else []
    return _named([*(["sgd"] if "sgd_risk" in dataset else []), *regimes])


OPTIONS: dict[str, Callable[[xr.Dataset], list[dict[str, str]]]] = {
    "observables": lambda dataset: _named(single_observables(dataset)),
    "values": lambda dataset: _named(values_of(dataset)),
    "axes": _axes,
    "axes and step": lambda dataset: [*_axes(dataset), _symbol("delta_t")],
    "sources": _sources,
}
