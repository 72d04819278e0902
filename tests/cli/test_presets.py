"""`sweep presets`."""

import re

import pytest

from sweep_service.figures import figure_of
from sweep_service.presets import PRESETS, preset_text
from tests.cli.commands import assert_refused, sweep, trace_of


def test_presets_are_listed_and_printed(tmp_path):
    listed = sweep(tmp_path, "presets", "--json").json
    assert list(listed) == list(PRESETS)
    for name in PRESETS:
        assert sweep(tmp_path, "presets", name).out.strip() == preset_text(name).strip()
        assert sweep(tmp_path, "presets", name, "--json").json["name"] == listed[name]
    about = sweep(tmp_path, "estimate", "fig2-left", "--json").json
    assert about["core_seconds"] > 0
    assert_refused(sweep(tmp_path, "presets", "fig2-rigt"), "did you mean 'fig2-right'")
    assert_refused(sweep(tmp_path, "run", "../fig2-right"), "must be a file")
    assert trace_of(tmp_path) == []


def test_a_file_of_the_same_name_wins(tmp_path):
    """And is a sweep like any other, not a figure of the papers."""
    text = re.sub(r"max: [\d.]+", "max: 0.5", preset_text("fig2-right"))
    (tmp_path / "fig2-right").write_text(re.sub(r"min: [\d.]+", "min: 0.1", text))
    answer = sweep(tmp_path, "run", "fig2-right", "--json").json
    assert answer["state"] == "completed"
    assert "checks" not in answer
    assert len(answer["figures"]) == 3


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in PRESETS if figure_of(name) is None])
def test_every_preset_completes(tmp_path, name):
    """Those of figures have tests of their own."""
    assert sweep(tmp_path, "run", name, "--json").json["state"] == "completed"
