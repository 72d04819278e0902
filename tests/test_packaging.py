"""The wheel: one import name with all files, built from a checkout or from an sdist, and installed."""

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from sweep_service.version import __version__

ROOT = Path(__file__).resolve().parents[1]
NAME = "sweep_service"
EXPECTED_FILES = (
    "sweep_service/api/app.py",
    "sweep_service/api/routes/sweeps.py",
    "sweep_service/api/static/vendor/plotly.min.js",
    "sweep_service/api/templates/base.html",
    "sweep_service/presets/fig2-left.yaml",
    "sweep_service/py.typed",
    "sweep_service/workers/executor.py",
)


def build(target, source, output):
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", output],
        cwd=source, check=True, capture_output=True, timeout=100,
    )  # fmt: skip
    (archive,) = output.iterdir()
    return archive


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """Wheels built from the checkout and from its source distribution."""
    folder = tmp_path_factory.mktemp("built")
    sdist = build("sdist", ROOT, folder / "sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "source", filter="data")
    (source,) = (folder / "source").iterdir()
    return {
        "source": source,
        "checkout": build("wheel", ROOT, folder / "checkout"),
        "sdist": build("wheel", source, folder / "through-sdist"),
    }


def test_sdist_has_what_an_operator_needs(wheels):
    for name in ("deploy/systemd/sweep.service", "deploy/kubernetes/api.yaml", "Makefile"):
        assert (wheels["source"] / name).is_file()


def read_package(wheel):
    """Return the files of the package by name, and the top-level names."""
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    tops = {name.partition("/")[0] for name in files}
    return {name: data for name, data in files.items() if name.startswith(f"{NAME}/")}, tops


@pytest.mark.parametrize("source", ["checkout", "sdist"])
def test_wheel_has_one_top_level_name(wheels, source):
    files, tops = read_package(wheels[source])
    assert {name for name in tops if not name.endswith(".dist-info")} == {NAME}
    assert [name for name in EXPECTED_FILES if name not in files] == []
    assert [name for name in files if name.endswith(".pyc")] == []


def test_both_wheels_have_the_same_files(wheels):
    assert read_package(wheels["checkout"])[0] == read_package(wheels["sdist"])[0]


def test_every_tracked_file_of_the_package_is_in_the_wheel(wheels):
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    command = ["git", "ls-files", "-z", NAME, "api", "workers"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    files = [name for name in names if (ROOT / name).is_file()]
    expected = {name if name.startswith(NAME) else f"{NAME}/{name}" for name in files}
    assert expected - set(read_package(wheels["checkout"])[0]) == set()


SPEC = """
axes: {d: [6, 12], p: 2, gamma: [0.1, 0.5], regime: classical}
fixed: {k: 2}
time: {max: 0.5, samples: 5}
"""
UV = Path(sys.executable).with_name("uv")
NETWORK_ERRORS = ("dns error", "client error (Connect)", "operation timed out", "error sending request")


@pytest.fixture(scope="module")
def folder_of_user(tmp_path_factory):
    """A folder with its own `api` and `workers`, which come first on the path but must not be imported."""
    folder = tmp_path_factory.mktemp("user")
    for name in ("api", "workers"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("raise ImportError('of a user')\n")
    (folder / "spec.yaml").write_text(SPEC)
    return folder


class Installed:
    """An empty environment in which the wheel was installed, and commands in the folder of a user."""

    def __init__(self, environment, wheel, extra, folder):
        self.bin, self.folder = environment / "bin", folder
        subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, environment], check=True)
        self.install(f"sweep-service{extra} @ {wheel.as_uri()}")

    def install(self, *requirements):
        """Install from the cache that `make setup` has filled, or else from the index."""
        lock = ("--constraint", ROOT / "requirements.lock")
        command = [UV, "pip", "install", "--quiet", "--python", self.bin / "python", *lock, *requirements]
        for options in (["--offline"], []):
            result = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
            if result.returncode == 0:
                return
        if any(text in result.stderr for text in NETWORK_ERRORS):
            pytest.skip("no packages: neither in the cache of uv nor from an index")
        pytest.fail(result.stderr)

    def run(self, *command, timeout=110):
        hidden = ("PYTHON", "SWEEP", "DASK", "VIRTUAL_ENV")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
        environment["PATH"] = f"{self.bin}{os.pathsep}{environment['PATH']}"
        return subprocess.run(
            [self.bin / command[0], *command[1:]], cwd=self.folder, env=environment, capture_output=True,
            text=True, timeout=timeout, check=False,
        )  # fmt: skip


def test_core_of_the_wheel_in_an_empty_environment(wheels, folder_of_user, tmp_path):
    installed = Installed(tmp_path / "core", wheels["sdist"], "", folder_of_user)
    assert installed.run("sweep", "--version").stdout == f"sweep-service {__version__}\n"
    refused = installed.run("sweep", "run", "spec.yaml")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "pip install 'sweep-service[run]'" in refused.stderr
    assert not (folder_of_user / "sweep-data").exists()
    answer = installed.run("python", "-m", "sweep_service", "run", "spec.yaml", "--serial", "--json")
    assert answer.returncode == 0, answer.stderr
    sweep = json.loads(answer.stdout)
    assert (sweep["state"], sweep["runs"]) == ("completed", 8)
    assert sweep["figures"]
    code = (
        "import sweep_service as ss\n"
        "ds = ss.open(ss.sweeps()[0]['path'])\n"
        "final = ds.sweep.final_risk().final_risk\n"
        "print(ss.__file__, float(abs(ds.sgd_risk - ds.ode_risk).max()) < 1, bool(final.notnull().all()))"
    )
    answer = installed.run("python", "-c", code)
    assert answer.returncode == 0, answer.stderr
    module, *truths = answer.stdout.split()
    assert Path(module).is_relative_to(tmp_path / "core")
    assert truths == ["True", "True"]


NOTEBOOK = """
import sweep_service as ss
ds = ss.run("spec.yaml", data="notebook-data", workers=1)
assert ss.__file__.startswith(PREFIX), ss.__file__
print(ds.sizes["d"], "dimensions")
"""


@pytest.mark.slow
def test_everything_of_the_wheel_in_an_empty_environment(wheels, folder_of_user, tmp_path):
    """`sweep run` with workers, a service, and a notebook."""
    installed = Installed(tmp_path / "all", wheels["sdist"], "[all]", folder_of_user)
    installed.install("nbclient", "ipykernel")
    ran = installed.run("sweep", "run", "phase-diagram", "--workers", "2", "--json", timeout=600)
    assert json.loads(ran.stdout)["state"] == "completed", ran.stderr
    serve = [installed.bin / "python", "-m", "sweep_service", "serve", "--port", "0", "--data", "served"]
    with subprocess.Popen(serve, cwd=folder_of_user, stdout=subprocess.PIPE, text=True) as service:
        try:
            url = service.stdout.readline().split()[3].rstrip(",")
            submitted = installed.run("sweep", "submit", "spec.yaml", "--watch", "--json", "--url", url)
            assert json.loads(submitted.stdout)["state"] == "completed", submitted.stderr
        finally:
            service.terminate()
    assert service.returncode == 0
    cell = f"PREFIX = {str(tmp_path)!r}{NOTEBOOK}"
    execute = (
        "import nbformat, nbclient\n"
        f"book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell({cell!r})])\n"
        "nbclient.NotebookClient(book, timeout=300, kernel_name='python3').execute()\n"
        "print(*(output.get('text', '') for output in book.cells[0].outputs))"
    )
    executed = installed.run("python", "-c", execute, timeout=400)
    assert "2 dimensions" in executed.stdout, executed.stderr
