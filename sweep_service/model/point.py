"""A point: one set of physical parameters with its initial condition."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from sweep_service.errors import InvalidInput
from sweep_service.model.activations import ACTIVATIONS, Activation
from sweep_service.model.initial import Init, Shape, Start
from sweep_service.model.parameters import (
    FIRST_PARAMETERS,
    PARAMETERS,
    Scalar,
    later_parameters,
    parameter_names,
)
from sweep_service.model.schedule import Schedule
from sweep_service.model.second_layer import Readout, SecondLayer
from sweep_service.model.structures import SECOND_LAYER, STRUCTURES, TEACHER_SECOND_LAYER, split_teacher
from sweep_service.validation import reject_unknown_keys

ONES, CONSTANT = SecondLayer(), Schedule()
# Names by which regimes and simulators declare what they support, beside those of the registry.
STRUCTURED_PARAMETERS = (SECOND_LAYER, TEACHER_SECOND_LAYER, "schedule")


@dataclass(frozen=True)
class Point:
    """Input dimension d, student width p, teacher width k, learning rate gamma, label noise Δ, …

    `others` holds the parameters that were added to the registry later. `point["name"]` is the value of
    any parameter.
    """

    d: int
    p: int
    k: int
    gamma: float
    noise: float
    activation: Activation
    teacher_activation: Activation
    init: Init
    others: Mapping[str, Scalar] = field(default_factory=dict)
    second_layer: SecondLayer = ONES
    teacher_second_layer: SecondLayer = ONES
    schedule: Schedule = CONSTANT

    @classmethod
    def parse(cls, value: Any) -> Point:
        """Read a mapping; raises `InvalidInput` with the name of the field."""
        if isinstance(value, Point):
            return value
        known = (*parameter_names(), *STRUCTURES)
        if not isinstance(value, Mapping):
            raise InvalidInput("point", value, f"must be a mapping with {', '.join(known)}")
        reject_unknown_keys(value, known, "point")
        fields: dict[str, Any] = _read_parameters(value)
        for name in ("activation", "teacher_activation"):
            fields[name] = ACTIVATIONS[fields[name]]
        others = {name: fields.pop(name) for name in later_parameters()}
        shape = Shape(fields["d"], fields["p"], fields["k"])
        init, teacher_second_layer = read_start(value, shape)
        return cls(
            **fields, init=init, others=others,
            second_layer=_read_second_layer(value, SECOND_LAYER, shape.p, "p"),
            teacher_second_layer=teacher_second_layer,
            schedule=Schedule.parse(value["schedule"]) if "schedule" in value else CONSTANT,
        )  # fmt: skip

    def __getitem__(self, name: str) -> Any:
        """Value of a parameter; activations are returned by name, structured ones by their content."""
        if name in STRUCTURED_PARAMETERS:
            return getattr(self, name).content()
        if name in self.others:
            return self.others[name]
        value = getattr(self, name)
        return value.name if isinstance(value, Activation) else value

    @cached_property
    def content(self) -> dict[str, Any]:
        """The parameters that identify the point, without its initial condition.

        Parameters that were added later are included only where they are not at their defaults, so that
        keys from before they existed do not change.
        """
        return {name: self[name] for name in FIRST_PARAMETERS} | self.non_default

    @cached_property
    def non_default(self) -> dict[str, Any]:
        """Values of parameters that were added later and are not at their defaults."""
        later = later_parameters()
        scalars = {name: value for name, value in self.others.items() if value != later[name].default}
        structured = {
            name: self[name] for name in STRUCTURED_PARAMETERS if not getattr(self, name).is_default
        }
        return {**scalars, **structured}

    def find_unsupported(self, supports: Collection[str]) -> list[str]:
        """Names of parameters that are not at their defaults and not among `supports`."""
        return [name for name in self.non_default if name not in supports]

    def require_support(self, supports: Collection[str], component: str) -> None:
        """Raise if `component`, which supports these parameters, would ignore one of this point."""
        for name in self.find_unsupported(supports):
            default = "its default" if name in STRUCTURED_PARAMETERS else PARAMETERS[name].default
            raise InvalidInput(name, self[name], f"is not supported by {component}: leave it at {default}")

    @property
    def shape(self) -> Shape:
        return Shape(self.d, self.p, self.k)

    @property
    def delta_t(self) -> float:
        """Time of one SGD step, γ/(pd)."""
        return self.gamma / (self.p * self.d)

    @property
    def gamma_over_p(self) -> float:
        return self.gamma / self.p

    @property
    def largest_noise_rate(self) -> float:
        """γu/(pb) at the largest factor u of the schedule: the factor of the terms of single samples."""
        return self.gamma_over_p / self.batch * self.schedule.largest_factor

    @property
    def largest_step(self) -> float:
        """u δt at the largest factor u of the schedule."""
        return self.delta_t * self.schedule.largest_factor

    @property
    def second_layer_rate(self) -> float:
        return float(self.others.get("second_layer_rate", 0.0))

    @property
    def batch(self) -> int:
        return int(self.others.get("batch", 1))

    @property
    def weight_decay(self) -> float:
        return float(self.others.get("weight_decay", 0.0))

    def start(self, seed: int) -> Start:
        """Draw the start of one seed; the second layers do not change the first ones."""
        start = self.init.start(self.shape, seed)
        if self.has_unit_second_layers:
            return start
        return replace(start, readout=self.draw_readout(seed))

    @property
    def has_unit_second_layers(self) -> bool:
        """Whether both second layers are ones and stay so."""
        return (
            self.second_layer.is_default
            and self.teacher_second_layer.is_default
            and self.second_layer_rate == 0.0
        )

    def draw_readout(self, seed: int) -> Readout:
        """The second layers of one seed."""
        student, teacher = self.init.second_layer_streams(self.shape, seed)
        return Readout(
            self.second_layer.draw(self.p, student), self.teacher_second_layer.draw(self.k, teacher)
        )


def _read_second_layer(value: Mapping[str, Any], field: str, size: int, size_name: str) -> SecondLayer:
    name = field.rpartition(".")[2]
    return SecondLayer.parse(value[name], field, size, size_name) if name in value else ONES


def read_start(value: Mapping[str, Any], shape: Shape) -> tuple[Init, SecondLayer]:
    """Read `init` and `teacher`, whose Gram matrix may be given in either."""
    init = value.get("init", STRUCTURES["init"].default)
    if "teacher" not in value:
        return Init.parse(init, shape), ONES
    gram, second_layer = split_teacher(value["teacher"])
    if gram is not None:
        mapping = init if isinstance(init, Mapping) else {}
        if given := {"teacher", "orthonormal_teacher", "P", "W_star"} & mapping.keys():
            raise InvalidInput("teacher", gram, f"is already given by init.{min(given)}")
        init = {**mapping, "teacher": gram}
    try:
        start = Init.parse(init, shape)
    except InvalidInput as error:  # named as the teacher was written
        if gram is None or not error.field.startswith("init.teacher"):
            raise
        raise InvalidInput(error.field.removeprefix("init."), error.value, error.allowed) from None
    return start, _read_second_layer(second_layer, f"teacher.{SECOND_LAYER}", shape.k, "k")


def _read_parameters(mapping: Mapping[str, Any]) -> dict[str, Scalar]:
    """Read the values of all parameters, with defaults for missing ones."""
    values: dict[str, Scalar] = {}
    for name, parameter in PARAMETERS.items():
        if name in mapping and not (parameter.default_from and mapping[name] is None):
            values[name] = parameter.read(mapping[name], name)
        elif parameter.is_required:
            raise InvalidInput(name, None, "is required")
        else:
            values[name] = values[parameter.default_from] if parameter.default is None else parameter.default
    return values
