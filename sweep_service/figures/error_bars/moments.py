"""Mean and scatter of SGD beside their prediction, and the constant of the theorem."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sweep_service.figures.measures import squeeze_except

if TYPE_CHECKING:
    import xarray as xr

THEORY = "high_dimensional"
PATHS = 4000  # of the linear SDE, for the constant


class Moments(NamedTuple):
    """Mean and standard deviation of the risk of SGD with their errors, and as predicted, by d and t."""

    mean: xr.DataArray
    mean_error: xr.DataArray
    std: xr.DataArray
    std_error: xr.DataArray
    risk: xr.DataArray  # of the theory
    predicted_mean: xr.DataArray
    predicted_std: xr.DataArray
    nonlinearity: xr.DataArray
    is_flagged: xr.DataArray  # whether the linear theory does not apply

    @property
    def ratio(self) -> xr.DataArray:
        """Measured over predicted standard deviation."""
        return self.std / self.predicted_std

    @property
    def ratio_error(self) -> xr.DataArray:
        return self.std_error / self.predicted_std


def measure_moments(dataset: xr.Dataset) -> Moments:
    """The moments of all runs after t = 0, with the theory at the exact times of the steps."""
    from sweep_service.analysis.error_bars.prediction import read_prediction
    from sweep_service.analysis.error_bars.validity import MAX_NONLINEARITY
    from sweep_service.analysis.quantities.step_times import make_evaluation, select_positive_times
    from sweep_service.analysis.runs import read_runs

    dataset = select_positive_times(dataset)
    at_steps, predicted = make_evaluation(dataset), read_prediction(dataset)
    runs = read_runs(dataset)
    count, mean, std = runs.sizes["repeat"], runs.mean("repeat"), runs.std("repeat", ddof=1)
    kurtosis = (((runs - mean) / std) ** 4).mean("repeat")
    arrays = (
        mean, std / count**0.5, std, 0.5 * std * ((kurtosis - 1.0) / count) ** 0.5,
        at_steps(predicted.risk), at_steps(predicted.mean), at_steps(predicted.std), predicted.nonlinearity,
        predicted.nonlinearity > MAX_NONLINEARITY,
    )  # fmt: skip
    return Moments(*(squeeze_except(array, "d", "time") for array in arrays))


def predicted_constant(dataset: xr.Dataset) -> tuple[float, float]:
    """E sup_t |∇R·ξ|/R(0) at the stored times, and its standard error."""
    return _predicted_constant(dataset.attrs["spec"], tuple(dataset["time"].values.tolist()))


@lru_cache(maxsize=8)  # the checks and the drawing need it
def _predicted_constant(spec: str, times: tuple[float, ...]) -> tuple[float, float]:
    from sweep_service.dynamics.fluctuations.linear_noise import LinearNoise
    from sweep_service.dynamics.fluctuations.supremum import sample_suprema
    from sweep_service.dynamics.options import RegimeOptions
    from sweep_service.dynamics.overlap_flow import OverlapFlow
    from sweep_service.dynamics.regimes import REGIMES, Setup
    from sweep_service.planning.grids import Grid
    from sweep_service.planning.spec import SweepSpec

    point, options = Grid.of(SweepSpec.read(spec)).points[0], RegimeOptions()  # all have the same start
    flow = REGIMES[THEORY].make_flow(Setup(point, point.start(0), 0, options))
    assert isinstance(flow, OverlapFlow)
    noise = LinearNoise(flow, point.activation, point.teacher_activation, options.qmc_points)
    suprema = sample_suprema(noise, np.array(times), PATHS) / flow.risk(flow.y0)
    return float(suprema.mean()), float(suprema.std(ddof=1) / PATHS**0.5)


def measured_constants(dataset: xr.Dataset) -> tuple[xr.DataArray, xr.DataArray]:
    """D/(√δt R(0)) by d, and its standard error."""
    result = dataset.sweep.discrepancy(b=THEORY)
    unit = result["over_initial_risk"] / result["discrepancy"] / dataset["delta_t"] ** 0.5
    value, error = result["discrepancy"] * unit, result["standard_error"] * unit
    return squeeze_except(value, "d"), squeeze_except(error, "d")


def read_prediction_without_d(dataset: xr.Dataset, name: str) -> xr.DataArray:
    """A stored number without d after t = 0."""
    return squeeze_except(dataset[name].isel(d=0), "time").isel(time=slice(1, None))
