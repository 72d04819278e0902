"""An extension of mkdocstrings: methods of `ds.sweep` are functions whose first argument is the dataset."""

from __future__ import annotations

from typing import Any

import griffe


class HideDataset(griffe.Extension):
    """Leave out the argument that the accessor gives."""

    def on_function(self, *, func: griffe.Function, **kwargs: Any) -> None:
        """Remove a positional-only first parameter `dataset`, and the mark that ends such parameters."""
        first = next(iter(func.parameters), None)
        is_dataset = first is not None and first.name == "dataset"
        if is_dataset and func.path.startswith("sweep_service.analysis."):
            del func.parameters["dataset"]
