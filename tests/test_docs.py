"""Every Python block of the README and of docs/ runs, and every shell block with curl.

The blocks of a page share a namespace. Those that need a service get one. The cookbook has its own tests.
Of the tutorial and the how-to guides all shell blocks run; blocks of `text` need what a test does not have.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from sweep_service.analysis.point_values import VALUES
from sweep_service.analysis.views import VIEWS
from sweep_service.cli.app import app
from sweep_service.dynamics.regimes import REGIMES
from sweep_service.figures import FIGURES
from sweep_service.model.activations import ACTIVATIONS
from sweep_service.model.initial import INITS
from sweep_service.model.observables import OBSERVABLES
from sweep_service.model.parameters import PARAMETERS
from sweep_service.simulators.selection import SIMULATORS
from tests.service import start_service
from tests.store.weed import weed

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
GUIDES = [ROOT / "docs" / "tutorial.md", *sorted((ROOT / "docs" / "howto").glob("*.md"))]
ROOT_PAGES = ("CONTRIBUTING.md", "SUPPORT.md", "CODE_OF_CONDUCT.md")
BUCKET_GUIDE = "s3.md"  # its examples need a server
GUIDE_TIMEOUT_SECONDS = 280.0  # of one block, on a busy machine
SHELL_BLOCK = re.compile(r"^```(?:sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLE_URL = "http://127.0.0.1:8000"  # the service in all examples


@pytest.fixture
def registries():
    """Restore the registries, because examples add entries that other tests must not see."""
    saved = [
        (registry, dict(registry))
        for registry in (ACTIVATIONS, REGIMES, INITS, OBSERVABLES, PARAMETERS, VALUES)
    ]
    yield
    for registry, entries in saved:
        registry.clear()
        registry.update(entries)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    service = start_service(tmp_path_factory.mktemp("docs") / "data", workers=2)
    yield service
    service.stop()


def find_examples(page):
    if page.name == "cookbook.md" or page in GUIDES:
        return []
    text = page.read_text("utf-8")
    return [block for block in BLOCK.finditer(text) if block[1] == "python" or "curl" in block[2]]


@pytest.mark.parametrize("page", [page for page in PAGES if find_examples(page)], ids=lambda page: page.name)
@pytest.mark.usefixtures("registries")
def test_examples_run(page, request, monkeypatch):
    if "Client(" in page.read_text("utf-8"):
        monkeypatch.setenv("SWEEP_URL", request.getfixturevalue("service").url)
    namespace = {"__name__": page.stem}
    for block in find_examples(page):
        line = page.read_text("utf-8").count("\n", 0, block.start(2))
        if block[1] == "python":
            exec(compile("\n" * line + block[2], str(page), "exec"), namespace)
        elif shutil.which("curl"):
            url = request.getfixturevalue("service").url
            code = block[2].replace(EXAMPLE_URL, url)
            result = subprocess.run(
                ["bash", "-ec", code], capture_output=True, text=True, timeout=60, check=True
            )
            responses = [
                json.loads(line) for line in re.findall(r"\{.*?\}(?=\{|$)", result.stdout, re.DOTALL)
            ]
            assert responses
            assert all("status" not in response for response in responses), responses  # a problem has one
        else:  # later blocks need the sweep that curl would submit
            pytest.skip("curl is not installed")


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.name, marks=[pytest.mark.slow] * (page.name == BUCKET_GUIDE))
        for page in GUIDES
        if BLOCK.search(page.read_text("utf-8"))
    ],
)
@pytest.mark.usefixtures("registries")
@pytest.mark.timeout(300)
def test_guides_run(page, request, tmp_path, monkeypatch):
    """As a reader would type them: in one folder, in the order of the page."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setenv("SWEEP_STATE", str(tmp_path / "state"))
    if page.name == BUCKET_GUIDE:
        for name, value in request.getfixturevalue("bucket").items():
            monkeypatch.setenv(name, value)
    namespace = {"__name__": page.stem}
    text = page.read_text("utf-8")
    for block in BLOCK.finditer(text):
        with monkeypatch.context() as patch:
            if "Client(" in block[2] or "sweep submit" in block[2]:  # other commands look at the data folder
                patch.setenv("SWEEP_URL", request.getfixturevalue("service").url)
            if block[1] == "python":
                line = text.count("\n", 0, block.start(2))
                exec(compile("\n" * line + block[2], str(page), "exec"), namespace)
            else:
                result = subprocess.run(
                    ["bash", "-euo", "pipefail", "-c", block[2]],
                    capture_output=True, text=True, timeout=GUIDE_TIMEOUT_SECONDS, check=False,
                )  # fmt: skip
                assert result.returncode == 0, f"{block[2]}\n{result.stdout}\n{result.stderr}"


@pytest.fixture
def bucket(tmp_path):
    """Return the environment of an S3 server with the bucket `sweeps`."""
    with weed(tmp_path / "weed") as server:
        yield server.environment


def list_commands():
    """Return the `sweep` commands in the shell blocks of all pages, those that no test runs included."""
    found = []
    for page in PAGES:
        for block in SHELL_BLOCK.findall(page.read_text("utf-8")):
            for line in block.replace("\\\n", " ").splitlines():
                match = re.match(r"(?:[A-Z_]+=\S+ )*(?:\.venv/bin/)?sweep ([^|<>&;`]+)$", line.split(" #")[0])
                if match and "…" not in line:
                    found.append(" ".join(match[1].split()))
    return sorted(set(found))


@pytest.mark.parametrize("line", list_commands())
def test_commands_and_options_exist(line):
    """The command line accepts it; nothing is executed."""
    name, *arguments = shlex.split(line)
    command = typer.main.get_command(app).commands[name]
    command.make_context(name, [argument for argument in arguments if argument != "--help"])


def test_theory_page_names_every_regime():
    text = (ROOT / "docs" / "theory.md").read_text("utf-8")
    assert [name for name in REGIMES if f"`{name}`" not in text] == []


def test_simulators_page_names_every_simulator_and_observable():
    text = (ROOT / "docs" / "simulators.md").read_text("utf-8")
    assert [name for name in (*SIMULATORS, *OBSERVABLES) if f"`{name}`" not in text] == []


def test_gallery_shows_every_figure_and_all_pass():
    """The page was written by `sweep gallery docs/gallery`."""
    text = (ROOT / "docs" / "gallery" / "README.md").read_text("utf-8")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == list(FIGURES)
    assert all(f"({name}.png)" in text for name in FIGURES)
    assert text.count("| passes |") > 2 * len(FIGURES)
    assert "FAILS" not in text
    assert sum(file.stat().st_size for file in (ROOT / "docs" / "gallery").iterdir()) < 3e6


def test_analysis_page_names_every_value_and_view():
    text = (ROOT / "docs" / "analysis.md").read_text("utf-8")
    assert [name for name in VIEWS if f"`{name}`" not in text] == []
    short = {re.sub("^(sgd|ode)_(?!over_ode)", "…_", name) for name in VALUES}
    assert [name for name in short if f"`{name}`" not in text] == []


def test_relative_links_exist():
    broken = [
        f"{page.name}: {target}"
        for page in [
            *PAGES,
            *map(ROOT.joinpath, ROOT_PAGES),
        ]
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text("utf-8"))
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert broken == []
