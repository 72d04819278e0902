"""Parameters with one value at all points of a sweep, for its dataset and its record."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sweep_service.model.initial import INITS
from sweep_service.model.parameters import PARAMETERS, Scalar, later_parameters
from sweep_service.model.structures import describe_structures
from sweep_service.text import format_number

ACTIVATION, TEACHER_ACTIVATION = "activation", "teacher_activation"
INIT_KIND, INIT_TEACHER = "init.kind", "init.teacher"


def fixed_values(
    varying: Collection[str], fixed: Mapping[str, Scalar], structures: Mapping[str, Any]
) -> dict[str, Scalar]:
    """Return the values of parameters and of the numbers of structured ones that do not vary, with defaults.

    Names are those of axes, such as `k` and `init.scale`, and `init.kind` and `init.teacher`. A parameter
    whose default is another one that varies has no single value. Parameters that were added to the registry
    later are left out where they are at their defaults.
    """
    values = {name: fixed[name] for name in PARAMETERS if name in fixed}
    for name, parameter in PARAMETERS.items():
        if name not in varying and name not in values and name not in later_parameters():
            if parameter.default is not None:
                values[name] = parameter.default
            elif parameter.default_from in values:
                values[name] = values[parameter.default_from]
    merged: dict[str, Scalar] = {name: values[name] for name in PARAMETERS if name in values}
    merged |= describe_structures(structures)
    return {name: value for name, value in merged.items() if name not in varying}


def format_fixed(values: Mapping[str, Scalar]) -> str:
    """Format fixed values in one line: k = 2, noise = 0.001, erf, gaussian.

    The names of activations and initial conditions say what they are. A teacher like the student, and
    numbers of the initial condition at their defaults, are left out.
    """
    values = dict(values)
    kind, teacher = INITS.get(str(values.pop(INIT_KIND, ""))), values.pop(INIT_TEACHER, "")
    activation, teacher_activation = values.pop(ACTIVATION, ""), values.pop(TEACHER_ACTIVATION, "")
    defaults = {} if kind is None else {f"init.{n}": d for n, (d, _) in kind.parameters.items()}
    texts = [f"{n} = {format_number(v)}" for n, v in values.items() if v != defaults.get(n)]
    texts.append(str(activation))
    texts.append(f"{teacher_activation} teacher" if teacher_activation not in ("", activation) else "")
    texts.append("" if kind is None else kind.name)
    texts.append(f"{teacher} teacher" if kind is not None and teacher != kind.teacher else "")
    return ", ".join(text for text in texts if text)
