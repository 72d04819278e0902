"""The release kit: workflows, templates, recipe, paper and the README of the package."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

from sweep_service.version import __version__
from tools.conda_recipe import RECIPE, write_recipe
from tools.package_readme import convert_readme

ROOT = Path(__file__).resolve().parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
README = (ROOT / "README.md").read_text("utf-8")
ADDRESS = "https://code.example.org/group/sweep-service"
LINK = re.compile(r"\]\(([^)\s]+)\)")


def load(path):
    return yaml.safe_load(path.read_text("utf-8"))


def list_steps(workflow):
    return [step for job in load(workflow)["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_workflow_calls_existing_targets_and_pinned_actions(workflow):
    steps = list_steps(workflow)
    assert [step["uses"] for step in steps if "@" not in step.get("uses", "@")] == []
    called = {name for step in steps for name in re.findall(r"\bmake ([a-z-]+)", step.get("run", ""))}
    assert called <= TARGETS
    document = load(workflow)
    assert document["permissions"] == {"contents": "read"}  # anything more is given to one job
    assert all("timeout-minutes" in job for job in document["jobs"].values() if _runs_commands(job))


def _runs_commands(job):
    return any("run" in step for step in job["steps"])


def test_tests_run_on_every_supported_python():
    matrix = load(ROOT / ".github" / "workflows" / "tests.yml")["jobs"]["test"]["strategy"]["matrix"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lowest = project["requires-python"].removeprefix(">=")
    assert lowest in matrix["python"]
    assert {item["system"] for item in matrix["include"]} | set(matrix["system"]) == {
        "ubuntu-latest", "macos-latest",
    }  # fmt: skip


def test_release_publishes_without_a_token():
    document = load(ROOT / ".github" / "workflows" / "release.yml")
    publish = document["jobs"]["publish"]
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["environment"]
    assert "secrets." not in (ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8")
    build = document["jobs"]["build"]
    assert "github.repository" in build["env"]["SWEEP_REPOSITORY_URL"]
    assert publish["needs"] == "build"


def test_pre_commit_uses_the_locked_tools():
    (repository,) = load(ROOT / ".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"
    assert all(hook["entry"].startswith(".venv/bin/") for hook in repository["hooks"])
    files = re.findall(r"tests/\w+\.py", " ".join(hook["entry"] for hook in repository["hooks"]))
    assert files
    assert all((ROOT / file).exists() for file in files)


@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.stem)
def test_issue_form_asks_something(form):
    document = load(form)
    assert document["name"]
    assert document["description"]
    questions = [field for field in document["body"] if field["type"] != "markdown"]
    assert questions
    assert len({field["id"] for field in questions}) == len(questions)


def test_recipe_has_the_requirements_of_the_package():
    assert RECIPE.read_text("utf-8") == write_recipe(), "run: python tools/conda_recipe.py"
    recipe = load(RECIPE)
    assert recipe["context"]["version"] == __version__
    assert any(line.startswith("zarr >=3") for line in recipe["requirements"]["run"])


def test_paper_has_the_form_of_the_journal():
    text = (ROOT / "paper" / "paper.md").read_text("utf-8")
    _, front, body = text.split("---\n", 2)
    fields = yaml.safe_load(front)
    assert {"title", "tags", "authors", "affiliations", "date", "bibliography"} <= set(fields)
    headings = re.findall(r"^# (.*)$", body, re.MULTILINE)
    assert headings[:2] == ["Summary", "Statement of need"]
    assert headings[-1] == "References"
    assert 250 < len(body.split()) < 1750
    entries = re.findall(r"^@\w+\{(\w+),", (ROOT / "paper" / fields["bibliography"]).read_text("utf-8"), re.M)
    assert set(re.findall(r"@([a-z]+\w*)", body)) == set(entries)


def test_readme_of_a_release_has_absolute_links():
    text = convert_readme(README, f"{ADDRESS}/", "1.2.3")
    links = LINK.findall(text)
    assert [link for link in links if "://" not in link and not link.startswith("#")] == []
    assert f"{ADDRESS}/blob/v1.2.3/docs/tutorial.md" in links
    assert f"{ADDRESS}/raw/v1.2.3/docs/figures/phase-diagram.png" in links
    for link in links:  # each leads to a file of this version
        if link.startswith(ADDRESS):
            path = re.sub(r"^.*/(?:blob|raw)/v1\.2\.3/", "", link).partition("#")[0]
            assert (ROOT / path).exists(), link


def test_readme_without_an_address_has_no_dead_link():
    text = convert_readme(README, "", "1.2.3")
    links = LINK.findall(text)
    assert links
    assert all("://" in link for link in links)
    assert "![" not in text
    assert "tutorial" in text
    assert "source distribution" in text
    blocks = re.findall(r"^```.*?^```$", README, re.MULTILINE | re.DOTALL)
    assert blocks
    assert all(block in text for block in blocks)


def test_package_has_the_converted_readme(monkeypatch):
    monkeypatch.setenv("SWEEP_REPOSITORY_URL", ADDRESS)
    metadata = ProjectMetadata(str(ROOT), PluginManager())
    assert metadata.core.readme_content_type == "text/markdown"
    assert f"]({ADDRESS}/blob/v{__version__}/docs/tutorial.md)" in metadata.core.readme
