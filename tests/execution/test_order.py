"""The order of bundles: each sweep keeps its own, and sweeps that run together alternate."""

from sweep_service.execution.conductor import Conductor, ConductorSettings
from sweep_service.execution.executors import SerialExecutor
from sweep_service.planning.bundles import BundleLimits
from sweep_service.store.folder import DataFolder
from sweep_service.store.ledger import State
from tests.execution.conducting import make_spec

SHORT_BUNDLES = ConductorSettings(BundleLimits(target_seconds=0.0))


class PriorityExecutor(SerialExecutor):
    """Runs the task with the highest priority first, like a scheduler, and records the order.

    The number of tasks that it accepts falls, as that of a window that is limited by predicted seconds.
    """

    def __init__(self):
        super().__init__()
        self.priorities, self.order, self.accepted = {}, [], 12

    def has_room(self, sweep_id):
        return sum(task.sweep_id == sweep_id for task in self.queue) < self.accepted

    def submit(self, task, priority):
        super().submit(task, priority)
        self.priorities[task] = priority

    def poll(self):
        self.queue.sort(key=lambda task: -self.priorities[task])
        if self.queue:
            self.order.append((self.queue[0].sweep_id, self.queue[0].bundle.key))
            self.accepted = max(4, self.accepted - 1)
        return super().poll()


def open_conductor(root):
    return Conductor(DataFolder(root), PriorityExecutor(), settings=SHORT_BUNDLES)


def test_bundles_of_a_sweep_are_computed_in_their_order(tmp_path):
    with open_conductor(tmp_path) as conductor:
        sweep, _ = conductor.submit(make_spec())
        bundles = conductor.ledger.pending_bundles(sweep.id, 1000)
        assert conductor.run(sweep.id).state is State.COMPLETED
        assert [key for _, key in conductor.executor.order] == [bundle.key for bundle in bundles]
        assert len(bundles) > 20  # more than the executor accepts at once


def test_sweeps_alternate_and_a_new_one_does_not_wait(tmp_path):
    with open_conductor(tmp_path) as conductor:
        large, _ = conductor.submit(make_spec(seeds={"init": 4, "repeat": 2}))
        for _ in range(4):
            conductor.tick()
        small, _ = conductor.submit(make_spec(seeds={"init": [9], "repeat": 2}))
        while not conductor.ledger.sweep(small.id).state.has_ended:
            conductor.tick()
        order = [sweep_id for sweep_id, _ in conductor.executor.order][4:]
        own = order.count(small.id)
        # the turn in which the small sweep starts may belong to the large one
        assert own <= len(order) - own + 1
        assert len(order) <= 2 * own + 1
        assert order[0:8].count(small.id) >= 3
        assert not conductor.ledger.sweep(large.id).state.has_ended
