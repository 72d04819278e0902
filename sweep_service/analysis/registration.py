"""`ds.sweep` on every dataset, from when xarray is imported: that takes a second, so it is waited for."""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

NAME = "sweep"


def register() -> None:
    """Now if xarray is there, else as soon as it is."""
    if (xarray := sys.modules.get("xarray")) is not None and hasattr(xarray, "register_dataset_accessor"):
        _register(xarray)
    else:
        sys.meta_path.insert(0, _Waiting())


def _register(xarray: ModuleType) -> None:
    if not hasattr(xarray.Dataset, NAME):
        xarray.register_dataset_accessor(NAME)(_accessor)


def _accessor(dataset: Any) -> Any:
    from sweep_service.analysis.accessor import Sweep

    return Sweep(dataset)


class _Waiting(MetaPathFinder):
    """Lets others find xarray, and registers once it is executed."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != "xarray":
            return None
        with suppress(ValueError):  # another thread was first
            sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def executed(module: ModuleType) -> None:
                execute(module)
                _register(module)

            spec.loader.exec_module = executed  # type: ignore[method-assign]
        return spec
