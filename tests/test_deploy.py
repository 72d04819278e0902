"""What is handed to Prometheus and Grafana names numbers that a service really has."""

import json
import re
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from sweep_service.api.settings import Settings
from tests.api.served import TINY, serving

ROOT = Path(__file__).resolve().parents[1]
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "sweep.json").read_text("utf-8"))
RULES = yaml.safe_load((ROOT / "deploy" / "alerts.yml").read_text("utf-8"))["groups"][0]["rules"]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
EXPRESSIONS = {
    **{f"{one['title']} {at['refId']}": at["expr"] for one in PANELS for at in one["targets"]},
    **{rule["alert"]: rule["expr"] for rule in RULES},
}
OF_PROMETHEUS = {"instance", "job"}  # labels that it adds
WORDS = {"by", "and", "or", "unless", "on", "ignoring"}


@pytest.fixture(scope="module")
def there(tmp_path_factory):
    """Labels of all samples by name, after a sweep and an error."""
    with serving(tmp_path_factory.mktemp("watched")) as service:
        service.done(TINY)
        service.get("/v1/sweeps/nothing")
        text = service.get("/metrics").text
    found = {"up": [{"job": "sweep"}]}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample.labels)
    return found


def selectors(expression):
    """Names of metrics, each with its matchers; and the labels that are summed by."""
    kept = re.sub(r"\b(by|on|ignoring) \([^)]*\)|\[[^\]]*\]", "", expression)
    found = re.findall(r"\b([a-zA-Z_]\w*)\b(\{[^}]*\})?(?!\w*\s*\()", re.sub(r"\d[\de.]*", "", kept))
    names = [(name, matchers) for name, matchers in found if name not in WORDS]
    by = re.findall(r"\bby \(([^)]*)\)", expression)
    return names, {label.strip() for group in by for label in group.split(",")}


def test_selectors_are_found():
    names, by = selectors('sum by (le, route) (rate(some_total{a="b", c=~"d.*"}[5m])) / 1.5e3 > other and x')
    assert names == [("some_total", '{a="b", c=~"d.*"}'), ("other", ""), ("x", "")]
    assert by == {"le", "route"}


@pytest.mark.parametrize("expression", EXPRESSIONS.values(), ids=EXPRESSIONS.keys())
def test_what_is_watched_exists(there, expression):
    names, by = selectors(expression)
    assert names
    for name, matchers in names:
        assert name in there, f"{name} is no number of ours"
        for label, kind, value in re.findall(r'(\w+)(=~|!~|=|!=)"([^"]*)"', matchers):
            if label not in OF_PROMETHEUS:
                values = {labels.get(label) for labels in there[name]}
                assert None not in values, f"{name} has no label {label}"
                assert kind != "=" or value in values, f"{name} has no {label} {value}"
        assert by - OF_PROMETHEUS <= {label for labels in there[name] for label in labels}


def test_the_dashboard_can_be_imported_anywhere():
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    for one in PANELS:
        assert {one["datasource"]["uid"], *(at["datasource"]["uid"] for at in one["targets"])} == {
            "${datasource}"
        }
    places = [
        (x, y)
        for panel in DASHBOARD["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(places)) == len(places)  # none lies on another
    assert max(x for x, _ in places) == 23


def test_every_alert_says_what_to_do():
    for rule in RULES:
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"].keys() == {"summary", "description"}


def test_prometheus_finds_the_rules_and_the_service():
    config = yaml.safe_load((ROOT / "deploy" / "prometheus.yml").read_text("utf-8"))
    assert all((ROOT / "deploy" / name).is_file() for name in config["rule_files"])
    (job,) = config["scrape_configs"]
    assert job["job_name"] == "sweep"  # as the alerts have it
    assert job["metrics_path"] == "/metrics"
    assert set(job["authorization"]) == {"type", "credentials_file"}  # never the secret itself


def test_operations_names_every_number(there):
    """And no other."""
    text = (ROOT / "docs" / "operations.md").read_text("utf-8").partition("\n## Metrics\n")[2]
    named = set(re.findall(r"\bsweep_[a-z_]+", text.partition("\n## ")[0]))
    ours = {re.sub("_(bucket|sum|count)$", "", name) for name in there if name.startswith("sweep_")}
    assert named == ours


def test_every_limit_can_be_set_in_the_stack():
    lines = {line.strip() for line in (ROOT / "docker-compose.yml").read_text("utf-8").splitlines()}
    limits = [name for name in Settings.model_fields if name.startswith(("max_", "rate", "proxies"))]
    assert len(limits) >= 10
    assert [name for name in limits if f"SWEEP_{name.upper()}:" not in lines] == []
