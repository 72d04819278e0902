"""`sweep plot`, `sweep gallery`, and the figures of `sweep run`."""

import pytest
from PIL import Image

from sweep_service.analysis.views import VIEWS
from sweep_service.cli.answers import DONE, FAILED
from sweep_service.figures import FIGURES
from tests.cli.commands import BREAK_SEED_1, assert_refused, list_files, run_command
from tests.specs import SMALL_SPEC

ONLY_RATES = "import sweep_service.figures as f\nf.FIGURES = {'rates': f.FIGURES['rates']}\n"
FAILING_CHECK = (
    ONLY_RATES
    + """
from dataclasses import replace
original = f.FIGURES["rates"]
failing = replace(original, check=lambda parts: [f.Check.at_most("a number", 2.0, 1.0)])
f.FIGURES = {"rates": failing}
f.figure_of = lambda preset: failing
"""
)


@pytest.mark.parametrize(
    ("name", "options", "view"),
    [
        ("out.png", [], "phase-diagram"),
        ("out.svg", ["curves", "d=5"], "curves"),
        ("out.pdf", ["phase-diagram", "x=gamma", "y=d", "value=discrepancy"], "phase-diagram"),
        ("OUT.PNG", ["collapse", "gamma=0.1"], "collapse"),
        ("out.png", ["curves", "d=5", "time=steps", "scale=linear", "cmap=magma"], "curves"),
        ("out.png", ["phase-diagram", "x=gamma", "y=d", "levels=0.01,0.1", "limits=1e-3,1"], "phase-diagram"),
    ],
)
def test_view_is_written_to_a_file(stored_sweep, tmp_path, name, options, view):
    cwd, sweep_id = stored_sweep
    answer = run_command(cwd, "plot", sweep_id[:10], tmp_path / name, *options, "--json")
    assert answer.code == DONE, answer.err
    assert answer.json["view"] == view
    assert answer.json["id"] == sweep_id
    assert list_files(tmp_path) == [name]
    assert (tmp_path / name).stat().st_size > 3000


def test_refused_view_leaves_no_files(stored_sweep, tmp_path):
    cwd, sweep_id = stored_sweep
    out = tmp_path / "out.png"
    for options, message in (
        (["odd"], "must be one of"),
        (["x=d"], "need a view"),
        (["curves", "d"], "must have the form x=gamma"),
        (["curves", "d=6"], "5, 8"),
        (["phase-diagram"], "is required"),
        (["phase-diagram", "x=gamma", "y=d", "axes=1"], "selection"),
        (["curves", "time=epochs"], "t, steps, samples/d"),
        (["phase-diagram", "x=gamma", "y=d", "scale=odd"], "one of linear, log"),
        (["plane"], "scaling"),
        (["triangle"], "triangle"),
    ):
        answer = run_command(cwd, "plot", sweep_id, out, *options)
        assert_refused(answer, message)
    assert_refused(run_command(cwd, "plot", sweep_id, tmp_path / "out.gif"), "png")
    assert_refused(run_command(cwd, "plot", sweep_id, tmp_path / "no" / "out.png"), "No such file")
    assert list_files(tmp_path) == []
    assert all(name in run_command(cwd, "plot", sweep_id, out, "odd").err for name in VIEWS)


def test_run_draws_the_most_informative_view(tmp_path):
    answer = run_command(tmp_path, "run", "-", text=SMALL_SPEC)
    assert answer.code == DONE, answer.err
    files = sorted((tmp_path / "sweep-data" / "figures").iterdir())
    assert [file.suffix for file in files] == [".pdf", ".png", ".svg"]
    assert all(file.name in answer.out for file in files)
    with Image.open(files[1]) as image:
        assert image.width > 500
    sweep = run_command(tmp_path, "run", "-", "--json", text={**SMALL_SPEC, "seeds": 3}).json
    assert len(sweep["figures"]) == 3
    assert (
        run_command(tmp_path, "run", "-", "--no-figure", "--json", text={**SMALL_SPEC, "seeds": 4}).json[
            "figures"
        ]
        == []
    )
    assert len(list((tmp_path / "sweep-data" / "figures").iterdir())) == 6


def test_incomplete_sweep_is_not_drawn(tmp_path):
    answer = run_command(tmp_path, "run", "-", "--json", text=SMALL_SPEC, before=BREAK_SEED_1)
    assert answer.code == FAILED
    assert answer.json["figures"] == []
    assert not (tmp_path / "sweep-data" / "figures").exists()


@pytest.mark.slow
def test_figure_of_the_papers_is_checked(tmp_path):
    answer = run_command(tmp_path, "run", "rates")
    assert answer.code == DONE, answer.err
    figure = FIGURES["rates"]
    assert figure.title in answer.out
    assert all(f"assumed: {text}" in answer.out for text in figure.assumptions)
    assert "passes" in answer.out
    assert "ss.open" in answer.out
    assert len(list((tmp_path / "sweep-data" / "figures").glob("rates.*"))) == 3
    sweep = run_command(tmp_path, "run", "rates", "--json").json
    assert sweep["passed"] is True
    assert sweep["state"] == "completed"
    for check in sweep["checks"]:
        assert check["name"] in answer.out
        assert check["bound"] in answer.out
    failed = run_command(tmp_path, "run", "rates", before=FAILING_CHECK)
    assert failed.code == FAILED
    assert "FAILS" in failed.out


@pytest.mark.slow
def test_gallery_writes_a_page(tmp_path):
    answer = run_command(tmp_path, "gallery", "page", "--serial", "--json", before=ONLY_RATES)
    assert answer.code == DONE, answer.err
    assert [figure["figure"] for figure in answer.json["figures"]] == ["rates"]
    text = (tmp_path / "page" / "README.md").read_text("utf-8")
    assert "![" in text
    assert "(rates.png)" in text
    for check in answer.json["figures"][0]["checks"]:
        assert f"{check['value']:.3g} | {check['bound']}" in text
    assert (tmp_path / "page" / "rates.png").stat().st_size > 10_000
    failed = run_command(tmp_path, "gallery", "--serial", before=FAILING_CHECK)
    assert failed.code == FAILED
    assert "FAILS" in failed.err
    assert "| FAILS |" in (tmp_path / "sweep-data" / "gallery" / "README.md").read_text("utf-8")
