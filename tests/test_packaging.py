"""What is installed: one import name with all of its files, by whichever way a wheel was built."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
NAME = "sweep_service"
SAMPLES = (
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
    (built,) = output.iterdir()
    return built


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """From the checkout, and from the source distribution of it."""
    folder = tmp_path_factory.mktemp("built")
    sdist = build("sdist", ROOT, folder / "sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "source", filter="data")
    (source,) = (folder / "source").iterdir()
    return {
        "checkout": build("wheel", ROOT, folder / "checkout"),
        "sdist": build("wheel", source, folder / "through-sdist"),
    }


def content(wheel):
    """Files of the package by name, and the top-level names."""
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    tops = {name.partition("/")[0] for name in files}
    return {name: data for name, data in files.items() if name.startswith(f"{NAME}/")}, tops


@pytest.mark.parametrize("way", ["checkout", "sdist"])
def test_a_wheel_has_one_top_level_name(wheels, way):
    files, tops = content(wheels[way])
    assert {name for name in tops if not name.endswith(".dist-info")} == {NAME}
    assert [name for name in SAMPLES if name not in files] == []
    assert [name for name in files if name.endswith(".pyc")] == []


def test_both_ways_give_the_same_files(wheels):
    assert content(wheels["checkout"])[0] == content(wheels["sdist"])[0]


def test_every_tracked_file_of_the_package_is_in_the_wheel(wheels):
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    command = ["git", "ls-files", "-z", NAME, "api", "workers"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    files = [name for name in names if (ROOT / name).is_file()]
    wanted = {name if name.startswith(NAME) else f"{NAME}/{name}" for name in files}
    assert wanted - set(content(wheels["checkout"])[0]) == set()


def test_an_installed_wheel_works_beside_a_users_folders(wheels, tmp_path):
    """Folders `api` and `workers` of a user come first on the path, and are not ours."""
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
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path / "user", capture_output=True, text=True, timeout=100,
        check=False, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    where, presets = run.stdout.split()
    assert Path(where).is_relative_to(tmp_path / "installed")
    assert int(presets) > 10
