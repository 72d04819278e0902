"""The columns of an index: what names a run, the parameters of its point, how it ended, and its summaries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from sweep_service.model.labels import find_label
from sweep_service.model.parameters import PARAMETERS
from sweep_service.model.structures import number_names
from sweep_service.numerics.types import AnyArray
from sweep_service.planning.axes import EXPONENTS

TEXT = pa.dictionary(pa.int32(), pa.string())
NUMBER_TYPES = {"integer": pa.int64(), "number": pa.float64(), "text": TEXT}


@dataclass(frozen=True)
class IndexColumn:
    """A column: its type in Parquet, and what it holds. Missing entries are null."""

    type: pa.DataType
    long_name: str


# What names a run, and locates its values.
RUN_COLUMNS = {
    "sweep": IndexColumn(TEXT, "id of the sweep"),
    "kind": IndexColumn(TEXT, "sgd, or ode for a limiting theory"),
    "number": IndexColumn(pa.int64(), "number of the run among those of its kind, as in sgd-12"),
    "key": IndexColumn(pa.binary(16), "run key: runs with equal keys have equal values"),
}
# Labels that a point has beside the parameters of the registry and the numbers of structured ones.
POINT_COLUMNS = {
    "init.kind": IndexColumn(TEXT, "kind of the initial condition"),
    "init.teacher": IndexColumn(TEXT, "teacher of the initial condition"),
    "second_layer.init": IndexColumn(TEXT, "second layer of the student; null if it is of ones"),
    "teacher.second_layer.init": IndexColumn(TEXT, "second layer of the teacher; null if it is of ones"),
    "schedule.kind": IndexColumn(TEXT, "schedule of the learning rate; null if it is constant"),
    "structures": IndexColumn(
        TEXT, "digest of init, teacher, second_layer and schedule, their numbers apart"
    ),
    "delta_t": IndexColumn(pa.float64(), "time of one step, γ/(p d)"),
    "gamma_over_p": IndexColumn(pa.float64(), "γ/p"),
}
# Labels of a run beside its point.
DRAW_COLUMNS = {
    "regime": IndexColumn(TEXT, "limiting theory; null for SGD"),
    "regime_options": IndexColumn(TEXT, "switches of the theory, as JSON; null for SGD"),
    "seed": IndexColumn(pa.int64(), "seed of the initial condition"),
    "repeat": IndexColumn(pa.int64(), "number of the stream of SGD; null for a theory"),
    "t_max": IndexColumn(pa.float64(), "last time of the sweep"),
    "samples": IndexColumn(pa.int64(), "number of recorded times"),
    "times": IndexColumn(TEXT, "digest of the recorded times"),
    "observables": IndexColumn(TEXT, "names of the stored observables"),
}
RESULT_COLUMNS = {
    "status": IndexColumn(TEXT, "pending, done, diverged, failed, cancelled or skipped"),
    "engine": IndexColumn(TEXT, "the simulator or the regime that computed the run"),
    "version": IndexColumn(pa.int64(), "version of the engine; null if it is unknown"),
    "package": IndexColumn(TEXT, "versions of the package that wrote the dataset"),
    "last_time": IndexColumn(pa.float64(), "last recorded time with a value"),
    "divergence_time": IndexColumn(pa.float64(), "first recorded time that a diverged run did not reach"),
    "steps": IndexColumn(pa.int64(), "steps of SGD"),
    "seconds": IndexColumn(pa.float64(), "processor time of the run, in seconds"),
    "initial_risk": IndexColumn(pa.float64(), "excess risk at t = 0"),
    "final_risk": IndexColumn(pa.float64(), "excess risk, time average over the last half of the time"),
    "final_slope": IndexColumn(
        pa.float64(), "slope of ln R in ln t over the last three quarters of the time"
    ),
    "bound": IndexColumn(pa.float64(), "largest max_i Q_ii along the run"),
    "order_parameter": IndexColumn(pa.float64(), "specialisation at the last time"),
}
SUMMARIES = (
    "last_time",
    "divergence_time",
    "initial_risk",
    "final_risk",
    "final_slope",
    "bound",
    "order_parameter",
)


def index_columns() -> dict[str, IndexColumn]:
    """All columns in order; those of parameters follow the registries, which may have new entries."""
    names = [*EXPONENTS, *number_names()]
    parameters = {
        name: IndexColumn(NUMBER_TYPES[entry.kind], entry.long_name) for name, entry in PARAMETERS.items()
    }
    numbers = {name: IndexColumn(pa.float64(), _describe(name)) for name in names}
    return {**RUN_COLUMNS, **parameters, **numbers, **POINT_COLUMNS, **DRAW_COLUMNS, **RESULT_COLUMNS}


def _describe(name: str) -> str:
    label = find_label(name)
    return name if label is None else label.long_name


def index_schema() -> pa.Schema:
    return _make_schema(tuple(PARAMETERS), tuple(number_names()))


@cache  # for each state of the registries
def _make_schema(parameters: tuple[str, ...], numbers: tuple[str, ...]) -> pa.Schema:
    fields = [
        pa.field(name, column.type, metadata={"long_name": column.long_name})
        for name, column in index_columns().items()
    ]
    return pa.schema(fields)


def make_table(columns: Mapping[str, object], rows: int) -> pa.Table:
    """A table with the schema of an index; columns that are not given are null.

    A column is an array, or a single value for all rows.
    """
    schema = index_schema()
    arrays = [make_array(columns.get(field.name), field.type, rows) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def binary_array(keys: AnyArray) -> pa.Array:
    """Run keys, 16 bytes each, as an array."""
    content = np.ascontiguousarray(keys)
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(content), [None, pa.py_buffer(content)])


def make_array(values: object, type: pa.DataType, rows: int) -> pa.Array:
    if values is None:
        return pa.nulls(rows, type)
    if isinstance(values, (str, int, float)):
        if pa.types.is_dictionary(type):
            codes = pa.array([0], pa.int32()).take(pa.repeat(pa.scalar(0, pa.int32()), rows))
            return pa.DictionaryArray.from_arrays(codes, pa.array([str(values)]))
        return pa.repeat(pa.scalar(values, type), rows)
    if isinstance(values, pa.Array):
        return values
    if pa.types.is_dictionary(type):
        return pa.array(values, pa.string(), from_pandas=True).dictionary_encode()
    return pa.array(values, from_pandas=True).cast(type)
