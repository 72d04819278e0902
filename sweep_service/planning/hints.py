"""Hints for names that people write in a spec instead of those of this package.

Names are in lower case. Each text completes the question "did you mean …?".
"""

from __future__ import annotations

from collections.abc import Iterator

from sweep_service.model.parameters import PARAMETERS

_PARAMETERS: dict[str, tuple[str, ...]] = {
    **{
        f"'{name}', the {parameter.long_name}": (name, *parameter.other_names)
        for name, parameter in PARAMETERS.items()
        if parameter.other_names
    },
    "'noise', the variance of the label noise: the square of its standard deviation": (
        "sigma", "std", "noise_std", "sigma_noise", "noise_level",
    ),
    "'regime'": ("regime", "regimes", "theory", "ode"),
    "'init.scale'": ("scale", "init_scale"),
}  # fmt: skip
_FIELDS: dict[str, tuple[str, ...]] = {
    "'time: {max: t}', where n steps take t = n gamma/(p d)": (
        "steps", "n_steps", "iterations", "iters", "max_steps", "t", "t_max", "tmax", "times", "duration",
    ),
    "'time: {max: t}', because one-pass SGD has no epochs": ("epochs", "epoch"),
    "'time: {max: t, samples: n}'": ("samples", "tail"),
    "'seeds'": ("seed", "n_seeds"),
    "'seeds: {repeat: n}'": ("repeat", "repeats", "trials"),
    "'axes'": ("grid", "parameters", "params", "sweep"),
    "'schedule'": ("lr_schedule", "scheduler", "learning_rate_schedule"),
    "'second_layer'": ("readout", "output_weights", "a"),
    "'init'": ("initial", "initialisation", "initialization", "initial_condition"),
    "'observables'": ("metrics", "outputs"),
    "'name'": ("title", "label"),
}  # fmt: skip


def _by_name(hints: dict[str, tuple[str, ...]], place: str = "") -> Iterator[tuple[str, str]]:
    for hint, names in hints.items():
        yield from ((name, hint + place) for name in names)


# For names of axes, and for keys of a spec.
NAME_HINTS = {**dict(_by_name(_FIELDS, ", beside axes")), **dict(_by_name(_PARAMETERS))}
FIELD_HINTS = {**dict(_by_name(_PARAMETERS, ", in axes or fixed")), **dict(_by_name(_FIELDS))}
