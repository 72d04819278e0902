"""`simulate`: exact SGD at one point, as a labelled dataset."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import xarray as xr

from sweep_service.errors import InvalidInput
from sweep_service.identity import Key
from sweep_service.model.averages.two_point import Pairs, make_pairs
from sweep_service.model.labels import (
    LEFT_OUT_OVERLAPS,
    MAX_WIDTH_WITH_OVERLAPS,
    label_dataset,
    label_variable,
)
from sweep_service.model.observables import OBSERVABLES, select_observables
from sweep_service.model.point import Point
from sweep_service.model.risk import teacher_power
from sweep_service.model.user_kernels import explain_uncompiled
from sweep_service.numerics.blas import one_blas_thread
from sweep_service.numerics.types import AnyArray, Array
from sweep_service.simulators.chain import Chain, Simulator
from sweep_service.simulators.checkpoint import Checkpoint, parse_checkpoint
from sweep_service.simulators.collapse import collapse_chain
from sweep_service.simulators.kernels.streams import chain_key
from sweep_service.simulators.records import RecordingContext, Records
from sweep_service.simulators.run import ChainLoop, ChainOutcomes, Continuation
from sweep_service.simulators.selection import SimulatorChoice, choose_simulator
from sweep_service.status import DivergedQuantity, Status
from sweep_service.validation import read_bool, read_seeds, read_times

# Streams are indexed by (step · batch · d), which must fit into 63 bits.
MAX_STREAM_INDEX = 2.0**62
# Relative to the risk of a student that outputs zero; below it, S3 shows its own rounding.
MIN_RESOLVED_RISK = 1e-13
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

    Parameters
    ----------
    point : mapping or Point
        d, p, k, gamma and optionally other parameters, as in `integrate`: noise, activation, init, batch,
        second_layer and others.
    times : sequence of float
        Strictly increasing times >= 0. Time t is recorded after round(t/δt) steps, δt = γ/(pd); the
        coordinate `step` of the result holds these numbers of steps.
    seed : int or sequence of int, default 0
        Seed of the initial condition. A sequence adds the dimension `seed`.
    repeat : int or sequence of int, default 0
        Seed of the inputs. A sequence adds the dimension `repeat`.
    engine : str, default "auto"
        Name of a simulator (`S1`, `S2`, `S3`, `S3-factored`, `S4`), or "auto" to choose the fastest one
        by a measured rule of p, k, d and the activations.
    observables : sequence of str, optional
        Names of `OBSERVABLES`. The risk is always recorded. By default, the default observables.
    overlaps : bool, optional
        Whether to keep M and Q. By default they are kept up to p = 256.
    stopped : callable, optional
        Called about ten times a second; when it returns true, the call raises `Stopped`.
    checkpoint : path or object, optional
        A file, or an object with `load`, `save` and `clear`, that keeps the state of an unfinished call.
        Repeating the call resumes from it and gives the same bits.

    Returns
    -------
    xarray.Dataset
        Observables and overlaps over `time`, with the parameters and the `status` of each run (`done` or
        `diverged`) as coordinates; `ds.sweep` has its analyses. Attributes record the parameters, the
        simulator, the status, the number of steps and any warnings.

    Raises
    ------
    InvalidInput
        If an argument is not usable, or the simulator does not support the point.
    Stopped
        If `stopped` returned true.
    """
    point = Point.parse(point)
    keep = point.p <= MAX_WIDTH_WITH_OVERLAPS if overlaps is None else read_bool(overlaps, "overlaps")
    record_times = read_times(times)
    if record_times[-1] > 0.0 and _count_steps(point, record_times)[-1] == 0:
        allowed = f"must include one of more than half a step, δt = {point.delta_t:.3g}, as SGD takes no step"
        raise InvalidInput("times", float(record_times[-1]), allowed)
    start_seeds, repeats = read_seeds(seed), read_seeds(repeat, "repeat")
    simulation = run_chains(
        point, times=record_times, seeds=start_seeds, repeats=repeats, engine=engine,
        observables=select_observables(observables), overlaps=keep, stopped=stopped,
        checkpoint=parse_checkpoint(checkpoint),
    )  # fmt: skip
    teachers = np.stack([point.init.teacher_overlap(point.shape, start_seed) for start_seed in start_seeds])
    dataset = _build_dataset(point, record_times, start_seeds, repeats, simulation, teachers)
    for name, value in (("seed", seed), ("repeat", repeat)):
        if isinstance(value, numbers.Real):
            dataset = dataset.isel({name: 0})
            dataset.attrs[name] = dataset.attrs[name][0]
    if isinstance(seed, numbers.Real) and isinstance(repeat, numbers.Real):
        dataset.attrs |= {
            name: dataset.attrs[name][0] for name in ("status", "diverged_quantity", "steps", "seconds")
        }
    return dataset if keep or overlaps is not None else dataset.assign_attrs(LEFT_OUT_OVERLAPS)


@dataclass(frozen=True)
class Simulation:
    """Results of chains as arrays (chain, time, ...), ordered by seed, then by repeat."""

    values: dict[str, Array]
    outcomes: ChainOutcomes
    steps: AnyArray  # the number of steps after which each time was recorded
    choice: SimulatorChoice
    form: type[Simulator]
    block: int
    pairs: Pairs
    last_states: Mapping[int, Array] = field(default_factory=dict)  # by chain, of those that did not diverge


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
    continuation: Continuation | None = None,
    keep_states: bool = False,
) -> Simulation:
    """Run `simulate` on validated arguments and return plain arrays, as workers store them.

    With a `continuation` the chains go on from these states, to the same bits, and only later samples are
    recorded. `keep_states` returns the last states.
    """
    steps, choice = _count_steps(point, times), choose_simulator(point, engine)
    with one_blas_thread():
        chains = Chains(point, seeds, repeats, choice)
        form = choice.choose_form
        records = Records(
            len(chains), len(times), chains(0)[0].rows, point.k, point.p,
            make_pairs(point.activation, point.teacher_activation), observables, overlaps,
            min(form(len(chains)).max_chains, len(chains)), not point.has_unit_second_layers,
            0 if continuation is None else continuation.samples,
        )  # fmt: skip
        others = {"continues": continuation.samples} if continuation is not None else {}
        if keep_states:  # those of an earlier group may be in the checkpoint
            others["keep_states"] = 1
        identity = Key.of(
            streams=[key.digest for key in chains.keys], start=point.init.basis, steps=steps,
            engine=choice.name, version=choice.entry.version, observables=observables, overlaps=overlaps,
            **others,
        ).digest  # fmt: skip
        loop = ChainLoop(
            chains,
            len(chains),
            form,
            steps,
            records,
            stopped,
            checkpoint,
            identity,
            continuation,
            keep_states,
        )
        outcomes = loop()
    return Simulation(
        records.outputs, outcomes, steps, choice, form(len(chains)), loop.block_size, records.pairs,
        loop.last_states,
    )  # fmt: skip


def stream_key(point: Point, seed: int, repeat: int) -> Key:
    """Stream key of a chain: a digest of everything physical, and of nothing else."""
    return Key.of(**point.content, init=point.init.digest, seed=seed, repeat=repeat)


def _count_steps(point: Point, times: Array) -> AnyArray:
    """Number of steps after which each time is recorded."""
    steps = np.rint(times / point.delta_t)
    if steps[-1] * point.batch * point.d > MAX_STREAM_INDEX:
        samples = f", {point.batch} samples each" if point.batch > 1 else ""
        raise InvalidInput(
            "times",
            float(times[-1]),
            f"is {steps[-1]:.3g} steps of δt = {point.delta_t:.3g}{samples}: too many",
        )
    return steps.astype(np.int64)


class Chains:
    """The chains of a call, ordered by seed; each is drawn when it is run, as a start may be p by p."""

    def __init__(
        self, point: Point, start_seeds: Sequence[int], repeats: Sequence[int], choice: SimulatorChoice
    ) -> None:
        self.point, self.choice = point, choice
        self.start_seeds, self.repeats = start_seeds, len(repeats)
        self.keys = [stream_key(point, seed, repeat) for seed in start_seeds for repeat in repeats]
        self.last_start: tuple[int, Chain, RecordingContext] | None = None

    def __len__(self) -> int:
        return len(self.keys)

    def __call__(self, index: int) -> tuple[Chain, RecordingContext]:
        seed = self.start_seeds[index // self.repeats]
        if self.last_start is None or self.last_start[0] != seed:
            self.last_start = (seed, *self._draw_start(seed))
        _, chain, context = self.last_start
        return replace(chain, key=chain_key(self.keys[index])), context

    def _draw_start(self, seed: int) -> tuple[Chain, RecordingContext]:
        """Chain without a stream key, and recording context, shared by all chains of a seed."""
        point, isometry = self.point, None
        start = point.start(seed)
        students, teachers = start.coordinates(point.d)
        chain = Chain(
            students, teachers, point.d, point.p, point.gamma, point.noise,
            point.activation, point.teacher_activation, NO_KEY, point.others,
            second_layer_rate=point.second_layer_rate, batch=point.batch, weight_decay=point.weight_decay,
            schedule=point.schedule,
        )  # fmt: skip
        readout, second_layer = start.readout, None
        if readout is not None:
            second_layer = readout.student
            chain = replace(chain, second_layer=second_layer, teacher_second_layer=readout.teacher)
        if self.choice.entry.collapses:
            chain, isometry = collapse_chain(chain, self.choice.case.groups)
        return chain, RecordingContext(
            teachers @ teachers.T, isometry, second_layer, chain.teacher_second_layer
        )


def _build_dataset(
    point: Point,
    times: Array,
    start_seeds: Sequence[int],
    repeats: Sequence[int],
    simulation: Simulation,
    teachers: Array,
) -> xr.Dataset:
    dims = {name: observable.dims for name, observable in OBSERVABLES.items()} | OVERLAP_DIMS
    variables = {
        name: (
            ("seed", "repeat", "time", *dims[name]),
            values.reshape(len(start_seeds), len(repeats), *values.shape[1:]),
        )
        for name, values in simulation.values.items()
    }
    choice, outcomes = simulation.choice, simulation.outcomes
    variables["overlap_teacher"] = (("seed", "teacher", "teacher_other"), teachers)
    attributes = {
        "seed": list(start_seeds),
        "repeat": list(repeats),
        "engine": choice.name,
        "engine_reason": choice.reason,
        "engine_form": simulation.form.__name__,
        "engine_version": choice.entry.version,
        "block": simulation.block,
        "status": [Status(value).label for value in outcomes.status],
        "diverged_quantity": [DivergedQuantity(value).label for value in outcomes.diverged_quantity],
        "steps": outcomes.steps.tolist(),
        "seconds": outcomes.seconds.tolist(),
        "warnings": "\n".join(_collect_warnings(point, simulation, teachers[0])),
    }
    coordinates = {"seed": list(start_seeds), "repeat": list(repeats), "time": times}
    dataset = label_dataset(variables, coordinates, point, attributes)
    status = np.reshape(attributes["status"], (len(start_seeds), len(repeats)))
    return dataset.assign_coords(
        step=label_variable("step", ("time",), simulation.steps),
        status=label_variable("status", ("seed", "repeat"), status),
    )


def _collect_warnings(point: Point, simulation: Simulation, P: Array) -> list[str]:
    warnings = list(point.init.warnings)
    if not simulation.choice.compiled:
        is_learned = point.second_layer_rate > 0.0
        reason = explain_uncompiled(point.activation, point.teacher_activation, is_learned)
        warnings.append(f"{reason}; its steps run in Python, tens of times slower")
    if simulation.choice.entry.rounds_small_risks:
        risk_at_zero = 0.5 * teacher_power(P, simulation.pairs.teachers)
        with np.errstate(invalid="ignore"):
            if np.any(simulation.values["risk"] < MIN_RESOLVED_RISK * risk_at_zero):
                warnings.append("risks this small are rounding in S3: engine='S3-factored' resolves them")
    return warnings
