"""The window of tasks that an executor keeps submitted."""

from sweep_service.execution.task import Task
from sweep_service.planning.bundles import Bundle
from sweep_service.planning.jobs import Job
from sweep_service.workers.window import MAX_TASKS_PER_THREAD, MIN_TASKS_PER_THREAD, Window

THREADS = 4


def make_task(number, seconds, sweep_id="a"):
    return Task("root", sweep_id, Bundle((Job("sgd", number, 0, (0,), (0,)),), seconds))


def fill(window, seconds, sweep_id="a"):
    """Submit tasks of a sweep while there is room; return them."""
    tasks = []
    while window.has_room(sweep_id, THREADS):
        tasks.append(make_task(len(tasks), seconds, sweep_id))
        window.add(tasks[-1])
    return tasks


def test_long_tasks_fill_the_window_with_few():
    assert len(fill(Window(), 100.0)) == MIN_TASKS_PER_THREAD * THREADS


def test_short_tasks_fill_the_window_with_many():
    assert len(fill(Window(), 1e-3)) == MAX_TASKS_PER_THREAD * THREADS


def test_another_sweep_may_exceed_a_full_window():
    window = Window()
    fill(window, 1e-3)
    assert len(fill(window, 1e-3, "b")) == MIN_TASKS_PER_THREAD * THREADS


def test_window_is_as_new_when_all_tasks_are_removed():
    window = Window()
    tasks = fill(window, 0.1) + fill(window, 0.7, "b")
    for task in tasks:
        window.remove(task)
    assert (window.count, window.seconds, window.count_by_sweep) == (0, 0.0, {})
    assert len(fill(window, 0.1)) == len([task for task in tasks if task.sweep_id == "a"])


class CountedBundle:
    """A bundle that counts how often its cost is read."""

    def __init__(self):
        self.reads = 0

    @property
    def cost(self):
        self.reads += 1
        return 1.0


def test_tasks_are_not_read_again_to_find_room():
    """It is asked for before each submission, so its work must not grow with the window."""
    window, bundle = Window(), CountedBundle()
    while window.has_room("a", 100):
        window.add(Task("root", "a", bundle))
    assert bundle.reads == window.count == 1000  # ten seconds of work for each thread
