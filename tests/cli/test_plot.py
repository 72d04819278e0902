"""`sweep plot`, `sweep gallery`, and what `sweep run` draws."""

import pytest
from PIL import Image

from sweep_service.analysis.views import VIEWS
from sweep_service.cli.answers import DONE, FAILED
from sweep_service.figures import FIGURES
from tests.cli.commands import FAIL, SMALL, assert_refused, sweep, trace_of

ONE = "import sweep_service.figures as f\nf.FIGURES = {'rates': f.FIGURES['rates']}\n"
WRONG = (
    ONE
    + """
from dataclasses import replace
old = f.FIGURES["rates"]
bad = replace(old, check=lambda parts: [f.Check.at_most("a number", 2.0, 1.0)])
f.FIGURES = {"rates": bad}
f.figure_of = lambda preset: bad
"""
)


@pytest.mark.parametrize(
    ("name", "words", "view"),
    [
        ("out.png", [], "phase-diagram"),
        ("out.svg", ["curves", "d=5"], "curves"),
        ("out.pdf", ["phase-diagram", "x=gamma", "y=d", "value=discrepancy"], "phase-diagram"),
        ("OUT.PNG", ["collapse", "gamma=0.1"], "collapse"),
    ],
)
def test_a_view_becomes_a_file(filled, tmp_path, name, words, view):
    cwd, known = filled
    answer = sweep(cwd, "plot", known[:10], tmp_path / name, *words, "--json")
    assert answer.code == DONE, answer.err
    assert answer.json["view"] == view
    assert answer.json["id"] == known
    assert trace_of(tmp_path) == [name]
    assert (tmp_path / name).stat().st_size > 3000


def test_what_cannot_be_drawn_leaves_nothing(filled, tmp_path):
    cwd, known = filled
    out = tmp_path / "out.png"
    for words, said in (
        (["odd"], "must be one of"),
        (["x=d"], "need a view"),
        (["curves", "d"], "such as x=gamma"),
        (["curves", "d=6"], "5, 8"),
        (["phase-diagram"], "is required"),
        (["phase-diagram", "x=gamma", "y=d", "axes=1"], "selection"),
        (["plane"], "scaling"),
        (["triangle"], "triangle"),
    ):
        answer = sweep(cwd, "plot", known, out, *words)
        assert_refused(answer, said)
    assert_refused(sweep(cwd, "plot", known, tmp_path / "out.gif"), "png")
    assert_refused(sweep(cwd, "plot", known, tmp_path / "no" / "out.png"), "No such file")
    assert trace_of(tmp_path) == []
    assert all(name in sweep(cwd, "plot", known, out, "odd").err for name in VIEWS)


def test_a_run_draws_what_shows_most(tmp_path):
    answer = sweep(tmp_path, "run", "-", text=SMALL)
    assert answer.code == DONE, answer.err
    files = sorted((tmp_path / "sweep-data" / "figures").iterdir())
    assert [file.suffix for file in files] == [".pdf", ".png", ".svg"]
    assert all(file.name in answer.out for file in files)
    with Image.open(files[1]) as image:
        assert image.width > 500
    about = sweep(tmp_path, "run", "-", "--json", text={**SMALL, "seeds": 3}).json
    assert len(about["figures"]) == 3
    assert (
        sweep(tmp_path, "run", "-", "--no-figure", "--json", text={**SMALL, "seeds": 4}).json["figures"] == []
    )
    assert len(list((tmp_path / "sweep-data" / "figures").iterdir())) == 6


def test_a_run_that_failed_is_not_drawn(tmp_path):
    answer = sweep(tmp_path, "run", "-", "--json", text=SMALL, before=FAIL)
    assert answer.code == FAILED
    assert answer.json["figures"] == []
    assert not (tmp_path / "sweep-data" / "figures").exists()


@pytest.mark.slow
def test_a_figure_of_the_papers_is_checked(tmp_path):
    answer = sweep(tmp_path, "run", "rates")
    assert answer.code == DONE, answer.err
    figure = FIGURES["rates"]
    assert figure.title in answer.out
    assert all(f"assumed: {text}" in answer.out for text in figure.assumptions)
    assert "passes" in answer.out
    assert "ss.open" in answer.out
    assert len(list((tmp_path / "sweep-data" / "figures").glob("rates.*"))) == 3
    about = sweep(tmp_path, "run", "rates", "--json").json
    assert about["passed"] is True
    assert about["state"] == "completed"
    for check in about["checks"]:
        assert check["name"] in answer.out
        assert check["bound"] in answer.out
    wrong = sweep(tmp_path, "run", "rates", before=WRONG)
    assert wrong.code == FAILED
    assert "FAILS" in wrong.out


@pytest.mark.slow
def test_the_gallery_is_a_page(tmp_path):
    answer = sweep(tmp_path, "gallery", "page", "--serial", "--json", before=ONE)
    assert answer.code == DONE, answer.err
    assert [one["figure"] for one in answer.json["figures"]] == ["rates"]
    text = (tmp_path / "page" / "README.md").read_text("utf-8")
    assert "![" in text
    assert "(rates.png)" in text
    for check in answer.json["figures"][0]["checks"]:
        assert f"{check['value']:.3g} | {check['bound']}" in text
    assert (tmp_path / "page" / "rates.png").stat().st_size > 10_000
    wrong = sweep(tmp_path, "gallery", "--serial", before=WRONG)
    assert wrong.code == FAILED
    assert "FAILS" in wrong.err
    assert "| FAILS |" in (tmp_path / "sweep-data" / "gallery" / "README.md").read_text("utf-8")
