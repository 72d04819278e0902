"""`diverged_quantity`: which quantity of a diverged run grew beyond its bound, wherever it is shown."""

import json

import numpy as np
import pytest

import sweep_service as ss
from sweep_service.cli.app import app
from sweep_service.dynamics.integrators import diverge_or_raise
from sweep_service.errors import IntegrationFailed
from sweep_service.status import DivergedQuantity, Status
from sweep_service.store.parts import Part

TIMES = [0.0, 0.1, 1.0, 10.0]
SQUARE = {"d": 8, "p": 4, "k": 2, "activation": "square"}


@pytest.mark.parametrize(
    ("gamma", "regime", "quantity"),
    [
        (200.0, "high_dimensional", "overlap_student"),  # the sampling term grows like Q³
        (0.01, "high_dimensional", "none"),
    ],
)
def test_ode(gamma, regime, quantity):
    result = ss.integrate(SQUARE | {"gamma": gamma}, times=TIMES, regime=regime)
    assert result.attrs["status"] == ("done" if quantity == "none" else "diverged")
    assert result.attrs["diverged_quantity"] == quantity


def test_mean_field_names_the_orthogonal_norm():
    """Label noise pushes q alone: dq = 4 (γ/p) Δ Qd grows exponentially, M = 0 stays."""
    start = {"kind": "overlaps", "M": [[0.0]], "Q": [[1.0]], "P": [[1.0]]}
    point = {"d": 3, "p": 1, "k": 1, "gamma": 1.0, "noise": 1e8, "activation": "square", "init": start}
    result = ss.integrate(point, times=[0.0, 1.0], regime="mean_field")
    assert result.attrs["status"] == "diverged"
    assert result.attrs["diverged_quantity"] == "orthogonal_norm"


def test_sgd():
    result = ss.simulate(SQUARE | {"gamma": 1e3}, times=[0.0, 1e4])
    assert result.attrs["diverged_quantity"] == "overlap_student"
    several = ss.simulate(SQUARE | {"gamma": 0.01}, times=TIMES, repeat=[0, 1])
    assert several.attrs["diverged_quantity"] == ["none", "none"]


def test_undefined_derivative_differs_from_large_state():
    def undefined(y, t):
        return np.full_like(y, np.nan)

    assert np.all(np.isnan(diverge_or_raise(undefined, np.ones(2), 0.0, "")))
    large = diverge_or_raise(lambda y, t: y, np.array([1.0, 1e7]), 0.0, "")
    np.testing.assert_array_equal(large, [1.0, np.inf])
    with pytest.raises(IntegrationFailed):
        diverge_or_raise(lambda y, t: y, np.ones(2), 0.0, "stopped")


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    spec = {
        "axes": {"d": 8, "p": 4, "gamma": [0.01, 200.0], "regime": "high_dimensional"},
        "fixed": {"k": 2, "activation": "square"}, "seeds": 2, "time": {"max": 200.0, "samples": 4},
    }  # fmt: skip
    dataset = ss.run(spec, data=folder, workers=0)
    return folder, ss.sweeps(folder)[0]["id"], dataset


def test_stored_beside_the_status(sweep):
    _, _, dataset = sweep
    for kind in ("sgd", "ode"):
        status, quantity = dataset[f"{kind}_status"], dataset[f"{kind}_diverged_quantity"]
        assert quantity.dtype == np.int8
        assert quantity.attrs["flag_meanings"].split()[DivergedQuantity.OVERLAP_STUDENT] == "overlap_student"
        expected = np.where(status == Status.DIVERGED, DivergedQuantity.OVERLAP_STUDENT, 0)
        assert np.any(expected)
        np.testing.assert_array_equal(quantity, expected)


def test_exported_as_a_word(sweep, tmp_path):
    _, _, dataset = sweep
    dataset.sweep.export(tmp_path / "runs.csv")
    import pandas as pd

    table = pd.read_csv(tmp_path / "runs.csv")
    words = table.groupby("status")["diverged_quantity"].unique().to_dict()
    assert list(words["diverged"]) == ["overlap_student"]


def test_shown_by_the_command(sweep):
    from typer.testing import CliRunner

    folder, sweep_id, dataset = sweep
    number = int(np.argmax((dataset.ode_status == Status.DIVERGED).values.reshape(-1)))
    answer = CliRunner().invoke(app, ["rerun", sweep_id, f"ode-{number}", "--data", str(folder), "--json"])
    assert json.loads(answer.stdout)["diverged_quantity"] == "overlap_student"


def test_older_datasets_and_parts_lack_it(sweep, tmp_path):
    """A dataset without the array is read and written, and a part without it gets the fill value."""
    import shutil

    from sweep_service.execution.compute import compute
    from sweep_service.planning.jobs import Job
    from sweep_service.store.dataset import SweepDataset
    from sweep_service.store.folder import DataFolder

    source, sweep_id, _ = sweep
    shutil.copytree(source, tmp_path / "data")
    folder = DataFolder(tmp_path / "data")
    dataset = folder.dataset(sweep_id)
    assert isinstance(dataset, SweepDataset)
    plan = dataset.plan
    job = Job("ode", 0, 0, (0,), (0,))
    part = Part.of(plan, [job], [compute(plan, job)])
    older = Part(part.numbers, {"ode": dict(part.values["ode"])}, part.failures, part.versions)
    del older.values["ode"]["diverged_quantity"]
    restored = Part.unpack(older.pack(), plan)
    np.testing.assert_array_equal(restored.values["ode"]["diverged_quantity"], [0])

    del dataset.group["ode_diverged_quantity"]
    dataset = folder.dataset(sweep_id)
    numbers = np.arange(plan.runs.count("ode"))
    values = dataset.read("ode", numbers, plan.schema.variables["ode"])
    assert not np.any(values["diverged_quantity"])
    assert np.any(values["status"] == Status.DIVERGED)
    dataset.write("ode", numbers, values)
    assert not np.any(dataset.diverged_quantity("ode"))
