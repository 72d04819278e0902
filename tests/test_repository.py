"""The repository: lock file, paths, commands of the documents, and citation."""

import os
import re
import subprocess
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from sweep_service.version import __version__
from tests.conftest import COLLECTED
from tests.slow import PATTERNS

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
LOCK = (ROOT / "requirements.lock").read_text("utf-8")

# A path on a particular machine, a file outside the repository, or a particular package index.
FOREIGN_REFERENCE = re.compile(
    r"""(?<![\w.-])/(?:home|Users|root|work)/\w | \.\./shared | /\s*["']shared\b
      | pypi\.org | pythonhosted\.org | npmjs\.(?:org|com)""",
    re.VERBOSE,
)


def list_locked() -> list[str]:
    """Return one line per locked requirement, with its hashes."""
    lines = LOCK.replace("\\\n", " ").splitlines()
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]


def list_repository_files() -> list[Path]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in names.split("\0") if (ROOT / name).is_file()]


SCRIPTS = sorted((ROOT / "api" / "static" / "js").rglob("*.js"))  # vendored ones are in static/vendor
SCRIPT_LINE_LENGTH = 110


def find_make_commands(text: str) -> list[str]:
    """Return the shell lines that call make, without comments."""
    return [line.split("#")[0].strip() for line in text.splitlines() if line.startswith("make ")]


def test_lock_pins_every_version_with_a_hash():
    loose = [
        line for line in list_locked() if not re.match(r"[\w.-]+==\S+ .*--hash=sha256:[0-9a-f]{64}", line)
    ]
    assert loose == []


def test_lock_names_no_index_and_no_path():
    options = [line for line in list_locked() if line.lstrip().startswith("-")]
    assert options == []
    assert re.findall(r"\S*://\S*|(?<=\s)\.{0,2}/\S+", LOCK) == []


def test_lock_satisfies_pyproject():
    versions: dict[str, list[str]] = {}
    for line in list_locked():
        name, version = line.split()[0].split("==")
        versions.setdefault(canonicalize_name(name), []).append(version)
    groups = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    for requirement in (Requirement(text) for group in groups for text in group):
        if requirement.name == PROJECT["name"]:  # an extra that contains others
            continue
        locked = versions.get(canonicalize_name(requirement.name), [])
        assert locked, f"{requirement} is not in requirements.lock: run make lock"
        assert all(requirement.specifier.contains(version) for version in locked), f"{requirement}: {locked}"


@pytest.mark.parametrize(
    "text", ["open('/" + "home/ann/x')", "cd /" + "work/main", "../" + "shared/x", "root / '" + "shared'"]
)
def test_foreign_reference_is_found(text):
    assert FOREIGN_REFERENCE.search(text)


def test_no_file_refers_to_a_particular_machine():
    files = list_repository_files()
    assert ROOT / "pyproject.toml" in files
    references = [
        f"{file.relative_to(ROOT)}:{number} {line.strip()[:80]}"
        for file in files
        for number, line in enumerate(file.read_text("utf-8", errors="ignore").splitlines(), 1)
        if FOREIGN_REFERENCE.search(line)
    ]
    assert references == []


def test_readme_and_ci_run_the_same_tests():
    ci = ROOT / ".ci" / "run"
    assert os.access(ci, os.X_OK)
    in_readme = find_make_commands((ROOT / "README.md").read_text("utf-8"))
    assert (
        [line for line in in_readme if "test" in line]
        == find_make_commands(ci.read_text("utf-8"))
        == ["make test"]
    )


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_documents_name_existing_targets(document):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = set(re.findall(r"(?:`|^)make ([a-z-]+)", (ROOT / document).read_text("utf-8"), re.MULTILINE))
    assert named
    assert named <= targets


def test_citation_names_the_release_and_both_papers():
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"\nversion: {__version__}\n" in citation
    for text in ("dimensionless ODEs", "arXiv:2302.05882", "Phase diagram of Stochastic", "arXiv:2202.00293"):
        assert text in citation


def test_every_pattern_of_slow_tests_matches_a_test(request):
    """Otherwise a renamed slow test would return to `make test` unnoticed."""
    collected = request.config.stash[COLLECTED]
    if len({node.partition("::")[0] for node in collected}) < 100:
        pytest.skip("not all tests were collected")
    assert set(PATTERNS) - set().union(*collected.values()) == set()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_script_lines_are_short(script):
    lines = script.read_text("utf-8").splitlines()
    assert [at for at, line in enumerate(lines, 1) if len(line) > SCRIPT_LINE_LENGTH] == []


def test_dockerfile_imports_what_exists():
    """A rename of a name that only the build of an image imports would show in no other test."""
    text = (ROOT / "Dockerfile").read_text("utf-8").replace("\\\n", "")
    names = re.findall(r"from (sweep_service[\w.]*) import (\w+)", text)
    assert names
    for module, name in names:
        assert hasattr(import_module(module), name), (module, name)
