"""`sweep presets`."""

import re

import pytest

from sweep_service.figures import find_figure
from sweep_service.presets import PRESETS, read_preset_text
from tests.cli.commands import assert_refused, list_files, run_command


def test_presets_are_listed_and_printed(tmp_path):
    titles = run_command(tmp_path, "presets", "--json").json
    assert list(titles) == list(PRESETS)
    for name in PRESETS:
        assert run_command(tmp_path, "presets", name).out.strip() == read_preset_text(name).strip()
        assert run_command(tmp_path, "presets", name, "--json").json["name"] == titles[name]
    sweep = run_command(tmp_path, "estimate", "fig2-left", "--json").json
    assert sweep["core_seconds"] > 0
    assert_refused(run_command(tmp_path, "presets", "fig2-rigt"), "did you mean 'fig2-right'")
    assert_refused(run_command(tmp_path, "run", "../fig2-right"), "cannot be read: No such file")
    assert list_files(tmp_path) == []


def test_file_overrides_a_preset_of_the_same_name(tmp_path):
    """Such a file is an ordinary sweep, not a figure of the papers."""
    text = re.sub(r"max: [\d.]+", "max: 0.5", read_preset_text("fig2-right"))
    (tmp_path / "fig2-right").write_text(re.sub(r"min: [\d.]+", "min: 0.1", text))
    answer = run_command(tmp_path, "run", "fig2-right", "--json").json
    assert answer["state"] == "completed"
    assert "checks" not in answer
    assert len(answer["figures"]) == 3


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in PRESETS if find_figure(name) is None])
def test_every_preset_completes(tmp_path, name):
    """Presets of figures are tested in tests/figures."""
    assert run_command(tmp_path, "run", name, "--json").json["state"] == "completed"
