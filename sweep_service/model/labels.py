"""Names, long names and units of everything that leaves as an xarray dataset."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from sweep_service.identity import canonical
from sweep_service.model.observables import OBSERVABLES
from sweep_service.model.parameters import PARAMETERS
from sweep_service.model.point import Point
from sweep_service.version import __version__

# The widest student whose overlaps are kept unless asked for.
WIDEST_STORED = 256


@dataclass(frozen=True)
class Label:
    """How something is called: in a dataset, at the axis of a plot, in a line of text, in a formula."""

    long_name: str
    title: str = ""
    symbol: str = ""
    latex: str = ""
    logarithmic: bool = False  # by habit, along an axis


# Everything but parameters, which carry their own, and observables and values, which say what they are.
COORDINATES = {
    "kappa": Label("exponent of p in d", "exponent of the width", "κ", r"$\kappa$"),
    "delta": Label("exponent of 1/gamma in d", "exponent of the learning rate", "δ", r"$\delta$"),
    "regime": Label("limiting theory"),
    "delta_t": Label("time of one step, γ/(p d)", "step", "δt", r"$\delta t$", logarithmic=True),
    "gamma_over_p": Label("γ/p", "", "γ/p", r"$\gamma/p$", logarithmic=True),
    "time": Label("time t = ν γ/(p d) after ν steps of SGD", "time", "t", "$t$", logarithmic=True),
    "seed": Label("seed of the initial condition"),
    "student": Label("hidden neuron of the student"),
    "student_other": Label("hidden neuron of the student"),
    "particle": Label("point of the law of (m, q) at p = ∞"),
    "teacher": Label("hidden neuron of the teacher"),
    "teacher_other": Label("hidden neuron of the teacher"),
    "repeat": Label("seed of the inputs of SGD"),
    "step": Label("steps of SGD taken: round(t/δt)"),
    "cosine_bin": Label("middle of a bin of cosines"),
    "overlap_student_teacher": Label("M = W W*ᵀ/d"),
    "overlap_student": Label("Q = W Wᵀ/d"),
    "overlap_teacher": Label("P = W* W*ᵀ/d"),
    "orthogonal_norm": Label("q = diag(Q - M P⁻¹ Mᵀ)"),
}
INIT = "init."
INIT_SYMBOLS = {"init.epsilon": "ε"}


def label_of(name: str) -> Label | None:
    """How a parameter, a number of the initial condition or a coordinate is called; None for others."""
    if name in PARAMETERS:
        one = PARAMETERS[name]
        return Label(one.long_name, one.title, one.symbol, one.latex, one.logarithmic)
    if name.startswith(INIT):
        short = name.removeprefix(INIT)
        return Label(f"{short} of the initial condition", symbol=INIT_SYMBOLS.get(name, short))
    return COORDINATES.get(name)


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
        **{name: point[name] for name in PARAMETERS},
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
    label = label_of(name)
    return {"long_name": OBSERVABLES[name].about if label is None else label.long_name, "units": "1"}
