"""The choice of auto at many points agrees with the rule at each of them."""

import numpy as np
import pytest

from sweep_service.analysis.auto_regime import find_auto_regimes
from sweep_service.dynamics.auto import choose_regime
from sweep_service.model.parameters import parameter_names
from sweep_service.model.point import Point
from tests.analysis.synthetic import make_dataset
from tests.stored import compute_dataset

# Points of all regimes: δt above and below 0.1, narrow and wide, small and large d and γ/p, noise or none.
AXES = {
    "d": [3, 10, 52, 53, 100], "p": [2, 64, 66, 100], "gamma": [0.01, 0.04, 1.28, 2.0, 50.0],
    "noise": [0.0, 1e-3],
}  # fmt: skip


def flat(time):
    return 0.1 + 0.0 * time


@pytest.mark.parametrize("init", [{"kind": "gaussian"}, {"kind": "informed"}])
def test_follows_the_rule_at_every_point(init):
    dataset = make_dataset(flat, AXES, times=np.array([0.0, 1.0]), init=init)
    result = find_auto_regimes(dataset)
    assert result.sizes == {name: len(values) for name, values in AXES.items()}
    for at in np.ndindex(result.shape):
        position = dict(zip(AXES, at, strict=True))
        at_point = result.isel(position)
        values = {name: at_point[name].item() for name in AXES} | {"k": 2, "activation": "erf", "init": init}
        point = Point.parse(values)
        assert at_point.item() == choose_regime(point, point.start(0)).regime, values
    assert len(np.unique(result)) >= 4
    assert set(AXES) < set(parameter_names())


def test_init_numbers_may_be_axes():
    axes = {"d": [10], "p": [4, 8], "gamma": [0.01], "init.scale": [0.01, 1.0]}
    dataset = make_dataset(flat, axes, times=np.array([0.0, 1.0]), init={"kind": "gaussian"})
    result = find_auto_regimes(dataset)
    assert result.sel(p=4).values.ravel().tolist() == ["classical", "classical"]
    assert result.sel(p=8).values.ravel().tolist() == ["classical", "classical"]


def test_points_may_have_texts(tmp_path):
    points = [{"d": 10, "p": 4, "gamma": 0.01, "activation": name} for name in ("erf", "relu")]
    spec = {"points": points, "fixed": {"k": 2}, "time": {"max": 0.1, "samples": 2}}
    with compute_dataset(tmp_path, spec) as dataset:
        assert find_auto_regimes(dataset).values.tolist() == ["classical", "classical"]
