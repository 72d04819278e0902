"""What the rules of choice cost: the chosen simulator, and form of mean field, against the best one.

Both rules see the point only. A ratio below `FLOOR` means that another choice would have been faster by
more than it allows.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product

from benchmarks.crossover import choose_steps
from benchmarks.full_model import describe
from benchmarks.harness import Row, time_interleaved
from benchmarks.mean_field import draw_start, make_system
from benchmarks.simulators import Case
from sweep_service.dynamics.integrate import refine_quadrature
from sweep_service.dynamics.mean_field.flow import MeanFieldFlow
from sweep_service.dynamics.mean_field.mixture import MixtureNodeFlow
from sweep_service.dynamics.mean_field.nodes import AnyNodeFlow
from sweep_service.dynamics.mean_field.pairwise import PairwiseFlow
from sweep_service.dynamics.regimes import cheapest_flow, choose_quadrature
from sweep_service.model.activations import ACTIVATIONS
from sweep_service.model.averages.closed_forms import MIXTURES
from sweep_service.model.point import Point
from sweep_service.numerics.blas import one_blas_thread
from sweep_service.simulators.chain import Simulator
from sweep_service.simulators.selection import PATHWISE, SIMULATORS, choose_simulator
from sweep_service.simulators.simulate import Chains

FLOOR = 1 / 1.2
WIDTHS, TEACHERS, RATIOS, CHAINS = (2, 5, 15, 50, 150), (1, 4), (1.0, 2.5, 8.0, 30.0), (1, 8)  # d/(p + k)
PAIRS = (("erf", "erf"), ("tanh", "tanh"), ("relu", "relu"), ("erf", "relu"))
MAX_DIMENSION, CALL_SECONDS = 3000, 0.01
MEAN_FIELD_WIDTHS = {1: (10, 30, 100, 300, 1000, 3000), 2: (10, 100, 1000, 3000), 3: (100, 1000)}  # by k
DIMENSIONS = (3, 100, None)  # d - k
NODE_ORDERS = {("erf", 1): 24, ("tanh", 1): 48}
OTHER_NODE_ORDERS = {"erf": 24, "tanh": 36}


def regret(quick: bool) -> Iterator[Row]:
    sizes = [(5, 1, 2.5, 1)] if quick else list(product(WIDTHS, TEACHERS, RATIOS, CHAINS))
    for (p, k, ratio, chains), pair in product(sizes, PAIRS[:1] if quick else PAIRS):
        case = Case(p, k, max(2, round(ratio * (p + k))), pair[0], chains)
        if case.d <= MAX_DIMENSION:
            yield compare_simulators(case, pair[1], quick)
    for name in ("erf",) if quick else MIXTURE_NAMES:
        for k, widths in {1: (30,)}.items() if quick else MEAN_FIELD_WIDTHS.items():
            for p, D in product(widths, DIMENSIONS):
                yield compare_forms(name, p, k, D, quick)


MIXTURE_NAMES = tuple(act.name for act in ACTIVATIONS.values() if act.code in MIXTURES)


def compare_simulators(case: Case, teacher: str, quick: bool) -> Row:
    """The rule's simulator against each other one that suits the point, per step of a chain."""
    point = Point.parse({**describe(case), "teacher_activation": teacher})
    chosen = choose_simulator(point).name
    suited = [name for name in (*PATHWISE, "S3") if not SIMULATORS[name].refuse(choose_simulator(point).case)]
    names = [chosen, *(name for name in suited if name != chosen)]
    simulators = [make_group(point, name, case.seeds) for name in names]
    with one_blas_thread():
        steps = [choose_steps(simulator, 0.002 if quick else CALL_SECONDS) for simulator in simulators]
        calls = [partial(simulator.advance, 0, n) for simulator, n in zip(simulators, steps, strict=True)]
        timings = time_interleaved(*calls, repeats=1 if quick else 5, budget=0.5)
    seconds = [
        timing.seconds / n / len(simulator.chains)
        for timing, n, simulator in zip(timings, steps, simulators, strict=True)
    ]
    best = min(range(1, len(names)), key=seconds.__getitem__)
    return Row(
        f"regret/{case.name}-{teacher}", f"{chosen}, chosen by the rule", seconds[0], names[best],
        seconds[best], floor=None if quick else FLOOR,
        note=", ".join(f"{name} {1e9 * each:.0f} ns" for name, each in zip(names, seconds, strict=True)),
    )  # fmt: skip


def make_group(point: Point, name: str, seeds: int) -> Simulator:
    """The chains that a simulator follows together, of this number of seeds."""
    choice = choose_simulator(point, name)
    form, chains = choice.choose_form(seeds), Chains(point, [0], range(seeds), choice)
    return form([chains(index)[0] for index in range(min(seeds, form.max_chains))])


def compare_forms(name: str, p: int, k: int, D: int | None, quick: bool) -> Row:
    """The form that `integrate` begins with against the others, per evaluation of the flow."""
    activation = ACTIVATIONS[name]
    system, start = make_system(activation, k, D), draw_start(p, k, D)
    order = NODE_ORDERS.get((name, k), OTHER_NODE_ORDERS[name])
    series, xi_nodes = choose_quadrature(activation, D, system.precision)
    chosen = cheapest_flow(system, *start)
    flows: list[MeanFieldFlow] = [chosen]
    if not isinstance(chosen, PairwiseFlow):
        flows.append(PairwiseFlow(system, *start, xi_nodes))
    if not isinstance(chosen, MixtureNodeFlow):
        flows.append(MixtureNodeFlow(system, *start, order=order, series=series))
    if not isinstance(chosen, AnyNodeFlow) and k < 3:
        flows.append(AnyNodeFlow(system, *start, order=64 if k == 1 else 48, series=series))
    # as `integrate` does, whose nodes of λ* are often too few at first
    flows = [refine_quadrature(flow, [flow.y0, flow.final_state_guess])[0] for flow in flows]
    for flow in flows:
        flow(flow.y0)  # compile
    timings = time_interleaved(
        *(partial(flow, flow.y0) for flow in flows), repeats=1 if quick else 5, budget=0.5
    )
    best = min(range(1, len(flows)), key=lambda index: timings[index].seconds)
    return Row(
        f"regret/mean_field-{name}-p{p}-k{k}-D{'inf' if D is None else D}",
        f"{type(flows[0]).__name__}, chosen by the rule", timings[0].seconds,
        type(flows[best]).__name__, timings[best].seconds, floor=None if quick else FLOOR,
    )  # fmt: skip
