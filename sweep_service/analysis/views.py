"""The views of a sweep by name: each computes numbers, draws them, and has a form for their options.

The options of a view (`x`, `value`, `source`, …) are the same in Python, in URLs and on the command line.
All other names select along coordinates, such as `d=100`, `gamma=0.01:1` or `time=10`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from sweep_service.analysis.axes import point_axes
from sweep_service.analysis.curves import MAX_CURVES, compute_curves, plain_value
from sweep_service.analysis.error_bars.seed_curves import (
    compute_seed_curves,
    draw_seed_curves,
    has_seed_numbers,
)
from sweep_service.analysis.forms import Control, Form
from sweep_service.analysis.phase_diagram import diagram_to_json, phase_diagram
from sweep_service.analysis.plots import style
from sweep_service.analysis.plots.collapse import SCALED, plot_collapse
from sweep_service.analysis.plots.cosines import plot_cosine_histograms, plot_cosine_plane
from sweep_service.analysis.plots.curves import draw_curves
from sweep_service.analysis.plots.options import READERS
from sweep_service.analysis.plots.phase import plot_phase_diagram
from sweep_service.analysis.plots.rates import plot_rates
from sweep_service.analysis.plots.scaling_plane import plot_plane
from sweep_service.analysis.plots.triangle import plot_triangle
from sweep_service.analysis.quantities.classification import scaling_phase
from sweep_service.analysis.quantities.collapse import collapse
from sweep_service.analysis.quantities.exponent import QUANTITIES, exponent
from sweep_service.analysis.quantities.specialisation import cosines
from sweep_service.analysis.runs import average_over_runs, parse_source, read_runs, read_spec
from sweep_service.analysis.selection import format_values, select
from sweep_service.analysis.statistics import point_dims
from sweep_service.analysis.triangle import triangle, triangle_to_json
from sweep_service.errors import InvalidInput, LimitExceeded, unknown_name
from sweep_service.planning.axes import CORE_AXES, POINT
from sweep_service.planning.runs import KINDS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TRIANGLE = "triangle"
EXPECTED_EXPONENTS = {(of, "delta_t"): (0.5,) for of in ("discrepancy", "overlap_discrepancy")}  # theorems
MIN_DIMENSIONS = 3  # values of d to fit an exponent
MAX_SUGGESTED_CURVES = 20  # more are hard to distinguish
MAX_JSON_NUMBERS = 1 << 22  # of a view: about 90 MB of text


@dataclass(frozen=True)
class View:
    """A named way to look at a dataset.

    `compute` makes the numbers from a dataset and options, `draw` a figure of them, and `to_json` plain data.
    `fits` tells whether the view can show a dataset, and `form` describes the choices of a user. `drawing`
    names the options of `draw`, all others being those of `compute`.
    """

    description: str
    compute: Callable[..., Any]
    draw: Callable[..., Figure]
    to_json: Callable[[Any], Any] = xr.Dataset.to_dict
    form: Form = field(default_factory=Form)
    fits: Callable[[xr.Dataset], bool] = lambda _: True
    drawing: tuple[str, ...] = ()

    def split_options(self, options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The options of `compute`, and those of `draw`, read and checked; None is the default of each."""
        given = {name: value for name, value in options.items() if value is not None}
        drawing = {name: READERS[name](given.pop(name)) for name in self.drawing if name in given}
        return given, drawing

    def plot(self, dataset: xr.Dataset, options: Mapping[str, Any], axes: Any = None) -> Figure:
        """Compute the view and draw it, on new axes by default."""
        options, drawing = self.split_options(options)
        return self.draw(self.compute(dataset, **options), axes=axes, **drawing)


def view_to_json(view: str, result: Any) -> Any:
    """The numbers of a view as plain data. Raises `LimitExceeded` if there are too many."""
    if not isinstance(result, dict):  # curves are plain data already, and limited
        dataset = result if isinstance(result, xr.Dataset) else result.to_dataset(name=view)
        numbers = sum(array.size for array in dataset.variables.values())
        if numbers > MAX_JSON_NUMBERS:
            names = ", ".join(f"{dim} ({size} values)" for dim, size in dataset.sizes.items() if size > 1)
            allowed = f"must be at most {MAX_JSON_NUMBERS} numbers: select some of {names}"
            raise LimitExceeded(view, numbers, allowed)
    return VIEWS[view].to_json(result)


# ---- phase diagrams and the triangle


def _compute_diagram(
    dataset: xr.Dataset, /, x: str = "", y: str = "", value: str = "sgd_risk", **where: Any
) -> xr.DataArray:
    """A phase diagram, or with `x=triangle` the triangle, as the REST route of phase diagrams promises."""
    if x == TRIANGLE:
        return triangle(dataset, value, **({"y": y} if y else {}), **where)
    for field_name, axis in (("x", x), ("y", y)):
        if not axis:
            raise InvalidInput(field_name, None, "is required: the name of an axis")
    return phase_diagram(dataset, x, y, value, **where)


def _is_triangle_result(result: xr.DataArray) -> bool:
    return "u_d" in result.coords


def _draw_diagram(result: xr.DataArray, axes: Any = None, **drawing: Any) -> Figure:
    if not _is_triangle_result(result):
        return plot_phase_diagram(result, axes, **drawing)
    drawing.pop("ratio_lines", None)  # a triangle always has them
    return plot_triangle(result, axes, **drawing)


def _diagram_to_json(result: xr.DataArray) -> dict[str, Any]:
    return triangle_to_json(result) if _is_triangle_result(result) else diagram_to_json(result)


# ---- the plane, exponents, a collapse


def _compute_plane(dataset: xr.Dataset, /, source: str = "sgd", **where: Any) -> xr.Dataset:
    phases = scaling_phase(select(dataset, where), source)
    if "regime" in phases.dims and phases.sizes["regime"] > 1:
        regimes = format_values(phases["regime"].values)
        raise InvalidInput("source", source, f"must be sgd or one regime: {regimes}")
    return phases.squeeze("regime", drop=True) if "regime" in phases.dims else phases


RATE_OPTIONS = {option for quantity in QUANTITIES.values() for option in quantity.options}


def _compute_rates(
    dataset: xr.Dataset, /, of: str = "discrepancy", along: str = "delta_t", **where: Any
) -> xr.Dataset:
    options = {name: where.pop(name) for name in RATE_OPTIONS if name in where}
    return exponent(select(dataset, where), of, along, **options)


def _draw_rates(fits: xr.Dataset, axes: Any = None) -> Figure:
    of, along = fits.attrs["of"], fits.attrs["along"]
    names = [str(name) for name in fits.coords if len(np.unique(fits[name].values)) > 1]
    with style.canvas(axes) as (figure, axes):
        for at, colour in enumerate(style.sequential_colours(fits.sizes["case"])):
            case = fits.isel(case=at)
            fit = {name: case[name].item() for name in ("exponent", "standard_error", "prefactor")}
            plot_rates(
                case[along].values, case["geometric_mean"].values, case["geometric_error"].values, fit=fit,
                slopes=EXPECTED_EXPONENTS.get((of, along), ()) if at == 0 else (), axes=axes,
                xlabel=along, ylabel=of, colour=colour,
                name=", ".join(style.format_parameter(name, case[name].item()) for name in names),
            )  # fmt: skip
        if warning := fits.attrs.get("warning"):
            axes.set_title(warning.partition(":")[0], fontsize="small")
    return figure


def _compute_collapse(
    dataset: xr.Dataset, /, kind: str = "overlay", along: str = "d", source: str = "sgd", **where: Any
) -> xr.Dataset:
    selected = select(dataset, where)
    result = collapse(selected, kind, along, source)
    array = average_over_runs(read_runs(selected, source))[0]
    if POINT in array.dims:
        array = array.swap_dims({POINT: along})
    array = array.isel({dim: 0 for dim in array.dims if dim not in (along, "time")}, drop=True)
    risk = array.sortby(along).transpose(along, "time").reset_coords(drop=True)
    return result.assign(risk=risk.sel(time=result["time"])).assign_attrs(along=along)


def _draw_collapse(result: xr.Dataset, axes: Any = None) -> Figure:
    if "scaled_risk" not in result:
        detectable = result["detectable_spread"].item()
        note = f"{result['verdict'].item()} (a spread above {detectable:.1%} would be seen)"
        return plot_collapse(result["risk"], None, result["spread"], axes, note=note)
    if not np.isfinite(result["b"]):  # there is nothing to draw beside the curves
        return plot_collapse(result["risk"], None, None, axes, note=result["reason"].item())
    note = ", ".join(
        f"{name} = {style.format_with_error(result[name].item(), result[f'{name}_error'].item())}"
        for name in ("a", "b")
        if name in result
    )
    if result["reason"].item():  # the shift is that of another fit
        note += f" (from {result['method'].item()})"
    scaled = result["scaled_risk"].assign_coords({SCALED: result["scaled_time"]}).assign_attrs(value="risk")
    return plot_collapse(result["risk"], scaled, None, axes, note=note)


# ---- cosines

NEURON_DIMS = ("student", "student_other", "teacher")  # selected last: cosines may depend on all neurons


def _compute_paths(dataset: xr.Dataset, /, regime: str | None = None, **where: Any) -> xr.Dataset:
    neurons = {name: where.pop(name) for name in NEURON_DIMS if name in where}
    selected = select(dataset, {**where, **({} if regime is None else {"regime": regime})})
    sources = [kind for kind in ("sgd", "ode") if f"{kind}_risk" in selected]
    paths = {}
    for source in sources:
        array = select(cosines(selected, source), neurons)
        for dim in point_dims(array):
            size = array.sizes[dim]
            if size > 1:
                values = format_values(array[dim].values) if dim in array.coords else f"{size} values"
                raise InvalidInput(dim, None, f"must be selected: one of {values}")
        array = array.isel(dict.fromkeys(point_dims(array), 0), drop=True)
        paths["sgd" if source == "sgd" else "theory"] = array
    return xr.Dataset(paths)


def _draw_paths(paths: xr.Dataset, axes: Any = None) -> Figure:
    first = paths["sgd"] if "sgd" in paths else paths["theory"]
    return plot_cosine_plane(first, paths["theory"] if "theory" in paths and "sgd" in paths else None, axes)


def _compute_histograms(dataset: xr.Dataset, /, source: str = "sgd", **where: Any) -> xr.DataArray:
    neurons = {name: where.pop(name) for name in NEURON_DIMS if name in where}
    selected = select(dataset, where)
    kind = parse_source(selected, source)[0]
    if f"{kind}_cosine_histogram" in selected and f"{kind}_cosines" not in selected:
        return select(read_runs(selected, source, "cosine_histogram"), neurons)
    return select(cosines(selected, source), neurons)


def _draw_histograms(result: xr.DataArray, axes: Any = None) -> Figure:
    were_selected = result.sizes["time"] <= 6
    times = result["time"].values.tolist() if were_selected else None
    return plot_cosine_histograms(result, times, axes=axes)


# ---- which views fit a dataset

COSINES = ("cosines", "overlap_student_teacher")


def _has_two_axes(dataset: xr.Dataset) -> bool:
    return sum(len(values) > 1 for values in point_axes(dataset).values()) > 1


def _is_triangle(dataset: xr.Dataset) -> bool:
    return bool(read_spec(dataset).get("triangle"))


def _is_scaling(dataset: xr.Dataset) -> bool:
    dimensions = point_axes(dataset).get("d", ())
    return bool(read_spec(dataset).get("scaling")) and len(dimensions) >= MIN_DIMENSIONS


def _has_rates(dataset: xr.Dataset) -> bool:
    steps = dataset["delta_t"]
    differ = float(steps.max()) > 1.01 * float(steps.min())  # by more than rounding
    return all(f"{kind}_risk" in dataset for kind in KINDS) and differ


def _has_dimensions(dataset: xr.Dataset) -> bool:
    return len(point_axes(dataset).get("d", ())) > 1 and not _is_triangle(dataset)


def _has_cosines(dataset: xr.Dataset) -> bool:
    return any(f"{kind}_{name}" in dataset for kind in KINDS for name in COSINES)


def _has_plane_of_cosines(dataset: xr.Dataset) -> bool:
    return _has_cosines(dataset) and dataset.sizes.get("teacher") == 2


def _has_histograms(dataset: xr.Dataset) -> bool:
    return _has_cosines(dataset) or any(f"{kind}_cosine_histogram" in dataset for kind in KINDS)


COLOUR_OPTIONS = ("scale", "levels", "cmap", "limits")
VIEWS = {
    "curves": View(
        "an observable against time: observable, time", compute_curves, draw_curves, dict,
        Form((Control("observable", "Observable", "observables", "risk"),)),
        drawing=("scale", "time_scale", "cmap"),
    ),
    "phase-diagram": View(
        "a value on two axes: x, y, value", _compute_diagram, _draw_diagram, _diagram_to_json,
        Form(
            (
                Control("x", "Horizontal", "axes", default_position=-1), Control("y", "Vertical", "axes"),
                Control("value", "Value", "values"),
            ),
            axis_controls=("x", "y"), rest="middle",
        ),
        _has_two_axes, (*COLOUR_OPTIONS, "ratio_lines"),
    ),
    "triangle": View(
        "a value on the triangle of limits: value", triangle, plot_triangle, triangle_to_json,
        Form((Control("value", "Value", "values"),), covers=CORE_AXES, rest="first"), _is_triangle,
        COLOUR_OPTIONS,
    ),
    "plane": View(
        "the (κ, δ) plane of a scaling sweep: source", _compute_plane, plot_plane,
        form=Form((Control("source", "Of", "sources"),), rest="nothing"), fits=_is_scaling,
    ),
    "rates": View(
        "an exponent: of, along, a, b, source", _compute_rates, _draw_rates,
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
        "curves on each other: kind, along, source", _compute_collapse, _draw_collapse,
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
        "paths of neurons between two teachers: regime", _compute_paths, _draw_paths,
        form=Form(rest="middle", one_regime=True), fits=_has_plane_of_cosines,
    ),
    "histograms": View(
        "cosines of neurons: source", _compute_histograms, _draw_histograms, xr.DataArray.to_dict,
        Form((Control("source", "Of", "sources"),), rest="middle", one_regime=True), _has_histograms,
    ),
    "seeds": View(
        "seeds needed for an accuracy: value, relative_error", compute_seed_curves, draw_seed_curves, dict,
        Form(
            (
                Control("value", "Of", "seed values", "risk"),
                Control("relative_error", "Relative error", ("0.01", "0.02", "0.05", "0.1"), "0.05"),
            )
        ),
        has_seed_numbers, ("scale", "time_scale", "cmap"),
    ),
}  # fmt: skip


def _thin_values(values: list[Any]) -> list[Any]:
    """At most as many values as curves can be distinguished, evenly spaced by position."""
    positions = np.linspace(0, len(values) - 1, min(len(values), MAX_SUGGESTED_CURVES)).round()
    return [values[int(position)] for position in positions]


def suggest_view(dataset: xr.Dataset) -> tuple[str, dict[str, Any]]:
    """The view that shows most of a sweep, and its options."""
    spec = read_spec(dataset)
    source = "sgd" if "sgd_risk" in dataset else "ode"
    risk = f"{source}_risk"
    regime: dict[str, Any] = {}  # the first one, if the view needs a single regime
    if source == "ode" or spec.get("triangle"):
        regime |= {"regime": str(dataset["regime"].values[0])} if "regime" in dataset.dims else {}
    array = dataset[risk]
    if POINT in array.dims:
        if spec.get("triangle"):
            has_both = source == "sgd" and "ode_risk" in dataset
            return "triangle", {"value": "relative_discrepancy" if has_both else risk, **regime}
        if spec.get("scaling") and len(np.unique(dataset["d"].values)) >= MIN_DIMENSIONS:
            return "plane", {} if source == "sgd" else {"source": regime["regime"]}
        return "curves", {} if array.sizes[POINT] <= MAX_CURVES else {"d": dataset["d"].values[0].item()}
    axes = [dim for dim in point_dims(array) if array.sizes[dim] > 1 and dim != "regime"]
    axes.sort(key=lambda dim: array.sizes[dim], reverse=True)
    if len(axes) < 2:
        return "curves", {dim: _thin_values(dataset[dim].values.tolist()) for dim in axes}
    x, y = sorted(axes[:2], key=[*reversed(CORE_AXES), *axes].index)
    others = {dim: plain_value(dataset[dim].values[0]) for dim in axes[2:] if dim in dataset.coords}
    return "phase-diagram", {"x": x, "y": y, "value": risk, **others, **regime}


def choose_view(dataset: xr.Dataset, view: str, options: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the name of an existing view with its options, or the suggested ones if `view` is empty."""
    if not view and options:
        raise InvalidInput(
            "options", " ".join(options), f"need a view before them: one of {', '.join(VIEWS)}"
        )
    if not view:
        return suggest_view(dataset)
    if view not in VIEWS:
        raise unknown_name("view", view, VIEWS)
    return view, options
