"""The errata of the paper have one numbering, that of docs/theory.md, which code and tests cite."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = [
    path
    for folder in ("sweep_service", "api", "workers", "tests", "docs", "benchmarks")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in (".py", ".md", ".yaml", ".js", ".html") and "vendor" not in path.parts
]
# words that the erratum of each number contains, and that a citation of it has nearby
SUBJECTS = {4: ("∇R",), 8: ("‖x‖²",), 9: ("self", "itself")}


def list_errata():
    """Text of each erratum of docs/theory.md by its number."""
    section = (ROOT / "docs" / "theory.md").read_text("utf-8").partition("## Errata of the paper")[2]
    return {int(number): text for number, text in re.findall(r"^(\d+)\. (.+)$", section, flags=re.MULTILINE)}


def list_citations():
    """(file, number, surrounding text) of every citation of an erratum."""
    for path in dict.fromkeys(path.resolve() for path in SOURCES):
        text = path.read_text("utf-8")
        for match in re.finditer(r"\berratum (\d+)", text):
            yield path.name, int(match[1]), text[max(0, match.start() - 200) : match.end() + 200]


def test_errata_are_numbered_from_one_without_gaps():
    assert list(list_errata()) == list(range(1, 10))


def test_every_citation_is_about_its_erratum():
    errata, citations = list_errata(), list(list_citations())
    assert {number for _, number, _ in citations} == set(SUBJECTS)
    for file, number, context in citations:
        assert any(word in context for word in SUBJECTS[number]), (file, number)
    for number, words in SUBJECTS.items():
        assert any(word in errata[number] for word in words), number


@pytest.mark.parametrize("option", ["finite_d_factor", "self_terms"])
def test_options_cite_the_erratum_that_names_them(option):
    from sweep_service.dynamics.options import RegimeOptions

    descriptions = {field.name: field.metadata["about"] for field in RegimeOptions.public_fields()}
    cited = re.search(r"erratum (\d+)", descriptions[option])
    assert f"`{option}`" in list_errata()[int(cited[1])]
