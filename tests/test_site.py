"""The documentation site: built without a warning, complete, and without any address of another server."""

import html
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import griffe
import pytest

import sweep_service as ss
from sweep_service.analysis.accessor import METHODS
from sweep_service.cli.app import COMMANDS
from sweep_service.planning.spec import SweepSpec
from tools.documentation.links import PageLinks
from tools.documentation.rest_pages import openapi

ROOT = Path(__file__).resolve().parents[1]
LOADED = re.compile(r'<(?:script|img|iframe)[^>]*\ssrc="([^"]+)"|<link[^>]*\shref="([^"]+)"')


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site. A broken link ends the build."""
    folder = tmp_path_factory.mktemp("site")
    result = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT, capture_output=True, text=True, timeout=280, check=False,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return folder


def read(page):
    """Return the text of a page without its tags."""
    return html.unescape(re.sub(r"<[^>]+>", "", page.read_text("utf-8")))


@pytest.mark.timeout(300)  # ten seconds on a machine that is not busy
def test_site_loads_nothing_from_other_servers(site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 40
    loaded = {
        url for page in pages for pair in LOADED.findall(page.read_text("utf-8")) for url in pair if url
    }
    assert loaded
    assert {url for url in loaded if url.startswith(("http:", "https:", "//"))} == set()
    diagram = (site / "architecture.html").read_text("utf-8")
    assert 'src="assets/vendor/mermaid.js"' in diagram  # otherwise the theme would load it from a server
    assert (site / "assets" / "vendor" / "mermaid.js").stat().st_size > 1e6


@pytest.mark.timeout(300)
def test_reference_pages_are_complete(site):
    reference = site / "reference"
    routes = read(reference / "rest-routes.html")
    for path, operations in openapi()["paths"].items():
        assert all(f"{method.upper()} {path}" in routes for method in operations), path
    commands = read(reference / "commands.html")
    assert [name for name in COMMANDS if f"sweep {name}" not in commands] == []
    fields = read(reference / "spec-fields.html")
    assert [name for name in SweepSpec.model_fields if name not in fields] == []
    accessor = read(reference / "accessor.html")
    assert [name for name in METHODS if f"ds.sweep.{name}" not in accessor] == []
    client = read(reference / "client.html")
    methods = [name for name, _ in inspect.getmembers(ss.Client, inspect.isfunction)]
    assert [name for name in methods if not name.startswith("_") and name not in client] == []
    functions = read(reference / "functions.html")
    assert all(f"ss.{name}" in functions for name in ("run", "simulate", "integrate", "open", "sweeps"))


def test_links_lead_to_places_of_the_site():
    links = PageLinks()
    text = (
        "[a](docs/theory.md#flows), [b](deploy/slurm/workers.sbatch) and [c](LICENSE)\n"
        "```\n[d](docs/x.md)\n```"
    )
    assert links.rewrite(text, "README.md", "index.md") == (
        "[a](theory.md#flows), [b](files/deploy/slurm/workers.sbatch) and [c](files/LICENSE)\n"
        "```\n[d](docs/x.md)\n```"
    )
    assert links.rewrite("[a](../../README.md)", "docs/howto/s3.md", "howto/s3.md") == "[a](../index.md)"


def list_public_functions():
    """Yield (name, function) of all that a user calls: `ss`, `ss.Client` and `ds.sweep`."""
    for name in ss.__all__:
        item = getattr(ss, name)
        if inspect.isfunction(item):
            yield f"ss.{name}", item
    for name, item in inspect.getmembers(ss.Client, inspect.isfunction):
        if not name.startswith("_") or name == "__init__":
            yield f"ss.Client.{name}", item
    for name, item in METHODS.items():
        yield f"ds.sweep.{name}", item


PUBLIC = dict(list_public_functions())


def read_sections(name):
    """Return the documented parameters with their descriptions, and the kinds of all sections."""
    function = PUBLIC[name]
    text = ss.Client.__doc__ if name == "ss.Client.__init__" else function.__doc__
    sections = griffe.Docstring(inspect.cleandoc(text or "")).parse("numpy", warnings=False)
    documented = {}
    for section in sections:
        if section.kind.value in ("parameters", "other parameters"):
            for item in section.value:
                for one in item.name.split(","):
                    documented[one.strip().lstrip("*")] = item.description
    return documented, {section.kind.value for section in sections}


@pytest.mark.parametrize("name", PUBLIC)
def test_public_functions_have_complete_sections(name):
    """NumPy sections: every parameter with a text, and what is returned. Similar ones may share an entry."""
    signature = inspect.signature(PUBLIC[name])
    documented, kinds = read_sections(name)
    expected = [parameter for parameter in signature.parameters if parameter not in ("self", "dataset")]
    assert sorted(documented) == sorted(expected)
    assert [parameter for parameter, text in documented.items() if len(text) < 8] == []
    returns = str(signature.return_annotation)
    if returns not in ("None", "<class 'inspect._empty'>"):
        assert kinds & {"returns", "yields"}, f"returns {returns}"
