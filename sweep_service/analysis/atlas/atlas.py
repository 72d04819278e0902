"""The atlas: selections of the runs of many sweeps, and the datasets, tables and diagrams made from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import xarray as xr

from sweep_service.analysis.atlas.assemble import OpenSweep, assemble_dataset
from sweep_service.analysis.atlas.diagram import check_constants, find_summary, summary_diagram
from sweep_service.analysis.atlas.runs import Runs
from sweep_service.analysis.atlas.selection import common_values, compute_facets, select_rows
from sweep_service.analysis.atlas.table import BYTES_PER_RUN, make_run_table, to_records, write_table
from sweep_service.analysis.curves import compute_curves
from sweep_service.analysis.phase_diagram import REDUCTIONS, phase_diagram
from sweep_service.analysis.point_values import VALUES
from sweep_service.analysis.selection import format_values
from sweep_service.analysis.triangle import triangle
from sweep_service.errors import InvalidInput, unknown_name
from sweep_service.numerics.types import AnyArray
from sweep_service.planning.runs import KINDS

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]


class Atlas:
    """All runs of a data folder or a service, or those that a selection keeps.

    `open_sweep` opens the dataset of a sweep by its id. `unreadable` has the sweeps that cannot be read, with
    the reasons.
    """

    def __init__(
        self,
        runs: Runs,
        open_sweep: OpenSweep,
        unreadable: Mapping[str, str] | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> None:
        self._runs, self._open_sweep = runs, open_sweep
        self.unreadable = dict(unreadable or {})
        self.where = dict(where or {})
        self._rows: tuple[AnyArray, AnyArray] | None = None  # all selected, and each run once

    def __len__(self) -> int:
        """The number of distinct runs."""
        return len(self.rows)

    def __repr__(self) -> str:
        selection = ", ".join(f"{name}={value!r}" for name, value in self.where.items())
        return (
            f"<atlas: {len(self)} runs of {self.count_sweeps()} sweeps{', ' if selection else ''}{selection}>"
        )

    @property
    def rows(self) -> AnyArray:
        """The rows of the selected runs, each run once."""
        return self._select_rows()[1]

    def _select_rows(self) -> tuple[AnyArray, AnyArray]:
        """The selected rows with those of runs that several sweeps contain, and with each run once."""
        if self._rows is None:
            rows = select_rows(self._runs, self.where)
            self._rows = rows, self._runs.distinct(rows)
        return self._rows

    @property
    def names(self) -> tuple[str, ...]:
        """The names by which runs can be selected."""
        return tuple(self._runs.labels)

    def count_sweeps(self) -> int:
        """The number of sweeps that have selected runs."""
        return int((self._runs.labels["sweep"].count(self._select_rows()[0]) > 0).sum())

    def select(self, /, **where: Any) -> Atlas:
        """Keep the runs with these labels.

        Parameters
        ----------
        **where
            A number, a text, a sequence of them, a `slice` that includes both ends, or a string such as
            `0.1,0.2` or `0.01:1`. Names are those of `facets`: parameters, `regime`, `seed`, `sweep`, …
            Runs of SGD have no regime, and theories no repeat: these selections keep them.

        Returns
        -------
        Atlas
            The selection, which may be selected from again.

        Raises
        ------
        InvalidInput
            If a name is unknown, or no run has these values.
        """
        combined = dict(self.where)
        for name, wanted in where.items():
            combined[name] = (
                common_values(self._runs, name, self.where[name], wanted) if name in self.where else wanted
            )
        selected = Atlas(self._runs, self._open_sweep, self.unreadable, combined)
        selected._select_rows()  # raises an error now
        return selected

    def facets(self) -> dict[str, Any]:
        """Count the selected runs by the values of each label.

        Returns
        -------
        dict
            `runs` (distinct ones), `with_values`, `points`, `sweeps`, and `parameters`: a list with the
            `name`, `long_name`, `type`, number of `distinct` values, `range` and `values` of each label,
            these with the number of `runs`. `values` is None where there are more than a hundred. Those of a
            label that is selected are counted as if it were not; `selected` says which are.
        """
        return {**compute_facets(self._runs, self.where), "unreadable": self.unreadable}

    def table(self, by_sweep: bool = False) -> pa.Table:
        """The selected runs as a table of Arrow, with the columns of an index.

        With `by_sweep`, a run has a row for each sweep that contains it.
        """
        return make_run_table(self._runs, self._select_rows()[0 if by_sweep else 1])

    def frame(self) -> pd.DataFrame:
        """The selected runs as a table of pandas: parameters, status, versions and summaries, a row for each.

        Returns
        -------
        pandas.DataFrame
            The columns of an index of runs; keys are texts of 32 hexadecimal digits.
        """
        frame = self.table().to_pandas()
        return frame.assign(key=[key.hex() for key in frame["key"]])

    def records(self, start: int, end: int) -> list[dict[str, Any]]:
        """Some of the selected runs as plain data."""
        return to_records(make_run_table(self._runs, self.rows[start:end]))

    def table_bytes(self) -> int:
        """About how many bytes the table has, before it is made."""
        return len(self) * BYTES_PER_RUN

    def write_table(self, path: Path, format: str, by_sweep: bool = False) -> None:
        """Write the selected runs to a file, as `csv` or `parquet`."""
        write_table(self.table(by_sweep), path, format)

    def dataset(
        self,
        times: Sequence[float] | None = None,
        *,
        observables: Sequence[str] | None = None,
        by_sweep: bool = False,
    ) -> xr.Dataset:
        """Load the selected runs as one labelled dataset over `point`, for all of `ds.sweep`.

        Parameters
        ----------
        times
            Common times; by default those of the finest stored grid, up to the smallest t_max. Curves are
            interpolated by monotone cubics; recorded samples stay as they are.
        observables
            Names such as `risk`; by default all that are stored for all selected runs.
        by_sweep
            Keep the runs of different sweeps apart, with the coordinate `sweep` along `point`. By default a
            run that several sweeps contain is there once.

        Returns
        -------
        xr.Dataset
            `sgd_risk(point, seed, repeat, time)`, `ode_risk(point, regime, seed, time)`, …, as in a sweep
            with the design `points`. Runs that do not exist are pending. `sgd_sweep` and `ode_sweep` tell the
            sweep of each run.

        Raises
        ------
        InvalidInput
            If the initial condition, the schedule or the switches of the theory vary, or a time is too late.
        LimitExceeded
            If the dataset would have too many numbers.
        """
        rows = self._select_rows()[0 if by_sweep else 1]
        return assemble_dataset(self._runs, rows, self._open_sweep, times, observables, by_sweep)

    def phase_diagram(
        self, /, x: str = "", y: str = "", value: str = "sgd_risk", **where: Any
    ) -> xr.DataArray:
        """Evaluate a value on two labels: the mean over the runs of each point.

        Values that an index holds, such as `sgd_final_risk` or `sgd_diverged`, need no curves.

        Parameters
        ----------
        x, y
            Names of two labels.
        value
            A value of phase diagrams of a sweep, or a summary: `sgd_initial_risk`, `sgd_final_slope`,
            `sgd_order_parameter`, ….
        **where
            Selections as in `select`, or a reduction over another label by `mean`, `median`, `min` or `max`.

        Returns
        -------
        xr.DataArray
            (point,), with the coordinates x, y, `standard_error` and `runs`.

        Raises
        ------
        InvalidInput
            If another label still varies; the error lists its values.
        """
        reductions = {name: how for name, how in where.items() if isinstance(how, str) and how in REDUCTIONS}
        chosen = self.select(**{name: wanted for name, wanted in where.items() if name not in reductions})
        for field, name in (("x", x), ("y", y)):
            if not name:
                raise InvalidInput(field, None, "is required: the name of a label")
            if name not in self._runs.labels:
                raise unknown_name(field, name, self._runs.labels)
        if x == y:
            raise InvalidInput("y", y, "must differ from x")
        for name, how in reductions.items():
            if name in (x, y, "seed", "repeat"):
                raise InvalidInput(name, how, "must be a label that is not shown, and no draw")
        summary = find_summary(value, {**self.where, **where})
        if summary is not None:
            diagram = summary_diagram(self._runs, chosen.rows, (x, y), *summary, reductions)
            return diagram.assign_attrs(x=x, y=y)
        if reductions:
            name = next(iter(reductions))
            allowed = f"{value} needs the curves of all runs, and cannot be reduced: select one value"
            raise InvalidInput(name, reductions[name], allowed)
        check_constants(self._runs, chosen.rows, (x, y))
        regime = {name: where[name] for name in ("regime",) if name in where}
        return phase_diagram(chosen.dataset(observables=_needed_observables(value)), x, y, value, **regime)

    def triangle(self, /, value: str = "sgd_risk", **where: Any) -> xr.DataArray:
        """Evaluate a value on the triangle of limits, from all sweeps over triangles with one step.

        Parameters
        ----------
        value
            A value as for `ds.sweep.triangle`.
        **where
            Selections as in `select`, such as `delta_t=1e-3`.

        Returns
        -------
        xr.DataArray
            (point,), as from `ds.sweep.triangle`.
        """
        chosen = self.select(**where)
        steps = chosen._runs.column("delta_t", chosen.rows)
        check_constants(
            chosen._runs, chosen.rows, ("delta_t", "d", "p", "gamma", "gamma_over_p", "kappa", "delta")
        )
        if len(np.unique(steps.class_codes())) > 1:
            values = steps.class_values[np.unique(steps.class_codes())]
            raise InvalidInput(
                "delta_t", None, f"must be selected, for one triangle: one of {format_values(values)}"
            )
        regime = {name: where[name] for name in ("regime",) if name in where}
        return triangle(chosen.dataset(observables=_needed_observables(value)), value, **regime)

    def curves(
        self, /, observable: str = "risk", time: str = "t", by_sweep: bool = False, **where: Any
    ) -> dict[str, Any]:
        """Compute an observable over time for each selected point: means, bands, and the sweeps behind them.

        Parameters
        ----------
        observable
            Name of an observable.
        time
            `t`, `steps` or `samples/d`.
        by_sweep
            A curve for each sweep, so that sweeps lie on each other in one figure.
        **where
            Selections as in `select`.

        Returns
        -------
        dict
            The curves, as `ds.sweep.plot_curves` draws them, each with its `sweeps`.
        """
        dataset = self.select(**where).dataset(observables=sorted({"risk", observable}), by_sweep=by_sweep)
        curves = compute_curves(dataset, observable, time)
        for curve, sweeps in zip(curves["curves"], _sweeps_of_curves(dataset), strict=True):
            curve["sweeps"] = sweeps
        return curves


def _needed_observables(value: str) -> list[str] | None:
    """The observables that a value is computed from; None for all, if the value does not tell."""
    entry = VALUES.get(value)
    if entry is None or entry.is_label or not all(name.startswith(KINDS) for name in entry.needs):
        return None
    return sorted({"risk", *(name.partition("_")[2] for name in entry.needs)} - {"status"})


def _sweeps_of_curves(dataset: xr.Dataset) -> list[list[str]]:
    """The ids of the sweeps whose runs each curve averages, in the order of `compute_curves`."""
    result = []
    for kind in KINDS:
        if f"{kind}_sweep" not in dataset or f"{kind}_risk" not in dataset:
            continue
        flags = dataset[f"{kind}_sweep"]
        names = flags.attrs["flag_meanings"].split()
        dims = [dim for dim in flags.dims if dim not in ("seed", "repeat")]
        rows = flags.transpose(*dims, ...).values.reshape(np.prod([flags.sizes[dim] for dim in dims]), -1)
        result += [[names[flag] for flag in np.unique(row) if flag >= 0] for row in rows]
    return result
