"""The atlas and comparisons over HTTP, in the client and against the data folder itself."""

import io

import numpy as np
import pyarrow.parquet as pq
import pytest

import sweep_service as ss
from sweep_service.store.run_index.files import load_index
from tests.analysis.atlas.folders import SPECS
from tests.api.served import assert_problem, serving, until


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("atlas")) as service:
        service.ids = {name: service.complete({"name": name, **spec}) for name, spec in SPECS.items()}
        yield service


@pytest.fixture(scope="module")
def local(running):
    return ss.atlas(running.folder.root)


def atlas(running, part="", **params):
    return running.get(f"/v1/atlas{part}", params=params)


def test_facets(running, local):
    answer = atlas(running, p="4,6", kind="sgd")
    assert answer.json() == local.select(p=[4, 6], kind="sgd").facets()
    again = running.get(
        "/v1/atlas", params={"p": "4,6", "kind": "sgd"}, headers={"If-None-Match": answer.headers["etag"]}
    )
    assert again.status_code == 304
    assert_problem(atlas(running, p=5), 422, "p", "available: 4, 6, 8")
    assert_problem(atlas(running, width=5), 422, "selection", "must be one of")


def test_runs_in_pages_and_files(running, local):
    rows, cursor = [], {}
    while cursor is not None:
        page = atlas(running, "/runs", d=5, limit=7, **cursor).json()
        rows += page["runs"]
        cursor = {"cursor": page["next"]} if page["next"] else None
    frame = local.select(d=5).frame()
    assert page["total"] == len(rows) == len(frame)
    assert [row["key"] for row in rows] == frame["key"].tolist()
    assert [row["final_risk"] for row in rows] == frame["final_risk"].tolist()
    table = pq.read_table(io.BytesIO(atlas(running, "/runs", d=5, format="parquet").content))
    assert table.equals(local.select(d=5).table())
    text = atlas(running, "/runs", d=5, format="csv").text.splitlines()
    assert len(text) == len(frame) + 1
    assert frame["key"][0] in text[1]
    assert_problem(atlas(running, "/runs", cursor="x"), 422, "cursor", "must be `next`")


def test_phase_diagram(running, local):
    query = {"x": "gamma", "y": "p", "value": "sgd_final_risk", "d": 8}
    answer = atlas(running, "/phase-diagram", **query).json()
    expected = local.phase_diagram(**query)
    assert answer["form"] == "points"
    assert [point["value"] for point in answer["points"]] == expected.values.tolist()
    assert [point["standard_error"] for point in answer["points"]] == expected.standard_error.values.tolist()
    for format, begin in (("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")):
        assert atlas(running, "/phase-diagram", **query, format=format, scale="log").content.startswith(begin)
    assert_problem(atlas(running, "/phase-diagram", x="gamma", y="p"), 422, "d", "select one of 5, 8")
    assert_problem(atlas(running, "/phase-diagram", x="gamma"), 422, "y", "is required")
    assert_problem(atlas(running, "/triangle"), 422, "delta_t", "must be selected")


def test_curves_of_sweeps_on_each_other(running, local):
    ids = running.ids
    query = {"d": 5, "p": 4, "gamma": 0.1, "sweep": f"{ids['small']},{ids['mixed']}"}
    apart = atlas(running, "/curves", **query, by_sweep="true").json()["curves"]
    runs = {curve["sweeps"][0]: curve["runs"] for curve in apart if curve["source"] == "sgd"}
    assert runs == {ids["small"]: 4, ids["mixed"]: 6}
    together = atlas(running, "/curves", **query).json()["curves"]
    assert [curve["runs"] for curve in together] == [6, 3]
    assert atlas(running, "/curves", **query, format="png").content.startswith(b"\x89PNG")


def test_remote_atlas_is_the_local_one(running, local):
    remote = ss.atlas(running.url)
    assert len(remote) == len(local)
    assert remote.select(p=slice(4, 6)).facets() == local.select(p=slice(4, 6)).facets()
    assert remote.select(d=8).frame().equals(local.select(d=8).frame())
    ours, theirs = (one.select(d=8, gamma=0.1).dataset() for one in (remote, local))
    assert ours.identical(theirs)
    assert remote.curves(d=8, p=4, gamma=0.1) == local.curves(d=8, p=4, gamma=0.1)
    diagram = remote.phase_diagram("gamma", "p", "sgd_risk", d=8)
    assert diagram.identical(local.phase_diagram("gamma", "p", "sgd_risk", d=8))


def test_comparison(running):
    a, b = running.ids["small"], running.ids["wide"]
    answer = running.get(
        "/v1/compare", params={"a": a, "b": running.ids["mixed"], "value": "sgd_risk", "d": 5}
    )
    paths = [running.folder.dataset_path(running.ids[name]) for name in ("small", "mixed")]
    expected = ss.compare(*paths, "sgd_risk", d=5)
    content = answer.json()
    assert content["labels"] == ["p", "gamma"]
    np.testing.assert_array_equal([point["ratio"] for point in content["points"]], expected.ratio)
    assert [point["paired"] for point in content["points"]] == [True]
    assert ss.Client(running.url).compare(a, running.ids["mixed"], d=5) == content
    assert_problem(running.get("/v1/compare", params={"a": a, "b": b}), 422, "b", "no point in common")
    assert_problem(running.get("/v1/compare", params={"a": a, "b": "none"}), 404)
    assert_problem(running.get("/v1/compare", params={"a": a, "b": b, "how": "x"}), 422, "how")


def test_new_running_and_deleted_sweeps(running):
    """A new sweep is seen at once, and a deleted one no longer."""
    before = atlas(running).json()
    spec = {**SPECS["small"], "axes": {**SPECS["small"]["axes"], "gamma": [0.7]}}
    sweep_id = running.complete(spec)
    after = atlas(running).json()
    assert (after["sweeps"], after["runs"]) == (4, before["runs"] + 12)
    until(lambda: load_index(running.folder, sweep_id) is not None)
    assert running.delete(f"/v1/sweeps/{sweep_id}").status_code == 204
    assert atlas(running).json() == before


def test_a_live_sweep_is_in_the_atlas(held):
    sweep_id = held.submit({**SPECS["small"], "name": "live"})
    facets = atlas(held, sweep=sweep_id).json()
    status = next(facet for facet in facets["parameters"] if facet["name"] == "status")
    assert status["values"] == [{"value": "pending", "runs": 24, "selected": False}]


def test_damaged_index_is_rebuilt(tmp_path):
    with serving(tmp_path) as service:
        sweep_id = service.complete(SPECS["small"])
        until(lambda: load_index(service.folder, sweep_id) is not None)
        facets = atlas(service).json()
    path = service.folder.root / "sweeps" / f"{sweep_id}.index.parquet"
    content = path.read_bytes()
    path.write_bytes(content[:500] + b"?" + content[501:])
    with serving(tmp_path) as service:
        assert atlas(service).json() == facets
        until(lambda: load_index(service.folder, sweep_id) is not None)
