"""A part: the result of one bundle as one object, stored as arrays without pickle."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from sweep_service.errors import Damaged
from sweep_service.numerics.npz import read_arrays
from sweep_service.numerics.types import AnyArray
from sweep_service.planning.jobs import Failure, Job, Result, empty_values, failed_result, number_jobs
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.runs import KINDS, Kind
from sweep_service.planning.versions import job_versions


@dataclass(frozen=True)
class Part:
    """Numbers and values of the runs of a bundle, by kind, the failures, and the versions of the code."""

    numbers: dict[Kind, AnyArray]
    values: dict[Kind, dict[str, AnyArray]]
    failures: tuple[Failure, ...]
    versions: dict[str, int | str] = field(
        default_factory=dict
    )  # empty in parts written before they were recorded
    elapsed: float = 0.0  # seconds that a worker was busy with the bundle; 0 if unknown
    states: Mapping[int, AnyArray] = field(default_factory=dict)  # kept states of SGD runs by number
    earlier_seconds: float = 0.0  # processor seconds that were spent in runs that these continue

    @classmethod
    def of(
        cls, plan: SweepPlan, jobs: Sequence[Job], results: Sequence[Result], elapsed: float = 0.0
    ) -> Part:
        arrays = PartArrays(plan, jobs)
        for place, result in enumerate(results):
            arrays.store(place, result)
        return arrays.make_part(elapsed)

    @property
    def seconds(self) -> float:
        """Processor seconds that this bundle took."""
        total = sum(float(np.nansum(values["seconds"])) for values in self.values.values())
        return max(0.0, total - self.earlier_seconds)

    @classmethod
    def failed(cls, plan: SweepPlan, jobs: Sequence[Job], error: str) -> Part:
        """Make a part in which all runs of these jobs failed with the same error."""
        return cls.of(plan, jobs, [failed_result(plan, job, error) for job in jobs])

    def pack(self) -> bytes:
        arrays: dict[str, Any] = {
            "failures": _to_bytes([asdict(failure) for failure in self.failures]),
            "versions": _to_bytes(self.versions),
            "elapsed": np.array(self.elapsed),
        }
        if self.earlier_seconds:
            arrays["earlier_seconds"] = np.array(self.earlier_seconds)
        if self.states:
            states = list(self.states.values())
            arrays["state_numbers"] = np.array(list(self.states), np.int64)
            arrays["state_sizes"] = np.array([state.size for state in states], np.int64)
            arrays["state_values"] = np.concatenate(states)
        for kind, numbers in self.numbers.items():
            arrays[f"{kind}//numbers"] = numbers
            arrays |= {f"{kind}/{name}": array for name, array in self.values[kind].items()}
        file = io.BytesIO()
        np.savez(file, **arrays)
        return file.getvalue()

    @classmethod
    def unpack(cls, content: bytes, plan: SweepPlan) -> Part:
        """Read what `pack` wrote; raise Damaged if it does not fit the arrays of the dataset."""
        try:
            part = cls._read(content)
            for kind, numbers in part.numbers.items():
                runs = plan.runs.count(kind)
                for name, variable in plan.schema.variables[kind].items():
                    if variable.is_optional and name not in part.values[kind]:
                        shape = (len(numbers), *variable.run_shape)
                        part.values[kind][name] = np.full(shape, variable.fill, variable.dtype)
                expected = {
                    name: (variable.dtype, (len(numbers), *variable.run_shape))
                    for name, variable in plan.schema.variables[kind].items()
                }
                actual = {name: (str(array.dtype), array.shape) for name, array in part.values[kind].items()}
                is_list = numbers.ndim == 1 and numbers.dtype.kind == "i"
                if actual != expected or not is_list or np.any((numbers < 0) | (numbers >= runs)):
                    raise ValueError("it belongs to another sweep")
            if not part.states.keys() <= set(part.numbers.get("sgd", np.empty(0)).tolist()):
                raise ValueError("it has states of other runs")
        except Exception as error:  # damaged bytes may raise any exception
            raise Damaged(f"cannot be read: {type(error).__name__}: {error}") from None
        return part

    @classmethod
    def _read(cls, content: bytes) -> Part:
        arrays = read_arrays(content)
        failures = tuple(Failure(**failure) for failure in json.loads(arrays.pop("failures").tobytes()))
        versions = json.loads(arrays.pop("versions").tobytes()) if "versions" in arrays else {}
        if not isinstance(versions, dict):
            raise ValueError("its versions are not a mapping")
        elapsed = float(arrays.pop("elapsed", 0.0))
        earlier_seconds = float(arrays.pop("earlier_seconds", 0.0))
        states: dict[int, AnyArray] = {}
        if "state_numbers" in arrays:
            ends = np.cumsum(arrays.pop("state_sizes"))
            split = np.split(arrays.pop("state_values"), ends[:-1])
            states = dict(zip(arrays.pop("state_numbers").tolist(), split, strict=True))
        numbers: dict[Kind, AnyArray] = {}
        values: dict[Kind, dict[str, AnyArray]] = {}
        for kind in KINDS:
            if f"{kind}//numbers" in arrays:
                numbers[kind] = arrays.pop(f"{kind}//numbers")
                values[kind] = {
                    name.removeprefix(f"{kind}/"): array
                    for name, array in arrays.items()
                    if name.startswith(f"{kind}/")
                }
        return cls(numbers, values, failures, versions, elapsed, states, earlier_seconds)


class PartArrays:
    """The arrays of a part while its jobs are computed, with fill values at first."""

    def __init__(self, plan: SweepPlan, jobs: Sequence[Job]) -> None:
        self.plan, self.jobs = plan, jobs
        self.failures: list[Failure] = []
        self.states: dict[int, AnyArray] = {}
        self.earlier_seconds = 0.0
        sizes: Counter[Kind] = Counter()
        self._rows = []
        for job in jobs:
            self._rows.append(slice(sizes[job.kind], sizes[job.kind] + job.runs))
            sizes[job.kind] += job.runs
        self._values = {kind: empty_values(plan.schema, kind, sizes[kind]) for kind in KINDS if sizes[kind]}

    def rows(self, place: int) -> dict[str, AnyArray]:
        """Return the rows of the job at this place, in which its values can be stored."""
        values, rows = self._values[self.jobs[place].kind], self._rows[place]
        return {name: array[rows] for name, array in values.items()}

    def store(self, place: int, result: Result) -> None:
        """Store the result of the job at this place; its values may be in the rows already."""
        self.failures += result.failures
        self.states |= result.states
        self.earlier_seconds += result.earlier_seconds
        for name, target in self.rows(place).items():
            if not np.may_share_memory(target, result.values[name]):
                target[...] = result.values[name]

    def make_part(self, elapsed: float = 0.0) -> Part:
        numbers = {
            kind: number_jobs(self.plan.runs, kind, [job for job in self.jobs if job.kind == kind])
            for kind in self._values
        }
        versions = job_versions(self.plan.grid, self.jobs)
        return Part(
            numbers, self._values, tuple(self.failures), versions, elapsed, self.states, self.earlier_seconds
        )


def _to_bytes(value: Any) -> AnyArray:
    """Return JSON as an array, so that it can be stored beside other arrays."""
    return np.frombuffer(json.dumps(value).encode(), np.uint8)
