"""The registry of simulators, and which one runs a chain.

The rule is one of (p, k, d, activation) alone, so that the company of a chain changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sweep_service.errors import InvalidInput, unknown_name
from sweep_service.model.parameters import FIRST_PARAMETERS, PARAMETERS
from sweep_service.model.point import Point
from sweep_service.simulators import step_cost
from sweep_service.simulators.blocked import Blocked
from sweep_service.simulators.chain import Simulator
from sweep_service.simulators.factored import FactoredOverlapProcess
from sweep_service.simulators.overlap_process import OverlapProcess
from sweep_service.simulators.step_loop import StepLoop, StepLoopOfChains
from sweep_service.simulators.wide_overlap_process import WideOverlapProcess

# Up to so many neurons, students and teachers, S3 is compiled as a whole; above it is made of BLAS calls.
COMPILED = 75
# So many chains pay for a group of eight lanes, some of them empty.
FEW_CHAINS = 5


@dataclass(frozen=True)
class Case:
    """What a simulator is asked about: a point, the rows that it carries, and whether kernels compile."""

    point: Point
    compiled: bool
    rows: int

    @classmethod
    def of(cls, point: Point) -> Case:
        compiled = point.activation.code is not None and point.teacher_activation.code is not None
        return cls(point, compiled, point.p)

    def collapsed(self) -> Case:
        """A square student of p neurons moves like one of at most d."""
        return Case(self.point, self.compiled, min(self.point.p, self.point.d))


def _never(case: Case) -> str:
    return ""


@dataclass(frozen=True)
class SimulatorKind:
    """An entry of the registry. `form` chooses the class, one of `forms`, that runs a number of chains; all
    forms give the same bits.

    `suits` says why it is chosen unasked and `refuse` why it cannot run, both "" where that is not so.
    `step_nanoseconds` is its cost for each of so many chains. Its version is raised when, and only when, it
    gives other numbers than before: results are reused by it. It is not chosen for a point with a parameter
    that one of its forms does not support.
    """

    name: str
    about: str
    forms: tuple[type[Simulator], ...]
    form: Callable[[Case, int], type[Simulator]]
    step_nanoseconds: Callable[[Case, int], float]
    suits: Callable[[Case], str] = _never
    refuse: Callable[[Case], str] = _never
    collapses: bool = False  # does it carry at most d rows of a square student?
    rounds_small_risks: bool = False
    version: int = 1

    @property
    def supports(self) -> tuple[str, ...]:
        """Parameters that all of its forms take into account."""
        return tuple(name for name in PARAMETERS if all(name in form.supports for form in self.forms))


@dataclass(frozen=True)
class Engine:
    """A simulator that was chosen for a point, and why."""

    kind: SimulatorKind
    reason: str
    case: Case

    @property
    def name(self) -> str:
        return self.kind.name

    @property
    def compiled(self) -> bool:
        return self.case.compiled

    @property
    def rows(self) -> int:
        """Of the student whose overlaps it carries."""
        return (self.case.collapsed() if self.kind.collapses else self.case).rows

    def simulator(self, chains: int) -> type[Simulator]:
        """The form for the next of so many chains; forms of one engine give the same bits."""
        return self.kind.form(self.case, chains)

    def step_seconds(self, chains: int) -> float:
        """Of one step of each of so many chains, by the formulas alone."""
        return 1e-9 * self.kind.step_nanoseconds(self.case, chains)


def _step_loop_form(case: Case, chains: int) -> type[Simulator]:
    # wide enough students fill the lanes with their own neurons
    shares = chains >= FEW_CHAINS and (case.rows <= 20 or case.point.d <= 20)
    return StepLoopOfChains if shares else StepLoop


def _step_loop_cost(case: Case, chains: int) -> float:
    point, lanes = case.point, _step_loop_form(case, chains).most_chains > 1
    return step_cost.step_loop(case.rows, point.k, point.d, point.activation.costly, lanes)


def _is_small(case: Case) -> str:
    p, d = case.rows, case.point.d
    most = 120 if p <= 15 else 70 if p <= 40 else 50 if p <= 75 else 35 if p <= 200 else 25
    return f"small: p = {p}, d = {d}" if case.compiled and d <= most else ""


def _is_not_compiled(case: Case) -> str:
    return "" if case.compiled else "needs activations with a compiled kernel; S2 walks the same path"


def _is_large(case: Case) -> str:
    if not case.compiled:
        return "an activation has no compiled kernel"
    return f"p = {case.rows}, d = {case.point.d}: large enough for matrix products"


def _is_high_dimensional(case: Case) -> str:
    n, d = case.point.p + case.point.k, case.point.d
    return f"d = {d} >= {wide_enough(n)} (p + k)" if d >= wide_enough(n) * n else ""


def wide_enough(n: int) -> float:
    """d/n from which drawing overlaps beats multiplying weights, by measurement."""
    return 8.0 if n <= 4 else 4.0 if n <= 10 else 2.75 if n <= 20 else 2.2 if n <= 200 else 2.0


def _overlap_process_form(case: Case, chains: int) -> type[Simulator]:
    small = case.point.p + case.point.k <= COMPILED and case.compiled
    return OverlapProcess if small else WideOverlapProcess


def _overlap_process_cost(case: Case, chains: int) -> float:
    return step_cost.overlap_process(case.point.p, case.point.k, case.compiled, COMPILED)


def _is_collapsing(case: Case) -> str:
    point = case.point
    wide = point.activation.collapses and point.p > point.d
    return f"{point.activation.name} activation and p = {point.p} > d = {point.d}" if wide else ""


def _is_not_square(case: Case) -> str:
    needed = "needs the square activation: only its student collapses"
    return "" if case.point.activation.collapses else needed


def _path(case: Case) -> SimulatorKind:
    """S1 or S2, which follow the same path."""
    return next(SIMULATORS[name] for name in PATHS if SIMULATORS[name].suits(case))


SIMULATORS = {
    kind.name: kind
    for kind in (
        SimulatorKind(
            "S1", "step loop: SGD as defined, chains or neurons in the lanes of a vector",
            (StepLoop, StepLoopOfChains), _step_loop_form, _step_loop_cost, _is_small, _is_not_compiled,
        ),
        SimulatorKind(
            "S2", "blocked: the same path as S1 in matrix products",
            (Blocked,), lambda case, chains: Blocked,
            lambda case, chains: step_cost.blocked(case.rows, case.point.k, case.point.d, case.compiled),
            _is_large,
        ),
        SimulatorKind(
            "S3", "overlap process: equal to SGD in law, at a cost independent of d",
            (OverlapProcess, WideOverlapProcess), _overlap_process_form, _overlap_process_cost,
            _is_high_dimensional, rounds_small_risks=True,
        ),
        SimulatorKind(
            "S3-factored", "overlap process that carries a factor of the overlaps: risks down to 1e-17",
            (FactoredOverlapProcess,), lambda case, chains: FactoredOverlapProcess, _overlap_process_cost,
        ),
        SimulatorKind(
            "S4", "square collapse: the path of S1 at a cost independent of p",
            (StepLoop, StepLoopOfChains, Blocked),
            lambda case, chains: _path(case.collapsed()).form(case.collapsed(), chains),
            lambda case, chains: _path(case.collapsed()).step_nanoseconds(case.collapsed(), chains),
            _is_collapsing, _is_not_square, collapses=True,
        ),
    )
}  # fmt: skip
PATHS = ("S1", "S2")
PREFERENCE = ("S4", "S3", *PATHS)  # the first that suits a point runs its chains


def choose_engine(point: Point, asked: str = "auto") -> Engine:
    """The simulator of this name, or by the measured rule."""
    case = Case.of(point)
    if not isinstance(asked, str) or (asked != "auto" and asked not in SIMULATORS):
        raise unknown_name("engine", asked, ("auto", *SIMULATORS))
    if asked != "auto":
        kind = SIMULATORS[asked]
        point.require_support(kind.supports, f"the simulator {asked}")
        if reason := kind.refuse(case):
            raise InvalidInput("engine", asked, reason)
        return Engine(kind, "asked for", case)
    able = [SIMULATORS[name] for name in PREFERENCE]
    if point.unusual:
        able = [kind for kind in able if not point.unsupported(kind.supports)]
    for kind in able:
        if reason := kind.suits(case):
            return Engine(kind, reason, case)
    for kind in able:  # the one that suits best does not support a parameter
        if not kind.refuse(case):
            return Engine(kind, f"supports {', '.join(point.unusual)}", case)
    point.require_support(FIRST_PARAMETERS, "a simulator that fits the other parameters")
    raise AssertionError("S2 suits every point")
