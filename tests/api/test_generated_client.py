"""Clients that people generate or write themselves follow a sweep to its end."""

import importlib
import json
import re
import shutil
import subprocess
import sys
import time as clock

import pytest

from tests.api.served import ENDED
from tests.specs import SMALL_SPEC

PACKAGE = "generated_sweep_client"


@pytest.fixture(scope="module")
def generated(service, tmp_path_factory):
    """The package that openapi-python-client makes of the document of the service."""
    folder = tmp_path_factory.mktemp("generated")
    (folder / "config.yaml").write_text("post_hooks: []\n")  # which would only format it
    document = folder / "openapi.json"
    document.write_text(service.get("/openapi.json").text)
    made = subprocess.run(
        [sys.executable, "-m", "openapi_python_client", "generate", "--path", str(document), "--meta", "none",
         "--output-path", str(folder / PACKAGE), "--config", str(folder / "config.yaml")],
        capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stdout + made.stderr
    problems = set(re.findall(r"^(?:Unsupported|ERROR|Cannot|Could not).*", made.stdout, re.MULTILINE))
    assert problems <= {"Unsupported content type application/yaml"}  # JSON is left
    sys.path.insert(0, str(folder))
    yield lambda name: importlib.import_module(f"{PACKAGE}{name}")
    sys.path.remove(str(folder))


def test_generated_client_follows_a_sweep_to_its_end(generated, service):
    models = generated(".models")
    axes = models.SweepSpecAxes(d=[5, 8], p=4, gamma=[0.1, 0.5])
    axes["regime"] = "classical_noise"
    # Not from_dict, whose variable d hides the axis d (a fault of the generator).
    spec = models.SweepSpec(
        name="generated",
        axes=axes,
        fixed=models.SweepSpecFixed(k=2, noise=1e-3),
        seeds=2,
        time=models.Time(max_=2.0, samples=4),
    )
    get_sweep = generated(".api.sweeps.get_sweep").sync
    with generated("").Client(base_url=service.url) as client:
        sweep = generated(".api.sweeps.submit_sweep").sync(client=client, body=spec)
        assert type(sweep).__name__ == "SweepOut", sweep
        end = clock.monotonic() + 60.0
        while str(sweep.state) not in ENDED:
            assert clock.monotonic() < end
            clock.sleep(0.05)
            sweep = get_sweep(client=client, id=sweep.id)
        assert (str(sweep.state), sweep.counts.to_dict()) == ("completed", {"done": 16})
        assert sweep.created <= sweep.updated  # dates, not texts
        assert sweep.created.tzinfo is not None

        get_curves = generated(".api.figures.get_curves").sync
        curves = get_curves(client=client, id=sweep.id, d="5", gamma="0.1")
        assert {str(curve.source) for curve in curves.curves} == {"sgd", "ode"}
        get_diagram = generated(".api.figures.get_phase_diagram").sync
        assert len(get_diagram(client=client, id=sweep.id, x="gamma", y="d").value.values) == 2
        problem = get_sweep(client=client, id="20000101-000000-00000000")
        assert problem.type_ == "urn:sweep-service:problem:not-found"


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
def test_curl_follows_a_sweep_to_its_end(service):
    spec = json.dumps({**SMALL_SPEC, "name": "from curl", "seeds": 1})
    submit = ["curl", "-sS", "-H", "Content-Type: application/json", "-d", spec, f"{service.url}/v1/sweeps"]
    sweep = json.loads(subprocess.run(submit, capture_output=True, check=True, timeout=60).stdout)
    follow = ["curl", "-sSN", f"{service.url}{sweep['links']['events']}"]
    text = subprocess.run(follow, capture_output=True, text=True, check=True, timeout=100).stdout
    events = [dict(line.split(": ", 1) for line in block.split("\n")) for block in text.strip().split("\n\n")]
    kept = [event for event in events if "id" in event]
    assert [json.loads(event["data"])["state"] for event in kept][-1] == "completed"
    numbers = [int(event["id"]) for event in kept]
    assert numbers == sorted(set(numbers))
    again = [*follow, "-H", f"Last-Event-ID: {numbers[-1]}", "-w", "%{http_code}"]
    assert subprocess.run(again, capture_output=True, text=True, check=True, timeout=60).stdout == "204"
