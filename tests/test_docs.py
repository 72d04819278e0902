"""Every Python block of the README and of docs/ runs as it stands, one namespace for each page."""

import re
from pathlib import Path

import pytest

from sweep_service.dynamics.regimes import REGIMES
from sweep_service.model.activations import ACTIVATIONS
from sweep_service.model.initial import INITS
from sweep_service.model.observables import OBSERVABLES
from sweep_service.simulators.choose import ENGINES

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def registries():
    """The recipes add entries; other tests walk the registries and must not meet them."""
    kept = [(registry, dict(registry)) for registry in (ACTIVATIONS, REGIMES, INITS, OBSERVABLES)]
    yield
    for registry, entries in kept:
        registry.clear()
        registry.update(entries)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if BLOCK.search(page.read_text("utf-8"))], ids=lambda page: page.name
)
@pytest.mark.usefixtures("registries")
def test_examples_run(page):
    namespace = {"__name__": page.stem}
    for block in BLOCK.finditer(page.read_text("utf-8")):
        line = page.read_text("utf-8").count("\n", 0, block.start(1))
        exec(compile("\n" * line + block[1], str(page), "exec"), namespace)


def test_theory_names_every_regime():
    text = (ROOT / "docs" / "theory.md").read_text("utf-8")
    assert [name for name in REGIMES if f"`{name}`" not in text] == []


def test_simulators_names_every_engine_and_observable():
    text = (ROOT / "docs" / "simulators.md").read_text("utf-8")
    assert [name for name in (*ENGINES, *OBSERVABLES) if f"`{name}`" not in text] == []


def test_relative_links_lead_somewhere():
    broken = [
        f"{page.name}: {target}"
        for page in [*PAGES, ROOT / "CONTRIBUTING.md"]
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text("utf-8"))
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert broken == []
