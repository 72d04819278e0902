"""Small computations whose every number is recorded: each simulator, regime, activation pair and start."""

import hashlib
import json
from functools import cache
from itertools import product

import numpy as np

import sweep_service as ss

ACTIVATIONS = ("erf", "relu", "square", "tanh")
SIMULATORS = ("S1", "S2", "S3", "S3-factored", "S4")
OVERLAP_REGIMES = ("high_dimensional", "classical", "classical_noise")
MEAN_FIELD_REGIMES = (
    "mean_field",
    "mean_field_high_dimensional",
    "mean_field_projected",
    "mean_field_pde",
)
REGIMES = (*OVERLAP_REGIMES, *MEAN_FIELD_REGIMES)
TIMES = [0.0, 0.1, 1.0]
POINT = {"d": 8, "p": 3, "k": 2, "gamma": 0.3, "noise": 1e-2}
ORTHONORMAL = {"kind": "gaussian", "orthonormal_teacher": True}
FEWER = {  # points of quadratures, where the default takes seconds
    "high_dimensional": {"regime_options": {"qmc_points": 512}},
    "mean_field_pde": {"regime_options": {"particles": 64}},
}


def _rows(count, width):
    """Numbers that look drawn but never change."""
    return np.sin(1.0 + np.arange(count * width)).reshape(count, width)


W, W_STAR = 1.5 * _rows(3, 8), np.sqrt(8.0) * np.eye(2, 8) + 0.1 * _rows(2, 8)
STARTS = {
    "gaussian": {"kind": "gaussian", "scale": 0.7},
    "gaussian-orthonormal": ORTHONORMAL,
    "gaussian-shared": {"kind": "gaussian", "shared": {"d0": 6}},
    "spherical": {"kind": "spherical"},
    "spherical-correlated": {"kind": "spherical", "teacher": {"rho": 0.3, "norms": [1.0, 2.0]}},
    "informed": {"kind": "informed"},
    "informed-shared": {"kind": "informed", "shared": True},
    "symmetric": {"kind": "symmetric", "epsilon": 0.2, "q0": 0.5, "jitter": 0.01},
    "planted": {"kind": "planted", "epsilon": 0.3, "teacher": {"gram": [[1.0, 0.2], [0.2, 2.0]]}},
    "overlaps": {
        "kind": "overlaps",
        "M": (W @ W_STAR.T / 8).tolist(),
        "Q": (W @ W.T / 8).tolist(),
        "P": (W_STAR @ W_STAR.T / 8).tolist(),
    },
    "weights": {"kind": "weights", "W": W, "W_star": W_STAR},
}


def point(**change):
    return {**POINT, "init": ORTHONORMAL, **change}


# Sizes at which another form of a simulator or a flow takes over.
WIDE = point(d=100, p=40, gamma=2.0)
SIMULATOR_FORMS = {
    "lanes": (point(), {"seed": range(4), "repeat": [0, 5]}),
    "chosen": (point(), {}),
    "blocked": (point(d=100, p=30), {"engine": "S2"}),
    "wide overlap process": (point(d=300, p=80, k=3, gamma=4.0), {"engine": "S3"}),
    "collapsed to S2": (point(d=60, p=90, activation="square"), {"engine": "S4"}),
    "observables": (point(), {"observables": ["risk", "cosine", "cosine_histogram"], "overlaps": True}),
    "diverging": (point(gamma=10.0, activation="square"), {"times": [0.0, 1.0, 20.0]}),
}
REGIME_FORMS = {
    "seeds": (point(), "classical_noise", {"seed": [3, 1]}),
    "auto": (point(), "auto", {}),
    "auto wide": (point(d=400, p=300, gamma=0.1), "auto", {"overlaps": False}),
    "wide": (WIDE, "classical_noise", {}),
    "wide sampling": (WIDE, "high_dimensional", {}),
    "weights": (point(d=8, p=40), "classical", {}),
    "finite d": (point(), "classical_noise", {"regime_options": {"finite_d_factor": True}}),
    "finite d mean field": (point(), "mean_field", {"regime_options": {"finite_d_factor": True}}),
    "no self terms": (point(), "mean_field", {"regime_options": {"self_terms": False}}),
    "few points": (
        point(activation="relu"), "high_dimensional", {"regime_options": {"qmc_points": 1024}}
    ),
    "few particles": (point(), "mean_field_pde", {"regime_options": {"particles": 64}}),
    "nodes": (point(p=120, k=1), "mean_field", {"overlaps": False}),
    "nodes in the plane": (point(p=320), "mean_field", {"overlaps": False}),
    "nodes of relu": (point(p=80, k=1, activation="relu"), "mean_field", {}),
    "diverging": (point(gamma=500.0, activation="square"), "high_dimensional", {}),
}  # fmt: skip


def simulations():
    """(name, call) of every simulation."""
    for name, (student, teacher) in product(SIMULATORS, product(ACTIVATIONS, ACTIVATIONS)):
        if name == "S4" and student != "square":
            continue
        given = point(activation=student, teacher_activation=teacher)
        yield f"{name} {student} {teacher}", given, {"engine": name}
    for name, start in product(("S1", "S3"), STARTS):
        yield f"{name} {start}", point(init=STARTS[start]), {"engine": name}
    for name, (given, options) in SIMULATOR_FORMS.items():
        yield f"form: {name}", given, options


def integrations():
    for regime, (student, teacher) in product(REGIMES, product(ACTIVATIONS, ACTIVATIONS)):
        given = point(activation=student, teacher_activation=teacher)
        if regime == "mean_field_projected":
            given["init"] = STARTS["informed"]
        yield f"{regime} {student} {teacher}", given, {"regime": regime, **FEWER.get(regime, {})}
    for regime, start in product(REGIMES, STARTS):
        yield f"{regime} {start}", point(init=STARTS[start]), {"regime": regime}
    for name, (given, regime, options) in REGIME_FORMS.items():
        yield f"form: {name}", given, {"regime": regime, **options}


def digest(arrays):
    """One text for all bits of some arrays by name, of their types and of their shapes."""
    result = hashlib.sha256()
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        if array.dtype.kind in "OUT":
            content = json.dumps([str(text) for text in array.reshape(-1)]).encode()
        else:
            array = np.ascontiguousarray(array)
            content = array.dtype.str.encode() + array.tobytes()
        result.update(f"{name}{array.shape}".encode() + content)
    return result.hexdigest()[:32]


def record(dataset):
    """All of a dataset that is a number, and a few of them that can be read.

    Scalar coordinates repeat what was given, and `status` an attribute that is recorded apart.
    """
    names = [name for name in dataset.variables if dataset[name].ndim and name != "status"]
    arrays = {str(name): dataset[name].values for name in names}
    risk = np.asarray(dataset["risk"].values)[..., -1]
    return {
        "digest": digest(arrays),
        "engine": dataset.attrs["engine"],
        "status": dataset.attrs["status"],
        "steps": dataset.attrs["steps"],
        "risk": [None if not np.isfinite(value) else float(value) for value in np.ravel(risk)],
    }


def attempt(function, given, options):
    """The record of a call, or the field that it refuses."""
    try:
        return record(function(given, **{"times": TIMES, **options}))
    except ss.RegimeUndefined as error:
        return {"undefined": error.field}
    except ss.InvalidInput as error:
        return {"refused": error.field}


@cache
def simulated():
    return {name: attempt(ss.simulate, given, options) for name, given, options in simulations()}


@cache
def integrated():
    return {name: attempt(ss.integrate, given, options) for name, given, options in integrations()}
