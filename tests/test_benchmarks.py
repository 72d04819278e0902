"""The benchmarks compare equal computations and report their results; no assertion depends on time."""

import json

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks.baselines import (
    euler_closed,
    euler_three_point,
    four_point_variance,
    half_pair_sums,
    pair_sums,
    three_point_flow,
)
from benchmarks.cases import CASES
from benchmarks.euler import EULER_STEP, POINT, make_small_flow
from benchmarks.harness import Row, format_table, time_interleaved
from benchmarks.mean_field import make_node_flow, sum_over_pairs
from benchmarks.odes import make_right_hand_side
from benchmarks.sampling import start_overlaps
from benchmarks.sgd_baselines import ACTIVATIONS, numpy_sgd, start_weights
from benchmarks.simulators import Case
from benchmarks.simulators import make_row as make_sgd_row
from sweep_service.dynamics.mean_field.pairwise import PairwiseFlow
from sweep_service.dynamics.options import RegimeOptions
from sweep_service.dynamics.overlap_flow import pack
from sweep_service.dynamics.regimes import REGIMES, Setup
from sweep_service.dynamics.sampling.variance import erf_variance
from sweep_service.model.activations import ACTIVATIONS as PACKAGE_ACTIVATIONS
from sweep_service.model.point import Point
from sweep_service.simulators.kernels.streams import CHUNK, INPUT, NOISE, chain_key, fill_normals
from sweep_service.simulators.simulate import simulate, stream_key

# Two orders of summation of the same few hundred terms of order one.
ROUNDING = {"rtol": 1e-12, "atol": 1e-14}


@pytest.mark.parametrize("teacher", ["orthonormal", {"rho": 0.3, "norms": [1.0, 1.5]}])
def test_three_point_flow_agrees_with_package(teacher):
    flow = make_small_flow({**POINT, "init": {"kind": "gaussian", "teacher": teacher}})
    o = flow.overlaps(flow.y0)
    dM, dQ = np.empty_like(o.M), np.empty_like(o.Q)
    assert flow.sizes.noise > 0.0
    three_point_flow(o.M, o.Q, o.P, flow.sizes.noise, dM, dQ)
    np.testing.assert_allclose(pack(dM, dQ), flow(flow.y0), **ROUNDING)


@pytest.mark.slow
def test_both_euler_forms_take_euler_steps():
    flow = make_small_flow(POINT)
    y = flow.y0.copy()
    for _ in range(20):
        y = y + EULER_STEP * flow(y)
    o = flow.overlaps(flow.y0)
    stops = np.array([5, 20])
    closed = euler_closed(flow.sizes, flow.work, flow.y0, EULER_STEP, stops)
    np.testing.assert_allclose(closed[-1], y, **ROUNDING)
    np.testing.assert_allclose(
        pack(*euler_three_point(o.M, o.Q, o.P, flow.sizes.noise, EULER_STEP, 20)),
        closed[-1],
        **ROUNDING,
    )


@pytest.mark.parametrize("sums", [pair_sums, half_pair_sums], ids=["all", "half"])
@pytest.mark.parametrize("D", [3, None])
@pytest.mark.parametrize("k", [1, 2])
def test_loop_over_pairs_agrees_with_package(k, D, sums):
    flow = make_node_flow(400 if k == 1 else 1500, k, D)  # widths at which nodes are chosen
    result = sum_over_pairs(flow, sums, flow.y0, nodes=32)
    np.testing.assert_allclose(result, PairwiseFlow(flow.system, *flow.start, 32)(flow.y0), **ROUNDING)
    # the error of the nodes of λ* is a few 1e-7 at D = 3
    np.testing.assert_allclose(result, flow(flow.y0), atol=1e-6 * np.max(np.abs(result)))


@pytest.mark.parametrize(("p", "k"), [(1, 1), (7, 2), (12, 3)])
def test_four_point_sum_agrees_with_package(p, k):
    o = start_overlaps(p, k)
    np.testing.assert_allclose(four_point_variance(o.M, o.Q, o.P), erf_variance(o.M, o.Q, o.P), rtol=1e-10)


@pytest.mark.parametrize("regime", ["classical_noise", "high_dimensional"])
def test_right_hand_side_of_users_agrees_with_package(regime):
    point = Point.parse({"d": 30, "p": 9, "k": 2, "gamma": 3.0, "noise": 0.1})
    flow = REGIMES[regime].make_flow(Setup(point, point.start(0), 0, RegimeOptions()))
    np.testing.assert_allclose(make_right_hand_side(flow)(0.0, flow.y0), flow(flow.y0), **ROUNDING)


LONG = (
    "prices",
    "full_model",
    "cluster",
    "cheap_points",
    "service",
    "page",
    "estimates",
    "fluctuations",
    "time_left",
)  # start processes, or compute for many seconds


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in LONG else []) for name in CASES]
)
def test_quick_benchmark_writes_json_lines(name, tmp_path, capsys):
    output = tmp_path / "results.jsonl"
    assert main([name, "--quick", "--output", str(output)]) == 0
    rows = [json.loads(line) for line in output.read_text("utf-8").splitlines()]
    shown = capsys.readouterr().out
    assert rows
    for row in rows:
        assert row["name"].startswith(f"{name}/")
        assert row["name"] in shown
        assert row["ratio"] == pytest.approx(row["baseline_seconds"] / row["ours_seconds"])
        assert row["cpu"]
        assert row["versions"]["numba"]
        assert row["passed"] is None  # small sizes have no bar
        if row["ours_error"] is not None:
            assert row["ours_error"] < (0.1 if "qmc" in row["name"] else 1e-6)


def test_unknown_name_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["eulre"])
    assert "eulre" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("bar", "passed"),
    [
        ({}, None),
        ({"floor": 2.0}, True),
        ({"floor": 5.0}, False),
        ({"floor": 2.0, "most_error": 1e-4}, True),
        ({"floor": 2.0, "most_error": 1e-8}, False),
        ({"limit": 1.5}, True),
        ({"limit": 0.5}, False),
    ],
)
def test_bars(bar, passed):
    row = Row("case/row", "ours", 1.0, "theirs", np.float64(4.0), ours_error=1e-6, **bar)
    assert row.passed is passed
    assert json.loads(json.dumps(row.content()))["passed"] is passed
    assert ("MISSED" in format_table([row])) is (passed is False)


def test_timing_respects_budget():
    now, turns = [0.0], []

    def takes(seconds, name):
        turns.append(name)
        now[0] += seconds
        return name

    best = time_interleaved(
        lambda: takes(1.0, "a"), lambda: takes(4.0, "b"), repeats=3, budget=3.0, clock=lambda: now[0]
    )
    assert turns == ["a", "b", "a", "a"]
    assert [(timed.seconds, timed.value) for timed in best] == [(1.0, "a"), (4.0, "b")]


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
@pytest.mark.parametrize(("p", "k", "d"), [(10, 2, 3), (3, 4, 17)])
def test_numpy_loop_agrees_with_step_loop(name, p, k, d):
    steps, point = 200, Case(p, k, d, name).point
    key = chain_key(stream_key(point, 0, 0))
    x, z = np.empty(-(-steps * d // CHUNK) * CHUNK), np.empty(-(-steps // CHUNK) * CHUNK)
    fill_normals(key, INPUT, 0, 1.0 / np.sqrt(d), x)
    fill_normals(key, NOISE, 0, 1.0, z)
    W, W_star = start_weights(point)
    began = W.copy()
    numpy_sgd(point, W, W_star, zip(x[: steps * d].reshape(steps, d), z[:steps], strict=True))
    ds = simulate(point, times=[steps * point.delta_t], engine="S1", overlaps=True)
    M, Q = ds.overlap_student_teacher[0], ds.overlap_student[0]
    np.testing.assert_allclose(W @ W_star.T / d, M, rtol=0.0, atol=1e-12)
    np.testing.assert_allclose(W @ W.T / d, Q, rtol=0.0, atol=1e-12)
    assert np.max(np.abs(W - began)) > 0.01  # it moved


def test_baseline_covers_every_activation():
    assert set(ACTIVATIONS) == set(PACKAGE_ACTIVATIONS)


def test_sgd_row_has_cost_per_step():
    row = make_sgd_row(Case(5, 1, 4, seeds=2), quick=True)
    assert row.name == "sgd/p5-k1-d4-x2"
    assert row.ns_per_step == pytest.approx(1e9 * row.ours_seconds)
    assert row.gemm_fraction is None
    assert "S1" in row.ours
    shown = format_table([row])
    assert "ns/step" in shown
    assert "of gemm" not in shown


def test_sgd_row_has_gemm_fraction():
    row = make_sgd_row(Case(40, 2, 40, engine="S2", gemm=True), quick=True)
    assert 0.0 < row.gemm_fraction < 1.0
    assert f"{row.gemm_fraction:.0%}" in format_table([row])


def test_chart_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    from benchmarks.chart import main as draw

    output = tmp_path / "cost.png"
    draw(["--quick", "--output", str(output)])
    assert output.read_bytes().startswith(b"\x89PNG")
