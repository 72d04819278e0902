"""The automatic choice of a regime for a point, with its reason, and warnings about points and regimes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sweep_service.dynamics.cautions import (
    LARGE_DELTA_T,
    POINT_CAUTIONS,
    describe_noise_rate,
    describe_step,
)
from sweep_service.dynamics.options import RegimeOptions
from sweep_service.dynamics.prices import seconds_to_ten
from sweep_service.dynamics.regimes import REGIMES, Setup
from sweep_service.model.initial import Start
from sweep_service.model.parameters import FIRST_PARAMETERS
from sweep_service.model.point import Point
from sweep_service.model.realisable import explain_floor

MAX_ERROR = 0.02  # predicted error, in units of R(0), at which the cheapest regime is chosen
MAX_SECONDS = 60.0  # largest price to t = 10 of a regime that auto chooses by itself
PRICE_TOLERANCE = 1.5  # prices are not known better, so that regimes within this factor are equally cheap
# Measured errors relative to R(0), for erf and k = 2.
SAMPLING_ERROR = 0.075  # sup |GF - SS|, per γu/(pb): of leaving out the sampling term
LAW_ERROR = 0.8  # per 1/p: of replacing the overlaps of orthogonal parts by their law
XI_ERROR = 0.5  # per 1/(d - k): of Ξ = I
# The regimes that auto chooses from; of two equally cheap ones, the first.
CANDIDATES = (
    "classical",
    "classical_noise",
    "mean_field_projected",
    "mean_field_high_dimensional",
    "mean_field",
    "high_dimensional",
)


@dataclass(frozen=True)
class RegimeChoice:
    regime: str
    reason: str


@dataclass(frozen=True)
class Candidate:
    """A regime with its predicted error in units of R(0), and its price in seconds to t = 10."""

    regime: str
    error: float
    seconds: float


def choose_regime(point: Point, start: Start) -> RegimeChoice:
    """Choose the cheapest regime with a small predicted error, or the most accurate one that can be paid."""
    has_large_steps = point.largest_step > LARGE_DELTA_T
    if has_large_steps and not point.find_unsupported(REGIMES["high_dimensional"].supports):
        return _choose_for_large_steps(point)
    candidates = [
        Candidate(name, predict_error(point, start, name), seconds_to_ten(point, name))
        for name in CANDIDATES
        if is_defined(point, start, name)
    ]
    if not candidates:
        parameters = ", ".join(point.non_default)
        for name, regime in REGIMES.items():
            if not point.find_unsupported(regime.supports):
                return RegimeChoice(name, f"supports {parameters}, which other regimes do not")
        point.require_support(FIRST_PARAMETERS, "any regime")
    affordable = [candidate for candidate in candidates if candidate.seconds <= MAX_SECONDS] or candidates
    accurate = [candidate for candidate in affordable if candidate.error <= MAX_ERROR]
    if accurate:
        cheapest = min(candidate.seconds for candidate in accurate)
        chosen = next(item for item in accurate if item.seconds <= PRICE_TOLERANCE * cheapest)
        reason = f"the cheapest regime with a predicted error of at most {MAX_ERROR} R(0)"
    else:
        chosen = min(affordable, key=lambda candidate: candidate.error)
        reason = "the regime with the smallest predicted error that can be paid"
    return RegimeChoice(chosen.regime, f"{reason}: {_describe(point, start, chosen, candidates)}")


def _choose_for_large_steps(point: Point) -> RegimeChoice:
    """The map of single steps if a batch makes their scatter δt/√b small, else the ODE with most terms."""
    step, scatter = describe_step(point), point.largest_step / math.sqrt(point.batch)
    if scatter <= LARGE_DELTA_T:
        reason = f"{step} > {LARGE_DELTA_T} with a scatter of δt/√b = {scatter:.3g}: the map of single steps"
        return RegimeChoice("high_dimensional_map", reason)
    return RegimeChoice(
        "high_dimensional", f"{step} > {LARGE_DELTA_T}: no guarantee, SS-ODE has the most terms"
    )


def is_defined(point: Point, start: Start, regime: str) -> bool:
    """Whether a regime supports the point, fits the start, and has the noise term if it is needed."""
    entry = REGIMES[regime]
    if entry.mean_field and not has_known_law(start):
        return False
    if point.find_unsupported(entry.supports) or (point.noise > 0 and "noise" in entry.independent_of):
        return False
    return entry.refuse(Setup(point, start, 0, RegimeOptions())) is None


def has_known_law(start: Start) -> bool:
    """Whether mean field knows the law of the orthogonal parts: the start is invariant, or there are none."""
    return start.invariant is True or start.is_projected


def predict_error(point: Point, start: Start, regime: str) -> float:
    """Predict sup_t of the error of the risk in units of R(0), without the fluctuations of SGD itself."""
    entry = REGIMES[regime]
    error = 0.0 if entry.sampled else SAMPLING_ERROR * point.largest_noise_rate
    if entry.mean_field and not start.is_projected:
        error += LAW_ERROR / point.p
        if entry.infinite_d:
            error += XI_ERROR / max(start.d - point.k, 1)
    return error


def _describe(point: Point, start: Start, chosen: Candidate, candidates: list[Candidate]) -> str:
    """Numbers behind a choice, and the regimes that were not taken."""
    error = f"{chosen.error:.2g} R(0)" if chosen.error else "nothing is left out"
    text = f"{error} at {describe_noise_rate(point)}, p = {point.p}, d = {point.d}"
    best = min(candidates, key=lambda candidate: candidate.error)
    cheapest = min(candidates, key=lambda candidate: candidate.seconds)
    if best.error < chosen.error:
        claim = f"would err by {best.error:.2g} R(0)" if best.error else "leaves out nothing"
        text += f"; {best.regime}, which {claim}, takes {best.seconds / chosen.seconds:.3g} times as long"
    if cheapest.seconds < chosen.seconds:
        text += f"; the cheaper {cheapest.regime} would err by {cheapest.error:.2g} R(0)"
    if not has_known_law(start):
        text += "; not mean field: the start is not known to be orthogonally invariant"
    return text


def collect_point_warnings(point: Point) -> list[str]:
    """Warnings about a point that hold for SGD and every regime."""
    warnings = [text for text in (caution(point) for caution in POINT_CAUTIONS) if text]
    return [*warnings, *collect_model_warnings(point)]


def collect_model_warnings(point: Point) -> list[str]:
    """Warnings about the student and the teacher of a point, whatever its learning rate and dimension."""
    floor = explain_floor(point)
    warnings = [floor] if floor else []
    for act in {
        point.activation.name: point.activation,
        point.teacher_activation.name: point.teacher_activation,
    }.values():
        if act.assumptions:
            warnings.append(f"{act.name}: {act.assumptions}")
    return warnings


def collect_regime_warnings(point: Point, regime: str) -> list[str]:
    """Warnings about a point, and about the validity of a regime there."""
    cautions = (caution(point) for caution in REGIMES[regime].cautions)
    return [*collect_point_warnings(point), *(text for text in cautions if text)]
