"""Whatever likely words a view is asked with, it answers or says what is wrong with them."""

import io
import json
import random

import pytest

from sweep_service.analysis.plots.save import save
from sweep_service.analysis.views import VIEWS, as_json
from sweep_service.errors import SweepError
from sweep_service.text import json_ready
from tests.stored import computed

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
        "axes": {"d": [5, 20], "p": [2, 4], "gamma": [2.0, 50.0], "regime": "high_dimensional"},
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
WORDS = {
    "x": AXES, "y": AXES, "along": AXES, "value": VALUES, "observable": OBSERVABLES, "source": SOURCES,
    "a": SOURCES, "b": SOURCES, "kind": ["overlay", "power", "logshift", "odd"],
    "of": ["discrepancy", "overlap_discrepancy", "final_risk", "odd"],
}  # fmt: skip
OWN = {
    "curves": ["observable"], "phase-diagram": ["x", "y", "value"], "triangle": ["value"],
    "plane": ["source"], "rates": ["of", "along", "a", "b", "source"],
    "collapse": ["kind", "along", "source"], "cosines": [], "histograms": ["source"],
}  # fmt: skip
FITS = {"triangle": "triangle", "plane": "scaling"}
POINTS = ("d", "p", "gamma", "k", "kappa", "delta", "regime", "activation")
CHOICES = ["mean", "max", ":", "0:1", "1:", "0", "1", "0,1", "1e400", "", "odd"]


@pytest.fixture(scope="module")
def sweeps(tmp_path_factory):
    return {
        name: computed(tmp_path_factory.mktemp("asked"), {**BASE, **spec}) for name, spec in SPECS.items()
    }


def said(drawn, dataset, view):
    """Words of a view and choices along axes: in part what fits the sweep, in part what is only likely."""
    axes = sorted({str(one) for one in (*dataset.dims, *dataset.coords)})
    words = {}
    for word in OWN[view]:
        if drawn.random() < 0.8:
            fits = word in ("x", "y", "along") and drawn.random() < 0.8
            words[word] = drawn.choice([axis for axis in POINTS if axis in axes] if fits else WORDS[word])
    often = drawn.choice([0.0, 0.3, 0.95])
    for axis in axes:
        if axis not in words.values() and drawn.random() < (often if axis in POINTS else 0.1):
            there = [str(one) for one in dataset[axis].values.ravel().tolist()[:20]]
            words[axis] = drawn.choice(there if drawn.random() < 0.8 else [*CHOICES, ",".join(there[:2])])
    return words


def ask(sweeps, seed, number, drawings):
    """Questions of which every `drawings`-th is drawn; the views that have answered some."""
    drawn, answered = random.Random(seed), set()
    for at in range(number):
        view = list(VIEWS)[at % len(VIEWS)]
        name = FITS[view] if view in FITS and drawn.random() < 0.5 else drawn.choice(list(sweeps))
        words = said(drawn, sweeps[name], view)
        try:
            found = VIEWS[view].find(sweeps[name], **words)
            json.dumps(json_ready(as_json(view, found)), allow_nan=False, default=str)
            if at % drawings == 0:
                save(VIEWS[view].draw(found), io.BytesIO(), "svg")
            answered.add(view)
        except SweepError:
            pass
        except Exception as error:
            raise AssertionError(f"{view} of {name} with {words}") from error
    return answered


def test_every_view_is_asked():
    assert list(OWN) == list(VIEWS)


@pytest.mark.slow
def test_likely_words(sweeps):
    assert ask(sweeps, 0, 400, 9) == set(VIEWS)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 4))
def test_thousands_of_likely_words(sweeps, seed):
    ask(sweeps, seed, 4000, 3)
