"""The schema of a dataset: its variables, dimensions, chunks and labels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from sweep_service.dynamics.regimes import REGIMES
from sweep_service.model.labels import FLUCTUATIONS, variable_attributes
from sweep_service.model.observables import HISTOGRAM_BINS, OBSERVABLES
from sweep_service.numerics.types import AnyArray
from sweep_service.planning.grids import Grid
from sweep_service.planning.outline import Outline
from sweep_service.planning.runs import Kind, RunNumbers, RunTable
from sweep_service.status import DivergedQuantity, Status

LAYOUT_VERSION = 1
CHUNK_BYTES = 2 << 20
KIND_TITLES = {"sgd": "SGD", "ode": "limiting theory"}


@dataclass(frozen=True)
class Variable:
    """One array of a sweep: `leading` dimensions number its runs, the others belong to each run."""

    name: str
    leading: tuple[str, ...]
    trailing: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str
    attributes: Mapping[str, Any]
    fill: float = 0
    is_optional: bool = False  # datasets and parts of older versions may lack it

    @property
    def dims(self) -> tuple[str, ...]:
        return self.leading + self.trailing

    @cached_property
    def chunks(self) -> tuple[int, ...]:
        """Chunk shape of about 2 MB: neighbouring runs, or some of the times of a large run."""
        values_left = CHUNK_BYTES // np.dtype(self.dtype).itemsize
        chunks: list[int] = []
        for dim, size in zip(reversed(self.dims), reversed(self.shape), strict=True):
            is_undivided = dim in self.trailing and dim != "time"  # a sample is never split
            chunks.insert(0, size if is_undivided else max(1, min(size, values_left)))
            values_left //= max(1, size)
        return tuple(chunks)

    @property
    def run_shape(self) -> tuple[int, ...]:
        return self.shape[len(self.leading) :]

    @property
    def run_bytes(self) -> int:
        return math.prod(self.run_shape) * np.dtype(self.dtype).itemsize

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


class Schema:
    """The arrays of the dataset of a grid, by kind of run and by name without its prefix.

    That of an outline has the same arrays, but no points.
    """

    def __init__(self, grid: Grid | Outline) -> None:
        self.grid = grid
        self.sizes = {
            **dict(zip(grid.dims, grid.shape, strict=True)),
            "regime": len(grid.regimes),
            "seed": len(grid.seeds),
            "repeat": len(grid.repeats),
            "time": len(grid.times),
            "student": grid.largest_p,
            "student_other": grid.largest_p,
            "teacher": grid.largest_k,
            "cosine_bin": HISTOGRAM_BINS,
        }

    @cached_property
    def delta_t(self) -> AnyArray:
        """γ/(pd) at every point."""
        return self._column("gamma") / (self._column("p") * self._column("d"))

    @cached_property
    def gamma_over_p(self) -> AnyArray:
        return self._column("gamma") / self._column("p")

    def _column(self, name: str) -> AnyArray:
        assert isinstance(self.grid, Grid)  # an outline has no points
        return self.grid.column(name)

    def leading(self, kind: Kind) -> tuple[str, ...]:
        """Return the dimensions that number the runs of a kind."""
        dims = self.grid.dims
        if kind == "sgd":
            return (*dims, "seed", "repeat")
        core = 3 if self.grid.is_product else 1  # the regime comes after d, p, gamma
        return (*dims[:core], "regime", *dims[core:], "seed")

    def positions(self, kind: Kind, runs: RunTable) -> tuple[AnyArray, ...]:
        """Return the indices of runs along the leading dimensions of their kind."""
        point = np.unravel_index(runs.point, self.grid.shape)
        indices = dict(zip(self.grid.dims, point, strict=True))
        indices |= {"regime": runs.regime, "seed": runs.seed, "repeat": runs.repeat}
        return tuple(indices[dim] for dim in self.leading(kind))

    @cached_property
    def variables(self) -> dict[Kind, dict[str, Variable]]:
        return {kind: self._make_variables(kind) for kind in RunNumbers(self.grid).kinds}

    def _make_variables(self, kind: Kind) -> dict[str, Variable]:
        grid, variables = self.grid, {}
        for name in grid.observables:
            variables[name] = self._variable(kind, name, ("time", *OBSERVABLES[name].dims))
        if grid.overlaps:
            variables["overlap_student_teacher"] = self._variable(
                kind, "overlap_student_teacher", ("time", "student", "teacher")
            )
            if kind == "sgd" or any(not _is_mean_field(name) for name in grid.regimes):
                variables["overlap_student"] = self._variable(
                    kind, "overlap_student", ("time", "student", "student_other")
                )
            if kind == "ode" and any(_is_mean_field(name) or name == "auto" for name in grid.regimes):
                variables["orthogonal_norm"] = self._variable(kind, "orthogonal_norm", ("time", "student"))
        if kind == "ode" and grid.options.fluctuations:
            for name in FLUCTUATIONS:
                variables[name] = self._variable(kind, name, ("time",))
        flags = {
            "long_name": f"how each run of the {KIND_TITLES[kind]} ended",
            "flag_values": [status.value for status in Status],
            "flag_meanings": " ".join(status.label for status in Status),
        }
        variables["seconds"] = self._variable(
            kind, "seconds", (), {"long_name": "processor time of a run", "units": "s"}
        )
        if kind == "sgd":
            variables["steps"] = self._variable(
                kind, "steps", (), {"long_name": "steps taken by the end of a run"}, "int64"
            )
        if kind == "ode" and "auto" in grid.regimes:
            regime_attributes = {
                "long_name": "the regime that auto chose",
                "flag_values": list(range(len(REGIMES))),
                "flag_meanings": " ".join(REGIMES),
            }
            variables["regime"] = self._variable(kind, "regime", (), regime_attributes, "int8", fill=-1)
        quantity_attributes = {
            "long_name": "the quantity by which a run diverged",
            "flag_values": [quantity.value for quantity in DivergedQuantity],
            "flag_meanings": " ".join(quantity.label for quantity in DivergedQuantity),
        }
        variables["diverged_quantity"] = replace(
            self._variable(kind, "diverged_quantity", (), quantity_attributes, "int8"), is_optional=True
        )
        variables["status"] = self._variable(kind, "status", (), flags, "int8")
        return variables

    def _variable(
        self,
        kind: Kind,
        name: str,
        trailing: tuple[str, ...],
        attributes: Mapping[str, Any] | None = None,
        dtype: str = "float64",
        fill: float | None = None,
    ) -> Variable:
        leading = self.leading(kind)
        shape = tuple(self.sizes[dim] for dim in (*leading, *trailing))
        labels = attributes or {**variable_attributes(name), "source": KIND_TITLES[kind]}
        if fill is None:
            fill = math.nan if dtype == "float64" else 0
        return Variable(f"{kind}_{name}", leading, trailing, shape, dtype, labels, fill)

    def run_bytes(self, kind: Kind) -> int:
        """Return the uncompressed bytes of one run."""
        return sum(variable.run_bytes for variable in self.variables[kind].values())

    @property
    def bytes(self) -> int:
        """Uncompressed bytes of all arrays."""
        return sum(variable.bytes for variables in self.variables.values() for variable in variables.values())


def _is_mean_field(regime: str) -> bool:
    return regime in REGIMES and REGIMES[regime].mean_field
