"""`ss.run` and `ss.sweeps`: a sweep from a script, a thread and a notebook, interrupted and continued."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import nbclient
import nbformat
import numpy as np
import pytest

import sweep_service as ss
from sweep_service.errors import InUse, LimitExceeded
from sweep_service.execution import compute as computing
from sweep_service.execution.conductor import Conductor
from sweep_service.execution.executors import SerialExecutor
from sweep_service.planning.outline import Outline
from sweep_service.runner import find_spec
from sweep_service.store.folder import DataFolder
from tests.cli.commands import until
from tests.hold import Hold

ROOT = str(Path(ss.__file__).resolve().parents[1])


def read_spec(spec):
    return Outline.read(find_spec(spec)).spec


SPEC = {
    "name": "small",
    "axes": {"d": [6, 8], "p": 4, "gamma": [0.1, 0.2], "regime": "classical"},
    "fixed": {"k": 2},
    "seeds": 2,
    "time": {"max": 1.0, "samples": 4},
}
YAML = json.dumps(SPEC, indent=1)  # JSON is YAML


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch, tmp_path):
    """Remove the variables of the user who runs the tests, and work in an empty folder."""
    for name in [name for name in os.environ if name.startswith(("SWEEP_", "DASK_SCHEDULER"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def start_script(tmp_path, text, env=None):
    """Start a process that runs a script."""
    path = tmp_path / "script.py"
    path.write_text(text)
    environment = {**os.environ, "PYTHONPATH": ROOT, "OPENBLAS_NUM_THREADS": "1", **(env or {})}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, str(path)], cwd=tmp_path, env=environment, **pipes)


def test_sweep_is_computed_and_opened(tmp_path):
    with ss.run(SPEC, workers=0) as dataset:
        assert dict(dataset.sizes) | {"d": 2, "gamma": 2, "seed": 2, "time": 5} == dict(dataset.sizes)
        assert (dataset.sgd_status == 1).all()
        assert (dataset.ode_status == 1).all()
        direct = ss.simulate({"d": 8, "p": 4, "k": 2, "gamma": 0.2}, times=dataset.time.values, seed=1)
        stored = dataset.sgd_risk.sel(d=8, p=4, gamma=0.2, seed=1, repeat=0)
        np.testing.assert_array_equal(stored, direct.risk)
    (sweep,) = ss.sweeps()
    assert (sweep["name"], sweep["state"], sweep["counts"]) == ("small", "completed", {"done": 16})
    assert Path(sweep["path"]).parent == tmp_path / "sweep-data" / "sweeps"
    with ss.open(sweep["path"]) as again:
        assert again.sizes["d"] == 2


def test_stored_sweep_is_opened_without_computing(monkeypatch):
    ss.run(SPEC, workers=0).close()
    monkeypatch.setattr(computing, "run_chains", lambda *_, **__: pytest.fail("computed again"))
    ss.run({**SPEC, "name": "another name"}, workers=0).close()
    assert len(ss.sweeps()) == 1


@pytest.mark.parametrize("form", ["mapping", "text", "bytes", "path", "string of a path", "spec"])
def test_spec_is_accepted_in_several_forms(tmp_path, form):
    (tmp_path / "small.yaml").write_text(YAML)
    forms = {
        "mapping": SPEC, "text": YAML, "bytes": YAML.encode(), "path": tmp_path / "small.yaml",
        "string of a path": "small.yaml", "spec": read_spec(SPEC),
    }  # fmt: skip
    assert read_spec(forms[form]) == read_spec(SPEC)


def test_preset_is_found_by_name(tmp_path):
    assert read_spec("phase-diagram").name
    (tmp_path / "phase-diagram").write_text(YAML)  # a file of that name has priority
    assert read_spec("phase-diagram").name == "small"


@pytest.mark.parametrize(
    ("spec", "phrases"),
    [
        ("phase-diagramm", ("must be a mapping", "phase-diagram")),
        ("nowhere", ("must be a mapping, YAML or JSON text, the path of a file",)),
        ("nowhere.yaml", ("cannot be read", "No such file")),
        ("folder/nowhere", ("cannot be read", "No such file")),
        (Path("nowhere.yaml"), ("cannot be read", "No such file")),
        ({**SPEC, "axis": {}}, ("axis", "axes")),
        (7, ("must be a mapping",)),
    ],
    ids=str,
)
def test_invalid_spec_is_rejected_and_leaves_no_files(tmp_path, spec, phrases):
    with pytest.raises(ss.InvalidInput) as caught:
        ss.run(spec, workers=0)
    assert all(phrase in str(caught.value) for phrase in phrases), caught.value
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [{"workers": -1}, {"workers": 1.5}, {"workers": 1, "scheduler": "tcp://x:1"}, {"scheduler": "x"}],
)
def test_invalid_arguments_are_rejected(tmp_path, arguments):
    with pytest.raises(ss.InvalidInput):
        ss.run(SPEC, **arguments)
    assert list(tmp_path.iterdir()) == []


def test_sweep_over_the_limits_leaves_no_files(tmp_path):
    with pytest.raises(LimitExceeded):
        ss.run({**SPEC, "time": {"max": 1e15, "samples": 4}}, workers=0)
    assert list(tmp_path.iterdir()) == []


def test_missing_folder_has_no_sweeps(tmp_path):
    assert ss.sweeps(tmp_path / "nowhere") == []
    assert not (tmp_path / "nowhere").exists()


def test_environment_selects_the_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SWEEP_DATA", str(tmp_path / "other"))
    ss.run(SPEC, workers=0).close()
    assert len(ss.sweeps()) == len(ss.sweeps(tmp_path / "other")) == 1


def test_folder_in_use_is_refused(tmp_path):
    with Conductor(DataFolder(tmp_path / "sweep-data"), SerialExecutor()), pytest.raises(InUse):
        ss.run(SPEC, workers=0)


def test_cancelled_sweep_is_continued(tmp_path):
    with Conductor(DataFolder(tmp_path / "sweep-data"), SerialExecutor()) as conductor:
        conductor.cancel(conductor.submit(read_spec(SPEC))[0].id)
    with ss.run(SPEC, workers=0) as dataset:
        assert (dataset.sgd_status == 1).all()


def test_failed_runs_cause_a_warning(monkeypatch):
    original = computing.run_chains

    def broken(point, **options):
        if point.d == 6:
            raise ZeroDivisionError("broken")
        return original(point, **options)

    monkeypatch.setattr(computing, "run_chains", broken)
    with pytest.warns(RuntimeWarning, match="4 of 16 runs failed; see `sweep show") as caught:
        dataset = ss.run(SPEC, workers=0)
    assert caught[0].filename == __file__
    assert (dataset.sgd_status.sel(d=6) == 3).all()
    assert (dataset.sgd_status.sel(d=8) == 1).all()
    dataset.close()


def test_run_works_in_another_thread():
    datasets = []
    thread = threading.Thread(target=lambda: datasets.append(ss.run(SPEC, workers=0)))
    thread.start()
    thread.join()
    assert (datasets[0].ode_status == 1).all()
    datasets[0].close()


UNGUARDED = f"""
import sweep_service as ss
print("once")
dataset = ss.run({SPEC!r}, workers=2)
print(int((dataset.sgd_status == 1).sum()), int((dataset.ode_status == 1).sum()))
"""


def test_script_needs_no_main_guard(tmp_path):
    out, err = (process := start_script(tmp_path, UNGUARDED)).communicate(timeout=100)
    assert (process.returncode, out, err) == (0, "once\n8 8\n", "")


LITTLE = f"""
import sys
import sweep_service as ss
dataset = ss.run({SPEC!r})
print(int((dataset.sgd_status == 1).sum()), "distributed" in sys.modules)
"""


def test_little_work_starts_no_cluster(tmp_path):
    out, err = (process := start_script(tmp_path, LITTLE)).communicate(timeout=100)
    assert (process.returncode, out, err) == (0, "8 False\n", "")


def test_interrupted_sweep_is_paused_and_continued(tmp_path):
    hold = Hold(tmp_path, "run:sgd-0")
    script = f"import sweep_service as ss\nss.run({SPEC!r}, workers=0)\n"
    process = start_script(tmp_path, script, hold.environment)
    until(lambda: hold.count() or process.poll() is not None, 100.0)
    assert process.poll() is None, process.communicate()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=100)
    (paused,) = ss.sweeps()
    assert paused["state"] == "paused"
    assert f"KeyboardInterrupt: sweep {paused['id']} is paused: run the same spec again" in err
    with ss.run(SPEC, workers=0) as dataset:
        assert (dataset.sgd_status == 1).all()
    (completed,) = ss.sweeps()
    assert (completed["id"], completed["state"]) == (paused["id"], "completed")


def test_notebook_shows_a_progress_bar(tmp_path):
    """The event loop of the notebook must not disturb the cluster."""
    source = f"import sweep_service as ss\ndataset = ss.run({SPEC!r}, workers=1)\nint(dataset.sizes['d'])"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=100, kernel_name="python3", resources=resources).execute()
    bar, value = notebook.cells[0].outputs
    assert value["data"]["text/plain"] == "2"
    assert '<progress max="1" value="1.0000">' in bar["data"]["text/html"]
    (sweep,) = ss.sweeps()
    assert bar["data"]["text/plain"].startswith(f"{sweep['id']}  small\n")
    assert "100 % · 16/16 runs" in bar["data"]["text/plain"]
