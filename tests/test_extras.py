"""Optional packages: the extra that installs each, and the error where one is missing."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from sweep_service.errors import MissingPackage
from sweep_service.extras import EXTRAS, explain_missing_package

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
OF_ANOTHER_PACKAGE = {"cloudpickle", "tornado", "starlette"}  # required by distributed and fastapi
# Calls that need an optional package, with the extra that the error must name.
CALLS = {
    "ss.run(SPEC)": "run",
    "ss.run(SPEC, scheduler='tcp://127.0.0.1:1')": "run",
    "ss.Client()": "client",
    "ss.open('http://127.0.0.1:1/v1/sweeps/x')": "client",
    "ss.open('s3://bucket/x.zarr')": "serve",
    "ss.sweeps('s3://bucket')": "serve",
    "RESULT.sweep.export('out.nc')": "export",
    "RESULT.sweep.export('out.parquet')": "export",
    "certificates(Path('keys'))": "run",
    "serve()": "serve",
}
CODE = f"""
import json
from importlib.machinery import PathFinder
from pathlib import Path

find_installed = PathFinder.find_spec

def find_spec(name, path=None, target=None):
    return None if name.partition(".")[0] in {sorted(EXTRAS)!r} else find_installed(name, path, target)

PathFinder.find_spec = find_spec
import sweep_service as ss
from sweep_service.cli.doctor import certificates
from sweep_service.cli.service import serve
from sweep_service.errors import MissingPackage

SPEC = {{"axes": {{"d": [6], "p": 2, "gamma": [0.1]}}, "fixed": {{"k": 2}}, "time": {{"max": 0.1}}}}
RESULT = ss.run(SPEC, workers=0)  # the core is enough
errors = {{}}
for call in {list(CALLS)!r}:
    try:
        eval(call)
        errors[call] = ""
    except MissingPackage as error:
        errors[call] = str(error)
print(json.dumps(errors))
"""


@pytest.fixture(scope="module")
def errors(tmp_path_factory):
    """The error of each call in a process that has only the packages of the core."""
    result = subprocess.run(
        [sys.executable, "-c", CODE], cwd=tmp_path_factory.mktemp("core"), capture_output=True, text=True,
        timeout=100, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize("call", CALLS)
def test_error_names_the_extra(errors, call):
    assert f"pip install 'sweep-service[{CALLS[call]}]'" in errors[call]


def test_every_optional_package_is_in_its_extra():
    extras = PROJECT["optional-dependencies"]
    for package, extra in EXTRAS.items():
        if package not in OF_ANOTHER_PACKAGE:
            names = {canonicalize_name(Requirement(text).name) for text in extras[extra]}
            assert canonicalize_name(package) in names


def test_every_optional_dependency_is_explained():
    extras = {
        name: texts for name, texts in PROJECT["optional-dependencies"].items() if name not in ("dev", "docs")
    }
    names = {canonicalize_name(Requirement(text).name) for texts in extras.values() for text in texts}
    explained = {canonicalize_name(package) for package in EXTRAS}
    assert names - explained <= {"sweep-service", "h5py"}  # h5netcdf imports h5py


def test_other_missing_modules_are_errors_of_their_own():
    with pytest.raises(ModuleNotFoundError, match="no_such_module"), explain_missing_package("a test"):
        import no_such_module  # noqa: F401
    with pytest.raises(MissingPackage, match="a test needs dask"), explain_missing_package("a test"):
        raise ModuleNotFoundError("No module named 'dask'", name="dask.config")
