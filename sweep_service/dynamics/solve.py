"""The one integration loop: a flow in, its states at the asked times out."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from sweep_service.dynamics.integrators import DIVERGED, EXPLICIT, LSODA, Integrator, Tally
from sweep_service.dynamics.regimes import Flow
from sweep_service.errors import Stopped
from sweep_service.numerics.types import Array
from sweep_service.status import Status

WATCH = 64  # evaluations between two looks at the size of the state
# Largest states for which a dense Jacobian pays: compiled, or by differences of the flow.
COMPILED_JACOBIAN, DIFFERENCED_JACOBIAN = 600, 120


@dataclass(frozen=True)
class Trajectory:
    """States on the times, NaN from divergence on."""

    states: Array
    status: Status
    integrator: str
    evaluations: int
    steps: int


def choose_integrator(flow: Flow) -> Integrator:
    """The measured rule, see docs/decisions."""
    limit = COMPILED_JACOBIAN if flow.jacobian is not None else DIFFERENCED_JACOBIAN
    if flow.y0.size <= limit and flow.precision < 1e-7:
        return LSODA
    return replace(EXPLICIT, rtol=flow.precision, atol=1e-3 * flow.precision)


def solve(
    flow: Flow, times: Array, integrator: Integrator | None = None, stopped: Callable[[], bool] | None = None
) -> Trajectory:
    """Integrate from t = 0; divergence is a status, not an exception."""
    integrator = integrator or choose_integrator(flow)
    tally = Tally()
    largest = DIVERGED * max(1.0, float(np.max(np.abs(flow.y0))))

    def field(y: Array) -> Array:
        if stopped is not None and stopped():
            raise Stopped("the integration was asked to stop")
        tally.evaluations += 1
        if tally.evaluations % WATCH == 0 and not np.max(np.abs(y)) < largest:
            raise _BlowUp  # before the integrator spends its patience on a singularity
        return flow(y)

    states = np.full((len(times), flow.y0.size), np.nan)
    status = Status.DONE
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LSODA warns where we report a status
        try:
            for row, y in enumerate(integrator(field, flow.y0, times, tally, flow.jacobian)):
                if not np.max(np.abs(y)) < largest:  # true of NaN as well
                    raise _BlowUp
                states[row] = y
        except _BlowUp:
            status = Status.DIVERGED
    return Trajectory(states, status, integrator.name, tally.evaluations, tally.steps)


class _BlowUp(Exception):
    """The state has grown out of hand."""
