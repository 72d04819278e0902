"""The state of one chain in a layout that all forms of its simulator share.

A chain may be computed alone, or with others in the lanes of vectors. Its weights (rows, d) or overlaps
Q (rows, rows) and M (k, rows), followed by its second layer if that is learned, are the same numbers in every
form, so a chain can continue in another form, to the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch

import numpy as np

from sweep_service.numerics.simd import CHAIN_LANES
from sweep_service.numerics.types import AnyArray, Array
from sweep_service.simulators.blocked import Blocked
from sweep_service.simulators.chain import Simulator
from sweep_service.simulators.lanes import ChainsInLanes
from sweep_service.simulators.mixed_lanes import StepLoopOfFour
from sweep_service.simulators.overlap_processes.factored import FactoredOverlapProcess
from sweep_service.simulators.overlap_processes.overlap_chains import OverlapProcessOfChains
from sweep_service.simulators.overlap_processes.overlap_process import OverlapProcess
from sweep_service.simulators.step_loop import StepLoop, StepLoopOfChains

Views = Sequence[AnyArray]


def read_chain(group: Simulator, slot: int) -> Array:
    """Return the state of one chain of a group as a flat array."""
    return np.concatenate([np.asarray(view, float).ravel() for view in _find_views(group, slot)])


def write_chain(group: Simulator, slot: int, state: Array) -> None:
    """Continue one chain of a group from what `read_chain` returned; raise ValueError for another size."""
    views = _find_views(group, slot)
    if state.shape != (sum(view.size for view in views),):
        raise ValueError(f"the state of a chain has the shape {state.shape}")
    begin = 0
    for view in views:
        view[...] = state[begin : begin + view.size].reshape(view.shape)
        begin += view.size
    if isinstance(group, OverlapProcessOfChains):  # the views are of the form for one chain
        group._set_lane(slot, group.members[slot])


def _find_views(group: Simulator, slot: int) -> Views:
    if isinstance(group, OverlapProcessOfChains):
        group, slot = group._get_lane(slot), 0
    return (*weight_views(group, slot), *second_layer_views(group, slot))


@singledispatch
def weight_views(group: Simulator, slot: int) -> Views:
    """Return views of the weights or overlaps of one chain."""
    raise NotImplementedError(type(group).__name__)


@weight_views.register
def _(group: StepLoop, slot: int) -> Views:
    return (group.W[:, : group.chains[0].rows].T,)


@weight_views.register
def _(group: StepLoopOfChains, slot: int) -> Views:
    return (group.W[:, :, slot],)


@weight_views.register
def _(group: StepLoopOfFour, slot: int) -> Views:
    return _neuron_views(group, group.W, slot)


@weight_views.register
def _(group: Blocked, slot: int) -> Views:
    return (group.W[: group.chains[0].rows],)


@weight_views.register
def _(group: OverlapProcess, slot: int) -> Views:
    rows = group.chains[0].rows
    return (group.Q[:, :rows], group.M[:, :rows])


@weight_views.register
def _(group: FactoredOverlapProcess, slot: int) -> Views:
    return (group.W, group.W_star, group.frame)


def second_layer_views(group: Simulator, slot: int) -> Views:
    """Return views of the second layer of one chain; none unless it is learned."""
    second_layer = group.moving.second_layer if group.chains[0].is_learned else None
    if second_layer is None:
        return ()
    if isinstance(group, StepLoopOfFour):
        return _neuron_views(group, second_layer.reshape(-1, 1, CHAIN_LANES), slot)
    if isinstance(group, ChainsInLanes):
        return (second_layer[slot::CHAIN_LANES],)
    return (second_layer[: group.chains[0].rows],)


def _neuron_views(group: StepLoopOfFour, lanes: Array, slot: int) -> Views:
    """Return views (n,) of the neurons of one chain in `lanes` (groups, n, 8)."""
    size, rows = CHAIN_LANES // group.max_chains, group.chains[0].rows
    return [lanes[i // size, :, i % size * group.max_chains + slot] for i in range(rows)]


def count_numbers(form: type[Simulator], rows: int, k: int, d: int, is_learned: bool) -> int:
    """Return the size of the state of a chain, for the forms that sweeps choose."""
    has_overlaps = issubclass(form, (OverlapProcess, OverlapProcessOfChains))
    return rows * (rows + k if has_overlaps else d) + (rows if is_learned else 0)
