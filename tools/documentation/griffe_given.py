"""An extension of mkdocstrings for methods that are written as functions.

The first argument of a method of `ds.sweep` is the dataset, that of a verb of a client is the service.
"""

from __future__ import annotations

from typing import Any

import griffe

GIVEN = {"sweep_service.analysis.": "dataset", "sweep_service.client.": "service"}  # by package
STEPS = "Operation["  # what a verb of a client returns: the steps to its result


class HideGiven(griffe.Extension):
    """Leave out the argument that the accessor or the client gives."""

    def on_function(self, *, func: griffe.Function, **kwargs: Any) -> None:
        """Remove the first parameter if it is given, and show the result of a verb as what it returns."""
        first = next(iter(func.parameters), None)
        package = next((package for package in GIVEN if func.path.startswith(package)), None)
        if first is not None and package is not None and first.name == GIVEN[package]:
            del func.parameters[first.name]
            returned = str(func.returns)
            if returned.startswith(STEPS):
                func.returns = returned.removeprefix(STEPS).removesuffix("]")
