"""Files of figures: provenance, reproducible bytes, and atomic writes."""

import io
import threading

import numpy as np
import pytest
import xarray as xr
from PIL import Image

from sweep_service.analysis.plots.phase import plot_phase_diagram
from sweep_service.analysis.plots.rates import plot_rates
from sweep_service.analysis.plots.save import FORMATS, caption, read_sweep_id, save
from sweep_service.analysis.view_plots import plot_curves
from sweep_service.errors import InvalidInput
from tests.analysis.synthetic import make_dataset


@pytest.fixture
def dataset():
    result = make_dataset(
        lambda time, p: p / (1 + time), {"p": [4, 8]}, seeds=3, repeats=2, gamma=0.25, noise=1e-3
    )
    result.attrs |= {"title": "two widths", "key": "abc123", "git": "12ab-dirty"}
    result.encoding["source"] = "somewhere/20260101-000000-0123abcd.zarr"
    return result


def grid(seed=0):
    values = np.random.default_rng(seed).lognormal(size=(3, 4))
    return xr.DataArray(values, {"p": [2, 4, 16], "gamma": [0.1, 0.3, 1.0, 3.0]}, ("p", "gamma"), "sgd_risk")


def save_to_bytes(figure, format, **options):
    file = io.BytesIO()
    save(figure, file, format, **options)
    return file.getvalue()


def test_caption_has_the_parameters(dataset):
    text = caption(dataset)
    expected_texts = (
        "Activation erf, ",
        "d = 100",
        "p = 4 … 8",
        "γ = 0.25",
        "k = 2",
        "Δ = 0.001",
        "informed start",
    )
    assert all(expected in text for expected in expected_texts)
    assert "seeds 3 × 2 (init × repeat), t ≤ 100. Sweep 20260101-000000-0123abcd, " in text
    assert text.endswith("(12ab-dirty).")
    assert "Sweep given, " in caption(dataset, "given")


def test_caption_of_a_dataset_with_few_attributes():
    assert caption(xr.Dataset({"sgd_risk": ("time", [1.0])}, {"time": [0.0]})).startswith(
        "Activation erf, Δ = 0"
    )


@pytest.mark.parametrize(
    "source", ["a/7.zarr", "http://host/v1/sweeps/7/zarr", "http://host/v1/sweeps/7/zarr/"]
)
def test_sweep_id_follows_from_the_path(source):
    result = xr.Dataset()
    result.encoding["source"] = source
    assert read_sweep_id(result) == "7"


def test_files_do_not_depend_on_earlier_files(dataset):
    figure = plot_curves(dataset)
    first, between, again = (save_to_bytes(figure, format) for format in ("png", "svg", "png"))
    assert first == again
    assert between == save_to_bytes(plot_curves(dataset), "svg")


@pytest.mark.parametrize("format", FORMATS)
def test_same_figure_has_the_same_bytes(format, dataset):
    first, again = (
        save_to_bytes(plot_phase_diagram(grid()), format, dataset=dataset, caption="that") for _ in range(2)
    )
    assert first == again
    assert first != save_to_bytes(plot_phase_diagram(grid(1)), format, dataset=dataset, caption="that")


def test_png_has_provenance(dataset):
    data = save_to_bytes(plot_rates([1, 2], [3, 4]), "png", dataset=dataset, caption="γ = 0.25")
    image = Image.open(io.BytesIO(data))
    image.load()
    assert image.info["dpi"] == pytest.approx((200, 200), abs=0.1)
    assert image.text["Title"] == "two widths"
    assert image.text["Description"] == "γ = 0.25"
    for expected in ("20260101-000000-0123abcd", "abc123", "12ab-dirty"):
        assert expected in image.text["Source"]
    assert image.text["Software"].startswith("sweep-service ")


def test_svg_has_provenance(dataset):
    text = save_to_bytes(plot_rates([1, 2], [3, 4]), "svg", dataset=dataset, caption="γ = 0.25").decode()
    for expected in ("two widths", "γ = 0.25", "20260101-000000-0123abcd", "abc123", "12ab-dirty"):
        assert expected in text
    assert "dc:date" not in text


def test_pdf_has_provenance(dataset):
    data = save_to_bytes(plot_rates([1, 2], [3, 4]), "pdf", dataset=dataset, caption="that", sweep_id="given")
    for expected in (b"two widths", b"(that)", b"sweep given", b"abc123", b"12ab-dirty", b"/FontFile2"):
        assert expected in data
    assert b"/Type3" not in data
    assert b"CreationDate" not in data


def test_file_is_replaced_atomically(tmp_path, monkeypatch):
    path = tmp_path / "figure.PNG"
    save(plot_rates([1, 2], [3, 4]), path)
    before = path.read_bytes()
    assert before.startswith(b"\x89PNG")
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        save(plot_rates([1, 2], [5, 6]), str(path))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["figure.gif", "figure"])
def test_unknown_formats_are_rejected(tmp_path, name):
    with pytest.raises(InvalidInput) as error:
        save(plot_rates([1], [1]), tmp_path / name)
    assert error.value.field == "format"


def test_threads_do_not_affect_each_other():
    wanted = {seed: save_to_bytes(plot_phase_diagram(grid(seed)), "svg") for seed in range(2)}
    result = {}

    def draw(seed):
        result[seed] = save_to_bytes(plot_phase_diagram(grid(seed)), "svg")

    threads = [threading.Thread(target=draw, args=(seed,)) for seed in wanted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert result == wanted
