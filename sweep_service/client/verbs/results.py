"""Verbs that return results: the dataset, files, numbers and figures."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sweep_service.client.names import SweepName
from sweep_service.client.opening import open_url
from sweep_service.client.requests import (
    Json,
    Service,
    find_id,
    request_json,
    request_sweep,
    sweep_path,
    to_query,
)
from sweep_service.client.retries import download, send
from sweep_service.client.steps import CallSlow, Operation

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure


def open(service: Service, id: SweepName, chunks: Any = None) -> Operation[xr.Dataset]:
    """Open the dataset of a sweep, which may still be running.

    Parameters
    ----------
    id
        The sweep: its id, any beginning of it that no other id has, or its name.
    chunks
        As in `xarray.open_zarr`; `{}` gives Dask arrays.

    Returns
    -------
    xarray.Dataset
        The dataset. Values are downloaded when they are used.

    Raises
    ------
    NotFound
        If there is no such sweep.
    """
    sweep_id = yield from find_id(service, id)
    url = (yield from request_sweep(service, "GET", sweep_path(sweep_id)))["links"]["zarr"]
    yield from send("GET", sweep_path(sweep_id, "zarr/zarr.json"))  # raises the error of the service
    return (yield CallSlow(partial(open_url, url, service.headers, chunks)))


def plot(service: Service, id: SweepName, view: str = "", **options: Any) -> Operation[Figure]:
    """Draw a view of a sweep here, from its dataset.

    Parameters
    ----------
    id
        The sweep: its id, any beginning of it that no other id has, or its name.
    view
        Name of the view, such as `curves` or `phase-diagram`. By default the most informative one.
    **options
        Options of the view, and the selection as in `export`.

    Returns
    -------
    matplotlib.figure.Figure
        The figure. `figure` downloads one that the service draws.

    Raises
    ------
    InvalidInput
        If the view, an option or the selection is invalid.
    """
    dataset = yield from open(service, id)
    return (yield CallSlow(partial(_draw, dataset, view, options)))


def _draw(dataset: xr.Dataset, view: str, options: dict[str, Any]) -> Figure:
    from sweep_service.analysis.views import VIEWS, choose_view

    name, chosen = choose_view(dataset, view, options)
    return VIEWS[name].plot(dataset, chosen)


def export(
    service: Service, id: SweepName, path: str | Path, format: str | None = None, **where: Any
) -> Operation[Path]:
    """Download a sweep, or a selection of it, as a file.

    Parameters
    ----------
    id
        The sweep: its id, any beginning of it that no other id has, or its name.
    path
        File to write.
    format
        `netcdf`, `csv`, `parquet` or `json`. By default the suffix of `path` decides.
    **where
        The selection: `d=100`, `gamma="0.01:1"`, `seed=[0, 1]`, and `variables=["sgd_risk"]`.

    Returns
    -------
    pathlib.Path
        The file.

    Raises
    ------
    InvalidInput
        If the format or the selection is invalid; no file is written then.
    """
    from sweep_service.analysis.export import open_output

    output = Path(path)
    sweep_id = yield from find_id(service, id)
    with open_output(output, format) as (format_name, temporary):
        query = to_query({"format": format_name, **where})
        yield from download(sweep_path(sweep_id, "data"), query, temporary)
    return output


def contents(service: Service, id: SweepName) -> Operation[Json]:
    """Get the axes of a sweep with their values, and its views.

    Parameters
    ----------
    id
        The sweep: its id, any beginning of it that no other id has, or its name.

    Returns
    -------
    dict
        Everything that a selection or a view can name.
    """
    sweep_id = yield from find_id(service, id)
    return (yield from request_json(service, "GET", sweep_path(sweep_id, "contents")))


def map(service: Service, id: SweepName) -> Operation[Json]:
    """Count the runs of each point by status.

    Parameters
    ----------
    id
        The sweep: its id, any beginning of it that no other id has, or its name.

    Returns
    -------
    dict
        The counts of each point.
    """
    sweep_id = yield from find_id(service, id)
    return (yield from request_json(service, "GET", sweep_path(sweep_id, "map")))


def curves(service: Service, id: SweepName, observable: str = "risk", **where: Any) -> Operation[Json]:
    """Compute an observable over time: SGD with bands over seeds, and the regimes.

    Parameters
    ----------
    id
        The sweep: its id, any beginning of it that no other id has, or its name.
    observable
        Name of an observable of the sweep.
    **where
        The selection, as in `export`.

    Returns
    -------
    dict
        The curves, as `ds.sweep.curves` computes them.

    Raises
    ------
    InvalidInput
        If the observable or the selection is invalid.
    """
    params = to_query({"observable": observable, **where})
    sweep_id = yield from find_id(service, id)
    return (yield from request_json(service, "GET", sweep_path(sweep_id, "curves"), params=params))


def seeds(
    service: Service, id: SweepName, value: str = "risk", relative_error: float = 0.05, **where: Any
) -> Operation[Json]:
    """Compute how many seeds make the standard error of a mean a given share of it, over time.

    Parameters
    ----------
    id
        The sweep: its id, any beginning of it that no other id has, or its name.
    value
        `risk`, `final_risk`, or another observable of SGD.
    relative_error
        Standard error of the mean over the mean.
    **where
        The selection, as in `export`.

    Returns
    -------
    dict
        The numbers as `curves`: those measured from the runs have the source `sgd`, those predicted from
        stored fluctuations `ode`.

    Raises
    ------
    InvalidInput
        If the value, the error or the selection is invalid, or nothing is known about the scatter.
    """
    params = to_query({"value": value, "relative_error": relative_error, **where})
    sweep_id = yield from find_id(service, id)
    return (yield from request_json(service, "GET", sweep_path(sweep_id, "seeds"), params=params))


def phase_diagram(
    service: Service, id: SweepName, x: str, y: str, value: str = "sgd_risk", **where: Any
) -> Operation[Json]:
    """Compute a value on two axes; other axes are selected, and seeds are averaged over.

    Parameters
    ----------
    id
        The sweep: its id, any beginning of it that no other id has, or its name.
    x, y
        Names of axes.
    value
        Name of the value.
    **where
        The selection, as in `export`.

    Returns
    -------
    dict
        The phase diagram, as `ds.sweep.phase_diagram` computes it.

    Raises
    ------
    InvalidInput
        If an axis, the value or the selection is invalid.
    """
    params = to_query({"x": x, "y": y, "value": value, **where})
    sweep_id = yield from find_id(service, id)
    return (yield from request_json(service, "GET", sweep_path(sweep_id, "phase-diagram"), params=params))


def compare(
    service: Service,
    a: SweepName,
    b: SweepName,
    /,
    value: str = "sgd_risk",
    how: str = "ratio",
    **where: Any,
) -> Operation[Json]:
    """Compare a value of two sweeps at the points that both have.

    Parameters
    ----------
    a, b
        The sweeps: ids, beginnings of them that no other ids have, or names.
    value
        Name of a value of phase diagrams.
    how
        `ratio`, a over b, or `difference`, a minus b.
    **where
        The selection, as in `export`.

    Returns
    -------
    dict
        The `points` with their numbers and errors, as `ss.compare` computes them, and what `differs`.

    Raises
    ------
    InvalidInput
        If a name is unknown, or the sweeps have no point in common.
    """
    first = yield from find_id(service, a)
    second = yield from find_id(service, b)
    params = to_query({"a": first, "b": second, "value": value, "how": how, **where})
    return (yield from request_json(service, "GET", "/v1/compare", params=params))


def figure(
    service: Service, id: SweepName, path: str | Path, view: str = "curves", **options: Any
) -> Operation[Path]:
    """Download a view of a sweep as a figure, which the service draws.

    Parameters
    ----------
    id
        The sweep: its id, any beginning of it that no other id has, or its name.
    path
        File to write: `.png`, `.svg` or `.pdf`.
    view
        Name of the view.
    **options
        Options of the view, and the selection as in `export`.

    Returns
    -------
    pathlib.Path
        The file.

    Raises
    ------
    InvalidInput
        If the format, an option or the selection is invalid; no file is written then.
    """
    output = Path(path)
    temporary = output.with_name(f".{output.name}.part")
    params = to_query({"format": output.suffix.removeprefix(".").lower(), **options})
    sweep_id = yield from find_id(service, id)
    try:
        yield from download(sweep_path(sweep_id, f"figures/{quote(view, safe='')}"), params, temporary)
        temporary.replace(output)
    finally:
        temporary.unlink(missing_ok=True)
    return output
