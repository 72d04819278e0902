"""Kernels that are in no cache, for tests of what happens when one is compiled."""

import importlib.util

from sweep_service.execution import compute as computing
from sweep_service.numerics import jit

SOURCE = """
from sweep_service.numerics.jit import kernel


@kernel()
def inner(x):
    return x + 1.0


@kernel()
def outer(x):
    return 2.0 * inner(x)


@kernel(one_version=True)
def add(x, y):
    return x + y


@kernel()
def add_constants(x):
    return add(1, x) + add(x, 2) + add(3, 4)


@kernel()
def wrong(x):
    return inner(x).no_such_attribute
"""


def import_kernels(folder, monkeypatch):
    """Import SOURCE as a new module, with a cache of its own in `folder`; a second time, to load from it."""
    monkeypatch.setattr(jit, "cache_folder", lambda: str(folder / "kernels"))
    path = folder / "new_kernels_source.py"
    if not path.exists():
        path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("new_kernels_source", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compile_in_runs(module, monkeypatch):
    """Let every ODE run need the kernel `outer` of a module."""
    integrate_run = computing.integrate_run

    def integrate(*arguments, **options):
        module.outer(1.0)
        return integrate_run(*arguments, **options)

    monkeypatch.setattr(computing, "integrate_run", integrate)
