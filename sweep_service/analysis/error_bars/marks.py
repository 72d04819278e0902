"""The validity of theories as labels at each time of a curve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import xarray as xr

from sweep_service.analysis.error_bars.prediction import has_prediction
from sweep_service.analysis.error_bars.validity import Validity, describe_validity, validity

MIN_TIMES = 2  # after t = 0, which an interpolation needs


@dataclass(frozen=True)
class Marks:
    """Codes of `Validity` of every theory over the times of a dataset, and of each point."""

    over_time: xr.DataArray
    overall: xr.DataArray

    @classmethod
    def of(cls, dataset: xr.Dataset) -> Marks | None:
        """The marks of a dataset; None without SGD, stored fluctuations, or enough times."""
        has_both = "sgd_risk" in dataset and "ode_risk" in dataset
        has_times = int((dataset["time"] > 0.0).sum()) >= MIN_TIMES
        if not (has_both and has_times and has_prediction(dataset)):
            return None
        result = validity(dataset, "ode")
        codes = result["validity"].reindex(time=dataset["time"], fill_value=Validity.UNKNOWN)
        return cls(codes, result["overall"])

    def at(self, position: dict[str, int]) -> dict[str, Any]:
        """The labels at a position along dimensions, as the fields of a curve."""
        codes, overall = (
            array.isel(position, missing_dims="ignore").values for array in (self.over_time, self.overall)
        )
        return {"validity": describe_validity(codes).tolist(), "overall": str(describe_validity(overall))}
