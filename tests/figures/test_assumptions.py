"""Every preset says what it assumes beyond the papers, and everything that describes presets shows it."""

import re
from pathlib import Path

import pytest

from sweep_service.api.routes.catalogue import presets as list_presets
from sweep_service.figures import FIGURES
from sweep_service.presets import PRESETS, read_assumptions, read_preset_text

ANALYSIS = Path(__file__).parents[2] / "docs" / "analysis.md"
# what the presets of a figure were found to assume without saying so
OPEN_PARAMETERS = {
    "fig2-left": "d = 3", "fig2-right": "the list of d", "fig3-left": "the list of p",
    "fig3-right": "the square activation", "fig4-noise": "the levels of noise", "fig5a": "the list of p",
    "fig5b": "the list of p", "fig5c": "the list of p",
}  # fmt: skip


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_has_assumptions(name):
    assumptions = read_assumptions(name)
    assert assumptions
    assert len(set(assumptions)) == len(assumptions)
    assert all(f"# Assumed: {text}.\n" in read_preset_text(name) for text in assumptions)


@pytest.mark.parametrize(("figure", "text"), OPEN_PARAMETERS.items())
def test_open_parameters_are_listed(figure, text):
    for name in (*FIGURES[figure].presets, *FIGURES[figure].full_presets):
        assert text in read_assumptions(name)


def test_documentation_lists_the_same_assumptions():
    rows = re.findall(r"^\| `([\w-]+)` \| (.+) \|$", ANALYSIS.read_text("utf-8"), flags=re.MULTILINE)
    listed = {name: text.split("; ") for name, text in rows if name in PRESETS}
    assert listed == {name: read_assumptions(name) for name in PRESETS}


def test_service_lists_the_same_assumptions():
    listed = {preset.name: preset.assumptions for preset in list_presets().presets}
    assert listed == {name: read_assumptions(name) for name in PRESETS}


def test_figure_reports_those_of_its_presets_and_checks():
    figure = FIGURES["fig4-noise"]
    listed = figure.list_assumptions(figure.presets)
    assert listed == [*read_assumptions("fig4-noise"), *figure.assumptions]
