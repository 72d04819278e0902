"""Registration of `ds.sweep` without importing xarray, which would take a second."""

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
    """Register the accessor now if xarray is imported, else as soon as it is."""
    if (xarray := sys.modules.get("xarray")) is not None and hasattr(xarray, "register_dataset_accessor"):
        _register(xarray)
    else:
        sys.meta_path.insert(0, _XarrayFinder())


def _register(xarray: ModuleType) -> None:
    if not hasattr(xarray.Dataset, NAME):
        xarray.register_dataset_accessor(NAME)(_make_accessor)


def _make_accessor(dataset: Any) -> Any:
    from sweep_service.analysis.accessor import SweepAccessor

    return SweepAccessor(dataset)


class _XarrayFinder(MetaPathFinder):
    """Leaves finding xarray to the other finders, and registers the accessor once it is executed."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != "xarray":
            return None
        with suppress(ValueError):  # another thread removed it first
            sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            exec_module = spec.loader.exec_module

            def exec_and_register(module: ModuleType) -> None:
                exec_module(module)
                _register(module)

            spec.loader.exec_module = exec_and_register  # type: ignore[method-assign]
        return spec
