"""Curves, phase diagrams and other views by HTTP: numbers, figures, and tags that tell them apart."""

import io
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from sweep_service.analysis.curves import curves
from sweep_service.analysis.phase_diagram import as_plain, phase_diagram
from sweep_service.analysis.views import VIEWS
from sweep_service.api.routes import figures
from sweep_service.api.routes.figures import TYPES, state_tag
from sweep_service.text import json_ready
from tests.api.served import another, assert_problem, serving

GOOD = {"x": "d", "y": "gamma"}
QUERIES = {
    "curves": {"d": "5"},
    "phase-diagram": GOOD,
    "rates": {"of": "final_risk", "along": "d"},
    "collapse": {"gamma": "0.1"},
    "cosines": {"d": "5", "gamma": "0.1"},
    "histograms": {"d": "5", "gamma": "0.1", "time": "0,2"},
}  # the others need sweeps of their own design


# ---- numbers


def test_curves_are_those_of_the_analysis(get, stored):
    assert get("curves").json() == json_ready(curves(stored))
    found = get("curves", d="5", gamma="0.1", seed="1").json()
    assert found == json_ready(curves(stored, d=5, gamma=0.1, seed=1))
    sgd, ode = found["curves"]
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
def test_curves_that_are_none(get, params, field):
    assert_problem(get("curves", **params), 422, field=field, without=["odd"])


def test_phase_diagrams_are_those_of_the_analysis(get, stored):
    found = get("phase-diagram", x="d", y="gamma").json()
    assert found == json_ready(as_plain(phase_diagram(stored, "d", "gamma")))
    assert found["form"] == "grid"
    assert np.shape(found["value"]["values"]) == (2, 2)
    late = stored.sgd_risk.sel(time=slice(1.0, None)).mean("time").mean(["seed", "repeat"])
    wanted = late.isel(p=0).transpose("gamma", "d").values
    np.testing.assert_allclose(found["value"]["values"], wanted, rtol=1e-12)
    ode = get("phase-diagram", x="gamma", y="d", value="ode_risk", time="2").json()
    assert ode == json_ready(as_plain(phase_diagram(stored, "gamma", "d", "ode_risk", time="2")))
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
def test_phase_diagrams_that_are_none(get, params, field):
    assert_problem(get("phase-diagram", **params), 422, field=field, without=["odd"])


# ---- figures


@pytest.mark.parametrize("format", TYPES)
@pytest.mark.parametrize("view", QUERIES)
def test_every_view_in_every_format(get, sweep, view, format):
    answer = get(f"figures/{view}", format=format, **QUERIES[view])
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].partition(";")[0] == TYPES[format]
    assert answer.headers["cache-control"] == "no-cache"
    begins = {"json": b"{", "png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[format]
    assert answer.content.startswith(begins)
    if format != "json":
        assert f'filename="{sweep}-{view}.{format}"' in answer.headers["content-disposition"]
        assert len(answer.content) > 3000


def test_a_neuron_that_is_chosen_is_that_neuron(get):
    every = np.array(get("figures/histograms", **QUERIES["histograms"]).json()["data"])
    for name, axis in (("student", -2), ("teacher", -1)):
        answer = get("figures/histograms", **QUERIES["histograms"], **{name: "1"})
        np.testing.assert_array_equal(answer.json()["data"], np.take(every, [1], axis))


def test_the_routes_of_the_contract_are_views(get):
    assert get("curves", d="5").json() == get("figures/curves", d="5").json()
    assert get("phase-diagram", **GOOD).json() == get("figures/phase-diagram", **GOOD).json()
    assert get("curves", format="svg").content == get("figures/curves", format="svg").content


def test_a_figure_says_where_it_comes_from(get, sweep, stored):
    with Image.open(io.BytesIO(get("curves", format="png").content)) as image:
        text = image.text
        assert image.width > 600
    assert sweep in text["Source"]
    assert stored.attrs["key"] in text["Source"]
    assert "k = 2" in text["Description"]


def test_the_triangle_is_a_phase_diagram(service):
    sweep = service.done({
        "triangle": {"delta_t": 0.01, "resolution": 2}, "axes": {"regime": "high_dimensional"},
        "fixed": {"k": 2}, "init": {"kind": "informed"}, "time": {"max": 1.0, "samples": 5},
    })  # fmt: skip
    url, query = f"/v1/sweeps/{sweep}/phase-diagram", {"x": "triangle", "value": "discrepancy"}
    found = service.get(url, params=query).json()
    assert found["form"] == "triangle"
    assert all(abs(one["u_d"] + one["u_p"] + one["u_gamma"] - 1) < 1e-9 for one in found["points"])
    for name in ("figures/triangle", "phase-diagram"):
        words = query if name == "phase-diagram" else {"value": "discrepancy"}
        answer = service.get(f"/v1/sweeps/{sweep}/{name}", params={**words, "format": "png"})
        assert answer.content.startswith(b"\x89PNG")


def test_the_plane_of_a_scaling_sweep(service):
    sweep = service.done({
        "scaling": {"p0": 2, "gamma0": 1}, "axes": {"d": [5, 8, 12], "kappa": 0.0, "delta": [0.0, 0.5]},
        "fixed": {"k": 2, "noise": 0.01}, "init": {"kind": "informed"}, "time": {"max": 1.0, "samples": 5},
    })  # fmt: skip
    found = service.get(f"/v1/sweeps/{sweep}/figures/plane").json()
    assert found["coords"]["delta"]["data"] == [0.0, 0.5]
    assert set(found["data_vars"]["phase"]["data"]) <= {"perfect", "plateau", "bad", "undecided"}
    answer = service.get(f"/v1/sweeps/{sweep}/figures/plane", params={"format": "svg"})
    assert answer.content.startswith(b"<?xml")


def test_a_url_is_a_permalink(get, tmp_path, service, sweep):
    first = get("curves", format="svg", d="5")
    again = get("curves", format="svg", d="5")
    assert again.content == first.content
    assert again.headers["etag"] == first.headers["etag"]
    for other in ({"d": "8"}, {"d": "5", "observable": "cosine"}, {"d": "5", "format": "png"}):
        assert get("curves", **{"format": "svg", **other}).headers["etag"] != first.headers["etag"]
    seen = get("curves", format="svg", d="5", headers={"If-None-Match": first.headers["etag"]})
    assert (seen.status_code, seen.content) == (304, b"")
    assert seen.headers["etag"] == first.headers["etag"]
    painter = figures.Painter(service.engine)  # as after a restart: nothing is kept
    tag = state_tag(painter.engine, sweep, "curves", "svg", [("d", "5")])
    assert f'"{tag}"' == first.headers["etag"]
    assert painter._made(tag, sweep, "curves", "svg", {"d": "5"}) == first.content
    painter.close()


def test_the_tag_changes_with_the_data(held):
    sweep = held.submit(another(1))
    before = held.get(f"/v1/sweeps/{sweep}/curves")
    held.executor.let()
    held.reach(sweep, "completed")
    after = held.get(f"/v1/sweeps/{sweep}/curves", headers={"If-None-Match": before.headers["etag"]})
    assert after.status_code == 200
    assert after.headers["etag"] != before.headers["etag"]
    assert before.json() != after.json()


def test_what_is_kept_has_bounds(service, sweep, monkeypatch):
    monkeypatch.setattr(figures, "ROOM", 30_000)
    painter = figures.Painter(service.engine)
    for seed in range(2):
        for repeat in range(2):
            options = {"seed": str(seed), "repeat": str(repeat)}
            tag = state_tag(painter.engine, sweep, "curves", "json", sorted(options.items()))
            painter._made(tag, sweep, "curves", "json", options)
            assert painter._size == sum(map(len, painter._kept.values())) <= 30_000
    assert painter._kept
    painter.close()


def test_figures_that_are_asked_for_at_once(service, sweep):
    url = f"/v1/sweeps/{sweep}/curves?format=png"
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda d: service.get(f"{url}&d={d}").content, [5, 8] * 8))
    assert len(set(found)) == 2
    assert found[0] == service.get(f"{url}&d=5").content


def test_too_many_at_once_are_told_to_wait(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "MOST_WAITING", 1)
    gate = threading.Event()
    with serving(tmp_path) as service:
        sweep = service.done(another(2))
        monkeypatch.setattr(figures, "_rendered", lambda *args: b"{}" if gate.wait(30) else b"")
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(service.get, f"/v1/sweeps/{sweep}/curves")
            while service.app.state.painter._waiting == 0:
                pass
            answer = service.get(f"/v1/sweeps/{sweep}/curves?seed=0")
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
def test_what_cannot_be_drawn_is_refused(get, part, params, field):
    assert_problem(get(part, **params), 422, field=field)


@pytest.mark.parametrize("view", QUERIES)
def test_no_view_answers_too_many_numbers(get, view, monkeypatch):
    """One place for all but curves, which count what they read before they do."""
    monkeypatch.setattr("sweep_service.analysis.curves.MOST_NUMBERS", 3)
    monkeypatch.setattr("sweep_service.analysis.views.MOST_TOLD", 3)
    words = {**QUERIES[view], "p": "4"}  # none of which was asked for before
    assert_problem(
        get(f"figures/{view}", **words), 422, "must be at most 3 to read: select some of", field=view
    )
    if view != "curves":
        assert get(f"figures/{view}", **words, format="svg").status_code == 200


def test_the_catalogue_names_every_view(service):
    found = service.get("/v1/catalogue").json()["views"]
    assert [one["name"] for one in found] == list(VIEWS)


def test_the_document_names_every_view(service, get):
    described = service.get("/openapi.json").json()["paths"]["/v1/sweeps/{id}/figures/{view}"]["get"]
    view = next(one for one in described["parameters"] if one["name"] == "view")
    assert view["schema"]["enum"] == list(VIEWS)
    assert_problem(get("figures/curve"), 422, "did you mean 'curves'?", "histograms", field="view")
