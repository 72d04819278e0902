"""Specs that several test modules share."""

# 4 points with 24 runs: 16 of SGD, and 8 of a theory that does not depend on d. Computed in a moment.
SMALL_SPEC = {
    "name": "small",
    "axes": {"d": [5, 8], "p": 4, "gamma": [0.1, 0.5], "regime": "classical_noise"},
    "fixed": {"k": 2, "noise": 1e-3},
    "init": {"kind": "informed", "shared": True},
    "seeds": {"init": 2, "repeat": 2},
    "time": {"max": 2.0, "samples": 4},
}
# A theory with error bars beside another.
ERROR_BARS_SPEC = {
    "axes": {"d": [20, 50], "p": 2, "gamma": [0.2, 1.0], "regime": ["classical", "high_dimensional"]},
    "fixed": {"k": 2, "noise": 0.01},
    "init": {"kind": "informed"},
    "seeds": {"repeat": 3},
    "time": {"min": 0.1, "max": 1.0, "samples": 5},
    "fluctuations": True,
}
# One run of 5 million steps, which takes some seconds.
LONG_SPEC = {
    **SMALL_SPEC,
    "axes": {"d": 200, "p": 8, "gamma": 0.1},
    "init": {"kind": "informed"},
    "time": {"max": 300.0, "samples": 4},
    "seeds": 1,
}
# Four runs.
TINY_SPEC = {
    "axes": {"d": 5, "p": 2, "gamma": 0.1, "regime": "classical_noise"},
    "fixed": {"k": 1},
    "init": {"kind": "informed"},
    "seeds": 2,
    "time": {"max": 1.0, "samples": 3},
    "observables": ["risk"],
}
# Half a billion steps, which take minutes.
VERY_LONG_SPEC = {
    "name": "long",
    "axes": {"d": 200, "p": 8, "gamma": 0.1},
    "fixed": {"k": 2, "noise": 1e-3},
    "init": {"kind": "informed"},
    "time": {"max": 30_000.0, "samples": 4},
}


def distinct_spec(number, **changes):
    """Return a spec of four runs that shares no runs with those of other numbers."""
    return {**TINY_SPEC, **changes, "axes": {**TINY_SPEC["axes"], "gamma": 0.1 + number / 1024}}
