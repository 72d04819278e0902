"""`docs/validation.md`: every row is computed again, within its bound, and the page has no other rows."""

import math

import pytest

from tests.analysis.coverage import CASES
from validation.__main__ import main
from validation.document import (
    DOCUMENT,
    SECTIONS,
    Section,
    find_differences,
    read_document,
    render_document,
)
from validation.row import COLUMNS, Row, read_rows, render_table

FAST = ("fixed-points",)
# tests/figures/test_checks.py compares the rows of the figures, because it computes their sweeps.
COMPUTED = [name for name in SECTIONS if name != "figures"]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in COMPUTED]
)
def test_rows_are_within_their_bounds(name, tmp_path):
    assert find_differences(name, list(SECTIONS[name].make_rows(tmp_path))) == []


def test_page_has_every_section():
    text = DOCUMENT.read_text("utf-8")
    tables = read_document(text)
    assert list(tables) == list(SECTIONS)
    rows = [row for table in tables.values() for row in table]
    assert f"{len(rows)} of {len(rows)} rows are within their bounds" in text
    assert len({row["quantity"] for row in rows}) == len(rows)


def test_page_has_every_interval():
    """Their coverage takes minutes, so that only `make test-all` computes it."""
    rows = read_document(DOCUMENT.read_text("utf-8"))["intervals"]
    assert [row["quantity"] for row in rows] == list(CASES)


ROWS = [
    Row.near("a | b", "x", 2.0, 2.001, 1e-2),
    Row.near("relative", "x", 2.0, 2.001, 1e-4, relative=True),
    Row.largest_error("many", "x", 3.2e-13, 1e-12),
    Row.largest_error("lost", "x", math.nan, 1.0),
    Row.inside("between", "x", 0.94, 0.95, 0.93, 0.97),
    Row.inside("below", "x", -0.4, -0.5, high=-0.5),
    Row.near("zero", "x", 1e-17, 0.0, 0.0),
]


def test_rows_are_printed_and_read():
    rows = read_rows("\n".join(render_table(ROWS)))
    assert [row["quantity"] for row in rows] == [row.quantity for row in ROWS]
    assert [row["error"] for row in rows] == ["0.001", "0.0005", "< 1e-12", "nan", "0.01", "0.1", "< 1e-12"]
    assert [row["within"] for row in rows] == ["yes", "**no**", "yes", "**no**", "yes", "**no**", "**no**"]
    assert rows[0] == dict(
        zip(COLUMNS, ("a | b", "x", "2.001", "2", "0.001", "error <= 0.01", "yes"), strict=True)
    )
    assert [row["bound"] for row in rows[4:6]] == ["in [0.93, 0.97]", "<= -0.5"]


def test_row_outside_its_bound_fails(tmp_path, monkeypatch, capsys):
    section = Section("Fixed points", "Text.", lambda folder: iter(ROWS[:2]))
    monkeypatch.setitem(SECTIONS, "fixed-points", section)
    assert main(["fixed-points"]) == 1
    assert "**no**" in capsys.readouterr().out
    text = render_document({"fixed-points": ROWS[:2]})
    assert "1 of 2 rows" in text
    page = tmp_path / "page.md"
    page.write_text(text, "utf-8")
    differences = find_differences("fixed-points", ROWS[:2], page=page)
    assert [line.split(":")[0] for line in differences] == [
        "outside its bound",
        "outside its bound on the page",
    ]
    assert find_differences("fixed-points", ROWS[:1], part="a", page=page) == []
    other = find_differences("fixed-points", ROWS[4:5], part="a", page=page)
    assert other == ["not on the page: between, in [0.93, 0.97]", "no longer computed: a | b, error <= 0.01"]


def test_unknown_section_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["figurs"])
    assert "figurs" in capsys.readouterr().err
