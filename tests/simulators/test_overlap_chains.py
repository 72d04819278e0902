"""S3 with chains in the lanes of vectors has the bits of S3 with one chain, whatever the other chains do."""

import numpy as np
import pytest

import sweep_service as ss
from sweep_service.model.point import Point
from sweep_service.simulators.overlap_processes.overlap_chains import OverlapProcessOfChains
from sweep_service.simulators.overlap_processes.overlap_process import OverlapProcess
from sweep_service.simulators.selection import choose_simulator
from sweep_service.simulators.simulate import Chains
from tests.simulators.chains import assert_same_bits

STEPS = 75  # several blocks and a part of another
EVERYTHING = {
    "second_layer": {"init": "gaussian"}, "second_layer_rate": 1.0, "batch": 3, "weight_decay": 0.5,
    "schedule": {"power": {"t0": 1.0, "alpha": 0.5}},
}  # fmt: skip


def point(p=7, k=3, d=40, **change):
    return {"d": d, "p": p, "k": k, "gamma": 0.5, "noise": 1e-3, **change}


def draw_chains(parameters, count):
    given = Point.parse(parameters)
    chains = Chains(given, range(count), [0], choose_simulator(given, "S3"))
    return [chains(index)[0] for index in range(count)]


def advance(simulator):
    with np.errstate(all="ignore"):  # chains that are ignored may divide by zero
        simulator.advance(0, STEPS)
    return simulator


def assert_equals_single_chains(together, chains):
    (M, Q), layers = together.overlaps(), together.second_layers()
    for slot, chain in enumerate(chains):
        alone = advance(OverlapProcess([chain]))
        assert together.diverged[slot] == alone.diverged[0] == -1
        np.testing.assert_array_equal(M[slot], alone.overlaps()[0][0])
        np.testing.assert_array_equal(Q[slot], alone.overlaps()[1][0])
        if layers is not None:
            np.testing.assert_array_equal(layers[slot], alone.second_layers()[0])


@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_number_of_chains_does_not_matter(count):
    chains = draw_chains(point(), count)
    assert_equals_single_chains(advance(OverlapProcessOfChains(chains)), chains)


@pytest.mark.parametrize("shape", [(1, 1, 2), (2, 1, 50), (4, 4, 8), (13, 2, 16), (30, 5, 100)], ids=str)
@pytest.mark.parametrize("activation", ["erf", "relu"])
def test_sizes(shape, activation):
    p, k, d = shape
    chains = draw_chains(point(p, k, d, activation=activation), 3)
    assert_equals_single_chains(advance(OverlapProcessOfChains(chains)), chains)


@pytest.mark.parametrize("kind", ["informed", "planted"])
def test_chains_with_vanishing_pivots_are_followed_alone(kind):
    """At these starts the students are in the span of the teacher, until the first block has ended."""
    chains = draw_chains(point(init={"kind": kind}), 3)
    regular = draw_chains(point(), 3)
    mixed = [chains[0], regular[1], chains[2], regular[0]]
    assert_equals_single_chains(advance(OverlapProcessOfChains(mixed)), mixed)


def test_schedule_goes_on_where_a_chain_is_followed_alone():
    """The second call of the kernel begins at a later step than the factors of the first."""
    decaying = point(init={"kind": "informed"}, **EVERYTHING)
    chains = draw_chains(decaying, 2)
    assert_equals_single_chains(advance(OverlapProcessOfChains(chains)), chains)


def test_simulate_has_the_same_bits_for_any_number_of_repeats():
    parameters, times = point(5, 2, 30), [0.0, 0.02, 0.05, 0.3]
    sixteen = ss.simulate(parameters, times=times, engine="S3", repeat=range(16), overlaps=True)
    assert sixteen.attrs["engine_form"] == "OverlapProcessOfChains"
    for count in range(1, 16):
        fewer = ss.simulate(parameters, times=times, engine="S3", repeat=range(count), overlaps=True)
        assert_same_bits(sixteen.sel(repeat=range(count)), fewer)
