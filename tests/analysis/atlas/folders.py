"""Data folders with a few small sweeps, for the tests of the atlas."""

import itertools

from sweep_service.execution.conductor import Conductor
from sweep_service.execution.executors import SerialExecutor
from sweep_service.planning.spec import SweepSpec
from sweep_service.store.folder import DataFolder

BASE = {
    "axes": {"d": [5, 8], "p": 4, "gamma": [0.1, 0.5], "regime": "classical_noise"},
    "fixed": {"k": 2, "noise": 1e-3},
    "init": {"kind": "informed", "shared": True},
    "seeds": {"init": 2, "repeat": 2},
    "time": {"max": 2.0, "samples": 8},
}
# Widths, learning rates and seeds that partly overlap: three sweeps, of which the last shares runs with both.
SPECS = {
    "small": BASE,
    "wide": {**BASE, "axes": {**BASE["axes"], "p": [6, 8], "gamma": [0.1, 1.0]}},
    "mixed": {
        **BASE,
        "axes": {**BASE["axes"], "p": [4, 6], "gamma": [0.1, 2.0]},
        "seeds": {"init": 3, "repeat": 2},
    },
}


def compute_sweeps(root, specs):
    """Compute sweeps in a data folder; returns their ids by name, and the folder."""
    folder, ids = DataFolder(root), {}
    with Conductor(folder, SerialExecutor()) as conductor:
        for name, spec in specs.items():
            sweep, _ = conductor.submit(SweepSpec.parse({"name": name, **spec}))
            assert conductor.run(sweep.id).state == "completed"
            ids[name] = sweep.id
    return ids, folder


def iterate_runs(dataset, kind):
    """Yield the labels of each run of a sweep or an atlas dataset with its status and its risk over time."""
    status, risk = dataset[f"{kind}_status"], dataset[f"{kind}_risk"]
    for index in itertools.product(*(range(size) for size in status.shape)):
        where = dict(zip(status.dims, index, strict=True))
        run = dataset.isel(where)
        names = ["d", "p", "gamma", "k", "noise", "seed", "repeat" if kind == "sgd" else "regime"]
        labels = tuple(run[name].item() for name in names)
        yield labels, int(status.isel(where)), risk.isel(where).values
