"""A part: the result of one bundle as one object, stored as arrays without pickle."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sweep_service.errors import Damaged
from sweep_service.numerics.npz import read_arrays
from sweep_service.numerics.types import AnyArray
from sweep_service.planning.jobs import Failure, Job, Result, failed_result
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.runs import KINDS, Kind


@dataclass(frozen=True)
class Part:
    """Numbers and values of the runs of a bundle, by kind, and the failures."""

    numbers: dict[Kind, AnyArray]
    values: dict[Kind, dict[str, AnyArray]]
    failures: tuple[Failure, ...]

    @classmethod
    def of(cls, plan: SweepPlan, jobs: Sequence[Job], results: Sequence[Result]) -> Part:
        numbers: dict[Kind, AnyArray] = {}
        values: dict[Kind, dict[str, AnyArray]] = {}
        for kind in KINDS:
            pairs = [(job, result) for job, result in zip(jobs, results, strict=True) if job.kind == kind]
            if pairs:
                numbers[kind] = np.concatenate([job.numbers(plan.runs) for job, _ in pairs])
                values[kind] = {
                    name: np.concatenate([result.values[name] for _, result in pairs])
                    for name in plan.schema.variables[kind]
                }
        return cls(numbers, values, tuple(failure for result in results for failure in result.failures))

    @classmethod
    def failed(cls, plan: SweepPlan, jobs: Sequence[Job], error: str) -> Part:
        """Make a part in which all runs of these jobs failed with the same error."""
        return cls.of(plan, jobs, [failed_result(plan, job, error) for job in jobs])

    def pack(self) -> bytes:
        arrays: dict[str, Any] = {
            "failures": np.frombuffer(
                json.dumps([asdict(failure) for failure in self.failures]).encode(), np.uint8
            )
        }
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
                expected = {
                    name: (variable.dtype, (len(numbers), *variable.run_shape))
                    for name, variable in plan.schema.variables[kind].items()
                }
                actual = {name: (str(array.dtype), array.shape) for name, array in part.values[kind].items()}
                is_list = numbers.ndim == 1 and numbers.dtype.kind == "i"
                if actual != expected or not is_list or np.any((numbers < 0) | (numbers >= runs)):
                    raise ValueError("it belongs to another sweep")
        except Exception as error:  # damaged bytes may raise any exception
            raise Damaged(f"cannot be read: {type(error).__name__}: {error}") from None
        return part

    @classmethod
    def _read(cls, content: bytes) -> Part:
        arrays = read_arrays(content)
        failures = tuple(Failure(**failure) for failure in json.loads(arrays.pop("failures").tobytes()))
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
        return cls(numbers, values, failures)
