"""Integrators of dy/dt = f(y, t): generators that yield y at the given times.

Measured choices: LSODA (1e-10/1e-13) if the dense Jacobian is small, otherwise DOP853 followed by
Runge-Kutta-Chebyshev. The spectrum of these flows is real and spans seven decades, so at late times
the step of an explicit method is limited by stability, not by accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from sweep_service.errors import IntegrationFailed
from sweep_service.numerics.types import Array

Field = Callable[[Array, float], Array]


@dataclass
class Tally:
    """Counts of the work of an integration."""

    evaluations: int = 0
    steps: int = 0


@dataclass(frozen=True)
class Integrator:
    """A method with its tolerances."""

    name: str
    method: Callable[..., Iterator[Array]]
    rtol: float
    atol: float

    def __call__(
        self, f: Field, y0: Array, times: Array, tally: Tally, jacobian: Field | None = None
    ) -> Iterator[Array]:
        """Yield y at each of `times` (increasing, from t = 0); a non-finite y is the last."""
        return self.method(f, y0, times, self.rtol, self.atol, tally, jacobian)


# Overlaps that grew by this factor are outside every theorem and about to blow up in finite time.
DIVERGENCE_FACTOR = 1e6


def diverge_or_raise(f: Field, y: Array, t: float, message: str) -> Array:
    """A non-finite y if the solution blows up or reaches states where f is undefined; otherwise raise.

    Entries that are too large become infinite; all become NaN if f is undefined.
    """
    ahead = y + 1e-3 * np.sign(f(y, t)) * np.maximum(np.abs(y), 1.0)
    is_bounded = np.abs(y) < DIVERGENCE_FACTOR
    if not np.all(is_bounded):
        return np.where(is_bounded, y, np.inf)
    if np.all(np.isfinite(f(y, t))) and np.all(np.isfinite(f(ahead, t))):
        raise IntegrationFailed(message)
    return np.full_like(y, np.nan)


def lsoda(
    f: Field, y0: Array, times: Array, rtol: float, atol: float, tally: Tally, jacobian: Field | None = None
) -> Iterator[Array]:
    """Adams and BDF with automatic switching."""
    from scipy.integrate import ode

    solver = ode(partial(_time_first, f), None if jacobian is None else partial(_time_first, jacobian))
    solver.set_integrator("lsoda", rtol=rtol, atol=atol, nsteps=50_000)
    solver.set_initial_value(y0, 0.0)
    before = tally.steps
    for t in times:
        if t > 1e-200:  # LSODA refuses times that it cannot distinguish from zero
            solver.integrate(t)
            tally.steps = before + int(
                solver._integrator.iwork[10]
            )  # ODEPACK's NST, which SciPy does not expose
            if not solver.successful():
                message = f"LSODA stopped at t = {solver.t:.6g}: {solver.get_return_code()}"
                yield diverge_or_raise(f, solver.y, solver.t, message)
                return
        yield solver.y.copy()


def _time_first(f: Field, t: float, y: Array) -> Array:
    return f(y, t)


def dop853(
    f: Field, y0: Array, times: Array, rtol: float, atol: float, tally: Tally, jacobian: Field | None = None
) -> Iterator[Array]:
    """Dormand-Prince of order 8, with its dense output."""
    from scipy.integrate import DOP853

    solver = DOP853(partial(_time_first, f), 0.0, y0, times[-1] or 1.0, rtol=rtol, atol=atol)
    dense = None
    for t in times:
        while solver.t < t:
            message = solver.step()
            tally.steps += 1
            dense = None
            if solver.status == "failed" or not np.all(np.isfinite(solver.y)):
                message = f"DOP853 stopped at t = {solver.t:.6g}: {message}"
                yield diverge_or_raise(f, solver.y, solver.t, message)
                return
        if t == solver.t:
            yield solver.y.copy()
        else:
            dense = dense or solver.dense_output()
            yield dense(t)


def rkc(
    f: Field, y0: Array, times: Array, rtol: float, atol: float, tally: Tally, jacobian: Field | None = None
) -> Iterator[Array]:
    """Runge-Kutta-Chebyshev of order 2: s stages are stable on a real interval of length (s² - 1)/1.54.

    After Sommeijer, Shampine and Verwer (1997), with the spectral radius by power iteration.
    """
    t, y, fy = 0.0, y0.copy(), f(y0, 0.0)
    h = min(times[-1] or 1.0, 1e-2 / max(1.0, float(np.max(np.abs(fy)))))
    radius, direction, age = 0.0, None, STEPS_PER_RADIUS_ESTIMATE
    previous = None
    for end in times:
        while t < end:
            if age >= STEPS_PER_RADIUS_ESTIMATE:
                radius, direction = estimate_spectral_radius(f, y, t, fy, direction)
                age = 0
            h = min(h, (MAX_STAGES**2 - 1) / (1.54 * radius))
            if not h > 1e-14 * max(t, 1e-6):
                yield diverge_or_raise(f, y, t, f"RKC stopped at t = {t:.6g}: the step vanished")
                return
            stages = max(2, math.ceil(math.sqrt(1.0 + 1.54 * h * radius)))
            z, fz = take_chebyshev_step(f, y, t, fy, h, stages)
            error = 0.8 * (y - z) + 0.4 * h * (fy + fz)
            scale = atol + rtol * np.maximum(np.abs(y), np.abs(z))
            size = float(np.sqrt(np.mean((error / scale) ** 2)))
            grow = 0.8 * max(size, 1e-12) ** (-1.0 / 3.0) if math.isfinite(size) else 0.1
            if not size <= 1.0:
                h *= max(0.1, grow)
                # the radius may have grown since it was estimated
                age = STEPS_PER_RADIUS_ESTIMATE if age else 0
                continue
            previous = (t, h, y, fy, z, fz)
            t, y, fy = t + h, z, fz
            tally.steps += 1
            age += 1
            h *= min(5.0, max(0.1, grow))
        yield y.copy() if previous is None or t == end else _interpolate(end, *previous)


MAX_STAGES = 400
STEPS_PER_RADIUS_ESTIMATE = 25  # accepted steps between two estimates of the spectral radius


def take_chebyshev_step(
    f: Field, y: Array, t: float, fy: Array, h: float, stages: int
) -> tuple[Array, Array]:
    """Take one step of `stages` stages; returns the new y and f(y)."""
    s = stages
    w0 = 1.0 + 2.0 / (13.0 * s * s)
    root = math.sqrt(w0 * w0 - 1.0)
    angle = s * math.log(w0 + root)
    w1 = math.sinh(angle) * root**2 / (math.cosh(angle) * s * root - w0 * math.sinh(angle))
    # T_j(w0) with its first two derivatives, for j - 1 and j - 2
    t1, t2, d1, d2, dd1, dd2 = w0, 1.0, 1.0, 0.0, 0.0, 0.0
    b1 = b2 = 1.0 / (4.0 * w0 * w0)
    older, old = y, y + h * w1 * b1 * fy
    share = w1 / (4.0 * w0 * w0)  # of the step at which a stage is; that of stage 2 is w1/w0
    for _ in range(2, s + 1):
        tj = 2.0 * w0 * t1 - t2
        dj = 2.0 * w0 * d1 - d2 + 2.0 * t1
        ddj = 2.0 * w0 * dd1 - dd2 + 4.0 * d1
        b = ddj / dj**2
        mu, nu = 2.0 * w0 * b / b1, -b / b2
        slope = mu * w1 / w0 * h
        new = (
            mu * old
            + nu * older
            + (1.0 - mu - nu) * y
            + slope * (f(old, t + share * h) - (1.0 - t1 * b1) * fy)
        )
        older, old, share = old, new, w1 * ddj / dj
        t1, t2, d1, d2, dd1, dd2, b1, b2 = tj, t1, dj, d1, ddj, dd1, b, b1
    return old, f(old, t + h)


def estimate_spectral_radius(
    f: Field, y: Array, t: float, fy: Array, direction: Array | None
) -> tuple[float, Array]:
    """Spectral radius of the Jacobian at y, by power iteration on differences of f, plus a margin of 20 %."""
    v = fy + 1e-3 * np.sin(1.7 * np.arange(len(y)) + 1.0) if direction is None else direction
    step = 1.5e-8 * max(1.0, float(np.linalg.norm(y)))
    estimate = 0.0
    for iteration in range(50):
        v = v / np.linalg.norm(v)
        v = (f(y + step * v, t) - fy) / step
        previous, estimate = estimate, float(np.linalg.norm(v))
        if not math.isfinite(estimate) or estimate == 0.0:
            return 1.0, fy
        if iteration > 1 and abs(estimate - previous) < 0.02 * estimate:
            break
    return 1.2 * estimate, v


def _interpolate(end: float, t: float, h: float, y: Array, fy: Array, z: Array, fz: Array) -> Array:
    """Cubic Hermite interpolation within a step, two orders more accurate than the method."""
    x = (end - t) / h
    return (
        (1 + 2 * x) * (1 - x) ** 2 * y
        + x * (1 - x) ** 2 * h * fy
        + x * x * (3 - 2 * x) * z
        + x * x * (x - 1) * h * fz
    )


def explicit(
    f: Field, y0: Array, times: Array, rtol: float, atol: float, tally: Tally, jacobian: Field | None = None
) -> Iterator[Array]:
    """DOP853 while accuracy limits the step, Runge-Kutta-Chebyshev once stability does."""
    early, late = times[times <= STIFF_TIME], times[times > STIFF_TIME]
    if len(late) == 0:
        yield from dop853(f, y0, times, rtol, atol, tally)
        return
    y = y0
    for index, y in enumerate(dop853(f, y0, np.append(early, STIFF_TIME), rtol, atol, tally)):
        if index < len(early):
            yield y
    if np.all(np.isfinite(y)):
        # measured: 1e-8 after 1e-10 keeps R within 1e-5, and 1e-10 would take ten times as long
        later = partial(_shift_time, f, STIFF_TIME)
        yield from rkc(later, y, late - STIFF_TIME, 100.0 * rtol, 100.0 * atol, tally)
    else:
        yield y


def _shift_time(f: Field, begin: float, y: Array, t: float) -> Array:
    return f(y, begin + t)


def iterate_map(
    delta_t: float,
    f: Field,
    y0: Array,
    times: Array,
    rtol: float,
    atol: float,
    tally: Tally,
    jacobian: Field | None = None,
) -> Iterator[Array]:
    """Steps of size δt, as SGD takes them: y at time t is the state after round(t/δt) steps."""
    y = y0.copy()
    for end in np.rint(times / delta_t):
        while tally.steps < end and np.all(np.isfinite(y)):
            y = y + delta_t * f(y, tally.steps * delta_t)
            tally.steps += 1
        yield y.copy()
        if not np.all(np.isfinite(y)):
            return


# Time from which the steps of DOP853 no longer grow, measured at p = 40 and 100.
STIFF_TIME = 1e3

LSODA = Integrator("lsoda", lsoda, 1e-10, 1e-13)
EXPLICIT = Integrator("dop853+rkc2", explicit, 1e-10, 1e-13)
