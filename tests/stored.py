"""Sweeps for tests, computed in this process and opened as people open them."""

from contextlib import nullcontext

import xarray as xr

from sweep_service.errors import Stopped
from sweep_service.execution.conductor import Conductor
from sweep_service.execution.executors import SerialExecutor
from sweep_service.planning.spec import SweepSpec
from sweep_service.store.folder import DataFolder


class Until(SerialExecutor):
    """Computes so many bundles, and stops."""

    def __init__(self, bundles):
        super().__init__()
        self.left = bundles

    def poll(self):
        if self.left == 0:
            raise Stopped("enough")
        self.left -= 1
        return super().poll()


def computed(root, spec, executor=None, ends=None):
    """The dataset of a sweep that completes, or ends as it is said to."""
    folder = DataFolder(root)
    with Conductor(folder, executor or SerialExecutor()) as conductor:
        sweep, _ = conductor.submit(SweepSpec.parse(spec))
        with ends or nullcontext():
            assert conductor.run(sweep.id).state == "completed"
    return xr.open_zarr(folder.dataset_path(sweep.id), chunks=None)
