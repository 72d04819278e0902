"""Specialisation times, cosines and labels of known curves and of a real sweep."""

import numpy as np
import pytest
import xarray as xr

from sweep_service.analysis.quantities.specialisation import cosines, labels, specialisation_time
from sweep_service.analysis.views import VIEWS
from sweep_service.errors import InvalidInput
from sweep_service.status import Status
from tests.analysis.synthetic import TIMES, assert_described, make_dataset
from tests.stored import compute_dataset

RISK = {"curve": lambda t: 0.1}


def ramp(t, d):
    """0.1 to 0.9, linear in ln t, through ½ at t = d/100."""
    with np.errstate(divide="ignore"):
        return np.clip(0.5 + 0.1 * np.log(t / (d / 100)), 0.1, 0.9)


@pytest.mark.parametrize("points", [False, True])
def test_time_of_a_known_crossing(points):
    axes = {"d": [7, 50, 300]} | ({"p": [2, 4, 6], "gamma": [0.1, 0.2, 0.3]} if points else {})
    dataset = make_dataset(**RISK, axes=axes, points=points, observables={"specialisation": ramp}, seeds=2)
    result = specialisation_time(dataset)
    assert_described(result)
    if not points:
        result = result.isel(p=0, gamma=0)
    assert result.specialisation_time.dims[1:] == ("seed", "repeat")
    known = np.repeat([0.07, 0.5, 3.0], 2).reshape(3, 2, 1)
    np.testing.assert_allclose(result.specialisation_time, known, rtol=1e-12)  # linear, as interpolated
    assert result.specialised.values.all()


def test_last_of_several_crossings_and_none():
    def wave(t, d):
        up = ((t > 0.01) & (t < 0.1)) | (t > 1.0)
        return {5: np.where(up, 0.9, 0.1), 6: 0.2, 7: 0.9, 8: np.where((t > 0.01) & (t < 0.1), 0.9, 0.1)}[d]

    dataset = make_dataset(**RISK, axes={"d": [5, 6, 7, 8]}, observables={"specialisation": wave})
    result = specialisation_time(dataset).isel(p=0, gamma=0, seed=0, repeat=0)
    gap = TIMES[2] / TIMES[1]
    assert 1.0 <= result.specialisation_time[0] <= gap
    assert np.isnan(result.specialisation_time[1])
    assert np.isnan(result.specialisation_time[2])  # above the level from the start
    assert 0.01 / gap <= result.specialisation_time[3] <= 0.01 * gap
    assert result.specialised.values.tolist() == [True, False, True, False]
    assert specialisation_time(dataset, level=0.15).specialised.values.reshape(-1)[1]


def test_rise_at_the_first_sample_and_unfinished_runs():
    status = np.full((1, 1, 1, 3, 1), Status.DONE)
    status[..., 1, 0], status[..., 2, 0] = Status.PENDING, Status.DIVERGED
    late = {"specialisation": lambda t: np.where(t > 10.0, 0.9, 0.1)}
    result = specialisation_time(make_dataset(**RISK, observables=late, seeds=3, status=status))
    assert np.isnan(result.specialisation_time.values.reshape(-1)).tolist() == [False, True, True]
    assert result.specialised.values.reshape(-1).tolist() == [True, False, False]
    soon = make_dataset(**RISK, observables={"specialisation": lambda t: np.where(t > 0, 0.9, 0.1)})
    assert specialisation_time(soon).specialisation_time.item() == pytest.approx(TIMES[1] / 2)  # linear in t
    with pytest.raises(InvalidInput, match="two samples"):
        specialisation_time(soon.isel(time=[0]))


# ---- overlaps


def with_overlaps(dataset, M, Q=None, q=None, kind="sgd"):
    """The same M (student, teacher) and Q, or q, in every run and at every time."""
    run = dataset[f"{kind}_risk"]
    for name, values, dims in (
        ("overlap_student_teacher", M, ("student", "teacher")),
        ("overlap_student", Q, ("student", "student_other")),
        ("orthogonal_norm", q, ("student",)),
    ):
        if values is not None:
            dataset[f"{kind}_{name}"] = (run * 0 + 1) * xr.DataArray(values, dims=dims)
    return dataset


ANGLE = np.array([[0.95, 0.1], [-0.99, 0.05], [0.6, 0.7]])  # cosines; -0.99: a neuron against the teacher
NORMS = np.array([1.0, 4.0, 0.25])


def test_cosines_and_labels_of_known_overlaps():
    M = ANGLE * np.sqrt(NORMS)[:, None]
    dataset = with_overlaps(make_dataset(**RISK, axes={"d": [5, 6]}, seeds=2), M, np.diag(NORMS) + 0.01)
    dataset["sgd_overlap_student"] -= 0.01 * xr.DataArray(np.eye(3), dims=("student", "student_other"))
    result = cosines(dataset)
    assert result.dims == ("d", "p", "gamma", "seed", "repeat", "time", "student", "teacher")
    np.testing.assert_allclose(result, np.broadcast_to(ANGLE, result.shape), rtol=1e-12)
    assert result.attrs["long_name"]
    named = labels(dataset)
    assert_described(named)
    assert named.label.dims == ("d", "p", "gamma", "seed", "repeat", "student")
    np.testing.assert_array_equal(named.label, np.broadcast_to([0, 0, -1], named.label.shape))
    np.testing.assert_allclose(
        named.cosine.isel(d=0).values.reshape(-1, 3)[0], [0.95, -0.99, 0.7], rtol=1e-12
    )
    assert (labels(dataset, threshold=0.65).label.isel(student=2) == 1).all()


def test_mean_field_norms_follow_from_q():
    M = ANGLE * np.sqrt(NORMS)[:, None]
    q = NORMS - np.sum(M**2, axis=1)
    dataset = with_overlaps(make_dataset(**RISK, regimes=("mean_field",)), M, q=q, kind="ode")
    result = cosines(dataset, "mean_field")
    np.testing.assert_allclose(result, np.broadcast_to(ANGLE, result.shape), rtol=1e-12)


def test_correlated_teachers():
    """P = [[1, rho], [rho, 1]]: a neuron that is the first teacher has the cosine rho with the second."""
    init = {"kind": "informed", "teacher": {"rho": 0.5}}
    M = np.array([[2.0, 1.0]])  # w = 2 w*_1, so M P⁻¹ Mᵀ = 4
    dataset = with_overlaps(
        make_dataset(**RISK, regimes=("mean_field",), init=init), M, q=np.zeros(1), kind="ode"
    )
    np.testing.assert_allclose(cosines(dataset, "mean_field").isel(time=-1).values.reshape(-1), [1.0, 0.5])


def test_padding_zero_norms_and_runs_without_values():
    status = np.full((1, 1, 1, 3, 1), Status.DONE)
    status[..., 1, 0], status[..., 2, 0] = Status.PENDING, Status.DIVERGED
    M = np.array([[0.99, 0.0], [0.0, 0.0], [np.nan, np.nan]])
    Q = np.diag([1.0, 0.0, np.nan])
    Q[2], Q[:, 2] = np.nan, np.nan
    dataset = with_overlaps(make_dataset(**RISK, seeds=3, status=status), M, Q)
    result = cosines(dataset).isel(d=0, p=0, gamma=0, repeat=0, seed=0, time=0)
    np.testing.assert_array_equal(
        np.nan_to_num(result.values, nan=9.0), [[0.99, 0.0], [0.0, 0.0], [9.0, 9.0]]
    )
    named = labels(dataset).isel(d=0, p=0, gamma=0, repeat=0)
    assert named.label.values.tolist() == [[0, -1, -1], [-1, -1, -1], [0, -1, -1]]  # diverged: the last value
    assert np.isnan(named.cosine.values).tolist() == [
        [False, False, True], [True, True, True], [False, False, True],
    ]  # fmt: skip


def test_stored_cosines_agree_with_overlaps(tmp_path):
    spec = {
        "axes": {"d": 8, "p": [2, 4], "gamma": 0.5, "regime": ["classical", "mean_field", "mean_field_pde"]},
        "fixed": {"k": 2}, "seeds": {"init": 2, "repeat": 2}, "time": {"max": 2.0, "samples": 5},
        "observables": ["overlaps", "cosines", "mean_norm"],
    }  # fmt: skip
    dataset = compute_dataset(tmp_path, spec).load()
    for source in ("sgd", "classical", "mean_field"):
        kind = "sgd" if source == "sgd" else "ode"
        result = cosines(dataset, source)
        assert np.isnan(result.sel(p=2, student=[2, 3])).all()
        assert np.isfinite(result.sel(p=4)).all()
        by_overlaps = cosines(dataset.drop_vars(f"{kind}_cosines"), source)
        np.testing.assert_allclose(result, by_overlaps, rtol=1e-9, atol=1e-12)  # q is a difference
    assert np.isnan(cosines(dataset, "mean_field_pde")).all()  # its particles are not neurons
    norms = dataset["sgd_overlap_student"].values
    wanted = np.nanmean(np.where(np.eye(4, dtype=bool), norms, np.nan), axis=(-2, -1))
    np.testing.assert_allclose(dataset["sgd_mean_norm"], wanted, rtol=1e-12)


def test_missing_overlaps_are_an_error():
    with pytest.raises(InvalidInput, match="not stored"):
        cosines(make_dataset(**RISK))
    with pytest.raises(InvalidInput, match="not stored"):
        labels(make_dataset(**RISK, regimes=("classical",)), "classical")


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """Two values of p, with a theory that has Q and one that has q."""
    spec = {
        "axes": {"d": [12, 20], "p": [2, 4], "gamma": 0.2, "regime": ["classical", "mean_field"]},
        "fixed": {"k": 2},
        "init": {"kind": "spherical"},
        "time": {"max": 20, "samples": 20},
    }
    return compute_dataset(tmp_path_factory.mktemp("real"), spec)


@pytest.mark.parametrize("source", ["sgd", "ode", "mean_field"])
def test_order_parameter_follows_from_cosines(real, source):
    """The stored `specialisation` and `cosine` follow from the stored overlaps."""
    sizes = np.sort(np.abs(cosines(real, source).values), axis=-1)  # NaN last; padding is all NaN
    kind = "sgd" if source == "sgd" else "ode"
    chosen = real.sel(regime=source) if source == "mean_field" else real
    np.testing.assert_allclose(np.nanmean(sizes[..., 1], axis=-1), chosen[f"{kind}_cosine"], rtol=1e-9)
    margin = np.nanmean(sizes[..., 1] - sizes[..., 0], axis=-1)
    np.testing.assert_allclose(margin, chosen[f"{kind}_specialisation"], rtol=1e-7, atol=1e-9)
    padding = np.isnan(labels(real, source).cosine.transpose("d", "p", "student", ...).values[:, 0, 2:])
    assert padding.all()


# ---- selected neurons


@pytest.mark.parametrize("source", ["sgd", "ode", "mean_field"])
@pytest.mark.parametrize("at", [1, [1], [3, 1]], ids=str)
def test_selected_neuron_keeps_its_cosines(real, source, at):
    whole, part = cosines(real, source), cosines(real.isel(student=at), source)
    xr.testing.assert_allclose(part, whole.isel(student=at), rtol=1e-12)
    both = cosines(real.isel(student=at, student_other=at), source)
    np.testing.assert_allclose(both, part, rtol=1e-12)
    selected, every = labels(real.isel(student=at), source), labels(real, source)
    np.testing.assert_array_equal(selected.label, every.label.isel(student=np.atleast_1d(at)))


@pytest.mark.parametrize("at", [1, [1]], ids=str)
def test_selected_teacher_keeps_its_cosines(real, at):
    """Also if teachers are not orthonormal; labels are the indices among all teachers."""
    xr.testing.assert_allclose(cosines(real.isel(teacher=at)), cosines(real).isel(teacher=at), rtol=1e-12)
    M = np.array([[0.1, 3.9], [2.0, 0.0]])
    start = {"kind": "overlaps", "M": [[0, 0], [0, 0]], "Q": [[1, 0], [0, 1]], "P": [[1, 0], [0, 16]]}
    known = make_dataset(**RISK, init=start)
    known = with_overlaps(known, M, np.diag([1.0, 4.0])).assign_coords(teacher=[0, 1], student=[0, 1])
    np.testing.assert_allclose(cosines(known).isel(time=0).squeeze(), [[0.1, 0.975], [1.0, 0.0]])
    chosen = known.isel(teacher=at)
    np.testing.assert_allclose(cosines(chosen).isel(time=0).squeeze(), [0.975, 0.0])
    assert labels(chosen).label.squeeze().values.tolist() == [1, -1]
    alone = chosen.isel(student=0, student_other=0)
    assert labels(alone).label.squeeze().item() == 1


def test_missing_norms_are_an_error(real):
    with pytest.raises(InvalidInput, match=r"must include all of student: add \[0, 2, 3\]") as error:
        cosines(real.isel(student_other=[1]))
    assert error.value.field == "student_other"
    with pytest.raises(InvalidInput, match="select from the cosines") as error:
        cosines(real.isel(teacher=[0]), "mean_field")
    assert error.value.field == "teacher"


@pytest.mark.parametrize(
    "selection", [{"student": "1"}, {"teacher": "1"}, {"student": "0,1", "teacher": "0"}], ids=str
)
def test_views_select_neurons(real, selection):
    where, at = (
        {"d": 20, "p": 4},
        {name: [int(index) for index in text.split(",")] for name, text in selection.items()},
    )
    for source in ("sgd", "mean_field"):
        every = VIEWS["histograms"].compute(real, source=source, **where)
        xr.testing.assert_identical(
            VIEWS["histograms"].compute(real, source=source, **where, **selection), every.sel(at)
        )
    paths = VIEWS["cosines"].compute(real, regime="mean_field", **where)
    xr.testing.assert_identical(
        VIEWS["cosines"].compute(real, regime="mean_field", **where, **selection), paths.sel(at)
    )
    for view in ("histograms", "cosines"):
        with pytest.raises(InvalidInput) as error:
            VIEWS[view].compute(real, **where, student_other="0")
        assert error.value.field == "selection"


def test_selecting_a_width_changes_nothing(tmp_path):
    """The smaller of two k is padded, whether or not the larger is selected."""
    spec = {
        "axes": {"d": 8, "p": 2, "gamma": 0.5, "k": [1, 2], "regime": ["classical", "mean_field"]},
        "time": {"max": 2.0, "samples": 5},
    }  # fmt: skip
    dataset = compute_dataset(tmp_path, spec)
    for source in ("sgd", "ode"):
        for k in (1, 2):
            part, whole = cosines(dataset.sel(k=[k]), source), cosines(dataset, source).sel(k=[k])
            xr.testing.assert_allclose(part, whole, rtol=1e-12)
            assert np.isfinite(part.isel(teacher=slice(k))).all()
