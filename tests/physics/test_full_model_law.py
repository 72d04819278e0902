"""Second layers, batches, decay and schedules in S3: the law of SGD as it is defined."""

from functools import cache

import numpy as np
import pytest

from sweep_service.simulators import selection
from sweep_service.simulators.kernels.streams import fill_radii
from sweep_service.simulators.overlap_processes import (
    factored,
    large_batch,
    overlap_process,
    wide_overlap_process,
)
from tests.physics.sgd_reference import GAUSSIAN, entries, largest_z, run

Z_LINE = 5.5  # P(|z| > 5.5) = 4e-8, for some thousand z-scores
CHAINS = 2000
POWER = {"power": {"t0": 0.2, "alpha": 0.7}}
SECOND_LAYERS = {
    "second_layer": {"init": [1.2, -0.8, 0.6]},
    "teacher": {"second_layer": {"init": [1.5, 0.7]}},
}
EVERYTHING = {**SECOND_LAYERS, "second_layer_rate": 3.0, "weight_decay": 1.0, "schedule": POWER}
BASE = {"d": 11, "p": 3, "k": 2, "gamma": 2.0, "noise": 0.1, "init": GAUSSIAN}
# A point and a number of steps; batches from 8 on are large batches of the compiled form, see FORMS.
CASES = {
    "second layers": ({**BASE, **SECOND_LAYERS}, 6),
    "learned": ({**BASE, "activation": "tanh", "second_layer_rate": 5.0}, 6),
    "decay": ({**BASE, "activation": "relu", "weight_decay": 2.0}, 6),
    "schedule": ({**BASE, "schedule": {"steps": [[0.1, 3.0], [0.25, 0.0], [0.3, 2.0]]}}, 6),
    "batch of 3": ({**BASE, "activation": "square", "gamma": 0.8, "batch": 3}, 2),
    "batch of 20": ({**BASE, "gamma": 8.0, "batch": 20}, 2),
    "batch of 140, more than d": ({**BASE, "gamma": 8.0, "batch": 140, "activation": "relu"}, 2),
    "batch of 9, d just above p + k": ({**BASE, "gamma": 6.0, "d": 6, "batch": 9}, 2),
    "batch of 9, d < p + k": ({**BASE, "gamma": 6.0, "d": 4, "batch": 9}, 2),
    "batch of 9, rank k": ({**BASE, "gamma": 6.0, "init": {"kind": "informed"}, "batch": 9}, 2),
    "everything, batch of 2": ({**BASE, **EVERYTHING, "batch": 2, "gamma": 3.0}, 4),
    "everything, batch of 18": ({**BASE, **EVERYTHING, "batch": 18, "gamma": 6.0}, 3),
}
FORMS = {"compiled": "S3", "wide": "S3", "factored": "S3-factored"}


@pytest.fixture(
    params=[form if form == "compiled" else pytest.param(form, marks=pytest.mark.slow) for form in FORMS]
)
def overlap_engine(request, monkeypatch):
    """Each form at any width, with few samples in a block, and a decomposition in every block."""
    monkeypatch.setattr(factored, "BLOCKS_PER_DECOMPOSITION", 1)
    monkeypatch.setattr(wide_overlap_process, "choose_block_size", lambda n: 8)
    monkeypatch.setattr(overlap_process, "choose_block_size", lambda n: 8)
    monkeypatch.setattr(factored, "choose_block_size", lambda n: 8)
    if request.param == "wide":
        monkeypatch.setattr(selection, "MAX_COMPILED_NEURONS", 0)
    return FORMS[request.param]


def sample(case, engine, **changes):
    """Overlaps and second layers of many chains after a few steps."""
    point, steps = CASES[case]
    settings = {"repeat": range(CHAINS), "engine": engine, "observables": ["risk", "second_layer"]}
    ds = run({**point, **changes}, [steps], **settings)
    if "second_layer_rate" not in point:
        return entries(ds)
    return np.hstack([entries(ds), ds.second_layer.values[:, -1]])


@cache
def by_definition(case):
    return sample(case, "S1")


FAST = "everything, batch of 18"


@pytest.mark.parametrize(
    "case", [case if case == FAST else pytest.param(case, marks=pytest.mark.slow) for case in CASES]
)
def test_overlap_process_has_means_and_covariances_of_sgd(case, overlap_engine):
    """2000 chains resolve a sixth of a standard deviation of a mean at 5.5 sigma."""
    assert largest_z(sample(case, overlap_engine), by_definition(case)) < Z_LINE


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "changes"),
    [
        ("second layers", {"teacher": {"second_layer": {"init": [1.5, 1.4]}}}),
        ("learned", {"second_layer_rate": 2.0}),
        ("decay", {"weight_decay": 1.0}),
        ("schedule", {"schedule": {"steps": [[0.1, 2.0], [0.25, 0.0], [0.3, 2.0]]}}),
        ("batch of 20", {"batch": 12}),
    ],
)
def test_law_of_another_value_differs(case, changes):
    """The comparison above would see a parameter that is a little off."""
    assert largest_z(sample(case, "S3", **changes), by_definition(case)) > 2 * Z_LINE


@pytest.mark.slow
@pytest.mark.parametrize("overlap_engine", ["wide", "factored"], indirect=True)
def test_wishart_part_in_too_many_dimensions_is_detected(overlap_engine, monkeypatch):
    """As if there were 26 dimensions outside the span instead of 6."""
    monkeypatch.setattr(
        large_batch,
        "fill_radii",
        lambda key, step, degrees, *rest: fill_radii(key, step, degrees + 20, *rest),
    )
    case = "batch of 20"
    assert largest_z(sample(case, overlap_engine), by_definition(case)) > 2 * Z_LINE
