"""What auto would choose at many points is what the rule says of each of them."""

import numpy as np
import pytest

from sweep_service.analysis import auto_regime
from sweep_service.analysis.auto_regime import auto_regimes
from sweep_service.dynamics.auto import choose
from sweep_service.model.parameters import names
from sweep_service.model.point import Point
from tests.analysis.synthetic import made

# On both sides of every border: δt = 0.1, p = 64, γ/p = 0.02, d - k = 50, noise or none.
AXES = {
    "d": [3, 10, 52, 53, 100], "p": [2, 64, 66, 100], "gamma": [0.01, 0.04, 1.28, 2.0, 50.0],
    "noise": [0.0, 1e-3],
}  # fmt: skip


def flat(time):
    return 0.1 + 0.0 * time


@pytest.mark.parametrize("init", [{"kind": "gaussian"}, {"kind": "informed"}])
def test_it_is_the_rule_at_every_point(init):
    dataset = made(flat, AXES, times=np.array([0.0, 1.0]), init=init)
    found = auto_regimes(dataset)
    assert found.sizes == {name: len(values) for name, values in AXES.items()}
    for at in np.ndindex(found.shape):
        place = dict(zip(AXES, at, strict=True))
        one = found.isel(place)
        values = {name: one[name].item() for name in AXES} | {"k": 2, "activation": "erf", "init": init}
        point = Point.parse(values)
        assert one.item() == choose(point, point.start(0)).regime, values
    assert len(np.unique(found)) >= 4
    assert set(AXES) < set(names())


def test_numbers_of_the_start_may_be_axes():
    axes = {"d": [10], "p": [4, 100], "gamma": [0.01], "init.scale": [0.01, 1.0]}
    dataset = made(flat, axes, times=np.array([0.0, 1.0]), init={"kind": "gaussian"})
    found = auto_regimes(dataset)
    assert found.sel(p=4).values.ravel().tolist() == ["classical", "classical"]
    assert found.sel(p=100).values.ravel().tolist() == ["mean_field", "mean_field"]


def test_many_points_ask_few_times(monkeypatch):
    asked = []
    monkeypatch.setattr(auto_regime, "choose", lambda *given: asked.append(given) or choose(*given))
    axes = {"d": np.arange(10, 210), "p": [4], "gamma": np.geomspace(1e-3, 1.0, 50)}
    assert auto_regimes(made(flat, axes, times=np.array([0.0, 1.0]))).size == 10_000
    assert len(asked) <= 4
