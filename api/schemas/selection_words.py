"""The query parameters that select along coordinates and those of views, for the OpenAPI document.

Any coordinate of a dataset can be selected, so the routes read all query parameters themselves. Documenting
the usual ones gives generated clients arguments for them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from sweep_service.analysis.views import VIEWS
from sweep_service.model.labels import find_label
from sweep_service.model.parameters import PARAMETERS
from sweep_service.model.structures import number_names
from sweep_service.planning.axes import EXPONENTS

MAX_LENGTH = 400  # as of an option of a view
RUN_WORDS = ("regime", "seed", "repeat", "time")
NEURON_WORDS = ("student", "student_other", "teacher")
EXAMPLES = "a value, several as 0.1,0.2, or a range as 0.01:1"


def selection_words() -> list[str]:
    """Return the names of the coordinates that sweeps may have."""
    return list(dict.fromkeys((*PARAMETERS, *EXPONENTS, *number_names(), *RUN_WORDS, *NEURON_WORDS)))


def view_words() -> list[str]:
    """Return the names of the options of all views."""
    words = [control.option for view in VIEWS.values() for control in view.form.controls]
    return list(dict.fromkeys((*words, *(name for view in VIEWS.values() for name in view.drawing))))


def document_selection(taken: Collection[str] = (), views: bool = False) -> dict[str, Any]:
    """Return the part of an operation that documents its open parameters, but for those in `taken`."""
    return {"parameters": list(_list_parameters(taken, views))}


def _list_parameters(taken: Collection[str], views: bool) -> Iterator[dict[str, Any]]:
    options = view_words() if views else []
    for name in options:
        yield _parameter(name, "Option of views that have it")
    for name in selection_words():
        if name not in taken and name not in options:
            label = find_label(name)
            yield _parameter(name, f"Select: {label.long_name if label else name}. {EXAMPLES}")


def _parameter(name: str, description: str) -> dict[str, Any]:
    schema = {"type": "string", "maxLength": MAX_LENGTH}
    return {"name": name, "in": "query", "required": False, "description": description, "schema": schema}
