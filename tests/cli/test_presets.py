"""`sweep presets`."""

import re

import pytest

from sweep_service.presets import PRESETS, preset_text
from tests.cli.commands import assert_refused, sweep, trace_of


def test_presets_are_listed_and_printed(tmp_path):
    listed = sweep(tmp_path, "presets", "--json").json
    assert list(listed) == list(PRESETS)
    for name in PRESETS:
        assert sweep(tmp_path, "presets", name).out.strip() == preset_text(name).strip()
        assert sweep(tmp_path, "presets", name, "--json").json["name"] == listed[name]
        about = sweep(tmp_path, "estimate", name, "--json").json
        assert about["core_seconds"] > 0
    assert_refused(sweep(tmp_path, "presets", "fig2-rigt"), "did you mean 'fig2-right'")
    assert_refused(sweep(tmp_path, "run", "../fig2-right"), "must be a file")
    assert trace_of(tmp_path) == []


@pytest.mark.slow
def test_a_preset_runs_by_its_name(tmp_path):
    """Shorter: a file of that name wins, and is the preset with less time."""
    name = PRESETS[0]
    text = re.sub(r"max: [\d.]+", "max: 0.5", preset_text(name))
    text = re.sub(r"min: [\d.]+", "min: 0.1", text)
    (tmp_path / name).write_text(text)
    answer = sweep(tmp_path, "run", name, "--json")
    assert answer.json["state"] == "completed"


@pytest.mark.slow
@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_completes(tmp_path, name):
    assert sweep(tmp_path, "run", name, "--json").json["state"] == "completed"
