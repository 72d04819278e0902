"""Sweeps with a target error: what the pilot decides, and that it is decided alike after any crash."""

import json
import signal

import numpy as np
import pytest
import xarray as xr

from sweep_service.cli.answers import DONE
from sweep_service.errors import InvalidInput
from sweep_service.execution.rounds import predict_scatter, read_draws
from sweep_service.execution.submission import Submission
from sweep_service.planning.estimate import Limits
from sweep_service.planning.grids import Grid
from sweep_service.planning.growth.target_error import PREDICTED
from sweep_service.planning.spec import SweepSpec
from sweep_service.status import Status
from sweep_service.store.ledger import State
from tests.chaos.crashes import run
from tests.cli.commands import run_command
from tests.execution.conducting import load_dataset, open_conductor, run_sweep

SPEC = {
    "axes": {"d": 6, "p": 4, "gamma": [0.1, 0.5, 1.0]},
    "fixed": {"k": 2, "noise": 1e-2, "regime": "high_dimensional"},
    "seeds": {"init": [3, 1, 4, 8, 5], "repeat": 2},
    "time": {"max": 5.0, "samples": 4},
    "observables": ["risk"],
    "target_error": {"relative": 0.2225, "max_seeds": 12},
}


def make_spec(**change):
    return SweepSpec.parse({**SPEC, **change})


def test_pilot_decides_the_seeds_of_each_point(conductor, computed_jobs):
    sweep = run_sweep(conductor, make_spec())
    dataset = load_dataset(conductor, sweep)
    assert dataset.seed.values.tolist() == [3, 1, 4, 8, 5, 0, 2, 6, 7, 9, 10, 11]
    assert sweep.state is State.COMPLETED
    draws = dataset.sgd_risk.isel(time=-1).mean("repeat").squeeze(drop=True).transpose("gamma", "seed").values
    logarithms = np.log(draws[:, :5])
    wanted = np.clip(np.ceil((np.std(logarithms, axis=1, ddof=1) / 0.2225) ** 2), 5, 12)
    counts = np.sum(np.isfinite(draws), axis=1)
    assert counts.tolist() == wanted.tolist()
    assert 5 < counts.min() < counts.max() < 12
    done = (dataset.sgd_status == Status.DONE).squeeze(drop=True).all("repeat")
    done = done.transpose("gamma", "seed").values
    np.testing.assert_array_equal(done, np.arange(12) < wanted[:, None])
    assert set(np.unique(dataset.sgd_status)) == {Status.DONE, Status.SKIPPED}
    # theories are computed for the pilot
    assert int((dataset.ode_status == Status.DONE).sum()) == 3 * 5
    rounds = conductor.folder.rounds(sweep.id)
    assert rounds.is_complete
    assert [round.seeds.tolist() for round in rounds.rounds] == [[5, 5, 5], wanted.tolist()]
    rows = rounds.summarise(conductor.folder.plan(sweep.id))
    assert [row["runs"] for row in rows] == [3 * 5 * 2 + 3 * 5, 2 * int(np.sum(wanted - 5))]
    estimates = dataset.sweep.target_estimates()
    assert estimates.seeds.squeeze().values.tolist() == wanted.tolist()
    np.testing.assert_allclose(estimates.estimate.squeeze(), np.exp(np.nanmean(np.log(draws), axis=1)))
    assert np.all((estimates.low < estimates.estimate) & (estimates.estimate < estimates.high))


def test_values_are_those_of_a_sweep_with_these_seeds(conductor):
    with_target = load_dataset(conductor, run_sweep(conductor, make_spec()))
    plain = run_sweep(
        conductor,
        make_spec(target_error=None, seeds={"init": with_target.seed.values.tolist(), "repeat": 2}),
    )
    assert plain.reused > 3 * 5 * 2  # stored seeds are reused, and the others computed
    other = load_dataset(conductor, plain)
    is_done = with_target.sgd_status == Status.DONE
    xr.testing.assert_equal(with_target.sgd_risk, other.sgd_risk.where(is_done))


def test_pilot_that_is_stored_is_not_computed_again(conductor, computed_jobs):
    run_sweep(conductor, make_spec(target_error=None))
    computed_jobs.clear()
    sweep = run_sweep(conductor, make_spec())
    assert sweep.state is State.COMPLETED
    assert all(min(job.seeds) >= 5 for _, job in computed_jobs)
    assert conductor.folder.rounds(sweep.id).is_complete


def test_predicted_scatter_is_used_where_the_starts_are_equal(conductor):
    """Starts with given overlaps do not scatter, so the linear theory gives all of the scatter."""
    overlaps = {
        "kind": "overlaps", "M": [[0.6, 0.1], [0.15, 0.5]], "Q": [[0.67, 0.14], [0.14, 0.4725]],
        "P": [[1.0, 0.0], [0.0, 1.0]],
    }  # fmt: skip
    spec = make_spec(
        axes={"d": 50, "p": 2, "gamma": 1.0}, fixed={"k": 2, "noise": 0.01, "regime": "high_dimensional"},
        init=overlaps, fluctuations=True, seeds=5, target_error={"relative": 0.02, "max_seeds": 60},
    )  # fmt: skip
    sweep = run_sweep(conductor, spec)
    (_, last) = conductor.folder.rounds(sweep.id).rounds
    assert last.basis == [PREDICTED]
    dataset = conductor.folder.dataset(sweep.id)
    scatter = predict_scatter(dataset)
    draws = np.log(read_draws(dataset, "risk", int(last.seeds[0])))
    assert 5 < last.seeds[0] < 60
    # 20 % is twice the error of a standard deviation of so many draws
    assert scatter[0] == pytest.approx(np.std(draws, ddof=1), rel=2.0 / np.sqrt(2 * (last.seeds[0] - 1)))


def test_pause_cancel_and_retry_hold_for_all_rounds(conductor):
    sweep, _ = conductor.submit(make_spec())
    whole = run_sweep(conductor, make_spec(name="same"))
    assert whole.id == sweep.id  # the name is no part of its key
    wanted = load_dataset(conductor, whole)
    conductor.remove(sweep.id)
    again, _ = conductor.submit(make_spec())
    conductor.step(again.id)
    conductor.pause(again.id)
    assert conductor.ledger.sweep(again.id).state is State.PAUSED
    conductor.resume(again.id)
    conductor.step(again.id)
    assert conductor.cancel(again.id).state is State.CANCELLED
    assert Status.PENDING not in conductor.counts(again.id)
    conductor.retry(again.id)
    ended = conductor.run(again.id)
    assert ended.state is State.COMPLETED
    xr.testing.assert_equal(
        load_dataset(conductor, ended).drop_vars(["sgd_seconds", "ode_seconds"]).drop_attrs(),
        wanted.drop_vars(["sgd_seconds", "ode_seconds"]).drop_attrs(),
    )


@pytest.mark.parametrize("harm", ["lost", "damaged"])
def test_rounds_that_are_lost_are_decided_again(tmp_path, harm):
    with open_conductor(tmp_path) as conductor:
        sweep = run_sweep(conductor, make_spec())
        before = conductor.folder.rounds(sweep.id)
        name = f"{sweep.id}.rounds.json"
        if harm == "lost":
            conductor.folder.objects.delete(name)
        else:
            content = conductor.folder.objects.get(name)
            conductor.folder.objects.put(name, content[:40] + b"9" + content[41:])
        assert not conductor.folder.rounds(sweep.id).is_complete
    (tmp_path / "ledger.sqlite").unlink()
    with open_conductor(tmp_path) as conductor:
        assert conductor.rebuild() == [sweep.id]
        conductor.resume(sweep.id)
        assert conductor.run(sweep.id).state is State.COMPLETED
        after = conductor.folder.rounds(sweep.id)
    assert [r.seeds.tolist() for r in after.rounds] == [r.seeds.tolist() for r in before.rounds]


def test_estimate_states_the_most(conductor):
    cost = Submission(make_spec()).summarise_cost(conductor.folder, conductor.ledger, Limits())
    assert (cost["runs"], cost["copies"]) == (3 * 12 * 2 + 3 * 12, 0)
    assert {row["name"]: row["runs"] for row in cost["breakdown"]} == {"sgd": 72, "high_dimensional": 15}
    assert any("5 to 12 seeds" in note for note in cost["notes"])
    plain = Grid.of(make_spec(target_error=None))
    assert Grid.of(make_spec()).key != plain.key
    assert "target_error" not in plain.content


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"target_error": {"max_seeds": 12}}, "target_error"),
        ({"target_error": {"relative": 0.1, "absolute": 1.0, "max_seeds": 12}}, "target_error"),
        ({"target_error": {"relative": 0.1, "max_seeds": 4}}, "target_error.max_seeds"),
        ({"target_error": {"relative": 0.1}}, "target_error.max_seeds"),
        ({"target_error": {"relative": -0.1, "max_seeds": 12}}, "target_error.relative"),
        ({"target_error": {"relative": 0.1, "max_seeds": 12, "value": "rsik"}}, "target_error.value"),
        ({"target_error": {"relative": 0.1, "max_seeds": 12, "value": "cosines"}}, "target_error.value"),
        ({"target_error": {"relative": 0.1, "max_seeds": 12, "seeds": 3}}, "target_error (key)"),
        ({"target_error": 0.1}, "target_error"),
        ({"seeds": 4}, "seeds.init"),
        ({"simulate": False}, "target_error"),
    ],
)
def test_wrong_targets_are_rejected(change, field):
    with pytest.raises(InvalidInput) as info:
        Grid.of(make_spec(**change))
    assert field in [error.field for error in info.value.errors]


SLOW_FAULTS = [
    "round:decided", "round:skipped", "finish:state", "submit:reuse", "task:computed#9", "task:part#9",
    "merge:values#9", "merge:status#2", "merge:ledger#9",
]  # fmt: skip


@pytest.mark.parametrize(
    "fault", ["round:stored", *(pytest.param(fault, marks=pytest.mark.slow) for fault in SLOW_FAULTS)]
)
def test_killed_sweep_comes_to_the_same_points(tmp_path, fault):
    for name in ("killed", "whole"):
        (tmp_path / name).mkdir()
    whole = run(tmp_path / "whole", spec=SPEC)
    killed = run(tmp_path / "killed", spec=SPEC, fault=fault)
    assert killed.code == -signal.SIGKILL, killed
    again = run(tmp_path / "killed", spec=SPEC)
    assert (whole.code, again.code) == (DONE, DONE), again.err
    rounds = [
        json.loads((tmp_path / name / f"sweep-data/sweeps/{answer.json['id']}.rounds.json").read_text())
        for name, answer in (("whole", whole), ("killed", again))
    ]
    assert rounds[0] == rounds[1]
    one, two = (
        xr.open_zarr(tmp_path / name / answer.json["path"], chunks=None).load()
        for name, answer in (("whole", whole), ("killed", again))
    )
    xr.testing.assert_equal(
        one.drop_vars(["sgd_seconds", "ode_seconds"]), two.drop_vars(["sgd_seconds", "ode_seconds"])
    )
    shown = run_command(tmp_path / "whole", "show", whole.json["id"])
    assert "then" in shown.out
    assert "(pilot)" in shown.out
