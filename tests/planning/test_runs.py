"""Runs: numbering, and run keys of everything that the values depend on."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep_service import integrate
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.errors import InvalidInput
from sweep_service.planning.grids import Grid
from sweep_service.planning.keys import KEY_DTYPE, CopyGroups, run_keys
from sweep_service.planning.plan import SweepPlan
from sweep_service.planning.runs import NO_POSITION, Run, RunTable
from sweep_service.planning.spec import SweepSpec

BASE = {
    "axes": {"d": [8, 12], "p": [2, 4], "gamma": [0.1, 1.0], "regime": ["classical", "high_dimensional"]},
    "fixed": {"k": 2, "noise": 0.1},
    "init": {"kind": "informed", "shared": True},
    "seeds": {"init": 2, "repeat": 3},
    "time": {"max": 1.0, "min": 0.1, "samples": 3},
}


def grid(**change):
    return Grid.of(SweepSpec.parse({**BASE, **change}))


def labelled(sweep_grid):
    """Return run keys by kind, values of the point, seed, and repeat or regime."""
    plan, keys = SweepPlan(sweep_grid), {}
    points = [
        tuple(sorted({**sweep_grid.fixed, **sweep_grid.row(index)}.items()))
        for index in range(len(sweep_grid))
    ]
    sgd = itertools.product(points, sweep_grid.seeds, sweep_grid.repeats) if sweep_grid.simulate else ()
    ode = itertools.product(points, sweep_grid.regimes, sweep_grid.seeds)
    for kind, labels in (("sgd", list(sgd)), ("ode", list(ode))):
        assert len(labels) == plan.runs.count(kind) == len(plan.keys[kind])
        keys |= {(kind, *label): bytes(key) for label, key in zip(labels, plan.keys[kind], strict=True)}
    return keys


def keys_of(kind="ode", regime="classical", point=None, init=None, options=None, seed=0):
    """Return the key of a single run."""
    point = {"d": 8, "p": 4, "gamma": 0.1, **(point or {})}
    fixed = {"k": 2, "noise": 0.1, **{name: point.pop(name) for name in list(point) if name not in "dpgamma"}}
    sweep_grid = grid(
        axes={**point, "regime": regime}, fixed=fixed, seeds=[seed], init=init or BASE["init"],
        regime_options=options or {},
    )  # fmt: skip
    return bytes(run_keys(sweep_grid)[kind][0])


# Numbers


def test_runs_are_numbered_with_the_last_index_fastest():
    plan = SweepPlan(grid())
    runs = plan.runs
    assert (runs.count("sgd"), runs.count("ode"), runs.total) == (48, 32, 80)
    assert [runs.table("sgd").run(row) for row in (0, 1, 3, 6, 47)] == [
        Run("sgd", 0, NO_POSITION, 0, 0), Run("sgd", 0, NO_POSITION, 0, 1), Run("sgd", 0, NO_POSITION, 1, 0),
        Run("sgd", 1, NO_POSITION, 0, 0), Run("sgd", 7, NO_POSITION, 1, 2),
    ]  # fmt: skip
    assert [runs.table("ode").run(row) for row in (0, 1, 2, 4, 31)] == [
        Run("ode", 0, 0, 0, NO_POSITION), Run("ode", 0, 0, 1, NO_POSITION), Run("ode", 0, 1, 0, NO_POSITION),
        Run("ode", 1, 0, 0, NO_POSITION), Run("ode", 7, 1, 1, NO_POSITION),
    ]  # fmt: skip
    assert {kind: keys.dtype for kind, keys in plan.keys.items()} == {"sgd": KEY_DTYPE, "ode": KEY_DTYPE}


@pytest.mark.parametrize("kind", ["sgd", "ode"])
def test_numbers_and_tables_are_inverse(kind):
    runs, chance = SweepPlan(grid()).runs, np.random.default_rng(0)
    numbers = chance.permutation(runs.count(kind))[:17]
    table = runs.table(kind, numbers)
    np.testing.assert_array_equal(runs.numbers(kind, table), numbers)
    np.testing.assert_array_equal(runs.numbers(kind, table[5:9]), numbers[5:9])
    for row, number in enumerate(numbers):
        assert runs.find(f"{kind}-{number}") == table.run(row)


def test_table_is_grouped_by_point_and_regime():
    table = SweepPlan(grid()).runs.table("ode")
    pieces = list(table.by_point_and_regime())
    assert [(point, regime) for point, regime, _ in pieces] == list(itertools.product(range(8), range(2)))
    assert all(piece.seed.tolist() == [0, 1] for _, _, piece in pieces)
    assert list(table[:0].by_point_and_regime()) == []
    assert isinstance(pieces[0][2], RunTable)


@pytest.mark.parametrize(
    ("change", "counts"),
    [
        ({"simulate": False}, (0, 32)),
        ({"axes": {"d": 8, "p": 4, "gamma": 1.0}}, (6, 0)),
        ({"simulate": False, "seeds": {"init": 1, "repeat": 9}}, (0, 16)),
    ],
)
def test_only_requested_kinds_have_runs(change, counts):
    plan = SweepPlan(grid(**change))
    assert (plan.runs.count("sgd"), plan.runs.count("ode")) == counts
    assert (len(plan.keys["sgd"]), len(plan.keys["ode"])) == counts
    assert plan.runs.kinds == tuple(kind for kind, count in zip(("sgd", "ode"), counts, strict=True) if count)


# Adding and reordering


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.data())
def test_adding_and_reordering_values_keeps_run_keys(data):
    def more(old, extra):
        return data.draw(st.permutations([*old, *data.draw(st.lists(extra, max_size=2, unique=True))]))

    old = grid()
    new = grid(
        axes={
            "d": more([8, 12], st.integers(13, 99)),
            "p": more([2, 4], st.integers(5, 9)),
            "gamma": more([0.1, 1.0], st.floats(2.0, 9.0)),
            "regime": more(BASE["axes"]["regime"], st.sampled_from(["auto", "mean_field"])),
        },
        seeds={
            "init": more([0, 1], st.integers(2, 9)),
            "repeat": more([0, 1, 2], st.integers(3, 9)),
        },
        observables=data.draw(st.sampled_from([None, ["risk"], ["overlaps"], ["cosine_histogram"]])),
        name=data.draw(st.text("ab")),
    )
    assert labelled(old).items() <= labelled(new).items()


def test_run_key_does_not_depend_on_the_design():
    product = labelled(grid(axes={"d": 8, "p": 4, "gamma": 0.1, "regime": "classical"}))
    listed = labelled(grid(points=[{"d": 8, "p": 4, "gamma": 0.1}], axes={"regime": "classical"}))
    assert product == listed


def test_constant_axis_keeps_run_keys():
    plain = labelled(grid())
    with_axis = grid(
        axes={**BASE["axes"], "noise": [0.1, 0.2], "init.epsilon": [0.1]}, fixed={"k": 2}, init=PLANTED
    )
    without = grid(init=PLANTED)
    keys = {bytes(key) for key in run_keys(with_axis)["sgd"]}
    assert {bytes(key) for key in run_keys(without)["sgd"]} < keys
    assert not keys & set(plain.values())


PLANTED = {"kind": "planted", "shared": True}


# SGD


def test_sgd_keys_differ_for_every_point_seed_and_repeat():
    sweep_grid = grid(
        axes={**BASE["axes"], "noise": [0.0, 0.1], "activation": ["erf", "relu"]}, fixed={"k": 2}
    )
    keys = run_keys(sweep_grid)["sgd"]
    assert len(np.unique(keys)) == len(keys) == 8 * 4 * 6


@pytest.mark.parametrize(
    "change",
    [
        {"d": 9}, {"p": 6}, {"gamma": 0.2}, {"k": 1}, {"noise": 0.2}, {"activation": "relu"},
        {"activation": "relu", "teacher_activation": "erf"},
    ],
    ids=repr,
)  # fmt: skip
def test_every_parameter_changes_the_sgd_key(change):
    assert keys_of("sgd", point=change) != keys_of("sgd")


@pytest.mark.parametrize("kind", ["sgd", "ode"])
@pytest.mark.parametrize(
    "start",
    [{"kind": "informed"}, PLANTED, {**PLANTED, "epsilon": 0.2}, {**BASE["init"], "teacher": {"rho": 0.5}}],
    ids=repr,
)  # fmt: skip
def test_start_changes_the_key(kind, start):
    assert keys_of(kind, init=start) != keys_of(kind)


@pytest.mark.parametrize("kind", ["sgd", "ode"])
def test_seed_changes_the_key(kind):
    assert keys_of(kind, seed=1) != keys_of(kind, seed=0)


@pytest.mark.parametrize("change", [{"max": 2.0}, {"min": 0.2}, {"samples": 4}, {"tail": 2}], ids=repr)
@pytest.mark.parametrize("kind", ["sgd", "ode"])
def test_times_change_the_key(kind, change):
    first, second = grid(), grid(time={**BASE["time"], **change})
    assert not np.any(run_keys(first)[kind] == run_keys(second)[kind])


@pytest.mark.parametrize("observables", [["risk"], ["overlaps"], ["cosine", "off_diagonal_rms"]], ids=repr)
def test_observables_do_not_change_the_key(observables):
    assert labelled(grid(observables=observables)) == labelled(grid())


@pytest.mark.parametrize("option", [{"finite_d_factor": True}, {"qmc_points": 64}], ids=repr)
def test_regime_options_change_only_ode_keys(option):
    plain, changed = run_keys(grid()), run_keys(grid(regime_options=option))
    assert np.all(plain["sgd"] == changed["sgd"])
    assert not np.any(plain["ode"] == changed["ode"])


@pytest.mark.parametrize("change", [{"gamma": 0.3}, {"noise": 0.3}, {"activation": "relu"}], ids=repr)
def test_points_with_equal_starts_and_different_dynamics_have_different_keys(change):
    base = {"d": 8, "p": 4, "gamma": 0.1, "k": 2, "noise": 0.1, "activation": "erf"}
    first, second = (
        grid(axes={"regime": "high_dimensional"}, fixed=values, init={"kind": "gaussian"}).point(0)
        for values in (base, {**base, **change})
    )
    assert first.init.key(first.shape, 3) == second.init.key(second.shape, 3)
    np.testing.assert_array_equal(first.start(3).overlaps.Q, second.start(3).overlaps.Q)
    for kind in ("sgd", "ode"):
        assert keys_of(kind, "high_dimensional", change) != keys_of(kind, "high_dimensional")


def test_weights_are_rejected_in_a_sweep():
    """Equal overlaps in other coordinates follow another path, which the key would not show."""
    init = {"kind": "weights", "W": np.eye(3, 5).tolist(), "W_star": np.eye(2, 5).tolist()}
    with pytest.raises(InvalidInput) as info:
        grid(axes={"d": 5, "p": 3, "gamma": 0.5}, init=init, seeds=1)
    assert info.value.field == "init.kind"


# ODEs: parameters that a regime does not depend on are not in its key

# among d, gamma and noise: those that a regime must not depend on, and those that it must
ONCE = {
    "classical": ({"d", "gamma", "noise"}, set()),
    "classical_noise": ({"d"}, {"gamma", "noise"}),
    "high_dimensional": ({"d"}, {"gamma", "noise"}),
    "mean_field": (set(), {"d", "gamma", "noise"}),
    "mean_field_high_dimensional": ({"d"}, {"gamma", "noise"}),
    "mean_field_projected": ({"d"}, set()),  # q ≡ 0: no D, and noise has no effect
    "mean_field_pde": (set(), {"d"}),
    "high_dimensional_map": (set(), {"d", "gamma", "noise"}),
    "auto": (set(), {"d", "gamma", "noise"}),
}
OTHER = {"d": 12, "gamma": 0.2, "noise": 0.2}


def test_table_of_dependencies_names_every_regime():
    assert set(ONCE) == {"auto", *REGIMES}


@pytest.mark.parametrize("regime", ONCE)
@pytest.mark.parametrize("name", OTHER)
def test_regime_is_computed_once_over_ignored_parameters(regime, name):
    same = keys_of(regime=regime, point={name: OTHER[name]}) == keys_of(regime=regime)
    ignored, needed = ONCE[regime]
    assert same or name not in ignored
    assert not same or name not in needed


@pytest.mark.parametrize("regime", ONCE)
def test_starts_drawn_for_each_d_are_not_shared(regime):
    init = {"kind": "gaussian"}
    assert keys_of(regime=regime, init=init) != keys_of(regime=regime, init=init, point={"d": 12})


GIVEN = {
    "kind": "overlaps", "M": [[0.1, 0.2], [0.3, 0.1], [0.0, 0.4]], "Q": [[1, 0.2, 0], [0.2, 1, 0], [0, 0, 1]],
    "P": [[1, 0], [0, 1]],
}  # fmt: skip


@pytest.mark.parametrize("regime", [name for name, (ignored, _) in ONCE.items() if "d" in ignored])
def test_given_overlaps_are_one_start_for_every_d(regime):
    sweep_grid = grid(
        axes={"d": [8, 12, 40], "p": 3, "gamma": [0.1, 0.2], "regime": regime}, init=GIVEN, seeds=1
    )
    keys = {kind: keys.reshape(3, 2) for kind, keys in run_keys(sweep_grid).items()}
    assert np.all(keys["ode"] == keys["ode"][0])
    assert len(np.unique(keys["sgd"])) == 6
    if regime == "mean_field_projected":  # defined only for starts in the span of the teacher
        return
    first, second = (
        integrate(sweep_grid.point(index), times=[0.0, 2.0], regime=regime, overlaps=True) for index in (0, 4)
    )
    for variable in first.data_vars:
        np.testing.assert_array_equal(first[variable], second[variable], err_msg=variable)


@pytest.mark.parametrize("name", ["M", "Q", "P"])
def test_every_given_overlap_changes_the_key(name):
    changed = {**GIVEN, name: (1.01 * np.array(GIVEN[name])).tolist()}
    for kind in ("sgd", "ode"):
        assert keys_of(kind, point={"p": 3}, init=changed) != keys_of(kind, point={"p": 3}, init=GIVEN)


@pytest.mark.parametrize("regime", ["high_dimensional", "classical_noise", "mean_field_high_dimensional"])
def test_finite_d_factor_adds_d_to_the_key(regime):
    option = {"finite_d_factor": True}
    assert keys_of(regime=regime, options=option) != keys_of(regime=regime, options=option, point={"d": 12})


@pytest.mark.parametrize("regime", ONCE)
@pytest.mark.parametrize("change", [{"p": 6}, {"k": 1}, {"activation": "relu"}], ids=repr)
def test_every_regime_depends_on_widths_and_activations(regime, change):
    assert keys_of(regime=regime, point=change) != keys_of(regime=regime)


def test_regimes_have_different_keys():
    assert len({keys_of(regime=regime) for regime in ONCE}) == len(ONCE)


@pytest.mark.parametrize("finite_d", [False, True])
@pytest.mark.parametrize("name", OTHER)
@pytest.mark.parametrize("regime", REGIMES)
def test_equal_ode_keys_mean_equal_values(regime, name, finite_d):
    options = {"finite_d_factor": finite_d}
    base = {"d": 8, "p": 4, "gamma": 0.1, "k": 2, "noise": 0.1, "init": BASE["init"]}
    first, second = (
        integrate(point, times=[0.0, 0.5, 2.0], regime=regime, regime_options=options, overlaps=True)
        for point in (base, {**base, name: OTHER[name]})
    )
    equal = all(np.array_equal(first[variable], second[variable]) for variable in first.data_vars)
    same = keys_of(regime=regime, options=options, point={name: OTHER[name]}) == keys_of(
        regime=regime, options=options
    )
    assert equal or not same


# Copies


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 6), max_size=30), st.randoms(use_true_random=False))
def test_copies_cover_every_run_exactly_once(names, order):
    keys = np.array([bytes([name]) * 16 for name in names], dtype=KEY_DTYPE)
    copies = CopyGroups(keys)
    first = copies.first_runs()
    assert first.tolist() == sorted({names.index(name) for name in names})
    rows, numbers = copies.expand(first)
    assert sorted(numbers.tolist()) == list(range(len(names)))
    assert [names[first[row]] for row in rows] == [names[number] for number in numbers]

    # Any subset in any order.
    subset = np.array(order.sample(first.tolist(), len(first) // 2), dtype=np.int64)
    rows, numbers = copies.expand(subset)
    assert [names[subset[row]] for row in rows] == [names[number] for number in numbers]
    wanted = {names[number] for number in subset}
    assert sorted(numbers.tolist()) == [number for number, name in enumerate(names) if name in wanted]


def test_copies_of_a_regime_without_d_are_computed_once():
    keys = run_keys(grid())["ode"]
    # classical: p and seed; high_dimensional: gamma as well; neither depends on d
    assert len(CopyGroups(keys).first_runs()) == 2 * 2 + 2 * 2 * 2
    rows, numbers = CopyGroups(keys).expand(CopyGroups(keys).first_runs())
    assert sorted(numbers.tolist()) == list(range(32))
    assert np.all(keys[CopyGroups(keys).first_runs()][rows] == keys[numbers])
