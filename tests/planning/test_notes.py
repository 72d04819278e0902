"""Notes before a sweep starts: what is left out, and steps of SGD that are longer than the times."""

import pytest

import sweep_service as ss
from sweep_service.errors import InvalidInput
from sweep_service.execution.submission import Submission
from sweep_service.planning.notes import collect_notes
from sweep_service.planning.outline import Outline
from sweep_service.store.folder import DataFolder
from tests.planning.base_spec import BASE, with_axes


def notes_of(**change):
    submission = Submission.read({**BASE, **change})
    return collect_notes(submission.spec, submission.grid)


def test_large_overlaps_are_announced(tmp_path):
    change = {**with_axes(p=[4, 30]), "time": {"max": 10.0, "min": 1.0, "samples": 5}}
    (note,) = notes_of(**change)
    assert "overlaps M and Q are not stored, because 525 numbers" in note
    assert "list overlaps among the observables" in note
    assert notes_of(**change, observables=["risk"]) == ()  # nobody expects them
    assert notes_of(**change, observables=["risk", "overlaps"]) == ()
    submission = Submission.read({**BASE, **change})
    folder = DataFolder(tmp_path)
    assert submission.summarise_cost(folder, None, submission_limits())["notes"] == [note]
    dataset = ss.run({**BASE, **change}, data=tmp_path, workers=0, progress=False)
    assert dataset.attrs["notes"] == note


def submission_limits():
    from sweep_service.planning.estimate import Limits

    return Limits()


def test_single_runs_tell_what_they_leave_out():
    point = {"d": 300, "p": 257, "k": 1, "gamma": 1.0, "init": {"kind": "planted"}}
    for dataset in (
        ss.simulate(point, times=[0.0, 1e-4]),
        ss.integrate(point, regime="mean_field", times=[0.0, 1e-4]),
    ):
        assert "overlaps=True" in dataset.attrs["notes"]
    assert "notes" not in ss.simulate(point, times=[0.0, 1e-4], overlaps=False).attrs


def test_times_before_the_first_step_are_announced():
    (note,) = notes_of(**with_axes(d=[5, 2000]), time={"max": 10.0, "min": 1e-4, "samples": 6})
    # δt = 0.1/(4 · 5) = 0.005, and a time below δt/2 is zero steps: 1e-4 and 1e-3 of six
    assert note.startswith("SGD is still at its start at the first 2 of 6 recorded times t > 0")
    assert "δt = 0.005 (at d = 5, p = 4, gamma = 0.1)" in note
    assert notes_of(time={"max": 10.0, "min": 0.01, "samples": 6}) == ()
    axes = {**BASE["axes"], "regime": "classical"}
    assert notes_of(axes=axes, simulate=False, time={"max": 1.0, "min": 1e-9, "samples": 6}) == ()


@pytest.mark.parametrize("gamma", [1e6, [0.1, 1e6]])
def test_sweep_in_which_sgd_takes_no_step_is_refused(gamma):
    """One such point suffices: its final risk would be that of the start, and look like a result."""
    with pytest.raises(InvalidInput) as info:
        Submission.read({**BASE, **with_axes(gamma=gamma)})
    assert info.value.field == "time.max"
    assert "δt = 50000 (at d = 5, p = 4, gamma = 1e6)" in info.value.allowed
    axes = {**BASE["axes"], "gamma": gamma, "regime": "classical"}
    assert len(Outline.read({**BASE, "axes": axes, "simulate": False}))  # the theory has no steps
    Submission.read({**BASE, "axes": axes, "simulate": False})


def test_simulation_that_takes_no_step_is_refused():
    point = {"d": 10, "p": 2, "k": 1, "gamma": 1e6}
    with pytest.raises(InvalidInput, match="SGD takes no step"):
        ss.simulate(point, times=[0.0, 1.0, 10.0])
    assert ss.simulate(point, times=[0.0]).attrs["steps"] == 0  # the start alone may be asked for
    assert ss.simulate({**point, "gamma": 10.0}, times=[0.3]).attrs["steps"] == 1
