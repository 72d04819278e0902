"""For random plausible options, every view gives a result or raises a `SweepError`."""

import io
import json
import random

import pytest

from sweep_service.analysis.plots.save import save
from sweep_service.analysis.plots.style import use_style
from sweep_service.analysis.views import VIEWS, view_to_json
from sweep_service.errors import SweepError
from sweep_service.text import replace_nonfinite
from tests.stored import compute_dataset

BASE = {"fixed": {"k": 2, "noise": 1e-3}, "time": {"max": 2.0, "samples": 6}}
BOTH = ["classical", "high_dimensional"]
SPECS = {
    "product": {
        "axes": {"d": [5, 20, 40], "p": [2, 4], "gamma": [0.5, 1.0], "regime": BOTH},
        "seeds": {"init": 2, "repeat": 2},
    },
    "theories": {
        "axes": {"d": [5, 20], "p": [2, 4], "gamma": 0.5, "regime": ["classical", "mean_field", "auto"]},
        "simulate": False,
    },
    "SGD": {
        "axes": {"d": [5, 20], "p": 2, "gamma": [0.5, 1.0], "activation": ["erf", "relu"]},
        "observables": ["risk", "cosine_histogram"],
    },
    "widths": {
        "axes": {"d": 5, "p": 2, "gamma": 0.5, "k": [1, 2], "regime": "mean_field"},
        "fixed": {}, "init": {"kind": "spherical"},
    },
    "points": {
        "points": [{"d": 5, "p": 2, "gamma": 0.5}, {"d": 20, "p": 4, "gamma": 0.1}],
        "axes": {"regime": "classical"},
    },
    "scaling": {
        "axes": {"d": [5, 10, 20], "kappa": [0.0, 0.2], "delta": [0.0, 0.5], "regime": BOTH},
        "scaling": {"p0": 2, "gamma0": 1}, "seeds": 2,
    },
    "triangle": {"triangle": {"delta_t": 1e-2, "resolution": 2}, "axes": {"regime": BOTH}},
    "diverging": {
        "axes": {"d": [5, 20], "p": [2, 4], "gamma": [2.0, 20.0], "regime": "high_dimensional"},
        "fixed": {"k": 2, "activation": "square"}, "seeds": 3,
    },
}  # fmt: skip
SOURCES = ["sgd", "ode", *BOTH, "auto", "odd"]
AXES = [
    "d", "p", "gamma", "k", "kappa", "delta", "regime", "activation", "delta_t", "gamma_over_p", "noise",
    "seed", "time", "triangle", "odd", "",
]  # fmt: skip
OBSERVABLES = ["risk", "cosine", "specialisation", "status", "steps", "overlap_student", "largest_norm"]
VALUES = [
    *OBSERVABLES, *(f"{kind}_{name}" for kind in ("sgd", "ode") for name in ("phase", "bound", "diverged")),
    "sgd_risk", "ode_risk", "discrepancy", "relative_discrepancy", "sgd_over_ode", "auto_regime",
    "ode_over_floor", "sgd_specialisation_time", "sgd_seconds", "ode_regime", "odd",
]  # fmt: skip
OPTION_VALUES = {
    "x": AXES, "y": AXES, "along": AXES, "value": VALUES, "observable": OBSERVABLES, "source": SOURCES,
    "a": SOURCES, "b": SOURCES, "kind": ["overlay", "power", "logshift", "odd"],
    "of": ["discrepancy", "overlap_discrepancy", "final_risk", "odd"],
    "time": ["t", "steps", "samples/d", "odd", "1"], "relative_error": ["0.01", "0.1", "0", "odd"],
}  # fmt: skip
DRAWING_VALUES = {
    "scale": ["log", "linear", "odd"], "time_scale": ["log", "linear", "odd"], "cmap": ["magma", "odd"],
    "levels": ["3", "0", "0.1", "0.01,0.1", "nan", ""], "limits": ["0.1,1", "0,1", "-1,1", "1"],
    "ratio_lines": ["true", "false", "odd"],
}  # fmt: skip
VIEW_OPTIONS = {
    "curves": ["observable", "time"], "phase-diagram": ["x", "y", "value"], "triangle": ["value"],
    "plane": ["source"], "rates": ["of", "along", "a", "b", "source"],
    "collapse": ["kind", "along", "source"], "cosines": [], "histograms": ["source"],
    "seeds": ["value", "relative_error"],
}  # fmt: skip
DESIGN_OF_VIEW = {"triangle": "triangle", "plane": "scaling"}
POINTS = ("d", "p", "gamma", "k", "kappa", "delta", "regime", "activation")
ODD_SELECTIONS = ["mean", "max", ":", "0:1", "1:", "0", "1", "0,1", "1e400", "", "odd"]


@pytest.fixture(scope="module")
def sweeps(tmp_path_factory):
    return {
        name: compute_dataset(tmp_path_factory.mktemp("asked"), {**BASE, **spec}).load()
        for name, spec in SPECS.items()
    }


def choose_options(rng, dataset, view):
    """Random options of a view and selections along axes, some of which fit the sweep."""
    axes = sorted({str(name) for name in (*dataset.dims, *dataset.coords)})
    options = {}
    for option in VIEW_OPTIONS[view]:
        if rng.random() < 0.8:
            fits = option in ("x", "y", "along") and rng.random() < 0.8
            options[option] = rng.choice(
                [axis for axis in POINTS if axis in axes] if fits else OPTION_VALUES[option]
            )
    for option in VIEWS[view].drawing:
        if rng.random() < 0.2:
            options[option] = rng.choice(DRAWING_VALUES[option])
    probability = rng.choice([0.0, 0.3, 0.95])
    for axis in axes:
        if axis not in options.values() and rng.random() < (probability if axis in POINTS else 0.1):
            values = [str(value) for value in dataset[axis].values.ravel().tolist()[:20]]
            options[axis] = rng.choice(
                values if rng.random() < 0.8 else [*ODD_SELECTIONS, ",".join(values[:2])]
            )
    return options


def draw(view, result, drawing, to_file):
    """Draw a view; all artists are laid out, and rendered only for a file, which takes twice as long."""
    with use_style():
        figure = VIEWS[view].draw(result, **drawing)
        if to_file:
            save(figure, io.BytesIO(), "svg")
        else:
            figure.draw_without_rendering()


def try_random_options(sweeps, seed, number, drawings):
    """Compute views with random options, draw every `drawings`-th, and return the views that succeeded."""
    rng, successful = random.Random(seed), set()
    for at in range(number):
        view = list(VIEWS)[at % len(VIEWS)]
        name = (
            DESIGN_OF_VIEW[view]
            if view in DESIGN_OF_VIEW and rng.random() < 0.5
            else rng.choice(list(sweeps))
        )
        options = choose_options(rng, sweeps[name], view)
        try:
            computing, drawing = VIEWS[view].split_options(options)
            result = VIEWS[view].compute(sweeps[name], **computing)
            json.dumps(replace_nonfinite(view_to_json(view, result)), allow_nan=False, default=str)
            if at % drawings == 0:
                draw(view, result, drawing, to_file=at % (10 * drawings) == 0)
            successful.add(view)
        except SweepError:
            pass
        except Exception as error:
            raise AssertionError(f"{view} of {name} with {options}") from error
    return successful


def test_every_view_has_options():
    assert list(VIEW_OPTIONS) == list(VIEWS)


@pytest.mark.slow
def test_plausible_options(sweeps):
    assert try_random_options(sweeps, 0, 3200, 9) == set(VIEWS)  # few options of rates fit a sweep


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 4))
def test_thousands_of_plausible_options(sweeps, seed):
    try_random_options(sweeps, seed, 4000, 3)
