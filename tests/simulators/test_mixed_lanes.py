"""S1 with few chains, whose vectors hold several neurons of each, has the bits of S1 with one chain."""

import numpy as np
import pytest

import sweep_service as ss
from sweep_service.model.point import Point
from sweep_service.simulators.mixed_lanes import StepLoopOfFour, StepLoopOfTwo
from sweep_service.simulators.selection import choose_simulator
from sweep_service.simulators.simulate import Chains
from sweep_service.simulators.step_loop import StepLoop

STEPS = 200  # several draws of inputs
EVERYTHING = {
    "second_layer": {"init": "gaussian"}, "second_layer_rate": 1.0, "weight_decay": 0.5,
    "schedule": {"power": {"t0": 1.0, "alpha": 0.5}},
}  # fmt: skip


def point(p=7, k=3, d=5, **change):
    return {"d": d, "p": p, "k": k, "gamma": 0.5, "noise": 1e-3, **change}


def check_chains(parameters, form, count):
    given = Point.parse(parameters)
    chains = Chains(given, range(count), [0], choose_simulator(given, "S1"))
    members = [chains(index)[0] for index in range(count)]
    together = form(members)
    together.advance(0, STEPS)
    (M, Q), layers = together.overlaps(), together.second_layers()
    for slot, chain in enumerate(members):
        alone = StepLoop([chain])
        alone.advance(0, STEPS)
        assert together.diverged[slot] == alone.diverged[0] == -1
        np.testing.assert_array_equal(M[slot], alone.overlaps()[0][0])
        np.testing.assert_array_equal(Q[slot], alone.overlaps()[1][0])
        if layers is not None:
            np.testing.assert_array_equal(layers[slot], alone.second_layers()[0])


@pytest.mark.parametrize("shape", [(1, 1, 2), (2, 3, 9), (5, 2, 1), (8, 4, 10), (10, 1, 3)], ids=str)
@pytest.mark.parametrize(("form", "count"), [(StepLoopOfTwo, 2), (StepLoopOfFour, 3), (StepLoopOfFour, 4)])
def test_sizes(shape, form, count):
    p, k, d = shape
    check_chains(point(p, k, max(d, k)), form, count)


@pytest.mark.parametrize("form", [StepLoopOfTwo, StepLoopOfFour])
@pytest.mark.parametrize("change", [{"noise": 0.0, "activation": "tanh"}, EVERYTHING], ids=["tanh", "full"])
def test_parameters(form, change):
    check_chains(point(**change), form, form.max_chains)


def test_simulate_chooses_the_form_by_the_number_of_chains():
    choice = choose_simulator(Point.parse(point()))
    names = [choice.choose_form(count).__name__ for count in range(1, 6)]
    assert names == ["StepLoop", "StepLoopOfTwo", "StepLoopOfFour", "StepLoopOfFour", "StepLoopOfChains"]
    result = ss.simulate(point(), times=[0.0, 0.1], repeat=range(4))
    assert result.attrs["engine_form"] == "StepLoopOfFour"
