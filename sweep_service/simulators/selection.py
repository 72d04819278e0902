"""The registry of simulators, and the rule that chooses one for a point.

The rule depends on the point alone, so the choice does not depend on which other chains run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sweep_service.errors import InvalidInput, unknown_name
from sweep_service.model.parameters import FIRST_PARAMETERS, PARAMETERS
from sweep_service.model.point import STRUCTURED_PARAMETERS, Point
from sweep_service.model.user_kernels import explain_uncompiled
from sweep_service.simulators import step_cost
from sweep_service.simulators.blocked import Blocked
from sweep_service.simulators.chain import Simulator, check_kept_share
from sweep_service.simulators.collapse import max_groups
from sweep_service.simulators.mixed_lanes import StepLoopOfFour, StepLoopOfTwo
from sweep_service.simulators.overlap_processes import overlap_process, wide_overlap_process
from sweep_service.simulators.overlap_processes.factored import FactoredOverlapProcess
from sweep_service.simulators.overlap_processes.large_batch import LargeBatchProcess, WideLargeBatchProcess
from sweep_service.simulators.overlap_processes.overlap_chains import OverlapProcessOfChains
from sweep_service.simulators.overlap_processes.overlap_process import OverlapProcess
from sweep_service.simulators.overlap_processes.wide_overlap_process import WideOverlapProcess
from sweep_service.simulators.step_loop import StepLoop, StepLoopOfChains

# Up to this many neurons (students and teachers) S3 is compiled as a whole; above, it uses BLAS.
MAX_COMPILED_NEURONS = 75
# Up to this many neurons the overlaps of eight chains stay in the cache.
MAX_NEURONS_IN_LANES = 45
# Two or three chains with more rows than this are faster one by one.
MAX_ROWS_OF_FEW_CHAINS = 16
# From this many chains on, eight lanes are faster even if some of them are empty.
MIN_CHAINS_PER_VECTOR = 5


@dataclass(frozen=True)
class Case:
    """The inputs of the rule: a point, the rows to simulate, and whether both activations have kernels."""

    point: Point
    compiled: bool
    rows: int

    @classmethod
    def of(cls, point: Point) -> Case:
        is_learned = point.second_layer_rate > 0.0
        reason = explain_uncompiled(point.activation, point.teacher_activation, is_learned)
        return cls(point, not reason, point.p)

    def collapsed(self) -> Case:
        """The case of a square student collapsed to at most d rows for each different value of a."""
        point = self.point
        return Case(point, self.compiled, min(point.p, self.groups * point.d))

    @property
    def groups(self) -> int:
        """The largest number of different weights in the second layer."""
        return max_groups(self.point.second_layer, self.point.p)


def _no_reason(case: Case) -> str:
    return ""


@dataclass(frozen=True)
class SimulatorEntry:
    """An entry of the registry.

    `form(case, chains)` chooses the class, one of `forms`, that runs that many chains; the bits of a chain
    do not depend on `chains`. `suits` returns the reason to choose the simulator automatically and `refuse`
    the reason why it cannot run; both return "" if there is none. `step_nanoseconds(case, chains)` is the
    cost of a step per chain. `version` is raised if and only if the numbers change, because stored runs are
    reused by it. A simulator is not chosen for a point with a parameter that one of its forms does not
    support.
    """

    name: str
    about: str
    forms: tuple[type[Simulator], ...]
    form: Callable[[Case, int], type[Simulator]]
    step_nanoseconds: Callable[[Case, int], float]
    suits: Callable[[Case], str] = _no_reason
    refuse: Callable[[Case], str] = _no_reason
    collapses: bool = False  # simulates at most d rows of a square student
    rounds_small_risks: bool = False
    version: int = 1
    excludes: tuple[str, ...] = ()  # parameters that the simulator does not support although its forms do

    @property
    def supports(self) -> tuple[str, ...]:
        """Parameters that the simulator takes into account, in all its forms."""
        names = [name for name in (*PARAMETERS, *STRUCTURED_PARAMETERS) if name not in self.excludes]
        return tuple(name for name in names if all(name in form.supports for form in self.forms))


@dataclass(frozen=True)
class SimulatorChoice:
    """The simulator chosen for a point, and the reason."""

    entry: SimulatorEntry
    reason: str
    case: Case

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def compiled(self) -> bool:
        return self.case.compiled

    @property
    def rows(self) -> int:
        """Number of student rows that it simulates."""
        return (self.case.collapsed() if self.entry.collapses else self.case).rows

    def choose_form(self, chains: int) -> type[Simulator]:
        """The class that runs the next group when `chains` chains are left; it does not affect the bits."""
        return self.entry.form(self.case, chains)

    def step_seconds(self, chains: int) -> float:
        """Predicted time of a step of one of `chains` chains, before calibration."""
        return 1e-9 * self.entry.step_nanoseconds(self.case, chains)


def _step_loop_form(case: Case, chains: int) -> type[Simulator]:
    # wider students fill the lanes with their own neurons
    if case.rows > 20 and case.point.d > 20:
        return StepLoop
    if chains >= MIN_CHAINS_PER_VECTOR:
        return StepLoopOfChains
    if chains == 1 or case.point.batch > 1 or (chains < 4 and case.rows > MAX_ROWS_OF_FEW_CHAINS):
        return StepLoop
    return StepLoopOfTwo if chains == 2 else StepLoopOfFour


def _step_loop_cost(case: Case, chains: int) -> float:
    point, shared = case.point, _step_loop_form(case, chains).max_chains
    sample = step_cost.step_loop(case.rows, point.k, point.d, point.activation.costly, shared)
    return _batch_cost(case, sample, lanes=shared > 1)


def _batch_cost(case: Case, nanoseconds: float, lanes: bool = False) -> float:
    """The cost of a step, whose samples cost at most as much as steps of one sample."""
    learning = step_cost.learning(case.rows, lanes) if case.point.second_layer_rate else 0.0
    return case.point.batch * (nanoseconds + learning)


def _suits_step_loop(case: Case) -> str:
    p, d = case.rows, case.point.d
    max_d = 120 if p <= 15 else 70 if p <= 40 else 50 if p <= 75 else 35 if p <= 200 else 25
    return f"small: p = {p}, d = {d}" if case.compiled and d <= max_d else ""


def _refuse_uncompiled(case: Case) -> str:
    return "" if case.compiled else "needs activations with a compiled kernel; S2 follows the same path"


def _suits_blocked(case: Case) -> str:
    if not case.compiled:
        return "an activation has no compiled kernel"
    return f"p = {case.rows}, d = {case.point.d}: large enough for matrix products"


def _suits_overlap_process(case: Case) -> str:
    n, d = case.point.p + case.point.k, case.point.d
    return f"d = {d} >= {min_dimension_ratio(n)} (p + k)" if d >= min_dimension_ratio(n) * n else ""


def min_dimension_ratio(n: int) -> float:
    """Measured ratio d/n from which drawing overlaps is faster than multiplying weights.

    From 11 to 20 neurons it is 2.4 for one chain and 1.7 for eight, which share vectors.
    """
    return 8.0 if n <= 4 else 4.0 if n <= 10 else 2.0 if n <= 20 else 2.2 if n <= 200 else 2.0


def _overlap_process_form(case: Case, chains: int) -> type[Simulator]:
    n, batch = case.point.p + case.point.k, case.point.batch
    if n <= MAX_COMPILED_NEURONS and case.compiled:
        if batch >= overlap_process.min_large_batch(n):
            return LargeBatchProcess
        # with fewer dimensions than neurons, the overlaps are always rank-deficient
        shares = chains >= MIN_CHAINS_PER_VECTOR and n <= min(MAX_NEURONS_IN_LANES, case.point.d)
        return OverlapProcessOfChains if shares else OverlapProcess
    return WideLargeBatchProcess if batch >= wide_overlap_process.choose_block_size(n) else WideOverlapProcess


def _overlap_process_cost(case: Case, chains: int) -> float:
    point = case.point
    form = _overlap_process_form(case, chains)
    if form is OverlapProcessOfChains:
        return _batch_cost(case, step_cost.overlap_process_of_chains(point.p + point.k), lanes=True)
    sample = step_cost.overlap_process(point.p, point.k, case.compiled, MAX_COMPILED_NEURONS)
    if form is LargeBatchProcess:
        return step_cost.large_batch(point.p + point.k, sample, point.batch)
    return _batch_cost(case, sample)


def _factored_cost(case: Case, chains: int) -> float:
    sample = step_cost.overlap_process(case.point.p, case.point.k, case.compiled, MAX_COMPILED_NEURONS)
    return _batch_cost(case, sample)


def _blocked_cost(case: Case, chains: int) -> float:
    return _batch_cost(case, step_cost.blocked(case.rows, case.point.k, case.point.d, case.compiled))


def _suits_collapse(case: Case) -> str:
    point, groups = case.point, case.groups
    if not point.activation.collapses or point.p <= groups * point.d:
        return ""
    if groups == 1:
        return f"{point.activation.name} activation and p = {point.p} > d = {point.d}"
    return f"{point.activation.name} activation, {groups} values of a and p = {point.p} > {groups} d"


def _refuse_not_square(case: Case) -> str:
    reason = "needs the square activation: only its student collapses"
    return "" if case.point.activation.collapses else reason


def _choose_pathwise(case: Case) -> SimulatorEntry:
    """S1 or S2, which follow the same path."""
    return next(SIMULATORS[name] for name in PATHWISE if SIMULATORS[name].suits(case))


SIMULATORS = {
    entry.name: entry
    for entry in (
        SimulatorEntry(
            "S1", "step loop: SGD as defined, chains or neurons in the lanes of a vector",
            (StepLoop, StepLoopOfTwo, StepLoopOfFour, StepLoopOfChains), _step_loop_form, _step_loop_cost,
            _suits_step_loop, _refuse_uncompiled, version=4,
        ),
        SimulatorEntry(
            "S2", "blocked: the same path as S1 in matrix products",
            (Blocked,), lambda case, chains: Blocked, _blocked_cost, _suits_blocked, version=4,
        ),
        SimulatorEntry(
            "S3", "overlap process: equal to SGD in law, at a cost independent of d",
            (
                OverlapProcess, OverlapProcessOfChains, WideOverlapProcess, LargeBatchProcess,
                WideLargeBatchProcess,
            ),
            _overlap_process_form, _overlap_process_cost,
            _suits_overlap_process, rounds_small_risks=True, version=4,
        ),
        SimulatorEntry(
            "S3-factored", "overlap process that carries a factor of the overlaps: risks down to 1e-17",
            (FactoredOverlapProcess,), lambda case, chains: FactoredOverlapProcess, _factored_cost,
            version=4,
        ),
        SimulatorEntry(
            "S4", "square collapse: the path of S1 at a cost independent of p",
            (StepLoop, StepLoopOfTwo, StepLoopOfFour, StepLoopOfChains, Blocked),
            lambda case, chains: _choose_pathwise(case.collapsed()).form(case.collapsed(), chains),
            lambda case, chains: _choose_pathwise(case.collapsed()).step_nanoseconds(
                case.collapsed(), chains
            ),
            _suits_collapse, _refuse_not_square, collapses=True, version=3,
            excludes=("second_layer_rate",),  # neurons with equal a would not stay so
        ),
    )
}  # fmt: skip
PATHWISE = ("S1", "S2")
PREFERENCE = ("S4", "S3", *PATHWISE)  # the first that suits a point is chosen


def choose_simulator(point: Point, engine: str = "auto") -> SimulatorChoice:
    """Choose the simulator named `engine`, or by the measured rule if it is "auto"."""
    case = Case.of(point)
    if not isinstance(engine, str) or (engine != "auto" and engine not in SIMULATORS):
        raise unknown_name("engine", engine, ("auto", *SIMULATORS))
    check_kept_share(point)
    if engine != "auto":
        entry = SIMULATORS[engine]
        point.require_support(entry.supports, f"the simulator {engine}")
        if reason := entry.refuse(case):
            raise InvalidInput("engine", engine, reason)
        return SimulatorChoice(entry, "requested", case)
    candidates = [SIMULATORS[name] for name in PREFERENCE]
    if point.non_default:
        candidates = [entry for entry in candidates if not point.find_unsupported(entry.supports)]
    for entry in candidates:
        if reason := entry.suits(case):
            return SimulatorChoice(entry, reason, case)
    for entry in candidates:  # those that suit the point do not support one of its parameters
        if not entry.refuse(case):
            return SimulatorChoice(entry, f"supports {', '.join(point.non_default)}", case)
    point.require_support(FIRST_PARAMETERS, "any simulator of such a point")
    raise AssertionError("S2 suits every point")
