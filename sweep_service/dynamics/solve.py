"""The integration loop: from a flow to its states at the requested times."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from sweep_service.dynamics.integrators import DIVERGENCE_FACTOR, EXPLICIT, LSODA, Integrator, Tally
from sweep_service.dynamics.regimes import Flow
from sweep_service.errors import Stopped
from sweep_service.numerics.types import Array
from sweep_service.status import Status

EVALUATIONS_PER_CHECK = 64  # between two checks of the size of the state
# Largest states for which a dense Jacobian is worth its cost: compiled, or by differences of the flow.
MAX_COMPILED_JACOBIAN_SIZE, MAX_DIFFERENCED_JACOBIAN_SIZE = 600, 120


@dataclass(frozen=True)
class Trajectory:
    """States at the recorded times, NaN from divergence on."""

    states: Array
    status: Status
    integrator: str
    evaluations: int
    steps: int
    last: Array | None = None  # the state at which divergence was detected


def choose_integrator(flow: Flow) -> Integrator:
    """Choose an integrator by the measured rule, see docs/decisions/0003-integrators.md."""
    limit = MAX_COMPILED_JACOBIAN_SIZE if flow.jacobian is not None else MAX_DIFFERENCED_JACOBIAN_SIZE
    if flow.y0.size <= limit and flow.precision < 1e-7:
        return LSODA
    return replace(EXPLICIT, rtol=flow.precision, atol=1e-3 * flow.precision)


def solve(
    flow: Flow, times: Array, integrator: Integrator | None = None, stopped: Callable[[], bool] | None = None
) -> Trajectory:
    """Integrate from t = 0; divergence is a status, not an exception."""
    integrator = integrator or choose_integrator(flow)
    tally = Tally()
    largest = DIVERGENCE_FACTOR * max(1.0, float(np.max(np.abs(flow.y0))))

    def field(y: Array) -> Array:
        if stopped is not None and stopped():
            raise Stopped("the integration was stopped")
        tally.evaluations += 1
        if tally.evaluations % EVALUATIONS_PER_CHECK == 0 and not np.max(np.abs(y)) < largest:
            raise _BlowUp(
                y.copy()
            )  # early, before the integrator takes ever smaller steps towards a singularity
        return flow(y)

    states = np.full((len(times), flow.y0.size), np.nan)
    status, last = Status.DONE, None
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LSODA's warnings duplicate the status
        try:
            for row, y in enumerate(integrator(field, flow.y0, times, tally, flow.jacobian)):
                if not np.max(np.abs(y)) < largest:  # true of NaN as well
                    raise _BlowUp(y)
                states[row] = y
        except _BlowUp as blow_up:
            status, last = Status.DIVERGED, blow_up.state
    return Trajectory(states, status, integrator.name, tally.evaluations, tally.steps, last)


class _BlowUp(Exception):
    """The state exceeds the divergence bound."""

    def __init__(self, state: Array) -> None:
        self.state = state
