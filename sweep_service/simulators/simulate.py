"""`simulate`: one point, exact SGD, one labelled dataset."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from sweep_service.errors import InvalidInput
from sweep_service.identity import Key
from sweep_service.model.labels import WIDEST_STORED, about, labelled
from sweep_service.model.observables import OBSERVABLES, chosen
from sweep_service.model.point import Point
from sweep_service.model.risk import teacher_power
from sweep_service.model.two_point import Pairs, pairs
from sweep_service.numerics.blas import one_blas_thread
from sweep_service.numerics.types import AnyArray, Array
from sweep_service.simulators.chain import Chain, Simulator
from sweep_service.simulators.checkpoint import Checkpoint, checkpoint_of
from sweep_service.simulators.collapse import collapsed
from sweep_service.simulators.records import Records, Sample
from sweep_service.simulators.run import Ends, Run
from sweep_service.simulators.selection import Engine, choose_engine
from sweep_service.simulators.streams import chain_key
from sweep_service.status import Status
from sweep_service.validation import increasing_times, seeds, switch

# The number of a step times d indexes a stream: both fit into 63 bits.
MOST_NUMBERS = 2.0**62
# Below this share of the risk of a student that answers zero, S3 shows its own rounding.
RESOLVED = 1e-13
NO_KEY = np.zeros(3, dtype=np.uint64)
OVERLAP_DIMS = {
    "overlap_student_teacher": ("student", "teacher"),
    "overlap_student": ("student", "student_other"),
}


def simulate(
    point: Any,
    *,
    times: Sequence[float] | Array,
    seed: int | Sequence[int] = 0,
    repeat: int | Sequence[int] = 0,
    engine: str = "auto",
    observables: Sequence[str] | None = None,
    overlaps: bool | None = None,
    stopped: Callable[[], bool] | None = None,
    checkpoint: Any = None,
) -> xr.Dataset:
    """Simulate one-pass SGD exactly.

    `point` and `times` are those of `integrate`; a time t is recorded after round(t/δt) steps, and the
    coordinate `step` says how many that is. `seed` draws the initial condition and `repeat` the inputs;
    a sequence of either adds the dimension of that name, and its chains run together. `engine` is a name
    of `SIMULATORS`, or auto. `observables` and `overlaps` choose what is kept. `stopped` is asked about ten
    times a second; when it answers true the call ends with `Stopped`. With a `checkpoint` (a path, or an
    object with load, save and clear) the same call then goes on where it was, to the same bits.
    """
    point = Point.parse(point)
    keep = point.p <= WIDEST_STORED if overlaps is None else switch(overlaps, "overlaps")
    at, starts, repeats = increasing_times(times), seeds(seed), seeds(repeat, "repeat")
    found = run_chains(
        point, times=at, seeds=starts, repeats=repeats, engine=engine, observables=chosen(observables),
        overlaps=keep, stopped=stopped, checkpoint=checkpoint_of(checkpoint),
    )  # fmt: skip
    teachers = np.stack([point.init.teacher_overlap(point.shape, one) for one in starts])
    dataset = _dataset(point, at, starts, repeats, found, teachers)
    for name, value in (("seed", seed), ("repeat", repeat)):
        if isinstance(value, numbers.Real):
            dataset = dataset.isel({name: 0}, drop=True)
            dataset.attrs[name] = dataset.attrs[name][0]
    if isinstance(seed, numbers.Real) and isinstance(repeat, numbers.Real):
        dataset.attrs |= {name: dataset.attrs[name][0] for name in ("status", "steps", "seconds")}
    return dataset


@dataclass(frozen=True)
class Simulation:
    """What chains gave: arrays (chain, time, ...), seed by seed and repeat by repeat."""

    values: dict[str, Array]
    ends: Ends
    steps: AnyArray  # after which each time was recorded
    engine: Engine
    form: type[Simulator]
    block: int
    pairs: Pairs


def run_chains(
    point: Point,
    *,
    times: Array,
    seeds: Sequence[int],
    repeats: Sequence[int],
    observables: Sequence[str],
    overlaps: bool,
    engine: str = "auto",
    stopped: Callable[[], bool] | None = None,
    checkpoint: Checkpoint | None = None,
) -> Simulation:
    """`simulate` on arguments that were read before, without labels: what a worker stores."""
    steps, way = _steps(point, times), choose_engine(point, engine)
    with one_blas_thread():
        draw = Chains(point, seeds, repeats, way)
        form = way.simulator
        records = Records(
            len(draw), len(times), draw(0)[0].rows, point.k, point.p,
            pairs(point.activation, point.teacher_activation), observables, overlaps,
            min(form(len(draw)).most_chains, len(draw)),
        )  # fmt: skip
        identity = Key.of(
            streams=[key.digest for key in draw.keys], start=point.init.basis, steps=steps, engine=way.name,
            version=way.kind.version, observables=observables, overlaps=overlaps,
        ).digest  # fmt: skip
        run = Run(draw, len(draw), form, steps, records, stopped, checkpoint, identity)
        ends = run()
    return Simulation(records.outputs, ends, steps, way, form(len(draw)), run.grain, records.pairs)


def stream_key(point: Point, seed: int, repeat: int) -> Key:
    """What the inputs of a chain are drawn from: everything physical, and nothing else."""
    return Key.of(**point.content, init=point.init.digest, seed=seed, repeat=repeat)


def _steps(point: Point, times: Array) -> AnyArray:
    """After how many steps each time is recorded."""
    steps = np.rint(times / point.delta_t)
    if steps[-1] * point.d > MOST_NUMBERS:
        raise InvalidInput(
            "times", float(times[-1]), f"is {steps[-1]:.3g} steps of δt = {point.delta_t:.3g}: too many"
        )
    return steps.astype(np.int64)


class Chains:
    """The chains of a call, seed by seed; drawn when their turn comes, as a start may be p by p."""

    def __init__(self, point: Point, starts: Sequence[int], repeats: Sequence[int], engine: Engine) -> None:
        self.point, self.engine, self.starts, self.repeats = point, engine, starts, len(repeats)
        self.keys = [stream_key(point, one, other) for one in starts for other in repeats]
        self.at_hand: tuple[int, Chain, Sample] | None = None  # of the last seed

    def __len__(self) -> int:
        return len(self.keys)

    def __call__(self, index: int) -> tuple[Chain, Sample]:
        seed = self.starts[index // self.repeats]
        if self.at_hand is None or self.at_hand[0] != seed:
            self.at_hand = (seed, *self._start(seed))
        _, chain, sample = self.at_hand
        return replace(chain, key=chain_key(self.keys[index])), sample

    def _start(self, seed: int) -> tuple[Chain, Sample]:
        """What the chains of one seed have in common."""
        point, turn = self.point, None
        students, teachers = point.start(seed).coordinates(point.d)
        chain = Chain(
            students, teachers, point.d, point.p, point.gamma, point.noise,
            point.activation, point.teacher_activation, NO_KEY, point.others,
        )  # fmt: skip
        if self.engine.kind.collapses:
            chain, turn = collapsed(chain)
        return chain, Sample(teachers @ teachers.T, turn)


def _dataset(
    point: Point,
    times: Array,
    starts: Sequence[int],
    repeats: Sequence[int],
    found: Simulation,
    teachers: Array,
) -> xr.Dataset:
    dims = {name: observable.dims for name, observable in OBSERVABLES.items()} | OVERLAP_DIMS
    variables = {
        name: (
            ("seed", "repeat", "time", *dims[name]),
            values.reshape(len(starts), len(repeats), *values.shape[1:]),
        )
        for name, values in found.values.items()
    }
    variables["overlap_teacher"] = (("seed", "teacher", "teacher_other"), teachers)
    attributes = {
        "seed": list(starts),
        "repeat": list(repeats),
        "engine": found.engine.name,
        "engine_reason": found.engine.reason,
        "engine_form": found.form.__name__,
        "engine_version": found.engine.kind.version,
        "block": found.block,
        "status": [Status(value).label for value in found.ends.status],
        "steps": found.ends.steps.tolist(),
        "seconds": found.ends.seconds.tolist(),
        "warnings": "\n".join(_warnings(point, found, teachers[0])),
    }
    coordinates = {"seed": list(starts), "repeat": list(repeats), "time": times}
    dataset = labelled(variables, coordinates, point, attributes)
    return dataset.assign_coords(step=xr.Variable("time", found.steps, about("step")))


def _warnings(point: Point, simulation: Simulation, P: Array) -> list[str]:
    found = list(point.init.warnings)
    if not simulation.engine.compiled:
        slow = {act.name: None for act in (point.activation, point.teacher_activation) if act.code is None}
        found.append(
            f"{', '.join(slow)} has no compiled kernel: its steps run in Python, tens of times slower"
        )
    if simulation.engine.kind.rounds_small_risks:
        answer = 0.5 * teacher_power(P, simulation.pairs.teachers)
        with np.errstate(invalid="ignore"):
            if np.any(simulation.values["risk"] < RESOLVED * answer):
                found.append("risks this small are rounding in S3: engine='S3-factored' resolves them")
    return found
