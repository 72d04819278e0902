"""Sweeps for tests, computed in this process and opened as users open them."""

from contextlib import nullcontext

import xarray as xr

from sweep_service.errors import Stopped
from sweep_service.execution.conductor import Conductor, ConductorSettings
from sweep_service.execution.executors import SerialExecutor
from sweep_service.planning.bundles import BundleLimits
from sweep_service.planning.spec import SweepSpec
from sweep_service.store.folder import DataFolder

# Every run is a bundle, and every part is merged at the next tick.
ONE_RUN_PER_BUNDLE = ConductorSettings(BundleLimits(target_seconds=0.0), merge_interval_seconds=-1.0)


class StoppingExecutor(SerialExecutor):
    """Computes a number of bundles, then stops."""

    def __init__(self, bundles):
        super().__init__()
        self.left = bundles

    def poll(self):
        if self.left == 0:
            raise Stopped("enough")
        self.left -= 1
        return super().poll()


def compute_dataset(root, spec, executor=None, outcome=None, settings=None):
    """Return the dataset of a sweep that completes, or ends as the context `outcome` expects."""
    folder = DataFolder(root)
    with Conductor(folder, executor or SerialExecutor(), settings=settings) as conductor:
        sweep, _ = conductor.submit(SweepSpec.parse(spec))
        with outcome or nullcontext():
            assert conductor.run(sweep.id).state == "completed"
    return xr.open_zarr(folder.dataset_path(sweep.id), chunks=None)
