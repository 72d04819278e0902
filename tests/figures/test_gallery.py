"""Reports of figures: their files and the gallery page."""

import numpy as np
import pytest
from PIL import Image

from sweep_service.analysis.plots import style
from sweep_service.figures import Check, Figure
from sweep_service.figures.gallery import render_page, reproduce_figure
from tests.analysis.synthetic import make_dataset


def draw(datasets):
    with style.use_style():
        figure = style.new_figure(2.0, 2.0)
        figure.add_subplot().plot([0, 1], [0, len(datasets)])
    return figure


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    figure = Figure(
        name="fig", title="A figure", presets=("fig", "fig-labels"), full_presets=(),
        assumptions=("nothing",), check=lambda datasets: [Check.at_most("parts | all", len(datasets), 1)],
        draw=draw,
    )  # fmt: skip
    dataset = make_dataset(lambda time: np.exp(-time))
    sweeps = {"fig": ("2026-one", dataset), "fig-labels": ("2026-two", dataset)}
    return reproduce_figure(figure, sweeps, tmp_path_factory.mktemp("gallery"))


def test_files_name_every_sweep(report):
    png = next(file for file in report.files if file.suffix == ".png")
    description = Image.open(png).text["Description"]
    assert description.startswith("A figure. ")
    assert "Sweep 2026-one" in description
    assert "With sweeps 2026-two." in description
    assert [file.suffix for file in report.files] == [".png", ".svg", ".pdf"]


def test_failed_check_is_marked(report):
    assert not report.passed
    assert "FAILS" in str(report)
    text = render_page([report])
    assert "| parts \\| all | 2 | <= 1 | FAILS |" in text
    assert "![A figure](fig.png)" in text
    assert "- Assumed: nothing." in text
