"""The integration loop: from a flow to its states at the requested times."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from sweep_service.dynamics.integrators import (
    DIVERGENCE_FACTOR,
    EXPLICIT,
    LSODA,
    Field,
    Integrator,
    Tally,
    iterate_map,
)
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
    if flow.delta_t is not None:
        return Integrator("map", partial(iterate_map, flow.delta_t), 0.0, 0.0)
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

    def evaluate(y: Array, t: float) -> Array:
        if stopped is not None and stopped():
            raise Stopped("the integration was stopped")
        tally.evaluations += 1
        if tally.evaluations % EVALUATIONS_PER_CHECK == 0 and not np.max(np.abs(y)) < largest:
            raise _BlowUp(
                y.copy()
            )  # early, before the integrator takes ever smaller steps towards a singularity
        return flow(y, t)

    states = np.full((len(times), flow.y0.size), np.nan)
    status, last = Status.DONE, None
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LSODA's warnings duplicate the status
        try:
            for row, y in enumerate(_integrate_pieces(integrator, flow, evaluate, times, tally)):
                if not np.max(np.abs(y)) < largest:  # true of NaN as well
                    raise _BlowUp(y)
                states[row] = y
        except _BlowUp as blow_up:
            status, last = Status.DIVERGED, blow_up.state
    return Trajectory(states, status, integrator.name, tally.evaluations, tally.steps, last)


def _integrate_pieces(
    integrator: Integrator, flow: Flow, evaluate: Field, times: Array, tally: Tally
) -> Iterator[Array]:
    """Yield y at the times; the integration begins anew where the rate is not smooth in time."""
    breaks = [] if flow.delta_t is not None else [t for t in flow.breaks if t < times[-1]]
    if not breaks:
        yield from integrator(evaluate, flow.y0, times, tally, flow.jacobian)
        return
    y, done = flow.y0, 0
    for begin, end in zip([0.0, *breaks], [*breaks, np.inf], strict=True):
        inside = times[(times >= begin) & (times < end)]
        wanted = inside if end == np.inf else np.append(inside, end)
        # the factor of the rate jumps at the end, where that of this piece still holds
        last = np.nextafter(end, begin)

        def piece(y: Array, t: float, begin: float = begin, last: float = last) -> Array:
            return evaluate(y, min(begin + t, last))

        pieces = integrator(piece, y, wanted - begin, tally, _shift_jacobian(flow, begin, last))
        for y in pieces:
            if done < len(times) and times[done] < end:
                yield y
                done += 1
        if not np.all(np.isfinite(y)):
            return


def _shift_jacobian(flow: Flow, begin: float, last: float) -> Field | None:
    jacobian = flow.jacobian
    return None if jacobian is None else lambda y, t: jacobian(y, min(begin + t, last))


class _BlowUp(Exception):
    """The state exceeds the divergence bound."""

    def __init__(self, state: Array) -> None:
        self.state = state
