"""Reports of figures: what their files and the page say."""

import numpy as np
import pytest
from PIL import Image

from sweep_service.analysis.plots import style
from sweep_service.figures import Check, Figure
from sweep_service.figures.gallery import page, reproduced
from tests.analysis.synthetic import made


def drawn(parts):
    with style.style():
        figure = style.new_figure(2.0, 2.0)
        figure.add_subplot().plot([0, 1], [0, len(parts)])
    return figure


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    figure = Figure(
        name="fig", title="A figure", presets=("fig", "fig-labels"), full=(), assumptions=("nothing",),
        check=lambda parts: [Check.at_most("parts | all", len(parts), 1)], draw=drawn,
    )  # fmt: skip
    dataset = made(lambda time: np.exp(-time))
    opened = {"fig": ("2026-one", dataset), "fig-labels": ("2026-two", dataset)}
    return reproduced(figure, opened, tmp_path_factory.mktemp("gallery"))


def test_files_name_every_sweep_that_is_in_them(report):
    png = next(file for file in report.files if file.suffix == ".png")
    said = Image.open(png).text["Description"]
    assert said.startswith("A figure. ")
    assert "Sweep 2026-one" in said
    assert "With sweeps 2026-two." in said
    assert [file.suffix for file in report.files] == [".png", ".svg", ".pdf"]


def test_a_number_beyond_its_bound_is_said(report):
    assert not report.passed
    assert "FAILS" in str(report)
    text = page([report])
    assert "| parts \\| all | 2 | <= 1 | FAILS |" in text
    assert "![A figure](fig.png)" in text
    assert "- Assumed: nothing." in text
