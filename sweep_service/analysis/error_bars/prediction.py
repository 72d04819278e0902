"""The stored fluctuations of SGD, as the mean and the standard deviation of its risk at each point."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import xarray as xr

from sweep_service.analysis.runs import parameter
from sweep_service.dynamics.fluctuations.requirements import any_with_fluctuations
from sweep_service.errors import InvalidInput
from sweep_service.status import Status

REGIME = "regime"
BRIDGE = 1.25  # the change of sign of the shift at a saddle lasts for less than this factor of time
STORED = "ode_risk_std"  # stored together with the shift and the nonlinearity
# Without a dimension of regimes: a dataset keeps them when another regime is selected.
PREDICTED = {
    "predicted_risk": "ode_risk",
    "predicted_std": STORED,
    "predicted_shift": "ode_risk_shift",
    "predicted_nonlinearity": "ode_nonlinearity",
    "predicted_status": "ode_status",
}


class Prediction(NamedTuple):
    """What a theory predicts of the risk of a single run of SGD, for each point and seed over time."""

    mean: xr.DataArray  # R + δt shift
    std: xr.DataArray
    nonlinearity: xr.DataArray  # |δt shift|/std about a time: the linear theory applies where it is small
    risk: xr.DataArray  # R of the theory, about which SGD fluctuates

    @property
    def centre(self) -> xr.DataArray:
        """The mean, or the risk of the theory where the shift is not known: of wide students."""
        return self.mean.fillna(self.risk)


def has_prediction(dataset: xr.Dataset) -> bool:
    """Whether fluctuations are stored, for a regime that the dataset still contains."""
    return "predicted_std" in dataset or (STORED in dataset and bool(_predicting_regimes(dataset)))


def add_prediction(dataset: xr.Dataset) -> xr.Dataset:
    """The dataset with the variables of `PREDICTED`; unchanged if it has them, or no fluctuations."""
    if "predicted_std" in dataset or not has_prediction(dataset):
        return dataset
    arrays = {new: dataset[old] for new, old in PREDICTED.items() if old in dataset}
    if REGIME in dataset.dims:
        names = [str(name) for name in dataset[REGIME].values]
        at = names.index(_predicting_regimes(dataset)[0])
        arrays = {name: array.isel({REGIME: at}, drop=True) for name, array in arrays.items()}
    return dataset.assign({name: array.drop_vars(REGIME, errors="ignore") for name, array in arrays.items()})


def read_prediction(dataset: xr.Dataset) -> Prediction:
    """The predicted mean and scatter of single runs; NaN where the theory has diverged or not ended.

    Raises
    ------
    InvalidInput
        If no fluctuations are stored.
    """
    if not has_prediction(dataset):
        allowed = (
            "are not stored: the spec needs the regime high_dimensional and fluctuations: true (of "
            "ss.integrate: fluctuations=True), and selections must keep that regime"
        )
        raise InvalidInput("fluctuations", None, allowed)
    dataset = add_prediction(dataset)
    done = dataset["predicted_status"] == Status.DONE if "predicted_status" in dataset else True
    delta_t = parameter(dataset, "delta_t")
    risk, std, shift, nonlinearity = (
        dataset[f"predicted_{name}"].where(done).compute()
        for name in ("risk", "std", "shift", "nonlinearity")
    )
    root, dims = delta_t**0.5, risk.dims
    arrays = (risk + delta_t * shift, root * std, root * _bridge_zeros(nonlinearity), risk)
    return Prediction(*(array.transpose(*dims) for array in arrays))


def _bridge_zeros(ratio: xr.DataArray) -> xr.DataArray:
    """The largest ratio at times within a factor `BRIDGE` of each time.

    At the escape from a saddle the shift changes its sign, while the scatter is far from the predicted one.
    """
    if "time" not in ratio.dims:
        return ratio
    times, values = ratio["time"].values, ratio.transpose(..., "time").values
    order = np.argsort(times)
    first = np.searchsorted(times[order], times / BRIDGE, "left")
    last = np.searchsorted(times[order], times * BRIDGE, "right")
    bridged = [
        np.where(np.isnan(values[..., at]), np.nan, np.fmax.reduce(values[..., order[i:j]], axis=-1))
        for at, (i, j) in enumerate(zip(first, last, strict=True))
    ]
    return ratio.transpose(..., "time").copy(data=np.stack(bridged, axis=-1)).transpose(*ratio.dims)


def _predicting_regimes(dataset: xr.Dataset) -> list[str]:
    """Regimes of the dataset about which SGD fluctuates."""
    names = [str(name) for name in np.atleast_1d(dataset[REGIME].values)] if REGIME in dataset.coords else []
    return [name for name in names if any_with_fluctuations((name,))]
