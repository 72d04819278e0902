"""Which simulator runs a chain: a rule of (p, k, d, activation) alone, so that company changes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from sweep_service.errors import InvalidInput, unknown_name
from sweep_service.point import Point
from sweep_service.simulators.blocked import Blocked
from sweep_service.simulators.chain import Simulator
from sweep_service.simulators.factored import FactoredOverlapProcess
from sweep_service.simulators.overlap_process import OverlapProcess
from sweep_service.simulators.step import StepLoop, StepLoopOfChains
from sweep_service.simulators.wide_overlap_process import WideOverlapProcess

# Raised when, and only when, a simulator gives other numbers than before: results are reused by it.
ENGINE_VERSION = 1

ENGINES = {
    "S1": "step loop: SGD as defined, chains or neurons in the lanes of a vector",
    "S2": "blocked: the same path as S1 in matrix products",
    "S3": "overlap process: equal to SGD in law, at a cost independent of d",
    "S3-factored": "overlap process that carries a factor of the overlaps: risks down to 1e-17",
    "S4": "square collapse: the path of S1 at a cost independent of p",
}

# Up to so many neurons, students and teachers, S3 is compiled as a whole; above it is made of BLAS calls.
COMPILED = 75
# So many chains pay for a group of eight lanes, some of them empty.
FEW_CHAINS = 5


@dataclass(frozen=True)
class Engine:
    """A simulator by name, why it, and what runs inside."""

    name: str
    reason: str
    compiled: bool

    def simulator(self, point: Point, chains: int) -> type[Simulator]:
        """The form for the next of so many chains; forms of one engine give the same bits."""
        p, k, d = point.p, point.k, point.d
        if self.name == "S4":
            p = min(p, d)
        name = path_engine(p, d, self.compiled)[0] if self.name == "S4" else self.name
        if name == "S1":
            # wide enough students fill the lanes with their own neurons
            return StepLoopOfChains if chains >= FEW_CHAINS and (p <= 20 or d <= 20) else StepLoop
        if name == "S2":
            return Blocked
        if name == "S3":
            return OverlapProcess if p + k <= COMPILED and self.compiled else WideOverlapProcess
        return FactoredOverlapProcess


def choose_engine(point: Point, asked: str = "auto") -> Engine:
    """The engine of this name, or by the measured rule."""
    p, k, d = point.p, point.k, point.d
    compiled = point.activation.code is not None and point.teacher_activation.code is not None
    if not isinstance(asked, str) or (asked != "auto" and asked not in ENGINES):
        raise unknown_name("engine", asked, ("auto", *ENGINES))
    if asked == "S4" and point.activation.name != "square":
        raise InvalidInput("engine", asked, "needs the square activation: only its student collapses")
    if asked == "S1" and not compiled:
        raise InvalidInput(
            "engine", asked, "needs activations with a compiled kernel; S2 walks the same path"
        )
    if asked != "auto":
        return Engine(asked, "asked for", compiled)
    if point.activation.name == "square" and p > d:
        return Engine("S4", f"square activation and p = {p} > d = {d}", compiled)
    n = p + k
    if d >= wide_enough(n) * n:
        return Engine("S3", f"d = {d} >= {wide_enough(n)} (p + k)", compiled)
    name, reason = path_engine(p, d, compiled)
    return Engine(name, reason, compiled)


def wide_enough(n: int) -> float:
    """d/n from which drawing overlaps beats multiplying weights, by measurement."""
    return 8.0 if n <= 4 else 4.0 if n <= 10 else 2.75 if n <= 20 else 2.2 if n <= 200 else 2.0


def path_engine(p: int, d: int, compiled: bool) -> tuple[str, str]:
    """S1 or S2, which follow the same path."""
    if not compiled:
        return "S2", "an activation has no compiled kernel"
    if d <= (120 if p <= 15 else 70 if p <= 40 else 50 if p <= 75 else 35 if p <= 200 else 25):
        return "S1", f"small: p = {p}, d = {d}"
    return "S2", f"p = {p}, d = {d}: large enough for matrix products"
