"""`sweep atlas` and `sweep compare`, on a data folder and on a service."""

import json

import pandas as pd
import pytest

from tests.analysis.atlas.folders import SPECS, compute_sweeps
from tests.api.served import serving
from tests.cli.commands import assert_refused, run_command


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    root = tmp_path_factory.mktemp("cli")
    ids, _ = compute_sweeps(root / "sweep-data", SPECS)
    return root, ids


@pytest.fixture(scope="module", params=["folder", "service"])
def target(request, stored):
    """The arguments that select a target."""
    if request.param == "folder":
        yield []
    else:
        with serving(stored[0] / "sweep-data") as service:
            yield ["--url", service.url]


def test_atlas(stored, target):
    root, _ = stored
    facets = run_command(root, "atlas", "p=4", "--json", *target).json
    assert f"{facets['runs']} runs" in run_command(root, "atlas", "p=4", *target).out
    run_command(root, "atlas", "p=4", "--output", "runs.csv", *target)
    run_command(root, "atlas", "p=4", "--output", "runs.parquet", *target)
    assert (
        len(pd.read_csv(root / "runs.csv")) == len(pd.read_parquet(root / "runs.parquet")) == facets["runs"]
    )
    diagram = ["phase-diagram", "x=gamma", "y=p", "value=sgd_final_risk", "d=8"]
    run_command(root, "atlas", *diagram, "--output", "diagram.png", *target)
    assert (root / "diagram.png").read_bytes().startswith(b"\x89PNG")
    assert len(run_command(root, "atlas", *diagram, "--json", *target).json["points"]) == 8
    assert_refused(run_command(root, "atlas", *diagram, *target), "--output", "is required")
    assert_refused(run_command(root, "atlas", "p=5", *target), "available: 4, 6, 8")
    assert_refused(run_command(root, "atlas", "--output", "runs.png", *target), "must end in .csv, .parquet")


def test_compare(stored, target):
    root, ids = stored
    arguments = ["compare", ids["small"], ids["mixed"], "sgd_final_risk", "d=5", *target]
    result = json.loads(run_command(root, *arguments, "--json").out)
    assert [point["gamma"] for point in result["points"]] == [0.1]
    lines = run_command(root, *arguments, "--how", "difference").out.splitlines()
    assert lines[1].split() == ["p", "gamma", "a", "b", "difference", "error", "paired"]
    assert lines[2].split()[:2] == ["4", "0.1"]
    assert_refused(run_command(root, "compare", ids["small"], ids["wide"], *target), "no point in common")
