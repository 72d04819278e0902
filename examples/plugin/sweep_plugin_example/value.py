"""The value sgd_gain of phase diagrams."""

from sweep_service.analysis.point_values import Value
from sweep_service.analysis.runs import read_runs


def sgd_gain(dataset):
    """R(0)/R(t_max) of each SGD run."""
    risk = read_runs(dataset)
    return risk.isel(time=0, drop=True) / risk.isel(time=-1, drop=True)


SGD_GAIN = Value("R(0)/R(t_max) of SGD", ("sgd_risk",), sgd_gain)
