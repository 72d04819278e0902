"""The form of a view: the choices that a user makes before the view is drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import xarray as xr

from sweep_service.analysis.axes import point_axes
from sweep_service.analysis.curves import scalar_observables
from sweep_service.analysis.error_bars.seed_curves import seed_values
from sweep_service.analysis.point_values import available_values
from sweep_service.model.labels import find_label

Offers = Literal["observables", "values", "seed values", "axes", "axes and step", "sources"]
# What is offered for each axis that a view does not show: each value or all of them; one value, by default
# the first or the middle one; or nothing.
Rest = Literal["all", "first", "middle", "nothing"]
PREFERRED_VALUES = ("sgd_risk", "ode_risk")  # the default, if available


@dataclass(frozen=True)
class Control:
    """One choice: the option that it sets, its title, and what it offers: a named set, or fixed choices."""

    option: str
    title: str
    offers: Offers | tuple[str, ...]
    default: str = ""
    default_position: int = 0  # of the choice selected first, if the default is missing or not offered

    def describe(self, dataset: xr.Dataset) -> dict[str, Any]:
        """The control for a dataset, as plain data."""
        choices = (
            _name_choices(self.offers) if isinstance(self.offers, tuple) else CHOICES[self.offers](dataset)
        )
        values = [choice["value"] for choice in choices]
        default = self.default or next((value for value in PREFERRED_VALUES if value in values), "")
        if values and default not in values:
            default = values[self.default_position]
        return {"word": self.option, "title": self.title, "options": choices, "default": default}


@dataclass(frozen=True)
class Form:
    """The controls of a view, and what the form offers for the axes that the view does not show.

    The view shows the axes in `covers` and those chosen in `axis_controls`. With `one_regime`, a regime must
    be chosen if there are several.
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


def _name_choices(names: Any) -> list[dict[str, str]]:
    return [{"value": name, "title": name.replace("_", " ")} for name in names]


def _axis_choices(dataset: xr.Dataset) -> list[dict[str, str]]:
    """Axes with several values."""
    names = [name for name, values in point_axes(dataset).items() if len(values) > 1]
    return [_axis_choice(name) for name in names]


def _axis_choice(name: str) -> dict[str, str]:
    label = find_label(name)
    return {"value": name, "title": (label.symbol if label is not None else "") or name}


def _source_choices(dataset: xr.Dataset) -> list[dict[str, str]]:
    regimes = [str(name) for name in dataset["regime"].values] if "regime" in dataset.dims else []
    return _name_choices([*(["sgd"] if "sgd_risk" in dataset else []), *regimes])


CHOICES: dict[str, Callable[[xr.Dataset], list[dict[str, str]]]] = {
    "observables": lambda dataset: _name_choices(scalar_observables(dataset)),
    "values": lambda dataset: _name_choices(available_values(dataset)),
    "seed values": lambda dataset: _name_choices(seed_values(dataset)),
    "axes": _axis_choices,
    "axes and step": lambda dataset: [*_axis_choices(dataset), _axis_choice("delta_t")],
    "sources": _source_choices,
}
