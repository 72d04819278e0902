"""Names, long names and units of everything that leaves as an xarray dataset."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from sweep_service.identity import canonical
from sweep_service.model.observables import OBSERVABLES
from sweep_service.point import Point
from sweep_service.version import __version__

# The widest student whose overlaps are kept unless asked for.
WIDEST_STORED = 256
LONG_NAMES = {
    "d": "input dimension",
    "p": "width of the student",
    "k": "width of the teacher",
    "gamma": "learning rate",
    "noise": "variance Δ of the label noise",
    "activation": "activation of the student",
    "teacher_activation": "activation of the teacher",
    "kappa": "exponent of p in d",
    "delta": "exponent of 1/gamma in d",
    "regime": "limiting theory",
    "delta_t": "time of one step, γ/(p d)",
    "gamma_over_p": "γ/p",
    "time": "time t = ν γ/(p d) after ν steps of SGD",
    "seed": "seed of the initial condition",
    "student": "hidden neuron of the student",
    "student_other": "hidden neuron of the student",
    "particle": "point of the law of (m, q) at p = ∞",
    "teacher": "hidden neuron of the teacher",
    "teacher_other": "hidden neuron of the teacher",
    "repeat": "seed of the inputs of SGD",
    "step": "steps of SGD taken: round(t/δt)",
    "cosine_bin": "middle of a bin of cosines",
    "overlap_student_teacher": "M = W W*ᵀ/d",
    "overlap_student": "Q = W Wᵀ/d",
    "overlap_teacher": "P = W* W*ᵀ/d",
    "orthogonal_norm": "q = diag(Q - M P⁻¹ Mᵀ)",
}


def labelled(
    variables: Mapping[str, tuple[tuple[str, ...], Any]],
    coordinates: Mapping[str, Any],
    point: Point,
    attributes: Mapping[str, Any],
) -> xr.Dataset:
    """A dataset in which every variable and coordinate says what it is."""
    coords = dict(coordinates)
    for dims, values in variables.values():
        for dim, size in zip(dims, np.shape(values), strict=True):
            if dim not in coords:
                middles = (2.0 * np.arange(size) + 1.0) / size - 1.0
                coords[dim] = middles if dim == "cosine_bin" else np.arange(size)
    dataset = xr.Dataset(  # all at once: xarray aligns everything again for each coordinate that is added
        {name: _variable(name, dims, values) for name, (dims, values) in variables.items()},
        coords={name: _variable(name, (name,), values) for name, values in coords.items()},
    )
    dataset.attrs = {
        "d": point.d,
        "p": point.p,
        "k": point.k,
        "gamma": point.gamma,
        "noise": point.noise,
        "activation": point.activation.name,
        "teacher_activation": point.teacher_activation.name,
        "init": _start(point),
        "delta_t": point.delta_t,
        "gamma_over_p": point.gamma_over_p,
        **attributes,
        "sweep_service_version": __version__,
    }
    return dataset


def _variable(name: str, dims: tuple[str, ...], values: Any) -> xr.Variable:
    """By the short way: the other one asks whether it is an array of Dask's, which takes half a second."""
    return xr.Variable(dims, np.asarray(values), about(name), fastpath=True)


def _start(point: Point) -> str:
    """The initial condition as JSON; given numbers are too many, and are the first sample anyway."""
    content = {"kind": point.init.kind} if point.init.given is not None else point.init.content()
    return json.dumps(canonical(content))


def about(name: str) -> dict[str, str]:
    """The attributes of a variable or coordinate."""
    if name.startswith("init."):
        text = f"{name.removeprefix('init.')} of the initial condition"
    else:
        text = OBSERVABLES[name].about if name in OBSERVABLES else LONG_NAMES[name]
    return {"long_name": text, "units": "1"}
