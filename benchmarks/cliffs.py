"""What an integration costs with other activations than erf, relative to erf."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from scipy import special

import sweep_service as ss
from benchmarks.harness import Row, time_interleaved
from sweep_service.model.activations import ACTIVATIONS, Activation

MOST, MOST_OF_USERS = 5.0, 10.0  # times erf
SINE = Activation(
    name="own sine",
    formula="sin(x)",
    value=np.sin,
    slope=np.cos,
    curvature=lambda x: -np.sin(x),
    odd=True,
)
SOFTPLUS = Activation(
    name="own softplus",
    formula="ln(1 + eˣ)",
    value=lambda x: np.logaddexp(0.0, x),
    slope=special.expit,
    curvature=lambda x: special.expit(x) * special.expit(-x),
)
OWN = (SINE, SOFTPLUS)
PAIRS = (
    ("tanh", "tanh"), ("relu", "relu"), ("square", "square"), ("tanh", "erf"), ("erf", "relu"),
    ("erf", "square"), ("relu", "erf"), ("square", "erf"), ("relu", "square"), ("square", "relu"),
    *((act.name, act.name) for act in OWN),
)  # fmt: skip


class Size(NamedTuple):
    regime: str
    p: int
    k: int
    last: float  # time

    @property
    def name(self) -> str:
        return f"{self.regime}-p{self.p}-k{self.k}"


SIZES = (
    Size("classical_noise", 10, 2, 100.0), Size("high_dimensional", 10, 2, 100.0),
    Size("high_dimensional", 20, 2, 100.0), Size("mean_field", 200, 1, 10.0),
    Size("mean_field", 200, 2, 10.0), Size("mean_field_pde", 10, 1, 10.0),
    Size("mean_field_pde", 10, 2, 10.0),
)  # fmt: skip
QUICK = (Size("classical_noise", 3, 1, 1.0),)


def cliffs(quick: bool) -> Iterator[Row]:
    with registered(*OWN):
        for size in QUICK if quick else SIZES:
            for student, teacher in PAIRS:
                yield compare(size, student, teacher, quick)


@contextmanager
def registered(*activations: Activation) -> Iterator[None]:
    """Add activations as a user would, and remove them afterwards."""
    ACTIVATIONS.update({act.name: act for act in activations})
    try:
        yield
    finally:
        for act in activations:
            del ACTIVATIONS[act.name]


def compare(size: Size, student: str, teacher: str, quick: bool) -> Row:
    calls = partial(integrate, size, "erf", "erf"), partial(integrate, size, student, teacher)
    for call in calls:
        call()  # compile
    erf, other = time_interleaved(*calls, repeats=1 if quick else 3, budget=3.0)
    most = MOST_OF_USERS if student in {act.name for act in OWN} else MOST
    return Row(
        f"cliffs/{size.name}-{student}-{teacher}".replace(" ", "-"),
        f"{other.value.attrs['flow']}, {other.value.attrs['evaluations']} evaluations", other.seconds,
        f"erf by {erf.value.attrs['flow']}, {erf.value.attrs['evaluations']} evaluations", erf.seconds,
        floor=None if quick else 1.0 / most,
    )  # fmt: skip


def integrate(size: Size, student: str, teacher: str) -> xr.Dataset:
    """An integration as in a sweep, recorded at times that tell a curve."""
    point: dict[str, Any] = {
        "d": 100, "p": size.p, "k": size.k, "gamma": 0.5, "noise": 1e-3, "activation": student,
        "teacher_activation": teacher, "init": {"kind": "gaussian", "teacher": "orthonormal"},
    }  # fmt: skip
    times = np.concatenate([[0.0], np.geomspace(0.1, size.last, 30)])
    return ss.integrate(point, times=times, regime=size.regime, observables=[], overlaps=False)
