"""The wheel: one import name with all files, built from a checkout or from an sdist."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
NAME = "sweep_service"
EXPECTED_FILES = (
    "sweep_service/api/app.py",
    "sweep_service/api/routes/sweeps.py",
    "sweep_service/api/static/vendor/plotly.min.js",
    "sweep_service/api/templates/base.html",
    "sweep_service/presets/fig2-left.yaml",
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
        "checkout": build("wheel", ROOT, folder / "checkout"),
        "sdist": build("wheel", source, folder / "through-sdist"),
    }


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


def test_installed_wheel_works_beside_folders_of_a_user(wheels, tmp_path):
    """Folders `api` and `workers` of a user come first on the path, but must not be imported."""
    with zipfile.ZipFile(wheels["sdist"]) as archive:
        archive.extractall(tmp_path / "installed")
    for name in ("api", "workers"):
        (tmp_path / "user" / name).mkdir(parents=True)
        (tmp_path / "user" / name / "__init__.py").write_text("raise ImportError('of a user')\n")
    code = (
        "import sweep_service, sweep_service.api.app, sweep_service.workers.executor\n"
        "from sweep_service.presets import PRESETS\n"
        "print(sweep_service.api.app.__file__, len(PRESETS))"
    )
    path = os.pathsep.join([str(tmp_path / "user"), str(tmp_path / "installed")])
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path / "user", capture_output=True, text=True, timeout=100,
        check=False, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    module, presets = result.stdout.split()
    assert Path(module).is_relative_to(tmp_path / "installed")
    assert int(presets) > 10
