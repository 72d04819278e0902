"""`sweep seeds`, and the accuracy in `sweep estimate`."""

import json

import pytest

from sweep_service.cli.answers import DONE
from tests.cli.commands import assert_refused, list_files, run_command
from tests.specs import ERROR_BARS_SPEC, SMALL_SPEC

SENTENCE = "With 3 repeats the risk at t = 1 will be known to"


def test_estimate_says_how_accurate_the_risk_will_be(tmp_path):
    text = run_command(tmp_path, "estimate", "-", text=ERROR_BARS_SPEC).out
    assert SENTENCE in text
    assert text.index("core time") < text.index(SENTENCE)
    assert SENTENCE not in run_command(tmp_path, "estimate", "-", "--no-accuracy", text=ERROR_BARS_SPEC).out
    estimate = run_command(tmp_path, "estimate", "-", "--json", text=ERROR_BARS_SPEC).json
    assert estimate["accuracy"]["summary"][0].startswith(SENTENCE)
    assert list_files(tmp_path) == []


def test_seeds_of_a_spec(tmp_path):
    (tmp_path / "spec.json").write_text(json.dumps(ERROR_BARS_SPEC), "utf-8")
    answer = run_command(tmp_path, "seeds", "spec.json", "--error", "0.02", "--json").json
    assert answer["relative_error"] == 0.02
    assert SENTENCE in run_command(tmp_path, "seeds", "spec.json").out
    assert_refused(run_command(tmp_path, "seeds", "spec.json", "--value", "final_risk"), "stored sweeps")


@pytest.fixture(scope="module")
def error_bars(tmp_path_factory):
    cwd = tmp_path_factory.mktemp("bars")
    spec = {**ERROR_BARS_SPEC, "seeds": {"repeat": 6}}
    return cwd, run_command(cwd, "run", "-", "--json", "--no-figure", text=spec).json["id"]


def test_seeds_of_a_stored_sweep(error_bars):
    cwd, sweep_id = error_bars
    answer = run_command(cwd, "seeds", sweep_id, "d=50", "gamma=1", "--error", "0.02")
    assert answer.code == DONE, answer.err
    title, _, head, row = answer.out.splitlines()
    assert title == "repeats that give the mean risk an error of 2 %, at t = 1"
    assert head.split()[:7] == ["d", "p", "gamma", "repeats", "now", "error", "now"]
    content = run_command(cwd, "seeds", sweep_id, "d=50", "gamma=1", "--error", "0.02", "--json").json
    measured, predicted = (curve["mean"][-1] for curve in content["curves"])
    assert row.split()[:4] == ["50", "2", "1", "6"]
    assert f" {predicted:.0f} " in row
    assert f" {measured:.0f} (" in row


def test_unknown_scatter_is_explained(stored_sweep):
    cwd, sweep_id = stored_sweep
    assert_refused(run_command(cwd, "seeds", sweep_id, "--error", "0"), "relative_error")
    assert_refused(run_command(cwd, "seeds", sweep_id, "d"), "d=50")
    # Two draws are too few to measure, and a theory is not stored.
    row = run_command(cwd, "seeds", sweep_id, "d=5", "gamma=0.5").out.splitlines()[-1]
    assert row.split() == ["5", str(SMALL_SPEC["axes"]["p"]), "0.5", "2"]
