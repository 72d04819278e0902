"""What a notebook shows of sweeps, specs, estimates and clients: complete, and escaped."""

from html.parser import HTMLParser

import pytest

import sweep_service as ss
from sweep_service.client.sweep import Sweep
from sweep_service.display import CostEstimate, Link, format_html
from tests.specs import SMALL_SPEC

EVIL = "<script>alert('x')</script> & \"more\""


class Reader(HTMLParser):
    """Collects the text, the tags and the links of a document."""

    def __init__(self, text):
        super().__init__()
        self.texts, self.tags, self.links = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.links += [value for name, value in attributes if name == "href"]

    def handle_data(self, data):
        self.texts.append(data)


def read(shown):
    reader = Reader(shown._repr_html_())
    assert "script" not in reader.tags
    return reader


def make_sweep(**fields):
    client = ss.Client("http://127.0.0.1:1")
    return Sweep(
        client,
        {
            "id": "20261119-120000-0123abcd", "name": EVIL, "state": "running", "reason": EVIL, "runs": 24,
            "counts": {"pending": 18, "done": 6}, "progress": 0.25, "eta_seconds": 90.0, "note": EVIL,
            "links": {"page": f"{client.url}/sweeps/x", "zarr": "javascript:alert(1)"},
            **fields,
        },
    )  # fmt: skip


def test_sweep_shows_its_progress_and_escapes_names():
    reader = read(make_sweep())
    text = " ".join(reader.texts)
    assert text.count(EVIL) == 3
    for shown in ("24: 18 pending, 6 done", "25 %", "1.5 min left", "running", "20261119-120000-0123abcd"):
        assert shown in text
    assert reader.links == ["http://127.0.0.1:1/sweeps/x"]  # the other one is no address of the web
    assert "progress" in reader.tags


def test_sweep_of_few_fields_is_shown():
    assert "running" in read(Sweep(ss.Client(), {"state": "running"})).texts


def test_client_shows_its_address_but_no_token():
    html = ss.Client("http://127.0.0.1:1", "secret-token")._repr_html_()
    assert "http://127.0.0.1:1" in html
    assert "with a token" in html
    assert "secret" not in html


def test_spec_is_shown_as_it_would_be_written():
    spec = ss.SweepSpec.parse({**SMALL_SPEC, "name": EVIL.replace("/", "")})
    (text,) = [text for text in read(spec).texts if "axes" in text]
    assert ss.SweepSpec.read(text) == spec


def test_estimate_is_shown_with_its_warnings(tmp_path):
    estimate = ss.estimate(SMALL_SPEC, data=tmp_path / "none")
    assert isinstance(estimate, CostEstimate)
    assert not (tmp_path / "none").exists()
    estimate["warnings"] = [EVIL]
    text = " ".join(read(estimate).texts)
    assert f"{estimate['runs']}: " in text
    assert f"warning: {EVIL}" in text
    assert "would be refused" not in text
    refused = ss.estimate({**SMALL_SPEC, "time": {"max": 1e12, "samples": 3}}, data=tmp_path / "none")
    assert "core_hours" in " ".join(read(refused).texts)
    with pytest.raises(ss.InvalidInput, match="gama"):
        ss.estimate({**SMALL_SPEC, "axes": {"gama": 1}})


def test_links_and_names_cannot_leave_their_place():
    html = format_html(EVIL, {EVIL: Link('http://host/"onclick="alert(1)')}, [EVIL])
    reader = Reader(html)
    assert reader.tags.count("a") == 1
    assert reader.links == ['http://host/"onclick="alert(1)']
    assert "script" not in reader.tags
