"""The predicted and the measured number of seeds over time, in the form of curves."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import xarray as xr

from sweep_service.analysis.curves import check_limits, coordinates_at, scalar_observables
from sweep_service.analysis.error_bars.prediction import add_prediction, has_prediction
from sweep_service.analysis.error_bars.seeds import FINAL_RISK, MIN_DRAWS, RISK, seeds_needed
from sweep_service.analysis.error_bars.z_score import HIGH_DIMENSIONAL
from sweep_service.analysis.plots.curves import draw_curves
from sweep_service.analysis.runs import (
    DRAW_DIMS,
    count_draws,
    draw_dims,
    fixed_parameters,
    read_runs,
    sort_dataset,
)
from sweep_service.analysis.selection import select
from sweep_service.errors import InvalidInput, unknown_name
from sweep_service.text import format_percent
from sweep_service.validation import read_relative_error

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OBSERVABLE = "seeds_needed"
SGD_RISK, PREDICTED_STD = "sgd_risk", "predicted_std"
ENDS = {"mean": "", "low": "_low", "high": "_high"}  # of a curve, as suffixes of the measured numbers


def seed_values(dataset: xr.Dataset) -> list[str]:
    """The values whose number of seeds is known: predicted of the risk, measured of every value of SGD."""
    stored = [name for name in scalar_observables(dataset) if f"sgd_{name}" in dataset]
    return list(dict.fromkeys([RISK, FINAL_RISK, *stored]))


def has_seed_numbers(dataset: xr.Dataset) -> bool:
    """Whether numbers of seeds are predicted, or there are enough draws to measure them."""
    if has_prediction(dataset):
        return True
    if SGD_RISK not in dataset:
        return False
    draws = [dataset.sizes[dim] for dim in draw_dims(dataset[SGD_RISK])[0]]
    return max(draws, default=1) >= MIN_DRAWS


def compute_seed_curves(
    dataset: xr.Dataset, /, value: str = RISK, relative_error: float | str = 0.05, **where: Any
) -> dict[str, Any]:
    """`seeds_needed` at each point as curves: measured numbers have the source `sgd`, predicted ones `ode`.

    `low` and `high` are the ends of their 95 % interval. `error` is the relative error of the mean over all
    `draws` of the point, which are `seeds` or `repeats`. The final risk has a single time, the last.
    """
    relative_error = _read_error(relative_error)
    selected = sort_dataset(select(add_prediction(dataset), where))
    if value not in seed_values(selected):
        raise unknown_name("value", value, seed_values(selected))
    check_limits({name: selected[name] for name in (SGD_RISK, PREDICTED_STD) if name in selected})
    result = seeds_needed(selected, value, relative_error)
    if value == FINAL_RISK:
        result = result.expand_dims(time=selected["time"][-1:])
    mean = f"the mean {value.replace('_', ' ')}"
    return {
        "observable": OBSERVABLE,
        "long_name": f"{_name_draws(selected)} that give {mean} an error of {format_percent(relative_error)}",
        "units": "1",
        "value": value,
        "relative_error": relative_error,
        "draws_are": _name_draws(selected),
        "fixed": fixed_parameters(selected),
        "time": result["time"].values.tolist(),
        "curves": list(_list_curves(selected, result)),
    }


def draw_seed_curves(result: dict[str, Any], axes: Any = None, **drawing: Any) -> Figure:
    """Draw the numbers of `compute_seed_curves`: measured as points with a band, predicted as lines."""
    noun = result["draws_are"]
    figure = draw_curves(result, axes, **drawing)
    drawn = figure.axes[0] if axes is None else axes
    drawn.set_ylabel(f"{noun} for an error of {format_percent(result['relative_error'])}")
    return figure


def _read_error(value: float | str) -> float:
    try:
        number = float(value) if isinstance(value, str) else value
    except ValueError:
        raise InvalidInput("relative_error", value, "must be a number such as 0.05") from None
    return read_relative_error(number)


def _name_draws(dataset: xr.Dataset) -> str:
    return "seeds" if dataset.sizes.get("seed", 1) > 1 or "repeat" not in dataset.sizes else "repeats"


class Runs(NamedTuple):
    """The numbers of runs of SGD and of their draws at each point."""

    runs: xr.DataArray
    draws: xr.DataArray

    @classmethod
    def of(cls, dataset: xr.Dataset) -> Runs:
        has_value = read_runs(dataset)
        counts = has_value.notnull().any("time").sum([dim for dim in has_value.dims if dim in DRAW_DIMS])
        return cls(counts, count_draws(has_value).max("time"))


def _list_curves(dataset: xr.Dataset, result: xr.Dataset) -> Iterator[dict[str, Any]]:
    """The curves of the measured and of the predicted numbers at each point."""
    runs = Runs.of(dataset) if SGD_RISK in dataset else None
    for source, name in (("sgd", "measured"), ("ode", "predicted")):
        if name not in result:
            continue
        dims = [str(dim) for dim in result[name].dims if dim != "time"]
        for index in product(*(range(result.sizes[dim]) for dim in dims)):
            position = dict(zip(dims, index, strict=True))
            here = result.isel(position)
            values = {end: here.get(f"{name}{suffix}", here[name]) for end, suffix in ENDS.items()}
            if source == "ode":
                values["nonlinearity"] = here["nonlinearity"]
            curve = {
                "source": source,
                **({"regime": HIGH_DIMENSIONAL} if source == "ode" else {}),
                "at": coordinates_at(dataset, position),
                "runs": dataset.sizes.get("seed", 1),
            }
            if runs is not None:
                counts = {count: int(array.isel(position)) for count, array in runs._asdict().items()}
                curve |= counts if source == "sgd" else {"draws": counts["draws"]}
                values["error"] = here[f"{name}_scatter"] / max(counts["draws"], 1) ** 0.5
            yield curve | {key: array.values.tolist() for key, array in values.items()}
