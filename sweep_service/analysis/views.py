"""What can be looked at in a sweep, by name: its numbers, a figure of them, and the form that asks for them.

The words of a view (`x`, `value`, `source`, …) are the same in Python, in URLs and on the command line;
all others select along coordinates, as `d=100`, `gamma=0.01:1` or `time=10` do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from sweep_service.analysis.axes import point_axes
from sweep_service.analysis.curves import MOST_CURVES, curves, plain_value
from sweep_service.analysis.forms import Control, Form
from sweep_service.analysis.phase_diagram import as_plain, phase_diagram
from sweep_service.analysis.plots import style
from sweep_service.analysis.plots.collapse import SCALED, plot_collapse
from sweep_service.analysis.plots.cosines import plot_cosine_histograms, plot_cosine_plane
from sweep_service.analysis.plots.curves import draw_curves
from sweep_service.analysis.plots.phase import plot_phase_diagram
from sweep_service.analysis.plots.rates import plot_rates
from sweep_service.analysis.plots.scaling_plane import plot_plane
from sweep_service.analysis.plots.triangle import plot_triangle
from sweep_service.analysis.quantities.classification import scaling_phase
from sweep_service.analysis.quantities.collapse import collapse
from sweep_service.analysis.quantities.exponent import OF, exponent
from sweep_service.analysis.quantities.specialisation import cosines
from sweep_service.analysis.runs import kind_of, over_runs, runs, spec_of
from sweep_service.analysis.selection import listed, select
from sweep_service.analysis.statistics import point_dims
from sweep_service.analysis.triangle import as_plain as plain_triangle
from sweep_service.analysis.triangle import triangle
from sweep_service.errors import InvalidInput, LimitExceeded
from sweep_service.planning.grids import CORE, POINT
from sweep_service.planning.runs import KINDS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TRIANGLE = "triangle"
EXPECTED = {(of, "delta_t"): (0.5,) for of in ("discrepancy", "overlap_discrepancy")}  # theorems state them
FEWEST = 3  # dimensions to fit an exponent by
TOLD_APART = 20  # curves
MOST_TOLD = 1 << 22  # numbers of a view as text: some 90 MB


@dataclass(frozen=True)
class View:
    """`find` makes its numbers of a dataset and some words, `draw` a figure of them, `plain` their JSON.

    `fits` says whether it has something to show of a dataset, and `form` what a person chooses for it.
    """

    about: str
    find: Callable[..., Any]
    draw: Callable[..., Figure]
    plain: Callable[[Any], Any] = xr.Dataset.to_dict
    form: Form = field(default_factory=Form)
    fits: Callable[[xr.Dataset], bool] = lambda _: True

    def plot(self, dataset: xr.Dataset, /, *args: Any, axes: Any = None, **words: Any) -> Figure:
        """The figure, or the same on axes that are there."""
        return self.draw(self.find(dataset, *args, **words), axes=axes)


def as_json(view: str, found: Any) -> Any:
    """The numbers of a view as plain data, unless they are too many; curves, which are that, have few."""
    if not isinstance(found, dict):
        whole = found if isinstance(found, xr.Dataset) else found.to_dataset(name=view)
        numbers = sum(array.size for array in whole.variables.values())
        if numbers > MOST_TOLD:
            names = ", ".join(f"{dim} ({size} values)" for dim, size in whole.sizes.items() if size > 1)
            allowed = f"must be at most {MOST_TOLD} to read: select some of {names}"
            raise LimitExceeded(view, numbers, allowed)
    return VIEWS[view].plain(found)


# ---- phase diagrams and the triangle


def _diagram(
    dataset: xr.Dataset, /, x: str = "", y: str = "", value: str = "sgd_risk", **where: Any
) -> xr.DataArray:
    """`x=triangle` asks for the triangle, as the route of phase diagrams promises."""
    if x == TRIANGLE:
        return triangle(dataset, value, **({"y": y} if y else {}), **where)
    for name, given in (("x", x), ("y", y)):
        if not given:
            raise InvalidInput(name, None, "is required: the name of an axis")
    return phase_diagram(dataset, x, y, value, **where)


def _draw_diagram(found: xr.DataArray, axes: Any = None) -> Figure:
    return plot_triangle(found, axes) if "u_d" in found.coords else plot_phase_diagram(found, axes)


def _plain_diagram(found: xr.DataArray) -> dict[str, Any]:
    return plain_triangle(found) if "u_d" in found.coords else as_plain(found)


# ---- the plane, exponents, a collapse


def _plane(dataset: xr.Dataset, /, source: str = "sgd", **where: Any) -> xr.Dataset:
    found = scaling_phase(select(dataset, where), source)
    if "regime" in found.dims and found.sizes["regime"] > 1:
        raise InvalidInput("source", source, f"must be one: sgd, or of {listed(found['regime'].values)}")
    return found.squeeze("regime", drop=True) if "regime" in found.dims else found


RATE_WORDS = {word for _, words in OF.values() for word in words}


def _rates(
    dataset: xr.Dataset, /, of: str = "discrepancy", along: str = "delta_t", **where: Any
) -> xr.Dataset:
    options = {name: where.pop(name) for name in RATE_WORDS if name in where}
    return exponent(select(dataset, where), of, along, **options)


def _draw_rates(found: xr.Dataset, axes: Any = None) -> Figure:
    of, along = found.attrs["of"], found.attrs["along"]
    names = [str(name) for name in found.coords if len(set(found[name].values.tolist())) > 1]
    with style.canvas(axes) as (figure, axes):
        for at, colour in enumerate(style.sequence(found.sizes["case"])):
            case = found.isel(case=at)
            fit = {name: case[name].item() for name in ("exponent", "standard_error", "prefactor")}
            plot_rates(
                case[along].values, case["mean"].values, case["error"].values, fit=fit,
                slopes=EXPECTED.get((of, along), ()) if at == 0 else (), axes=axes, xlabel=along, ylabel=of,
                name=", ".join(style.text(name, case[name].item()) for name in names), colour=colour,
            )  # fmt: skip
    return figure


def _collapse(
    dataset: xr.Dataset, /, kind: str = "overlay", along: str = "d", source: str = "sgd", **where: Any
) -> xr.Dataset:
    chosen = select(dataset, where)
    found = collapse(chosen, kind, along, source)
    array = over_runs(runs(chosen, source))[0]
    if POINT in array.dims:
        array = array.swap_dims({POINT: along})
    array = array.isel({dim: 0 for dim in array.dims if dim not in (along, "time")}, drop=True)
    risk = array.sortby(along).transpose(along, "time").reset_coords(drop=True)
    return found.assign(risk=risk.sel(time=found["time"])).assign_attrs(along=along)


def _draw_collapse(found: xr.Dataset, axes: Any = None) -> Figure:
    if "scaled_risk" not in found:
        return plot_collapse(found["risk"], None, found["spread"], axes)
    scaled = found["scaled_risk"].assign_coords({SCALED: found["scaled_time"]}).assign_attrs(value="risk")
    return plot_collapse(found["risk"], scaled, None, axes)


# ---- cosines

NEURONS = ("student", "student_other", "teacher")  # are selected among the cosines, which may need them all


def _paths(dataset: xr.Dataset, /, regime: str | None = None, **where: Any) -> xr.Dataset:
    neurons = {name: where.pop(name) for name in NEURONS if name in where}
    chosen = select(dataset, {**where, **({} if regime is None else {"regime": regime})})
    sources = [kind for kind in ("sgd", "ode") if f"{kind}_risk" in chosen]
    found = {}
    for source in sources:
        array = select(cosines(chosen, source), neurons)
        for dim in point_dims(array):
            if array.sizes[dim] > 1:
                there = listed(array[dim].values) if dim in array.coords else f"{array.sizes[dim]} of them"
                raise InvalidInput(dim, None, f"must be selected: {there}")
        array = array.isel(dict.fromkeys(point_dims(array), 0), drop=True)
        found["sgd" if source == "sgd" else "theory"] = array
    return xr.Dataset(found)


def _draw_paths(found: xr.Dataset, axes: Any = None) -> Figure:
    first = found["sgd"] if "sgd" in found else found["theory"]
    return plot_cosine_plane(first, found["theory"] if "theory" in found and "sgd" in found else None, axes)


def _histograms(dataset: xr.Dataset, /, source: str = "sgd", **where: Any) -> xr.DataArray:
    neurons = {name: where.pop(name) for name in NEURONS if name in where}
    chosen = select(dataset, where)
    kind = kind_of(chosen, source)[0]
    if f"{kind}_cosine_histogram" in chosen and f"{kind}_cosines" not in chosen:
        return select(runs(chosen, source, "cosine_histogram"), neurons)
    return select(cosines(chosen, source), neurons)


def _draw_histograms(found: xr.DataArray, axes: Any = None) -> Figure:
    few = found.sizes["time"] <= 6  # they were selected
    return plot_cosine_histograms(found, found["time"].values.tolist() if few else None, axes=axes)


# ---- which views fit a dataset

COSINES = ("cosines", "overlap_student_teacher")


def _has_two_axes(dataset: xr.Dataset) -> bool:
    return sum(len(values) > 1 for values in point_axes(dataset).values()) > 1


def _is_triangle(dataset: xr.Dataset) -> bool:
    return bool(spec_of(dataset).get("triangle"))


def _is_scaling(dataset: xr.Dataset) -> bool:
    dimensions = point_axes(dataset).get("d", ())
    return bool(spec_of(dataset).get("scaling")) and len(dimensions) >= FEWEST


def _has_rates(dataset: xr.Dataset) -> bool:
    steps = dataset["delta_t"]
    differ = float(steps.max()) > 1.01 * float(steps.min())  # more than by rounding
    return all(f"{kind}_risk" in dataset for kind in KINDS) and differ


def _has_dimensions(dataset: xr.Dataset) -> bool:
    return len(point_axes(dataset).get("d", ())) > 1 and not _is_triangle(dataset)


def _has_cosines(dataset: xr.Dataset) -> bool:
    return any(f"{kind}_{name}" in dataset for kind in KINDS for name in COSINES)


def _has_plane_of_cosines(dataset: xr.Dataset) -> bool:
    return _has_cosines(dataset) and dataset.sizes.get("teacher") == 2


def _has_histograms(dataset: xr.Dataset) -> bool:
    return _has_cosines(dataset) or any(f"{kind}_cosine_histogram" in dataset for kind in KINDS)


VIEWS = {
    "curves": View(
        "an observable against time: observable", curves, draw_curves, dict,
        Form((Control("observable", "Observable", "observables", "risk"),)),
    ),
    "phase-diagram": View(
        "a value on two axes: x, y, value", _diagram, _draw_diagram, _plain_diagram,
        Form(
            (
                Control("x", "Horizontal", "axes", default_position=-1), Control("y", "Vertical", "axes"),
                Control("value", "Value", "values"),
            ),
            axis_controls=("x", "y"), rest="middle",
        ),
        _has_two_axes,
    ),
    "triangle": View(
        "a value on the triangle of limits: value", triangle, plot_triangle, plain_triangle,
        Form((Control("value", "Value", "values"),), covers=CORE, rest="first"), _is_triangle,
    ),
    "plane": View(
        "the (κ, δ) plane of a scaling sweep: source", _plane, plot_plane,
        form=Form((Control("source", "Of", "sources"),), rest="nothing"), fits=_is_scaling,
    ),
    "rates": View(
        "an exponent: of, along, a, b, source", _rates, _draw_rates,
        form=Form(
            (
                Control("of", "Of", ("discrepancy", "final_risk")),
                Control("along", "Along", "axes and step", "delta_t"),
            ),
            axis_controls=("along",), one_regime=True,
        ),
        fits=_has_rates,
    ),
    "collapse": View(
        "curves on each other: kind, along, source", _collapse, _draw_collapse,
        form=Form(
            (
                Control("kind", "Kind", ("overlay", "power", "logshift")),
                Control("along", "Along", "axes", "d"), Control("source", "Of", "sources"),
            ),
            axis_controls=("along",), rest="middle",
        ),
        fits=_has_dimensions,
    ),
    "cosines": View(
        "paths of neurons between two teachers: regime", _paths, _draw_paths,
        form=Form(rest="middle", one_regime=True), fits=_has_plane_of_cosines,
    ),
    "histograms": View(
        "cosines of neurons: source", _histograms, _draw_histograms, xr.DataArray.to_dict,
        Form((Control("source", "Of", "sources"),), rest="middle", one_regime=True), _has_histograms,
    ),
}  # fmt: skip


def _some(values: list[Any]) -> list[Any]:
    """All of them, or so many that curves can be told apart."""
    places = np.linspace(0, len(values) - 1, min(len(values), TOLD_APART)).round()
    return [values[int(at)] for at in places]


def suggestion(dataset: xr.Dataset) -> tuple[str, dict[str, Any]]:
    """The view that shows most of a sweep, and its words."""
    spec = spec_of(dataset)
    source = "sgd" if "sgd_risk" in dataset else "ode"
    risk = f"{source}_risk"
    first: dict[str, Any] = {}  # of what is not shown
    if source == "ode" or spec.get("triangle"):
        first |= {"regime": str(dataset["regime"].values[0])} if "regime" in dataset.dims else {}
    array = dataset[risk]
    if POINT in array.dims:
        if spec.get("triangle"):
            both = source == "sgd" and "ode_risk" in dataset
            return "triangle", {"value": "relative_discrepancy" if both else risk, **first}
        if spec.get("scaling") and len(np.unique(dataset["d"].values)) >= FEWEST:
            return "plane", {} if source == "sgd" else {"source": first["regime"]}
        return "curves", {} if array.sizes[POINT] <= MOST_CURVES else {"d": dataset["d"].values[0].item()}
    several = [dim for dim in point_dims(array) if array.sizes[dim] > 1 and dim != "regime"]
    several.sort(key=lambda dim: array.sizes[dim], reverse=True)
    if len(several) < 2:
        return "curves", {dim: _some(dataset[dim].values.tolist()) for dim in several}
    x, y = sorted(several[:2], key=[*reversed(CORE), *several].index)
    rest = {dim: plain_value(dataset[dim].values[0]) for dim in several[2:] if dim in dataset.coords}
    return "phase-diagram", {"x": x, "y": y, "value": risk, **rest, **first}
