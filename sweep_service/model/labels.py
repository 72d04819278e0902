"""Labels of variables and coordinates: long names, titles and symbols."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from sweep_service.identity import canonicalise
from sweep_service.model.observables import OBSERVABLES
from sweep_service.model.parameters import PARAMETERS
from sweep_service.model.point import Point
from sweep_service.model.structures import describe_structures, split_name
from sweep_service.version import __version__

# Up to this student width, overlaps are kept by default.
MAX_WIDTH_WITH_OVERLAPS = 256
LEFT_OUT_OVERLAPS = {
    "notes": f"the overlaps M and Q are left out above p = {MAX_WIDTH_WITH_OVERLAPS}: pass overlaps=True"
}


@dataclass(frozen=True)
class Label:
    """Names of a quantity: in a dataset, at the axis of a plot, in text and in a formula."""

    long_name: str
    title: str = ""
    symbol: str = ""
    latex: str = ""
    logarithmic: bool = False  # usual scale of an axis


# The fluctuations of SGD that a regime can predict, as numbers that do not depend on d.
FLUCTUATIONS = {
    "risk_std": Label("standard deviation of the risk of SGD over √δt", "sd of the risk", logarithmic=True),
    "risk_shift": Label("mean risk of SGD minus that of the theory, over δt", "shift of the risk"),
    "nonlinearity": Label("|shift|/sd over √δt: times √δt, above 0.3 linear theory fails", "nonlinearity"),
}

# All labels except those of parameters, observables and values, which are in their registries.
COORDINATES = {
    "kappa": Label("exponent of p in d", "exponent of the width", "κ", r"$\kappa$"),
    "delta": Label("exponent of 1/gamma in d", "exponent of the learning rate", "δ", r"$\delta$"),
    "regime": Label("limiting theory"),
    "delta_t": Label("time of one step, γ/(p d)", "step", "δt", r"$\delta t$", logarithmic=True),
    "gamma_over_p": Label("γ/p", "", "γ/p", r"$\gamma/p$", logarithmic=True),
    "time": Label("time t = ν γ/(p d) after ν steps of SGD", "time", "t", "$t$", logarithmic=True),
    "seed": Label("seed of the initial condition"),
    "schedule_factor": Label("factor u(t) of the learning rate", "rate factor", "u", "$u$"),
    "student": Label("hidden neuron of the student"),
    "student_other": Label("hidden neuron of the student"),
    "particle": Label("point of the law of (m, q) at p = ∞"),
    "teacher": Label("hidden neuron of the teacher"),
    "teacher_other": Label("hidden neuron of the teacher"),
    "repeat": Label("seed of the inputs of SGD"),
    "step": Label("steps of SGD taken: round(t/δt)"),
    "cosine_bin": Label("middle of a bin of cosines"),
    "status": Label("how each run ended: done or diverged"),
    "overlap_student_teacher": Label("M = W W*ᵀ/d"),
    "overlap_student": Label("Q = W Wᵀ/d"),
    "overlap_teacher": Label("P = W* W*ᵀ/d"),
    "orthogonal_norm": Label("q = diag(Q - M P⁻¹ Mᵀ)"),
    **FLUCTUATIONS,
    "z_score": Label("risk minus the predicted mean of SGD, over the predicted sd", "z-score", "z", "$z$"),
}


def find_label(name: str) -> Label | None:
    """Label of a parameter, a number of a structured parameter or a coordinate; None for other names."""
    if name in PARAMETERS:
        parameter = PARAMETERS[name]
        return Label(
            parameter.long_name, parameter.title, parameter.symbol, parameter.latex, parameter.logarithmic
        )
    if (split := split_name(name)) is not None:
        structure, short = split
        words = " of the ".join(reversed(short.replace("_", " ").split(".")))
        return Label(f"{words} of {structure.about}", symbol=structure.symbols.get(short, short))
    return COORDINATES.get(name)


def label_dataset(
    variables: Mapping[str, tuple[tuple[str, ...], Any]],
    coordinates: Mapping[str, Any],
    point: Point,
    attributes: Mapping[str, Any],
) -> xr.Dataset:
    """Build a dataset in which every variable and coordinate has a long name.

    The parameters of the point are scalar coordinates with the names of axes, and attributes too.
    """
    coords = dict(coordinates)
    scalars = _list_parameters(point)
    for dims, values in variables.values():
        for dim, size in zip(dims, np.shape(values), strict=True):
            if dim not in coords:
                middles = (2.0 * np.arange(size) + 1.0) / size - 1.0
                coords[dim] = middles if dim == "cosine_bin" else np.arange(size)
    dataset = xr.Dataset(  # all at once, because xarray realigns everything for each added coordinate
        {name: label_variable(name, dims, values) for name, (dims, values) in variables.items()},
        coords={name: label_variable(name, (name,), values) for name, values in coords.items()}
        | {name: label_variable(name, (), value) for name, value in scalars.items()},
    )
    if not point.schedule.is_default:
        factor = point.schedule.factor(np.asarray(coords["time"]))
        dataset = dataset.assign_coords(schedule_factor=label_variable("schedule_factor", ("time",), factor))
    dataset.attrs = {
        **{name: point[name] for name in PARAMETERS},
        "init": _format_init(point),
        **{name: json.dumps(canonicalise(value)) for name, value in _list_structures(point).items()},
        "delta_t": point.delta_t,
        "gamma_over_p": point.gamma_over_p,
        **attributes,
        "sweep_service_version": __version__,
    }
    return dataset


def _list_parameters(point: Point) -> dict[str, Any]:
    """Everything that is the same for all runs of a point, by the names of axes."""
    start = {f"init.{name}": value for name, value in point.init.describe().items()}
    others = describe_structures({"init": {"kind": "weights"}, **_list_structures(point)})
    start |= {name: value for name, value in others.items() if not name.startswith("init.")}
    derived = {"delta_t": point.delta_t, "gamma_over_p": point.gamma_over_p}
    return {**{name: point[name] for name in PARAMETERS}, **start, **derived}


def _list_structures(point: Point) -> dict[str, Any]:
    """Structured parameters beside init that are not at their defaults, as they are written."""
    given = point.non_default
    structures: dict[str, Any] = {n: given[n] for n in ("second_layer", "schedule") if n in given}
    if "teacher_second_layer" in given:
        structures["teacher"] = {"second_layer": given["teacher_second_layer"]}
    return structures


def label_variable(name: str, dims: tuple[str, ...], values: Any) -> xr.Variable:
    """A variable with its attributes, by the fast path.

    The other one imports Dask to check for its arrays, which takes 0.5 s.
    """
    return xr.Variable(dims, np.asarray(values), variable_attributes(name), fastpath=True)


def _format_init(point: Point) -> str:
    """The initial condition as JSON, without explicit numbers, which are the first sample anyway."""
    content = {"kind": point.init.kind} if point.init.explicit_overlaps is not None else point.init.content()
    return json.dumps(canonicalise(content))


def variable_attributes(name: str) -> dict[str, str]:
    """Attributes of a variable or coordinate.

    Everything here is dimensionless and so has no `units`, which CF permits: plots would label it "[1]".
    """
    label = find_label(name)
    return {"long_name": OBSERVABLES[name].about if label is None else label.long_name}
