"""A sweep says that it waits for kernels to be compiled, when it does and not otherwise."""

import threading

from sweep_service.client.progress import Bar
from sweep_service.execution.summary import summarise_sweep
from sweep_service.runner import complete
from tests.execution.conducting import make_spec, open_conductor
from tests.new_kernels import compile_in_runs, import_kernels


class RecordingBar(Bar):
    """What a bar shows at each update, while the executor computes or not."""

    def __init__(self):
        super().__init__(quiet=True)
        self.shown = []

    def show(self, sweep):
        super().show(sweep)
        (task,) = self.bar.tasks
        assert ("compiling" in task.description) == sweep["compiling"]
        self.shown.append(sweep["compiling"])


def compute_with_bar(root, **spec):
    """Compute a sweep; return whether it was said to be compiling, without repetitions."""
    with open_conductor(root) as conductor, RecordingBar() as bar:
        sweep = complete(conductor, conductor.submit(make_spec(**spec))[0].id, bar)
        totals = conductor.ledger.progress_totals([sweep.id])[sweep.id]
        assert summarise_sweep(sweep, totals)["compiling"] is False
        assert sweep.state.value == "completed"
    return [now for now, before in zip(bar.shown, [None, *bar.shown], strict=False) if now is not before]


def test_bar_says_that_kernels_are_compiled(tmp_path, monkeypatch):
    kernels = import_kernels(tmp_path, monkeypatch)
    compute_with_bar(tmp_path / "warm")  # the package's own kernels
    compile_in_runs(kernels, monkeypatch)
    assert compute_with_bar(tmp_path / "cold") == [False, True, False]
    assert compute_with_bar(tmp_path / "warm-again") == [False]


def test_compilation_in_other_threads_is_not_reported(tmp_path, monkeypatch):
    kernels = import_kernels(tmp_path, monkeypatch)
    with open_conductor(tmp_path / "data") as conductor:
        reported = []
        conductor.executor.on_compiling = lambda: reported.append(conductor.executor.compiling)
        thread = threading.Thread(target=lambda: kernels.outer(1.0))
        thread.start()
        thread.join()
        assert (reported, conductor.executor.compiling) == ([], frozenset())
