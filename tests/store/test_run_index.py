"""The index of runs: written, checked against its dataset, never believed when it is not as it should be."""

import io

import numpy as np
import pyarrow.parquet as pq
import pytest

from sweep_service.execution.conductor import Conductor
from sweep_service.execution.executors import SerialExecutor
from sweep_service.model.parameters import PARAMETERS, Parameter
from sweep_service.planning.spec import SweepSpec
from sweep_service.status import Status
from sweep_service.store.folder import INDEX_SUFFIX, DataFolder
from sweep_service.store.run_index import build, files
from sweep_service.store.run_index.summaries import fit_final_slopes, summarise_runs
from tests.specs import SMALL_SPEC
from tests.stored import ONE_RUN_PER_BUNDLE, StoppingExecutor


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    folder = DataFolder(tmp_path_factory.mktemp("index"))
    with Conductor(folder, SerialExecutor()) as conductor:
        sweep, _ = conductor.submit(SweepSpec.parse(SMALL_SPEC))
        conductor.run(sweep.id)
    return folder, sweep.id


@pytest.fixture
def content(stored):
    """The bytes of the index, which are put back after the test."""
    folder, sweep_id = stored
    content = folder.objects.get(f"{sweep_id}{INDEX_SUFFIX}")
    yield content
    files.save_index(folder, sweep_id, content)


def same(one, other):
    return one.schema.equals(other.schema) and one.to_pylist() == other.to_pylist()


def test_index_is_written_when_a_sweep_ends(stored, content):
    folder, sweep_id = stored
    table = files.load_index(folder, sweep_id)
    assert same(table, build.build_index(folder, sweep_id))
    assert table.num_rows == folder.plan(sweep_id).runs.total
    assert {name for name in table.column_names if table[name].null_count == 0} >= {
        *PARAMETERS, "key", "seed", "status", "delta_t", "gamma_over_p", "engine", "version", "final_risk",
    }  # fmt: skip
    keys = folder.keys(sweep_id)
    assert table["key"].to_pylist() == [key.tobytes() for kind in ("sgd", "ode") for key in keys[kind]]


def test_any_tool_reads_the_file(stored, content):
    plain = pq.read_table(io.BytesIO(content)).to_pandas()
    assert plain.groupby("kind").size().to_dict() == {"sgd": 16, "ode": 8}


def test_no_changed_byte_is_believed(stored, content):
    folder, sweep_id = stored
    rng = np.random.default_rng(0)
    for position in [0, len(content) - 1, *rng.integers(len(content), size=150)]:
        damaged = bytearray(content)
        damaged[position] ^= 1 << int(rng.integers(8))
        files.save_index(folder, sweep_id, bytes(damaged))
        assert files.load_index(folder, sweep_id) is None, position
    for cut in (0, 4, len(content) // 2, len(content) - 8):
        files.save_index(folder, sweep_id, content[:cut])
        assert files.load_index(folder, sweep_id) is None


def test_index_of_another_state_is_not_believed(stored, content):
    """After a repair has marked a run pending, the old index tells of values that are gone."""
    folder, sweep_id = stored
    dataset = folder.dataset(sweep_id)
    dataset.write("sgd", np.array([3]), {"status": np.array([Status.PENDING], np.int8)})
    assert files.load_index(folder, sweep_id) is None
    assert build.build_index(folder, sweep_id)["status"].to_pylist()[3] == "pending"
    dataset.write("sgd", np.array([3]), {"status": np.array([Status.DONE], np.int8)})
    assert files.load_index(folder, sweep_id) is not None


def test_a_new_parameter_is_at_its_default_in_an_old_index(stored, content, monkeypatch):
    folder, sweep_id = stored
    new = Parameter("drift", "number", "κ", "", "drift", "rate of drift", default=0.25, least=0.0)
    monkeypatch.setitem(PARAMETERS, "drift", new)
    assert files.load_index(folder, sweep_id)["drift"].to_pylist() == [0.25] * 24


def test_rows_that_ended_are_not_read_again(tmp_path, monkeypatch):
    """A table of a running sweep, brought up to date from an earlier one, is that made anew."""
    folder, tables = DataFolder(tmp_path), []
    with Conductor(folder, StoppingExecutor(9), settings=ONE_RUN_PER_BUNDLE) as conductor:
        sweep, _ = conductor.submit(SweepSpec.parse(SMALL_SPEC))
        for _ in range(6):
            conductor.tick()
            tables.append(build.build_index(folder, sweep.id))
        counts = [table["status"].to_pylist().count("done") for table in tables]
        assert 0 < counts[1] < counts[-1] < 24
        assert same(build.build_index(folder, sweep.id, tables[1]), tables[-1])
        read = []

        def count(values, *rest):
            read.append(len(values["risk"]))
            return summarise_runs(values, *rest)

        monkeypatch.setattr(build, "summarise_runs", count)
        build.build_index(folder, sweep.id, tables[1])
        assert sum(read) == counts[-1] - counts[1]


def test_paused_cancelled_and_removed(tmp_path):
    folder = DataFolder(tmp_path)
    with Conductor(folder, StoppingExecutor(9), settings=ONE_RUN_PER_BUNDLE) as conductor:
        sweep, _ = conductor.submit(SweepSpec.parse(SMALL_SPEC))
        for _ in range(4):
            conductor.tick()
        conductor.pause(sweep.id)
    paused = files.load_index(folder, sweep.id)
    assert {*paused["status"].to_pylist()} == {"pending", "done"}
    with Conductor(folder, SerialExecutor()) as conductor:
        conductor.cancel(sweep.id)
    assert {*files.load_index(folder, sweep.id)["status"].to_pylist()} == {"cancelled", "done"}
    with Conductor(folder, SerialExecutor()) as conductor:
        conductor.index_writer.request(sweep.id)  # it may be written while the sweep is removed
        conductor.remove(sweep.id)
    assert not [name for name in folder.objects.list_top() if name.startswith(sweep.id)]


def test_old_folders_get_indexes_at_the_next_start(stored, content):
    folder, sweep_id = stored
    folder.objects.delete(f"{sweep_id}{INDEX_SUFFIX}")
    with Conductor(folder, SerialExecutor()) as conductor:
        writer = conductor.index_writer
        with writer._changed:
            assert writer._changed.wait_for(lambda: not writer._missing and not writer._is_busy, 60)
    assert files.load_index(folder, sweep_id) is not None


def test_doctor_rebuilds_damaged_indexes(stored, content):
    folder, sweep_id = stored
    files.save_index(folder, sweep_id, content[:-100] + content[100:])
    with Conductor(folder, SerialExecutor()) as conductor:
        conductor.rebuild()
    assert same(files.load_index(folder, sweep_id), build.build_index(folder, sweep_id))


def test_summaries_of_known_curves():
    times = np.concatenate([[0.0], np.geomspace(0.01, 100.0, 200)])
    power = np.where(times > 0, np.maximum(times, 0.01) ** -0.7, 25.0)
    stopped = np.where(times < 3.0, 2.0 - np.cos(times), np.nan)
    values = {"risk": np.array([power, stopped]), "largest_norm": np.array([1.0 + 0 * times, stopped])}
    result = summarise_runs(values, times, np.array([False, True]))
    np.testing.assert_allclose(result["final_slope"], [-0.7, np.nan], rtol=1e-12)
    # ∫ t^-0.7 dt over [50, 100]/50; the trapezoidal rule on samples 5 % apart is within 3e-4
    np.testing.assert_allclose(result["final_risk"], [(100**0.3 - 50**0.3) / 0.3 / 50, np.nan], rtol=3e-4)
    assert result["last_time"].tolist() == [100.0, times[times < 3.0].max()]
    assert np.isnan(result["divergence_time"][0])
    assert result["divergence_time"][1] == times[times >= 3.0].min()
    np.testing.assert_allclose(result["bound"], [1.0, np.nanmax(stopped)])
    assert np.isnan(result["order_parameter"]).all()
    zero = np.zeros((1, len(times)))
    assert np.isnan(fit_final_slopes(zero, times))


def test_sweep_of_reused_runs_has_an_index(stored, content):
    folder, _ = stored
    with Conductor(folder, SerialExecutor()) as conductor:
        spec = {**SMALL_SPEC, "axes": {**SMALL_SPEC["axes"], "d": 8}}
        sweep, _ = conductor.submit(SweepSpec.parse(spec))
        assert sweep.state.has_ended
    assert files.load_index(folder, sweep.id).num_rows == 12
