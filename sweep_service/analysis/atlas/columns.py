"""Columns of labels: the distinct values, and a small integer for each run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from sweep_service.analysis.selection import RELATIVE_TOLERANCE
from sweep_service.numerics.types import AnyArray

MISSING = -1  # the code of a run without a value


@dataclass(frozen=True)
class Column:
    """Distinct values in ascending order, and the position of the value of each run among them."""

    values: AnyArray
    codes: AnyArray

    @classmethod
    def of(cls, array: pa.ChunkedArray) -> Column:
        """Encode a column of a table. One without values, or with a single one, needs no encoding."""
        if array.null_count == len(array):
            empty = np.empty(0, object if pa.types.is_dictionary(array.type) else float)
            return cls(empty, np.full(len(array), MISSING, np.int8))
        if not pa.types.is_dictionary(array.type) and array.null_count == 0:
            ends = pc.min_max(array)
            if ends["min"] == ends["max"]:
                return cls(np.array([ends["min"].as_py()]), np.zeros(len(array), np.int8))
        array = array.combine_chunks()
        if not pa.types.is_dictionary(array.type):
            array = array.dictionary_encode()
        values = np.asarray(array.dictionary.to_numpy(zero_copy_only=False))
        codes = array.indices.fill_null(MISSING).to_numpy(zero_copy_only=False)
        values, rank = np.unique(values, return_inverse=True)
        column = cls(values, np.append(rank, MISSING)[codes])  # the code -1 takes the last entry
        return column.drop_unused()

    def drop_unused(self) -> Column:
        """The same column without values that no run has, in the smallest type."""
        used = np.bincount(self.codes + 1, minlength=len(self.values) + 1)[1:] > 0
        type = np.min_scalar_type(-max(1, int(used.sum())))
        renumbered = np.append(np.cumsum(used) - 1, MISSING).astype(type)
        return Column(self.values[used], renumbered[self.codes])

    def take(self, rows: AnyArray) -> Column:
        return replace(self, codes=self.codes[rows])

    def count(self, rows: AnyArray) -> AnyArray:
        """The number of these runs with each value."""
        if self.is_constant:
            return np.full(len(self.values), len(rows) if len(self.codes) else 0)
        codes = self.codes[rows].astype(np.int64)
        return np.bincount(codes + 1, minlength=len(self.values) + 1)[1:]

    @cached_property
    def is_constant(self) -> bool:
        """Whether all runs have one value, or none has any."""
        return not self.varies

    @property
    def varies(self) -> bool:
        """Whether two runs differ, one of them perhaps without a value."""
        return len(self.codes) > 0 and bool((self.codes != self.codes[0]).any())

    @cached_property
    def is_number(self) -> bool:
        return self.values.dtype.kind in "iuf"

    @cached_property
    def classes(self) -> AnyArray:
        """The class of each value: numbers that agree up to rounding, as of two spaced axes, share one."""
        if self.values.dtype.kind != "f" or len(self.values) < 2:
            return np.arange(len(self.values))
        gaps = np.diff(self.values) > RELATIVE_TOLERANCE * np.abs(self.values[1:])
        return np.concatenate([[0], np.cumsum(gaps)])

    @cached_property
    def class_values(self) -> AnyArray:
        """One value for each class: the first."""
        return self.values[np.unique(self.classes, return_index=True)[1]]

    def class_codes(self) -> AnyArray:
        """The class of the value of each run; -1 without a value."""
        return np.append(self.classes, MISSING)[self.codes]

    def decode(self) -> AnyArray:
        """The value of each run; NaN or None without one."""
        if not (self.codes == MISSING).any():
            return self.values[self.codes]
        missing = np.array([np.nan]) if self.is_number else np.array([None], dtype=object)
        values = self.values.astype(float) if self.is_number else self.values.astype(object)
        return np.concatenate([values, missing])[self.codes]

    def to_arrow(self) -> pa.Array:
        """The value of each run as an array of Arrow; text stays encoded."""
        values, codes = (
            pa.array(self.values),
            pa.array(self.codes.astype(np.int32), mask=self.codes == MISSING),
        )
        encoded = pa.DictionaryArray.from_arrays(codes, values)
        return encoded.dictionary_decode() if self.is_number else encoded
