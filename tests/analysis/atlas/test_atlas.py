"""The atlas of three sweeps that share runs: its union, its selections, its diagrams."""

import numpy as np
import pytest
import xarray as xr

import sweep_service as ss
from sweep_service.errors import InvalidInput, NotFound
from sweep_service.execution.conductor import Conductor
from sweep_service.execution.executors import SerialExecutor
from sweep_service.status import Status
from tests.analysis.atlas.folders import BASE, SPECS, compute_sweeps, iterate_runs


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    return compute_sweeps(tmp_path_factory.mktemp("atlas"), SPECS)


@pytest.fixture(scope="module")
def atlas(stored):
    return ss.atlas(stored[1].root)


@pytest.fixture(scope="module")
def sweeps(stored):
    ids, folder = stored
    return {name: ss.open(folder.dataset_path(sweep_id)).load() for name, sweep_id in ids.items()}


def runs_by_hand(sweeps, kind):
    """All runs of some sweeps by their labels; a run that several contain has one value in all of them."""
    runs = {}
    for dataset in sweeps:
        for labels, status, risk in iterate_runs(dataset, kind):
            np.testing.assert_array_equal(runs.setdefault(labels, (status, risk))[1], risk)
    return runs


@pytest.mark.parametrize("kind", ["sgd", "ode"])
def test_union_is_concatenation_by_hand(atlas, sweeps, kind):
    union = atlas.dataset()
    expected = runs_by_hand(sweeps.values(), kind)
    stored = {labels: risk for labels, status, risk in iterate_runs(union, kind) if status != Status.PENDING}
    assert stored.keys() == expected.keys()
    assert sum(len(list(iterate_runs(sweep, kind))) for sweep in sweeps.values()) > len(expected)
    for labels, risk in stored.items():
        np.testing.assert_array_equal(risk, expected[labels][1])


def test_no_run_twice(atlas, sweeps):
    frame = atlas.frame()
    expected = sum(len(runs_by_hand(sweeps.values(), kind)) for kind in ("sgd", "ode"))
    assert len(atlas) == len(frame) == expected
    assert not frame[frame["kind"] == "sgd"]["key"].duplicated().any()
    # A theory that does not depend on d has one run, which is at the points of both d.
    theory = frame[frame["kind"] == "ode"]
    assert (theory.groupby("key")["d"].nunique() == 2).all()
    assert not theory.duplicated(["key", "d"]).any()


def test_frame_agrees_with_datasets(atlas, sweeps):
    frame = atlas.frame()
    row = frame[(frame.kind == "sgd") & (frame.p == 6) & (frame.gamma == 2.0) & (frame.d == 8)]
    run = sweeps["mixed"].sel(p=6, gamma=2.0, d=8)
    for _, entry in row.iterrows():
        one = run.sel(seed=entry.seed, repeat=int(entry["repeat"]))
        assert entry.initial_risk == one.sgd_risk[0].item()
        assert entry.steps == one.sgd_steps.item()
        assert entry.bound == one.sgd_largest_norm.max().item()
        assert entry.order_parameter == one.sgd_specialisation[-1].item()
        assert entry.delta_t == one.delta_t.item()
        assert (entry.status, entry.engine, entry.last_time) == ("done", "S1", 2.0)
    assert len(row) == 6


@pytest.mark.parametrize("value", ["sgd_risk", "ode_final_risk", "sgd_bound", "sgd_diverged", "sgd_seconds"])
def test_summaries_give_the_diagram_of_the_union(atlas, value):
    """The same means and errors as from the curves of all runs."""
    chosen = atlas.select(d=8)
    ours = chosen.phase_diagram("gamma", "p", value)
    union = chosen.dataset().sweep.phase_diagram(x="gamma", y="p", value=value)
    order = [np.lexsort([diagram.p.values, diagram.gamma.values]) for diagram in (ours, union)]
    ours, union = ours.isel(point=order[0]), union.isel(point=order[1])
    assert ours.sizes["point"] == 8
    for name in ("gamma", "p", "runs"):
        np.testing.assert_array_equal(ours[name], union[name])
    np.testing.assert_allclose(ours, union, rtol=1e-12)
    np.testing.assert_allclose(ours.standard_error, union.standard_error, rtol=1e-9, atol=1e-300)
    assert ours.attrs["fixed"]["d"] == 8


def test_a_sweep_alone_gives_its_own_diagram(stored, atlas, sweeps):
    ours = atlas.select(sweep=stored[0]["mixed"], d=5).phase_diagram("gamma", "p", "sgd_final_risk")
    own = sweeps["mixed"].sweep.phase_diagram(x="gamma", y="p", value="sgd_final_risk", d=5)
    for at in range(ours.sizes["point"]):
        cell = own.sel(gamma=ours.gamma[at], p=ours.p[at])
        np.testing.assert_allclose(ours[at], cell, rtol=1e-12)
        np.testing.assert_allclose(ours.standard_error[at], cell.standard_error, rtol=1e-9)


@pytest.mark.parametrize("how", ["mean", "median", "max"])
def test_reductions_are_those_of_a_sweep(stored, atlas, sweeps, how):
    ours = atlas.select(sweep=stored[0]["mixed"]).phase_diagram("gamma", "p", "sgd_final_risk", d=how)
    own = sweeps["mixed"].sweep.phase_diagram(x="gamma", y="p", value="sgd_final_risk", d=how)
    cells = own.sel(
        gamma=xr.DataArray(ours.gamma.values, dims="point"), p=xr.DataArray(ours.p.values, dims="point")
    )
    np.testing.assert_allclose(ours, cells, rtol=1e-12)
    np.testing.assert_allclose(ours.standard_error, cells.standard_error, rtol=1e-9)
    np.testing.assert_array_equal(ours.runs, cells.runs)


def test_varying_parameters_are_listed(atlas):
    with pytest.raises(
        InvalidInput, match=r"^d = None: varies and is not shown: select one of 5, 8, or reduce"
    ):
        atlas.phase_diagram("gamma", "p")
    with pytest.raises(InvalidInput, match=r"^p = None: varies .* select one of 4, 6, 8"):
        atlas.phase_diagram("gamma", "d", "discrepancy")


def test_discrepancy_over_the_union(atlas, sweeps):
    diagram = atlas.phase_diagram("gamma", "p", "discrepancy", d=8)
    own = sweeps["wide"].sweep.phase_diagram(x="gamma", y="p", value="discrepancy", d=8)
    at = np.flatnonzero((diagram.gamma == 1.0) & (diagram.p == 8))
    np.testing.assert_allclose(diagram[at], own.sel(gamma=1.0, p=8), rtol=1e-12)


def test_selection(atlas):
    assert len(atlas.select(p=4)) == len(atlas.select(p="4:5")) == len(atlas.select(p=slice(None, 5)))
    assert len(atlas.select(gamma=slice(0.1, 1))) == len(atlas.select(gamma=[0.1, 0.5, 1.0]))
    assert len(atlas.select(p=[4, 6]).select(p=[6, 8])) == len(atlas.select(p=6))
    assert {*atlas.select(kind="ode", regime="classical_noise").frame()["kind"]} == {"ode"}
    assert {*atlas.select(regime="classical_noise").frame()["kind"]} == {"sgd", "ode"}
    for where, text in (({"pp": 4}, "did you mean 'p'"), ({"p": 5}, "available: 4, 6, 8"),
                        ({"p": 8, "gamma": 0.5}, "no run has all of these values")):  # fmt: skip
        with pytest.raises(InvalidInput, match=text):
            atlas.select(**where)
    with pytest.raises(InvalidInput, match="not among the values"):
        atlas.select(p=4).select(p=8)


def test_facets_count_the_runs(atlas):
    facets = atlas.select(p=[4, 6]).facets()
    by_name = {facet["name"]: facet for facet in facets["parameters"]}
    frame = atlas.frame()
    chosen = frame[frame.p.isin([4, 6])]
    assert (facets["runs"], facets["sweeps"]) == (len(chosen), 3)
    assert facets["points"] == len(chosen[["d", "p", "gamma"]].drop_duplicates())
    for name in ("gamma", "d", "status", "regime"):
        counts = {entry["value"]: entry["runs"] for entry in by_name[name]["values"]}
        assert counts == chosen[name].value_counts().loc[lambda count: count > 0].to_dict()
    # Of a selected label, all values that could be chosen instead.
    assert [(entry["value"], entry["selected"]) for entry in by_name["p"]["values"]] == [
        (4, True),
        (6, True),
        (8, False),
    ]
    assert by_name["p"]["values"][2]["runs"] == (frame.p == 8).sum()
    assert by_name["gamma"]["range"] == [0.1, 2.0]
    assert by_name["regime"]["missing"] == (chosen.kind == "sgd").sum()


def test_curves_name_their_sweeps(stored, atlas):
    ids = stored[0]
    curves = atlas.curves(p=4, gamma=0.1, d=5)["curves"]
    assert [(curve["source"], curve["runs"]) for curve in curves] == [("sgd", 6), ("ode", 3)]
    assert ids["mixed"] in curves[0]["sweeps"]  # which alone has the third seed
    apart = atlas.curves(p=4, gamma=0.1, d=5, by_sweep=True)["curves"]
    runs = {curve["sweeps"][0]: curve["runs"] for curve in apart if curve["source"] == "sgd"}
    assert runs == {ids["small"]: 4, ids["mixed"]: 6}


def test_other_times(tmp_path):
    """Curves of different grids meet at common times; recorded samples stay as they are."""
    specs = {
        "short": {**BASE, "axes": {**BASE["axes"], "gamma": 0.1}, "time": {"max": 1.0, "samples": 5}},
        "long": {**BASE, "axes": {**BASE["axes"], "gamma": 0.5}, "time": {"max": 4.0, "samples": 40}},
    }
    ids, folder = compute_sweeps(tmp_path, specs)
    atlas = ss.atlas(folder.root)
    union = atlas.dataset()
    long = ss.open(folder.dataset_path(ids["long"]))
    inside = long.time.values[long.time.values <= 1.0]
    np.testing.assert_array_equal(union.time, np.append(inside, 1.0))
    mine = union.isel(point=union.gamma.values == 0.5).sgd_risk.isel(time=slice(0, -1)).sel(seed=0, repeat=1)
    np.testing.assert_array_equal(
        mine.values, long.sgd_risk.sel(seed=0, repeat=1, time=inside).squeeze().values
    )
    assert np.isfinite(union.sgd_risk.values).all()
    theory = atlas.select(gamma=0.1).dataset(times=[0, 0.3, 1.0]).ode_risk.sel(seed=0).values
    exact = ss.integrate(
        {"d": 5, "p": 4, "gamma": 0.1, "k": 2, "noise": 1e-3, "init": BASE["init"]},
        regime="classical_noise", times=[0, 0.3, 1.0], seed=0,
    )  # fmt: skip
    np.testing.assert_allclose(theory[0, 0], exact.risk, rtol=5e-3)  # the grid of five samples is coarse
    with pytest.raises(InvalidInput, match="must be at most 1, which all selected runs reach"):
        atlas.dataset(times=[0, 2.0])
    with pytest.raises(InvalidInput, match=r"^t_max = None: varies .* 1, 4"):
        atlas.phase_diagram("gamma", "d", "sgd_final_risk")
    assert atlas.phase_diagram("gamma", "d", "sgd_final_risk", t_max="mean").sizes["point"] == 4
    assert atlas.phase_diagram("gamma", "d", "sgd_initial_risk").sizes["point"] == 4


def test_one_chain_at_other_times_counts_once(tmp_path):
    specs = {
        "short": {**BASE, "axes": {"d": 5, "p": 4, "gamma": 0.1}},
        "long": {**BASE, "axes": {"d": 5, "p": 4, "gamma": 0.1}, "time": {"max": 4.0, "samples": 8}},
    }
    _, folder = compute_sweeps(tmp_path, specs)
    atlas = ss.atlas(folder.root)
    assert len(atlas) == 8
    assert (atlas.dataset().sgd_status == Status.DONE).sum() == 4
    assert atlas.phase_diagram("gamma", "d", "sgd_final_risk").runs.item() == 4


def test_starts_of_other_kinds_need_a_selection(tmp_path):
    specs = {"one": BASE, "other": {**BASE, "init": {"kind": "planted"}}}
    _, folder = compute_sweeps(tmp_path, specs)
    atlas = ss.atlas(folder.root)
    with pytest.raises(InvalidInput, match=r"^init.kind = None: varies, .* informed, planted"):
        atlas.dataset()
    with pytest.raises(InvalidInput, match=r"^init.kind = None: varies and is not shown"):
        atlas.phase_diagram("gamma", "d")
    union = atlas.select(**{"init.kind": "planted"}).dataset()
    assert union["init.kind"].item() == "planted"


def test_deleted_sweeps_vanish(tmp_path):
    ids, folder = compute_sweeps(tmp_path, SPECS)
    before = len(ss.atlas(folder.root))
    with Conductor(folder, SerialExecutor()) as conductor:
        conductor.remove(ids["wide"])
    assert not [name for name in folder.objects.list_top() if name.startswith(ids["wide"])]
    after = ss.atlas(folder.root)
    assert len(after) < before
    assert ids["wide"] not in {*after.frame()["sweep"]}


def test_empty_folder(tmp_path):
    with pytest.raises(NotFound, match="does not exist"):
        ss.atlas(tmp_path / "none")
    (tmp_path / "sweeps").mkdir()
    atlas = ss.atlas(tmp_path)
    assert len(atlas) == 0
    assert atlas.facets()["runs"] == 0


def test_triangle_of_two_sweeps(tmp_path):
    """Points of both sweeps in one triangle, with the values and places that each has alone."""
    base = {
        "axes": {"regime": "classical_noise"}, "fixed": {"k": 1, "noise": 1e-3}, "init": {"kind": "informed"},
        "seeds": 2, "time": {"max": 1.0, "samples": 4},
    }  # fmt: skip
    specs = {
        f"{resolution}": {**base, "triangle": {"delta_t": 0.01, "resolution": resolution}}
        for resolution in (2, 3)
    }
    ids, folder = compute_sweeps(tmp_path, specs)
    union = ss.atlas(folder.root).triangle("sgd_final_risk")
    points = set()
    for sweep_id in ids.values():
        alone = ss.open(folder.dataset_path(sweep_id)).sweep.triangle("sgd_final_risk")
        for at in range(alone.sizes["point"]):
            point = alone[at]
            place = [(union[name] == point[name]).values for name in ("d", "p", "gamma")]
            (match,) = np.flatnonzero(np.all(place, axis=0))
            points.add(int(match))
            for name in ("u_d", "u_p", "u_gamma", "standard_error"):
                np.testing.assert_allclose(union[name][match], point[name], rtol=1e-12)
            np.testing.assert_allclose(union[match], point, rtol=1e-12)
    assert points == set(range(union.sizes["point"]))
