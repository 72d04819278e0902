"""The files for Prometheus and Grafana use metrics that the service has."""

import json
import re
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from sweep_service.api.settings import Settings
from tests.api.served import serving
from tests.specs import TINY_SPEC

ROOT = Path(__file__).resolve().parents[1]
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "sweep.json").read_text("utf-8"))
RULES = yaml.safe_load((ROOT / "deploy" / "alerts.yml").read_text("utf-8"))["groups"][0]["rules"]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
EXPRESSIONS = {
    **{
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in PANELS
        for target in panel["targets"]
    },
    **{rule["alert"]: rule["expr"] for rule in RULES},
}
PROMETHEUS_LABELS = {"instance", "job"}  # added by Prometheus
KEYWORDS = {"by", "and", "or", "unless", "on", "ignoring"}


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    """The labels of all samples by metric, after a sweep and an error."""
    with serving(tmp_path_factory.mktemp("watched")) as service:
        service.complete(TINY_SPEC)
        service.get("/v1/sweeps/nothing")
        text = service.get("/metrics").text
    samples = {"up": [{"job": "sweep"}]}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            samples.setdefault(sample.name, []).append(sample.labels)
    return samples


def parse_selectors(expression):
    """Return the metrics of an expression with their matchers, and the labels of its sums."""
    stripped = re.sub(r"\b(by|on|ignoring) \([^)]*\)|\[[^\]]*\]", "", expression)
    names = re.findall(r"\b([a-zA-Z_]\w*)\b(\{[^}]*\})?(?!\w*\s*\()", re.sub(r"\d[\de.]*", "", stripped))
    names = [(name, matchers) for name, matchers in names if name not in KEYWORDS]
    by = re.findall(r"\bby \(([^)]*)\)", expression)
    return names, {label.strip() for group in by for label in group.split(",")}


def test_selectors_are_parsed():
    names, by = parse_selectors(
        'sum by (le, route) (rate(some_total{a="b", c=~"d.*"}[5m])) / 1.5e3 > other and x'
    )
    assert names == [("some_total", '{a="b", c=~"d.*"}'), ("other", ""), ("x", "")]
    assert by == {"le", "route"}


@pytest.mark.parametrize("expression", EXPRESSIONS.values(), ids=EXPRESSIONS.keys())
def test_metrics_of_expressions_exist(samples, expression):
    names, by = parse_selectors(expression)
    assert names
    for name, matchers in names:
        assert name in samples, f"{name} is not a metric of the service"
        for label, operator, value in re.findall(r'(\w+)(=~|!~|=|!=)"([^"]*)"', matchers):
            if label not in PROMETHEUS_LABELS:
                values = {labels.get(label) for labels in samples[name]}
                assert None not in values, f"{name} has no label {label}"
                assert operator != "=" or value in values, f"{name} has no {label} {value}"
        assert by - PROMETHEUS_LABELS <= {label for labels in samples[name] for label in labels}


def test_dashboard_can_be_imported_anywhere():
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    for panel in PANELS:
        sources = {panel["datasource"]["uid"], *(target["datasource"]["uid"] for target in panel["targets"])}
        assert sources == {"${datasource}"}
    cells = [
        (x, y)
        for panel in DASHBOARD["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells)  # panels do not overlap
    assert max(x for x, _ in cells) == 23


def test_every_alert_has_a_severity_and_a_description():
    for rule in RULES:
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"].keys() == {"summary", "description"}


def test_prometheus_configuration_names_the_rules_and_the_service():
    config = yaml.safe_load((ROOT / "deploy" / "prometheus.yml").read_text("utf-8"))
    assert all((ROOT / "deploy" / name).is_file() for name in config["rule_files"])
    (job,) = config["scrape_configs"]
    assert job["job_name"] == "sweep"  # as in the alerts
    assert job["metrics_path"] == "/metrics"
    assert set(job["authorization"]) == {"type", "credentials_file"}  # never the secret itself


def test_operations_page_names_exactly_the_metrics(samples):
    text = (ROOT / "docs" / "operations.md").read_text("utf-8").partition("\n## Metrics\n")[2]
    named = set(re.findall(r"\bsweep_[a-z_]+", text.partition("\n## ")[0]))
    metrics = {re.sub("_(bucket|sum|count)$", "", name) for name in samples if name.startswith("sweep_")}
    assert named == metrics


def test_every_limit_can_be_set_in_docker_compose():
    lines = {line.strip() for line in (ROOT / "docker-compose.yml").read_text("utf-8").splitlines()}
    limits = [name for name in Settings.model_fields if name.startswith(("max_", "rate", "proxies"))]
    assert len(limits) >= 10
    assert [name for name in limits if f"SWEEP_{name.upper()}:" not in lines] == []


def test_containers_of_docker_compose_have_limits():
    """Also without docker-compose, which `tests/compose` needs."""
    text = re.sub(r"\$\{\w+:-(\w*)\}", r"\1", (ROOT / "docker-compose.yml").read_text("utf-8"))
    stack = yaml.safe_load(text)
    for name, container in stack["services"].items():
        assert re.fullmatch(r"\d+[mg]", container["mem_limit"]), name
        assert 0 < container["pids_limit"] <= 4096, name
    assert stack["services"]["api"]["secrets"] == ["tokens"]
