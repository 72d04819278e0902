"""The registry of parameters: everything that defines a point, beside its start.

The spec and its JSON schema, grids, points, keys, labels, plots, estimates, the catalogue and the form of
the page read this registry, so a new parameter is one entry here and the terms or kernels that use it.

Defaults never change. The parameters that every key contains are those of the first version; one that was
added later enters keys, random streams and the canonical spec whenever it differs from its default, so that
results which were stored before it existed keep theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Literal

from sweep_service.errors import InvalidInput, unknown_name
from sweep_service.model.activations import ACTIVATIONS
from sweep_service.validation import number, whole

Scalar = int | float | str
Kind = Literal["integer", "number", "text"]


@dataclass(frozen=True)
class Parameter:
    """One parameter of a point. Without a default it must be given.

    `default_from` names another parameter whose value is the default. `title` is what stands at the axis of
    a plot, `long_name` what a dataset says. `choices` are the values of a text; bounds are those of a single
    number. Axes are logarithmic by habit if `logarithmic` says so.
    """

    name: str
    kind: Kind
    symbol: str
    latex: str
    title: str
    long_name: str
    default: Scalar | None = None
    default_from: str = ""
    above: float | None = None
    least: float | None = None
    most: float | None = None
    choices: Callable[[], Collection[str]] = tuple  # of a text
    logarithmic: bool = False
    in_every_key: bool = False

    @property
    def is_required(self) -> bool:
        return self.default is None and not self.default_from

    def typed(self, value: Any, field: str) -> Scalar:
        """One spelling for each value, so that 1 and 1.0 are the same axis; bounds are for `read`."""
        if self.kind == "text":
            if not isinstance(value, str):
                raise InvalidInput(field, value, "must be a name")
            return value
        if self.kind == "integer":
            return whole(value, field, least=int(self.least or 0))
        return number(value, field)

    def read(self, value: Any, field: str) -> Scalar:
        """A value within the bounds."""
        if self.kind == "text":
            if not isinstance(value, str) or value not in self.choices():
                raise unknown_name(field, value, self.choices())
            return value
        if self.kind == "integer":
            most = 10**18 if self.most is None else int(self.most)
            return whole(value, field, least=int(self.least or 0), most=most)
        return number(value, field, above=self.above, least=self.least, most=self.most)

    def schema(self) -> dict[str, Any]:
        """The JSON schema of a single value."""
        limits = {"minimum": self.least, "exclusiveMinimum": self.above, "maximum": self.most}
        bounds = {name: limit for name, limit in limits.items() if limit is not None}
        if self.kind == "text":
            return {"type": "string", "description": self.long_name, "enum": [*self.choices()]}
        return {"type": self.kind, "description": self.long_name, **bounds}


PARAMETERS: dict[str, Parameter] = {
    parameter.name: parameter
    for parameter in (
        Parameter(
            "d", "integer", "d", "$d$", "input dimension", "input dimension",
            least=1, most=10**12, logarithmic=True, in_every_key=True,
        ),
        Parameter(
            "p", "integer", "p", "$p$", "student width", "width of the student",
            least=1, most=20_000,  # a start holds Q, p by p: 3 GB at the largest p
            logarithmic=True, in_every_key=True,
        ),
        Parameter(
            "gamma", "number", "γ", r"$\gamma$", "learning rate", "learning rate",
            above=0.0, most=1e12, logarithmic=True, in_every_key=True,
        ),
        Parameter(
            "k", "integer", "k", "$k$", "teacher width", "width of the teacher",
            least=1, most=1_000, in_every_key=True,
        ),
        Parameter(
            "noise", "number", "Δ", r"$\Delta$", "label noise", "variance Δ of the label noise",
            default=0.0, least=0.0, most=1e12, logarithmic=True, in_every_key=True,
        ),
        Parameter(
            "activation", "text", "activation", "", "activation", "activation of the student",
            default="erf", choices=ACTIVATIONS.keys, in_every_key=True,
        ),
        Parameter(
            "teacher_activation", "text", "teacher_activation", "", "teacher activation",
            "activation of the teacher", default_from="activation", choices=ACTIVATIONS.keys,
            in_every_key=True,
        ),
    )
}  # fmt: skip

# Those of the first version, which every simulator and every regime supports.
FIRST_PARAMETERS = tuple(name for name, one in PARAMETERS.items() if one.in_every_key)


def names(kind: Kind | None = None) -> tuple[str, ...]:
    """Names of all parameters, or of those of a kind, in the order of their axes."""
    return tuple(name for name, one in PARAMETERS.items() if kind in (None, one.kind))


def added_later() -> dict[str, Parameter]:
    """Parameters that are in keys only where they differ from their defaults."""
    return {name: one for name, one in PARAMETERS.items() if not one.in_every_key}
