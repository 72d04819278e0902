"""Results of `simulate` and `integrate` in the layout of a stored sweep, alone or together.

Analyses read variables such as `sgd_risk` and `ode_status`. A single point has `risk` and a coordinate
`status`; its parameters are scalar coordinates, as after a selection from a sweep.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from sweep_service.errors import InvalidInput
from sweep_service.model.parameters import PARAMETERS
from sweep_service.model.structures import split_name
from sweep_service.planning.runs import KINDS, Kind
from sweep_service.status import Status

STATUS, REGIME, SEED = "status", "regime", "seed"
# Attributes of single runs; selections of runs do not change them, and the coordinates hold the same.
RUN_ATTRIBUTES = ("seed", "repeat", "status", "diverged_quantity", "steps", "seconds", "evaluations")


def as_sweep(dataset: xr.Dataset) -> xr.Dataset:
    """The dataset with the variables of a stored sweep; unchanged if it has them, or is no single point.

    Particles of the p = ∞ law are left out, as in a stored sweep.
    """
    if (
        any(f"{kind}_risk" in dataset for kind in KINDS)
        or "time" not in dataset.get("risk", xr.DataArray()).dims
    ):
        return dataset
    kind: Kind = "ode" if REGIME in dataset.coords else "sgd"
    samples = {str(name): array for name, array in dataset.data_vars.items() if "time" in array.dims}
    particles = [name for name, array in samples.items() if "particle" in array.dims]
    renamed = dataset.drop_vars(particles).rename(
        {name: f"{kind}_{name}" for name in samples if name not in particles}
    )
    renamed.attrs = {name: value for name, value in dataset.attrs.items() if name not in RUN_ATTRIBUTES}
    if STATUS not in dataset.coords:
        return renamed
    return renamed.drop_vars(STATUS).assign({f"{kind}_{STATUS}": _number_statuses(dataset[STATUS])})


def _number_statuses(labels: xr.DataArray) -> xr.DataArray:
    numbers = {status.label: status.value for status in Status}
    flags = np.array([numbers[str(label)] for label in labels.values.flat], dtype="int8")
    attributes = {"flag_values": list(numbers.values()), "flag_meanings": " ".join(numbers)}
    return labels.copy(data=flags.reshape(labels.shape)).assign_attrs(attributes).drop_vars(STATUS)


def merge(dataset: xr.Dataset, /, *others: xr.Dataset) -> xr.Dataset:
    """Merge results of SGD and of theories at one point into one dataset, to compare them.

    Parameters
    ----------
    *others
        Results of `ss.simulate` or `ss.integrate` with the parameters, times and seeds of this one: at most
        one of SGD, and any number of regimes.

    Returns
    -------
    xr.Dataset
        The layout of a stored sweep, `sgd_risk`, `ode_risk`, …, with the dimensions `regime`, `seed`,
        `repeat` and `time`, for every analysis of `ds.sweep`: `sgd.sweep.merge(ode).sweep.discrepancy()`.

    Raises
    ------
    InvalidInput
        If a parameter, the times or the seeds differ, or if there are two results of SGD or of one regime.
    """
    results = [_expand_runs(as_sweep(result)) for result in (dataset, *others)]
    for other in results[1:]:
        _check_same_point(results[0], other)
    sgd = [result for result in results if "sgd_risk" in result]
    theories = [result for result in results if "ode_risk" in result]
    regimes = [str(name) for theory in theories for name in theory[REGIME].values]
    for field, names in (("sgd", ["sgd"] * len(sgd)), (REGIME, regimes)):
        if len(set(names)) < len(names):
            raise InvalidInput(field, names, "must be given once")
    merged = sgd + ([xr.concat(theories, REGIME, **JOIN)] if len(theories) > 1 else theories)
    return xr.merge(merged, compat="override", join="exact", combine_attrs="override")


JOIN: dict[str, Any] = {
    "data_vars": "minimal", "coords": "minimal", "compat": "override", "combine_attrs": "override",
    "join": "outer",
}  # fmt: skip


def _expand_runs(result: xr.Dataset) -> xr.Dataset:
    """Runs with the dimensions `seed` and, for a theory, `regime`, which may be single values."""
    if not any(f"{kind}_risk" in result for kind in KINDS):
        raise InvalidInput(
            "others", sorted(map(str, result)), "must be results of ss.simulate or ss.integrate"
        )
    for dim in (SEED, REGIME):
        if dim in result.coords and result[dim].ndim == 0:
            names = [str(name) for name in result.data_vars if str(name).startswith(("sgd_", "ode_"))]
            result = result.assign({name: result[name].expand_dims(dim) for name in names})
    return result


def _check_same_point(first: xr.Dataset, other: xr.Dataset) -> None:
    """Raise if a parameter, a number of the start, the times or the seeds differ."""
    names = [*PARAMETERS, "init.kind", "time", SEED]
    names += [str(name) for name in first.coords if split_name(str(name)) is not None]
    for name in names:
        if name not in first.coords or name not in other.coords:
            raise InvalidInput(name, None, "must be a coordinate of every result")
        if not np.array_equal(first[name].values, other[name].values):
            allowed = "must be the same in every result"
            raise InvalidInput(name, other[name].values.tolist(), allowed)
    if first.attrs.get("init") != other.attrs.get("init"):
        raise InvalidInput("init", other.attrs.get("init"), f"must be {first.attrs.get('init')}, as before")
