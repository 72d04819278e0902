"""Parameters with one value at all points of a sweep, for its dataset and its record."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sweep_service.model.initial import INITS, describe_init
from sweep_service.model.labels import INIT as INIT_PREFIX
from sweep_service.model.parameters import PARAMETERS, Scalar
from sweep_service.text import format_number

ACTIVATION, TEACHER_ACTIVATION = "activation", "teacher_activation"
INIT_KIND, INIT_TEACHER = f"{INIT_PREFIX}kind", f"{INIT_PREFIX}teacher"


def fixed_values(
    varying: Collection[str], fixed: Mapping[str, Scalar], init: Mapping[str, Any]
) -> dict[str, Scalar]:
    """Return the values of all parameters and of the initial condition that do not vary, with defaults.

    Names are those of axes, such as `k` and `init.scale`, and `init.kind` and `init.teacher`. A parameter
    whose default is another one that varies has no single value.
    """
    values = {name: fixed[name] for name in PARAMETERS if name in fixed}
    for name, parameter in PARAMETERS.items():
        if name not in varying and name not in values:
            if parameter.default is not None:
                values[name] = parameter.default
            elif parameter.default_from in values:
                values[name] = values[parameter.default_from]
    start = {f"{INIT_PREFIX}{name}": value for name, value in describe_init(init).items()}
    merged: dict[str, Scalar] = {name: values[name] for name in PARAMETERS if name in values} | start
    return {name: value for name, value in merged.items() if name not in varying}


def format_fixed(values: Mapping[str, Scalar]) -> str:
    """Format fixed values in one line: k = 2, noise = 0.001, erf, gaussian.

    The names of activations and initial conditions say what they are. A teacher like the student, and
    numbers of the initial condition at their defaults, are left out.
    """
    values = dict(values)
    kind, teacher = INITS.get(str(values.pop(INIT_KIND, ""))), values.pop(INIT_TEACHER, "")
    activation, teacher_activation = values.pop(ACTIVATION, ""), values.pop(TEACHER_ACTIVATION, "")
    defaults = {} if kind is None else {f"{INIT_PREFIX}{n}": d for n, (d, _) in kind.parameters.items()}
    texts = [f"{n} = {format_number(v)}" for n, v in values.items() if v != defaults.get(n)]
    texts.append(str(activation))
    texts.append(f"{teacher_activation} teacher" if teacher_activation not in ("", activation) else "")
    texts.append("" if kind is None else kind.name)
    texts.append(f"{teacher} teacher" if kind is not None and teacher != kind.teacher else "")
    return ", ".join(text for text in texts if text)
