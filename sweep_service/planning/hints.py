"""Hints for names that people write in a spec instead of those of this package.

Names are in lower case. Each text completes the question "did you mean …?".
"""

from __future__ import annotations

from collections.abc import Iterator

_PARAMETERS: dict[str, tuple[str, ...]] = {
    "'d', the input dimension": (
        "d", "dim", "dimension", "input_dim", "input_dimension", "n", "features", "n_features",
    ),
    "'p', the width of the student": (
        "p", "width", "hidden", "hidden_units", "hidden_size", "n_hidden", "neurons", "student_width", "m",
    ),
    "'k', the width of the teacher": ("k", "teacher_width", "teacher_neurons", "teachers", "n_teacher"),
    "'gamma', the learning rate": (
        "gamma", "learning_rate", "lr", "eta", "rate", "step_size", "stepsize",
    ),
    "'noise', the variance of the label noise": (
        "noise", "variance", "sigma2", "noise_variance", "label_noise",
    ),
    "'noise', the variance of the label noise: the square of its standard deviation": (
        "sigma", "std", "noise_std", "sigma_noise", "noise_level",
    ),
    "'batch', the samples of a step": ("batch", "batch_size", "batchsize", "minibatch", "mini_batch"),
    "'weight_decay'": ("weight_decay", "decay", "wd", "l2", "regularisation", "regularization"),
    "'second_layer_rate'": ("second_layer_rate", "readout_rate", "second_layer_learning_rate"),
    "'activation'": ("activation", "act", "nonlinearity", "activation_function"),
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
