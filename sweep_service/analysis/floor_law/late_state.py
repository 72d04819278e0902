"""What the runs of a source contain about the state of the last half of the time."""

from __future__ import annotations

import xarray as xr

from sweep_service.analysis.quantities.norms import neuron_norms, stored_norms
from sweep_service.analysis.runs import (
    average_over_time,
    parameter,
    read_runs,
    select_last_half,
    sort_dataset,
)
from sweep_service.planning.runs import KINDS


class LateState:
    """a and Q_ii of all neurons of each run, averaged over the last half of the time, as far as stored."""

    def __init__(self, dataset: xr.Dataset, source: str) -> None:
        self.dataset, self.source = sort_dataset(dataset), source
        self.kind = source if source in KINDS else "ode"
        self.has_neurons = dataset.sizes.get("student", 0) >= int(parameter(dataset, "p").max())
        overlaps = f"{self.kind}_overlap_student_teacher" in dataset and "teacher" in dataset.dims
        self.has_all_norms = self.has_neurons and overlaps and bool(stored_norms(dataset, self.kind))
        self.has_norms = self.has_all_norms or self._has("mean_norm")
        self.has_all_weights = self.has_neurons and self._has("second_layer")
        self.has_layer = self.has_all_weights or (
            self._has("second_layer_mean") and self._has("second_layer_spread")
        )

    def _has(self, name: str) -> bool:
        return f"{self.kind}_{name}" in self.dataset

    def squares(self) -> xr.DataArray:
        """a_i² (…, student), or its mean over neurons."""
        if self.has_all_weights:
            return self._average(self._read("second_layer") ** 2)
        return self._average(self._read("second_layer_mean") ** 2 + self._read("second_layer_spread") ** 2)

    def norms(self) -> xr.DataArray:
        """Q_ii (…, student), or its mean over neurons."""
        if self.has_all_norms:
            return self._average(neuron_norms(select_last_half(self.dataset), self.source))
        return self._average(self._read("mean_norm"))

    def _read(self, name: str) -> xr.DataArray:
        return read_runs(select_last_half(self.dataset), self.source, name)

    def _average(self, array: xr.DataArray) -> xr.DataArray:
        array = average_over_time(array, float(array["time"][-1]) / 2)
        return array.drop_vars("student", errors="ignore")
