"""Curves, phase diagrams and other views over HTTP: numbers, figures and ETags."""

import io
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
import xarray as xr
from PIL import Image

from sweep_service.analysis.curves import compute_curves
from sweep_service.analysis.phase_diagram import diagram_to_json, phase_diagram
from sweep_service.analysis.views import VIEWS
from sweep_service.api.routes import figures
from sweep_service.api.routes.figures import MEDIA_TYPES, compute_etag
from sweep_service.text import replace_nonfinite
from tests.analysis.synthetic import time_average
from tests.api.served import assert_problem, serving
from tests.specs import ERROR_BARS_SPEC, distinct_spec

GOOD = {"x": "d", "y": "gamma"}
QUERIES = {
    "curves": {"d": "5"},
    "phase-diagram": GOOD,
    "rates": {"of": "final_risk", "along": "d"},
    "collapse": {"gamma": "0.1"},
    "cosines": {"d": "5", "gamma": "0.1"},
    "histograms": {"d": "5", "gamma": "0.1", "time": "0,2"},
}  # other views need other designs


# ---- numbers


def test_curves_equal_those_of_analysis(get, stored):
    assert get("curves").json() == replace_nonfinite(compute_curves(stored))
    content = get("curves", d="5", gamma="0.1", seed="1").json()
    assert content == replace_nonfinite(compute_curves(stored, d=5, gamma=0.1, seed=1))
    sgd, ode = content["curves"]
    assert (sgd["source"], sgd["runs"], ode["source"], ode["regime"]) == ("sgd", 2, "ode", "classical_noise")
    np.testing.assert_allclose(
        sgd["mean"], stored.sgd_risk.sel(d=5, p=4, gamma=0.1, seed=1).mean("repeat"), rtol=1e-12
    )


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"observable": "odd"}, "observable"), ({"observable": ""}, "observable"), ({"d": "6"}, "d"),
        ({"odd": "6"}, "selection"), ({"format": "odd"}, "format"), ({"observable": "status"}, "observable"),
        ({"dataset": "odd"}, "selection"), ({"self": "odd"}, "selection"), ({"where": "odd"}, "selection"),
    ],
)  # fmt: skip
def test_invalid_curves_are_rejected(get, params, field):
    assert_problem(get("curves", **params), 422, field=field, without=["odd"])


def test_phase_diagrams_equal_those_of_analysis(get, stored):
    content = get("phase-diagram", x="d", y="gamma").json()
    assert content == replace_nonfinite(diagram_to_json(phase_diagram(stored, "d", "gamma")))
    assert content["form"] == "grid"
    assert np.shape(content["value"]["values"]) == (2, 2)
    risk = stored.sgd_risk.mean(["seed", "repeat"]).isel(p=0).transpose("gamma", "d", "time")
    wanted = time_average(risk.values, stored.time.values, 1.0)  # over [t_max/2, t_max]
    np.testing.assert_allclose(content["value"]["values"], wanted, rtol=1e-12)
    ode = get("phase-diagram", x="gamma", y="d", value="ode_risk", time="2").json()
    assert ode == replace_nonfinite(
        diagram_to_json(phase_diagram(stored, "gamma", "d", "ode_risk", time="2"))
    )
    shares = get("phase-diagram", x="d", y="gamma", value="sgd_diverged").json()
    assert shares["value"]["values"] == [[0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({}, "x"), ({"x": "d"}, "y"), ({"x": "odd", "y": "d"}, "x"), ({"x": "d", "y": "odd"}, "y"),
        ({"x": "d", "y": "d"}, "y"), ({"x": "d", "y": "p"}, "gamma"), ({"x": "seed", "y": "d"}, "x"),
        ({**GOOD, "value": "odd"}, "value"), ({**GOOD, "odd": "1"}, "selection"), ({**GOOD, "p": "5"}, "p"),
        ({**GOOD, "value": "sgd_status"}, "value"), ({**GOOD, "dataset": "odd"}, "selection"),
    ],
)  # fmt: skip
def test_invalid_phase_diagrams_are_rejected(get, params, field):
    assert_problem(get("phase-diagram", **params), 422, field=field, without=["odd"])


# ---- figures


@pytest.mark.parametrize("format", MEDIA_TYPES)
@pytest.mark.parametrize("view", QUERIES)
def test_every_view_in_every_format(get, sweep_id, view, format):
    answer = get(f"figures/{view}", format=format, **QUERIES[view])
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].partition(";")[0] == MEDIA_TYPES[format]
    assert answer.headers["cache-control"] == "no-cache"
    begins = {"json": b"{", "png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[format]
    assert answer.content.startswith(begins)
    if format != "json":
        assert f'filename="{sweep_id}-{view}.{format}"' in answer.headers["content-disposition"]
        assert len(answer.content) > 3000


@pytest.mark.parametrize(
    ("view", "options"),
    [
        ("curves", {"scale": "log"}), ("curves", {"time_scale": "linear"}), ("curves", {"cmap": "magma"}),
        ("curves", {"time": "steps"}), ("curves", {"time": "samples/d"}),
        ("phase-diagram", {"scale": "log"}), ("phase-diagram", {"levels": "3"}),
        ("phase-diagram", {"levels": "0.01,0.02"}), ("phase-diagram", {"limits": "0.001,1"}),
        ("phase-diagram", {"cmap": "Greys"}),
    ],
)  # fmt: skip
def test_drawing_options_change_the_figure(get, view, options):
    query = {"format": "svg", **({"d": "5"} if view == "curves" else GOOD)}
    figure = get(view, **query, **options)
    assert figure.status_code == 200, figure.text
    assert figure.content != get(view, **query).content


def test_curves_in_units_of_steps(get, stored):
    plain, counted = (get("curves", gamma="0.1", **unit).json() for unit in ({}, {"time": "samples/d"}))
    assert counted["time"] == plain["time"] == stored.time.values.tolist()
    assert counted["time_axis"]["name"] == "samples/d"
    assert "time_axis" not in plain
    for curve, without in zip(counted["curves"], plain["curves"], strict=True):
        d, p, gamma = (curve["at"][name] for name in ("d", "p", "gamma"))
        steps = np.array(counted["time"]) * p * d / gamma
        steps = np.rint(steps) if curve["source"] == "sgd" else steps
        np.testing.assert_allclose(curve.pop("x"), steps / d, rtol=1e-12)
        assert curve == without


@pytest.mark.parametrize("format", ["json", "png"])
@pytest.mark.parametrize(
    ("part", "params", "field", "allowed"),
    [
        ("curves", {"scale": "odd"}, "scale", "linear, log"),
        ("curves", {"time": "odd"}, "time", "samples/d"),
        ("curves", {"levels": "3"}, "selection", "gamma"), ("curves", {"ax": "odd"}, "selection", "gamma"),
        ("phase-diagram", {**GOOD, "levels": "odd"}, "levels", "number"),
        ("phase-diagram", {**GOOD, "limits": "1"}, "limits", "two numbers"),
        ("phase-diagram", {**GOOD, "cmap": "odd"}, "cmap", "viridis"),
        ("phase-diagram", {**GOOD, "ratio_lines": "odd"}, "ratio_lines", "true"),
    ],
)  # fmt: skip
def test_bad_drawing_options_are_rejected(get, part, params, field, allowed, format):
    assert_problem(get(part, format=format, **params), 422, allowed, field=field, without=["odd"])


def test_selected_neuron_is_shown(get):
    every = np.array(get("figures/histograms", **QUERIES["histograms"]).json()["data"])
    for name, axis in (("student", -2), ("teacher", -1)):
        answer = get("figures/histograms", **QUERIES["histograms"], **{name: "1"})
        np.testing.assert_array_equal(answer.json()["data"], np.take(every, [1], axis))


def test_curves_and_phase_diagram_are_views(get):
    assert get("curves", d="5").json() == get("figures/curves", d="5").json()
    assert get("phase-diagram", **GOOD).json() == get("figures/phase-diagram", **GOOD).json()
    assert get("curves", format="svg").content == get("figures/curves", format="svg").content


def test_figure_contains_provenance(get, sweep_id, stored):
    with Image.open(io.BytesIO(get("curves", format="png").content)) as image:
        text = image.text
        assert image.width > 600
    assert sweep_id in text["Source"]
    assert stored.attrs["key"] in text["Source"]
    assert "k = 2" in text["Description"]


def test_triangle_is_a_phase_diagram(service):
    sweep_id = service.complete({
        "triangle": {"delta_t": 0.01, "resolution": 2}, "axes": {"regime": "high_dimensional"},
        "fixed": {"k": 2}, "init": {"kind": "informed"}, "time": {"max": 1.0, "samples": 5},
    })  # fmt: skip
    url, query = f"/v1/sweeps/{sweep_id}/phase-diagram", {"x": "triangle", "value": "discrepancy"}
    content = service.get(url, params=query).json()
    assert content["form"] == "triangle"
    assert all(abs(point["u_d"] + point["u_p"] + point["u_gamma"] - 1) < 1e-9 for point in content["points"])
    for name in ("figures/triangle", "phase-diagram"):
        options = query if name == "phase-diagram" else {"value": "discrepancy"}
        answer = service.get(f"/v1/sweeps/{sweep_id}/{name}", params={**options, "format": "png"})
        assert answer.content.startswith(b"\x89PNG")


@pytest.mark.parametrize("value", ["largest_z_score", "z_discrepancy", "validity"])
def test_phase_diagrams_of_error_bars(service, value):
    sweep_id = service.complete(ERROR_BARS_SPEC)  # the same sweep for every value
    with xr.open_zarr(service.folder.dataset_path(sweep_id), chunks=None) as dataset:
        expected = diagram_to_json(phase_diagram(dataset, "gamma", "d", value, regime="classical"))
    query = {"x": "gamma", "y": "d", "value": value, "regime": "classical"}
    url = f"/v1/sweeps/{sweep_id}/phase-diagram"
    assert service.get(url, params=query).json() == replace_nonfinite(expected)
    assert service.get(url, params={**query, "format": "png"}).content.startswith(b"\x89PNG")


def test_curves_with_predicted_bands(service):
    url = f"/v1/sweeps/{service.complete(ERROR_BARS_SPEC)}/curves"
    curves = service.get(url).json()["curves"]
    bands = [curve["predicted"] for curve in curves if "predicted" in curve]
    assert len(bands) == 4  # of high_dimensional at each point
    assert all(
        low < high for band in bands for low, high in zip(band["low"][1:], band["high"][1:], strict=True)
    )
    assert service.get(url, params={"format": "svg"}).content.startswith(b"<?xml")


def test_phase_diagram_of_scaling_sweep(service):
    sweep_id = service.complete({
        "scaling": {"p0": 2, "gamma0": 1}, "axes": {"d": [5, 8, 12], "kappa": 0.0, "delta": [0.0, 0.5]},
        "fixed": {"k": 2, "noise": 0.01}, "init": {"kind": "informed"}, "time": {"max": 1.0, "samples": 5},
    })  # fmt: skip
    content = service.get(f"/v1/sweeps/{sweep_id}/figures/plane").json()
    assert content["coords"]["delta"]["data"] == [0.0, 0.5]
    assert set(content["data_vars"]["phase"]["data"]) <= {"perfect", "plateau", "bad", "undecided"}
    answer = service.get(f"/v1/sweeps/{sweep_id}/figures/plane", params={"format": "svg"})
    assert answer.content.startswith(b"<?xml")


def test_url_is_a_permalink(get, tmp_path, service, sweep_id):
    first = get("curves", format="svg", d="5")
    again = get("curves", format="svg", d="5")
    assert again.content == first.content
    assert again.headers["etag"] == first.headers["etag"]
    for other in ({"d": "8"}, {"d": "5", "observable": "cosine"}, {"d": "5", "format": "png"}):
        assert get("curves", **{"format": "svg", **other}).headers["etag"] != first.headers["etag"]
    seen = get("curves", format="svg", d="5", headers={"If-None-Match": first.headers["etag"]})
    assert (seen.status_code, seen.content) == (304, b"")
    assert seen.headers["etag"] == first.headers["etag"]
    renderer = figures.FigureRenderer(service.conductor_thread)  # with an empty cache, as after a restart
    tag = compute_etag(renderer.service, sweep_id, "curves", "svg", [("d", "5")])
    assert f'"{tag}"' == first.headers["etag"]
    assert renderer.render(sweep_id, "curves", "svg", {"d": "5"}) == first.content
    renderer.close()


def test_etag_changes_with_data(held):
    sweep_id = held.submit(distinct_spec(1))
    before = held.get(f"/v1/sweeps/{sweep_id}/curves")
    held.executor.let()
    held.wait_for_state(sweep_id, "completed")
    after = held.get(f"/v1/sweeps/{sweep_id}/curves", headers={"If-None-Match": before.headers["etag"]})
    assert after.status_code == 200
    assert after.headers["etag"] != before.headers["etag"]
    assert before.json() != after.json()


def test_figure_cache_is_bounded(service, sweep_id):
    renderer = figures.FigureRenderer(service.conductor_thread, cache_bytes=30_000)
    for seed in range(2):
        for repeat in range(2):
            options = {"seed": str(seed), "repeat": str(repeat)}
            tag = compute_etag(renderer.service, sweep_id, "curves", "json", sorted(options.items()))
            renderer._render_cached(tag, partial(renderer.render, sweep_id, "curves", "json", options))
            assert renderer._cached_bytes == sum(map(len, renderer._cache.values())) <= 30_000
    assert renderer._cache
    renderer.close()


def test_concurrent_figures(service, sweep_id):
    url = f"/v1/sweeps/{sweep_id}/curves?format=png"
    with ThreadPoolExecutor(8) as pool:
        items = list(pool.map(lambda d: service.get(f"{url}&d={d}").content, [5, 8] * 8))
    assert len(set(items)) == 2
    assert items[0] == service.get(f"{url}&d=5").content


def test_too_many_concurrent_figures_are_rejected(tmp_path, monkeypatch):
    gate = threading.Event()
    with serving(tmp_path) as service:
        service.app.state.figure_renderer.max_queued = 1
        sweep_id = service.complete(distinct_spec(2))
        monkeypatch.setattr(figures, "_render", lambda *args: b"{}" if gate.wait(30) else b"")
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(service.get, f"/v1/sweeps/{sweep_id}/curves")
            while service.app.state.figure_renderer._queued == 0:
                pass
            answer = service.get(f"/v1/sweeps/{sweep_id}/curves?seed=0")
            gate.set()
            assert_problem(answer, 503)
            assert answer.headers["retry-after"] == "5"
            assert first.result().status_code == 200
        assert service.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    ("part", "params", "field"),
    [
        ("figures/odd", {}, "view"), ("figures/curves", {"axes": "1"}, "selection"),
        ("figures/plane", {}, "kappa"), ("figures/triangle", {}, "triangle"),
        ("figures/rates", {"of": "odd"}, "of"),
        ("figures/collapse", {"kind": "odd"}, "kind"), ("figures/cosines", {}, "d"),
        ("figures/histograms", {"source": "odd"}, "source"), ("curves", {"format": "gif"}, "format"),
        ("phase-diagram", {"x": "triangle"}, "triangle"), ("figures/rates", {"b": "sgd"}, "b"),
        ("figures/rates", {"source": "sgd"}, "source"),
        ("figures/histograms", {"student_other": "0"}, "selection"),
        ("figures/rates", {"of": "final_risk", "a": "sgd"}, "a"),
        ("figures/rates", {"of": "final_risk", "b": "classical_noise"}, "b"),
        ("figures/cosines", {"d": "5", "gamma": "0.1", "teacher": "0", "format": "png"}, "cosines"),
        ("figures/phase-diagram", {"x": "d", "y": "gamma", "axes": "1"}, "selection"),
    ],
)  # fmt: skip
def test_views_without_data_are_rejected(get, part, params, field):
    assert_problem(get(part, **params), 422, field=field)


@pytest.mark.parametrize("view", QUERIES)
def test_views_limit_size_of_json(get, view, monkeypatch):
    """One limit for all views; curves have their own, which is checked before reading."""
    monkeypatch.setattr("sweep_service.analysis.curves.MAX_STORED_NUMBERS", 3)
    monkeypatch.setattr("sweep_service.analysis.views.MAX_JSON_NUMBERS", 3)
    options = {**QUERIES[view], "p": "4"}  # not cached
    assert_problem(
        get(f"figures/{view}", **options), 422, "must be at most 3 numbers: select some of", field=view
    )
    if view != "curves":
        assert get(f"figures/{view}", **options, format="svg").status_code == 200


def test_catalogue_lists_every_view(service):
    content = service.get("/v1/catalogue").json()["views"]
    assert [view["name"] for view in content] == list(VIEWS)


def test_openapi_lists_every_view(service, get):
    described = service.get("/openapi.json").json()["paths"]["/v1/sweeps/{id}/figures/{view}"]["get"]
    view = next(parameter for parameter in described["parameters"] if parameter["name"] == "view")
    assert view["schema"]["enum"] == list(VIEWS)
    assert_problem(get("figures/curve"), 422, "did you mean 'curves'?", "histograms", field="view")
