"""The registry of parameters: everything that defines a point, except its initial condition.

The spec and its JSON schema, grids, points, keys, labels, plots, estimates, the catalogue and the form of
the web page read this registry. A new parameter is one entry here and the terms or kernels that use it.

Defaults never change. Every key contains the parameters of the first version. A parameter that was added
later enters keys, random streams and the canonical spec only where it differs from its default, so that
results stored before it existed keep their keys.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Literal

from sweep_service.errors import unknown_name
from sweep_service.model.activations import ACTIVATIONS
from sweep_service.registries import declare_registry
from sweep_service.validation import read_integer, read_number

Scalar = int | float | str
Kind = Literal["integer", "number", "text"]


@dataclass(frozen=True)
class Parameter:
    """A parameter of a point; it is required if it has no default.

    `default_from` names another parameter whose value is the default. `title` labels the axis of a plot,
    `long_name` the variable of a dataset. A number is bounded by `above`, `least` and `most`; a text is one
    of `choices`. `logarithmic` is the usual scale of its axis. `other_names`, in lower case, are those that
    people know it by, for hints in errors.
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
    choices: Callable[[], Collection[str]] = tuple
    logarithmic: bool = False
    in_every_key: bool = False
    other_names: tuple[str, ...] = ()

    @property
    def is_required(self) -> bool:
        return self.default is None and not self.default_from

    def read(self, value: Any, field: str) -> Scalar:
        """Read a value and check that it is within the bounds."""
        if self.kind == "text":
            if not isinstance(value, str) or value not in self.choices():
                raise unknown_name(field, value, self.choices())
            return value
        if self.kind == "integer":
            most = 10**18 if self.most is None else int(self.most)
            return read_integer(value, field, least=int(self.least or 0), most=most)
        return read_number(value, field, above=self.above, least=self.least, most=self.most)

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
            other_names=("dim", "dimension", "input_dim", "input_dimension", "n", "features", "n_features"),
        ),
        Parameter(
            "p", "integer", "p", "$p$", "student width", "width of the student",
            least=1, most=20_000,  # a start holds Q, p by p: 3 GB at the largest p
            logarithmic=True, in_every_key=True,
            other_names=(
                "width", "hidden", "hidden_units", "hidden_size", "n_hidden", "neurons", "student_width", "m",
            ),
        ),
        Parameter(
            "gamma", "number", "γ", r"$\gamma$", "learning rate", "learning rate",
            above=0.0, most=1e12, logarithmic=True, in_every_key=True,
            other_names=("learning_rate", "lr", "eta", "rate", "step_size", "stepsize"),
        ),
        Parameter(
            "k", "integer", "k", "$k$", "teacher width", "width of the teacher",
            least=1, most=1_000, in_every_key=True,
            other_names=("teacher_width", "teacher_neurons", "teachers", "n_teacher"),
        ),
        Parameter(
            "noise", "number", "Δ", r"$\Delta$", "label noise", "variance Δ of the label noise",
            default=0.0, least=0.0, most=1e12, logarithmic=True, in_every_key=True,
            other_names=("variance", "sigma2", "noise_variance", "label_noise"),
        ),
        Parameter(
            "activation", "text", "activation", "", "activation", "activation of the student",
            default="erf", choices=ACTIVATIONS.keys, in_every_key=True,
            other_names=("act", "nonlinearity", "activation_function"),
        ),
        Parameter(
            "teacher_activation", "text", "teacher_activation", "", "teacher activation",
            "activation of the teacher", default_from="activation", choices=ACTIVATIONS.keys,
            in_every_key=True,
        ),
        Parameter(
            "second_layer_rate", "number", "ρ", r"$\rho$", "rate of the second layer",
            "learning rate of the second layer, relative to that of the first",
            default=0.0, least=0.0, most=1e12, logarithmic=True,
            other_names=("readout_rate", "second_layer_learning_rate"),
        ),
        Parameter(
            "batch", "integer", "b", "$b$", "batch size", "samples of each step of SGD",
            default=1, least=1, most=10**7, logarithmic=True,
            other_names=("batch_size", "batchsize", "minibatch", "mini_batch"),
        ),
        Parameter(
            "weight_decay", "number", "κ_w", r"$\kappa_w$", "weight decay",
            "rate of weight decay of the first layer", default=0.0, least=0.0, most=1e12,
            logarithmic=True, other_names=("decay", "wd", "l2", "regularisation", "regularization"),
        ),
    )
}  # fmt: skip
declare_registry("parameter", PARAMETERS)

# The parameters of the first version, which every simulator and every regime supports.
FIRST_PARAMETERS = tuple(name for name, parameter in PARAMETERS.items() if parameter.in_every_key)


def parameter_names(kind: Kind | None = None) -> tuple[str, ...]:
    """Names of all parameters, or of those of one kind, in the order of their axes."""
    return tuple(name for name, parameter in PARAMETERS.items() if kind in (None, parameter.kind))


def later_parameters() -> dict[str, Parameter]:
    """Parameters that are in keys only where they differ from their defaults."""
    return {name: parameter for name, parameter in PARAMETERS.items() if not parameter.in_every_key}
