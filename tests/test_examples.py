"""The notebooks in examples/ run, show what they stored, and end what they started."""

import os
import signal
import subprocess
import sys
import time as clock
from pathlib import Path

import nbformat
import psutil
import pytest
from jupyter_client import KernelManager
from nbclient import NotebookClient

import sweep_service as ss

NOTEBOOKS = sorted((Path(__file__).resolve().parents[1] / "examples").glob("*.ipynb"))
NAMES = [path.stem for path in NOTEBOOKS]
ENDLESS = {
    "axes": {"d": 200, "p": 8, "gamma": 0.1},
    "fixed": {"k": 2},
    "init": {"kind": "informed"},
    "seeds": 20,
    "time": {"max": 1e4, "samples": 4},
}
MAX_BYTES = 400_000


def outputs(notebook):
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


def images(notebook):
    return [output for output in outputs(notebook) if "image/png" in output.get("data", {})]


def test_there_are_three():
    assert NAMES == [
        "does_the_theory_hold",
        "first_phase_diagram",
        "from_one_machine_to_a_cluster",
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=NAMES)
def test_stored_notebook_was_executed_and_names_no_folder_of_its_author(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))
    assert images(notebook)
    assert not [output for output in outputs(notebook) if output.output_type == "error"]
    text = path.read_text("utf-8")
    assert not [name for name in ("/home/", "/root", "/tmp", "Traceback") if name in text]
    assert path.stat().st_size < MAX_BYTES


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=NAMES)
def test_notebook_runs(path, tmp_path):
    stored, notebook = (nbformat.read(path, as_version=4) for _ in range(2))
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources=resources).execute()
    assert len(images(notebook)) == len(images(stored))


@pytest.fixture
def kernel(tmp_path):
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(cwd=str(tmp_path))
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    yield manager, client
    client.stop_channels()
    if manager.is_alive():
        manager.shutdown_kernel(now=True)
    manager.cleanup_resources()
    client.context.destroy()


def until(condition, seconds=60.0):
    deadline = clock.monotonic() + seconds
    while not condition():
        assert clock.monotonic() < deadline
        clock.sleep(0.1)


@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "restarted by its user"])
def test_closing_a_kernel_ends_its_cluster(kernel, tmp_path, is_killed):
    manager, client = kernel
    client.execute(f"import sweep_service as ss; ss.run({ENDLESS!r}, workers=1)")
    process = psutil.Process(manager.provisioner.pid)
    until(lambda: [sweep["state"] for sweep in ss.sweeps(tmp_path / "sweep-data")] == ["running"])
    until(lambda: len(process.children(recursive=True)) >= 1)
    workers = process.children(recursive=True)
    if is_killed:
        os.kill(process.pid, signal.SIGKILL)
    else:
        manager.shutdown_kernel(restart=False)
    _, alive = psutil.wait_procs([process, *workers], timeout=30)
    assert alive == []


@pytest.mark.slow
def test_notebooks_become_pages(tmp_path):
    """As a reader without Jupyter sees them."""
    for path in NOTEBOOKS:
        command = [
            sys.executable,
            "-m",
            "nbconvert",
            "--to",
            "html",
            "--output-dir",
            str(tmp_path),
            str(path),
        ]
        subprocess.run(command, check=True, capture_output=True, timeout=100)
        html = (tmp_path / f"{path.stem}.html").read_text("utf-8")
        assert html.count("data:image/png;base64") == len(images(nbformat.read(path, as_version=4)))
