"""Verbs that take a spec: submit, extend, and estimate the cost of either."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from sweep_service.client.names import SweepName
from sweep_service.client.requests import (
    Json,
    Service,
    find_id,
    request_json,
    request_sweep,
    sweep_path,
    to_query,
)
from sweep_service.client.steps import Operation
from sweep_service.display import CostEstimate
from sweep_service.errors import InvalidInput

if TYPE_CHECKING:
    from sweep_service.planning.spec import SweepSpec

Spec: TypeAlias = "Mapping[str, Any] | SweepSpec | str | bytes | Path"


def submit(
    service: Service, spec: Spec, *, priority: int = 0, idempotency_key: str | None = None
) -> Operation[Json]:
    """Submit a sweep, or find the existing one with an equivalent spec.

    Parameters
    ----------
    spec
        A mapping, a text in YAML or JSON, or the path of a file.
    priority
        Among sweeps that share workers, a higher priority goes first.
    idempotency_key
        Key that identifies the request if it is sent again. By default a random one.

    Returns
    -------
    dict
        The sweep.

    Raises
    ------
    InvalidInput
        If the spec is invalid.
    LimitExceeded
        If the sweep is too large for the service, or `TooManySweeps` if too many have not ended.
    Conflict
        If the key was used for another spec.
    """
    body = spec_body(spec, {"Idempotency-Key": idempotency_key or uuid.uuid4().hex})
    return (yield from request_sweep(service, "POST", "/v1/sweeps", params={"priority": priority}, **body))


def estimate(service: Service, spec: Spec) -> Operation[CostEstimate]:
    """Estimate the cost of a sweep without submitting it.

    Parameters
    ----------
    spec
        A mapping, a text in YAML or JSON, or the path of a file.

    Returns
    -------
    dict
        `points`, `runs`, `reused`, `sgd_steps`, `core_seconds`, `bytes`, `warnings`, and `refused`: the
        reason why the service would not accept the sweep, or None.

    Raises
    ------
    InvalidInput
        If the spec is invalid.
    """
    return CostEstimate((yield from request_json(service, "POST", "/v1/estimate", **spec_body(spec))))


def predict_seeds(service: Service, spec: Spec, relative_error: float | None = None) -> Operation[Json]:
    """Predict how accurately the seeds of a spec will determine the risk of SGD, without any run.

    Parameters
    ----------
    spec
        A mapping, a text in YAML or JSON, or the path of a file.
    relative_error
        Count the seeds for this standard error over the mean. By default about half of that of the spec.

    Returns
    -------
    dict
        `points`, up to three, each with the relative `error` and the number of `seeds` over `time`;
        `summary` in words, and `notes` that say what an error means or why there is no prediction.

    Raises
    ------
    InvalidInput
        If the spec or the error is invalid.
    """
    params = to_query({"relative_error": relative_error})
    return (yield from request_json(service, "POST", "/v1/seeds", params=params, **spec_body(spec)))


def extend(service: Service, id: SweepName, change: Spec, *, name: str | None = None) -> Operation[Json]:
    """Submit a new sweep with more values than an existing one, whose runs are reused.

    Parameters
    ----------
    id
        The existing sweep, which stays unchanged, as in `sweep`.
    change
        More values of axes, points, seeds or observables, or `time: {max, samples}` with a later time, in any
        form that `submit` accepts.
    name
        Name of the new sweep. By default that in `change`, or that of the existing sweep.

    Returns
    -------
    dict
        The new sweep.

    Raises
    ------
    InvalidInput
        If the change is invalid.
    """
    body, params = spec_body(change), to_query({"name": name})
    path = sweep_path((yield from find_id(service, id)), "extend")
    return (yield from request_sweep(service, "POST", path, params=params, **body))


def estimate_extension(service: Service, id: SweepName, change: Spec) -> Operation[CostEstimate]:
    """Estimate the cost of an extension without submitting it.

    Parameters
    ----------
    id
        The existing sweep, as in `sweep`.
    change
        As in `extend`.

    Returns
    -------
    dict
        The fields of `estimate`; `reused` counts the runs that need not be computed again.

    Raises
    ------
    InvalidInput
        If the change is invalid.
    """
    body, params = spec_body(change), {"dry_run": "true"}
    path = sweep_path((yield from find_id(service, id)), "extend")
    return CostEstimate((yield from request_json(service, "POST", path, params=params, **body)))


def spec_body(spec: Spec, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the request body of a spec or a change; the service parses the text."""
    content_type = "application/yaml"  # JSON is a subset
    if isinstance(spec, Path):
        spec = spec.read_bytes()
    elif isinstance(spec, Mapping):
        content_type, spec = "application/json", json.dumps(dict(spec), default=_to_plain)
    elif not isinstance(spec, (str, bytes)):
        content_type, spec = "application/json", spec.model_dump_json()
    return {"content": spec, "headers": {"Content-Type": content_type, **(headers or {})}}


def _to_plain(value: Any) -> Any:
    """Convert NumPy values for `json.dumps`, and refuse everything else."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise InvalidInput("spec", value, "must contain only numbers, texts, lists and mappings, as JSON does")
