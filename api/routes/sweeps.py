"""REST routes of sweeps: submit, show, control, follow."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Path, Query, Request
from fastapi.sse import EventSourceResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import Response

from sweep_service.api import events
from sweep_service.api.conductor_thread import ConductorThread, limited_concurrency
from sweep_service.api.error_responses import SafeJsonResponse, responses
from sweep_service.api.models import (
    EstimateOut,
    Failures,
    Links,
    Page,
    PredictedSeeds,
    RoundsOut,
    SpecOut,
    SweepOut,
)
from sweep_service.errors import InvalidInput, NotFound
from sweep_service.execution.conductor import SWEEP_ID_PATTERN, Conductor
from sweep_service.execution.extension import extend_spec
from sweep_service.execution.submission import Submission
from sweep_service.execution.summary import describe_rounds, read_failures
from sweep_service.planning.outline import Outline
from sweep_service.planning.spec import SweepSpec
from sweep_service.planning.spec_text import locating_errors, parse_text
from sweep_service.store.ledger import Request as KeyedRequest
from sweep_service.store.ledger import State, SweepRecord
from sweep_service.store.notes import MAX_TAGS, read_change, read_tags
from sweep_service.text import replace_nonfinite
from sweep_service.validation import MAX_RELATIVE_ERROR, MIN_RELATIVE_ERROR

router = APIRouter(prefix="/v1", tags=["sweeps"], responses=responses())

# Only documented, not validated by FastAPI: a malformed id gives 404 like any unknown id, not 422.
ID_SCHEMA = {"pattern": f"^{SWEEP_ID_PATTERN.pattern}$"}


def check_sweep_id(id: Annotated[str, Path(description="A sweep's id", json_schema_extra=ID_SCHEMA)]) -> str:
    if not SWEEP_ID_PATTERN.fullmatch(id):
        raise NotFound("no sweep has this id")
    return id


Id = Annotated[str, Depends(check_sweep_id)]
IdempotencyKey = Annotated[
    str | None,
    Header(min_length=1, max_length=200, description="A repeated request with the same key has no effect"),
]
Priority = Annotated[int, Query(ge=-1000, le=1000, description="Sweeps of higher priority go first")]
DryRun = Annotated[bool, Query(description="Only estimate the cost")]
MAX_EVENT_ID = 2**63 - 1  # the largest integer of SQLite


def get_service(request: Request) -> ConductorThread:
    return request.app.state.conductor_thread


Service = Annotated[ConductorThread, Depends(get_service)]


def get_owner(request: Request) -> str | None:
    """Return the name of the caller's token."""
    token = request.state.token
    return token.name or None if token is not None else None


Owner = Annotated[str | None, Depends(get_owner)]
SPEC_MEDIA_TYPES = ("application/json", "application/yaml", "application/x-yaml", "text/yaml")


async def read_body(request: Request) -> bytes:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in SPEC_MEDIA_TYPES:
        raise HTTPException(415, f"Content-Type must be one of {', '.join(SPEC_MEDIA_TYPES)}")
    return await request.body()


Body = Annotated[bytes, Depends(read_body)]


def request_body(schema: str, example: dict[str, Any]) -> dict[str, Any]:
    """Document the body of a request that FastAPI does not parse."""
    content = {"schema": {"$ref": f"#/components/schemas/{schema}"}, "example": example}
    return {"requestBody": {"required": True, "content": dict.fromkeys(SPEC_MEDIA_TYPES[:2], content)}}


EXAMPLE = {
    "name": "dimension independence",
    "axes": {"d": [20, 100], "p": 8, "gamma": {"log": [0.01, 1.0, 5]}, "regime": ["classical"]},
    "fixed": {"k": 2, "noise": 0.001},
    "seeds": 4,
    "time": {"max": 100.0},
}
NOTES = {"name": "critical rates", "note": "compare with Saad and Solla, figure 2", "tags": ["saad-solla"]}
CHANGE = {"axes": {"gamma": [2.0, 4.0]}, "seeds": 16}


@router.post(
    "/spec",
    operation_id="read_spec",
    openapi_extra=request_body("SweepSpec", EXAMPLE),
    responses=responses(415),
)
def read(body: Body) -> SpecOut:
    """Convert a spec from JSON or YAML to its shortest form as JSON. Nothing is stored or expanded."""
    return SpecOut(spec=SweepSpec.read(body).as_written())


@router.post("/estimate", openapi_extra=request_body("SweepSpec", EXAMPLE), responses=responses(415))
@limited_concurrency
def estimate(service: Service, body: Body) -> EstimateOut:
    """Estimate the cost of a sweep, with warnings."""
    return _estimate(service, body)


@router.post(
    "/seeds",
    operation_id="predict_seeds",
    openapi_extra=request_body("SweepSpec", EXAMPLE),
    responses=responses(415),
)
@limited_concurrency
def seeds(
    service: Service,
    body: Body,
    relative_error: Annotated[
        float | None,
        Query(
            ge=MIN_RELATIVE_ERROR,
            le=MAX_RELATIVE_ERROR,
            allow_inf_nan=False,
            description="Count the seeds for this standard error over the mean; by default about half of "
            "that of the spec",
        ),
    ] = None,
) -> PredictedSeeds:
    """Predict how accurately the seeds of a spec will determine the risk of SGD, without any run.

    The linear theory of fluctuations is evaluated at up to three points of the spec, which takes up to some
    seconds. `notes` says why there is no prediction.
    """
    from sweep_service.analysis.error_bars.spec_seeds import predict_seeds

    with locating_errors(body):
        outline = Outline.read(body)
        service.settings.limits.for_estimates().check_outline(outline)
        prediction = predict_seeds(outline, service.folder.calibration(), relative_error)
    return PredictedSeeds(**replace_nonfinite(prediction))


def _estimate(service: ConductorThread, body: bytes) -> EstimateOut:
    return _summarise_cost(service, Submission.read(body, service.settings.limits.for_estimates()))


def _summarise_cost(service: ConductorThread, submission: Submission) -> EstimateOut:
    limits = service.settings.limits
    return EstimateOut(**submission.summarise_cost(service.folder, service.ledger, limits))


@router.post(
    "/sweeps",
    operation_id="submit_sweep",
    status_code=202,
    response_model=None,
    openapi_extra=request_body("SweepSpec", EXAMPLE),
    responses=responses(409, 415)
    | {
        202: {"model": SweepOut, "description": "A new sweep; Location has its path"},
        200: {
            "model": SweepOut | EstimateOut,
            "description": "An existing sweep; with dry_run, the estimate",
        },
    },
)
@limited_concurrency
def submit(
    service: Service,
    body: Body,
    owner: Owner,
    dry_run: DryRun = False,
    priority: Priority = 0,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Submit a sweep. An equivalent spec, whatever its name, returns the existing sweep."""
    if dry_run:
        return SafeJsonResponse(_estimate(service, body).model_dump())
    request = _request("submit", body, idempotency_key)
    answer = service.ledger.find_answer(request) if request else None
    if answer is None:
        submission = Submission.read(body, service.settings.limits, owner)
        answer = _submit(service, submission, None, priority, request)
    return _accepted(service, answer)


def _request(operation: str, body: bytes, key: str | None) -> KeyedRequest | None:
    digest = hashlib.sha256(operation.encode() + b"\n" + body).hexdigest()
    return None if key is None else KeyedRequest(key, digest)


def _submit(
    service: ConductorThread,
    submission: Submission,
    extends: str | None,
    priority: int,
    request: KeyedRequest | None,
) -> tuple[SweepRecord, bool]:
    """Submit a sweep, preparing it in this thread, because all sweeps would wait for the conductor."""
    if submission.find_existing(service.ledger) is None:
        submission.prepare(service.folder, service.ledger, service.settings.limits)
    return service.call(Conductor.submit, submission, extends, priority, request)


def _accepted(service: ConductorThread, result: tuple[SweepRecord, bool]) -> Response:
    sweep, is_new = result
    content = SweepOut.of(service.describe(sweep.id))
    return SafeJsonResponse(content.model_dump(), 202 if is_new else 200, {"Location": content.links.self})


@router.get("/sweeps", operation_id="list_sweeps")
def sweeps(
    service: Service,
    state: Annotated[list[State] | None, Query(description="Only sweeps in one of these states")] = None,
    name: Annotated[
        str | None, Query(max_length=200, description="Only sweeps whose name or id contains this text")
    ] = None,
    tag: Annotated[
        list[str] | None, Query(max_length=MAX_TAGS, description="Only sweeps with all of these tags")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: Annotated[str | None, Query(max_length=200, description="`next` of the previous page")] = None,
) -> Page:
    """List sweeps, newest first."""
    before = _decode_cursor(cursor) if cursor is not None else None
    query = {"states": state, "name": name, "tags": read_tags(tag or [], "tag"), "before": before}
    descriptions = service.describe_all(**query, limit=limit + 1)
    next_cursor = _encode_cursor(descriptions[limit - 1]) if len(descriptions) > limit else None
    return Page(sweeps=[SweepOut.of(description) for description in descriptions[:limit]], next=next_cursor)


def _encode_cursor(description: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(f"{description['created']} {description['id']}".encode()).decode()


def _decode_cursor(cursor: str) -> tuple[str, str]:
    try:
        created, _, sweep_id = (
            base64.b64decode(cursor.encode("ascii"), b"-_", validate=True).decode().partition(" ")
        )
    except (binascii.Error, UnicodeError):
        created = sweep_id = ""
    if not sweep_id:
        raise InvalidInput("cursor", cursor, "must be `next` of an earlier page")
    return created, sweep_id


@router.get(
    "/sweeps/{id}",
    operation_id="get_sweep",
    response_model=None,
    responses=responses(404) | {200: {"model": SweepOut}},
)
async def show(service: Service, id: Id) -> Response:
    """Show a sweep: its state, its runs by status, its progress."""
    description = service.describe_cached(id)
    if description is None:
        description = await run_in_threadpool(service.describe, id)
    return SafeJsonResponse({**description, "links": Links.of(id).model_dump()})


@router.get("/sweeps/{id}/spec", operation_id="get_spec", responses=responses(404))
def spec(service: Service, id: Id) -> dict[str, Any]:
    """Return the spec of a sweep, including default values."""
    service.ledger.sweep(id)
    return service.folder.spec(id).model_dump(mode="json")


ACTIONS: dict[str, tuple[Callable[[Conductor, str], SweepRecord], str]] = {
    "cancel": (Conductor.cancel, "Cancel the runs that are not computed yet; computed runs are kept."),
    "pause": (Conductor.pause, "Pause the sweep; running jobs stop and leave a checkpoint."),
    "resume": (Conductor.resume, "Resume a paused sweep; runs of other versions are computed again."),
    "retry": (Conductor.retry, "Compute failed and cancelled runs again."),
}


def _add_action(name: str) -> None:
    action, description = ACTIONS[name]

    def act(service: Service, id: Id) -> SweepOut:
        service.ledger.sweep(id)
        return SweepOut.of(service.describe(service.call(action, id).id))

    router.post(
        f"/sweeps/{{id}}/{name}",
        name=name,
        operation_id=f"{name}_sweep",
        description=description,
        responses=responses(404),
    )(act)


for _name in ACTIONS:
    _add_action(_name)


@router.post(
    "/sweeps/{id}/extend",
    operation_id="extend_sweep",
    status_code=202,
    response_model=None,
    openapi_extra=request_body("Change", CHANGE),
    responses=responses(404, 409, 415)
    | {
        202: {"model": SweepOut, "description": "A new sweep"},
        200: {
            "model": SweepOut | EstimateOut,
            "description": "An existing sweep; with dry_run, the estimate",
        },
    },
)
@limited_concurrency
def extend(
    service: Service,
    id: Id,
    body: Body,
    owner: Owner,
    name: Annotated[
        str | None, Query(max_length=200, description="Name of the new sweep, instead of that in the body")
    ] = None,
    dry_run: DryRun = False,
    priority: Priority = 0,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Create a new sweep with more values of axes, points, seeds or observables, or with later times.

    Runs of this sweep are reused. With a later `time`, SGD continues from kept states, and ODEs are
    integrated anew. Runs that lack a new observable are computed again. Axes of numbers stay
    sorted.
    """
    service.ledger.sweep(id)
    limits = service.settings.limits
    if dry_run:
        spec = extend_spec(service.folder.spec(id), body, name)
        return SafeJsonResponse(
            _summarise_cost(service, Submission(spec, limits.for_estimates())).model_dump()
        )
    request = _request(f"extend {id}" + ("" if name is None else f" {name}"), body, idempotency_key)
    answer = service.ledger.find_answer(request) if request else None
    if answer is None:
        submission = Submission(extend_spec(service.folder.spec(id), body, name), limits, owner)
        answer = _submit(service, submission, id, priority, request)
    return _accepted(service, answer)


@router.patch(
    "/sweeps/{id}",
    operation_id="update_sweep",
    openapi_extra=request_body("Notes", NOTES),
    responses=responses(404, 415),
)
def annotate(service: Service, id: Id, body: Body) -> SweepOut:
    """Change the name, the note or the tags of a sweep.

    A note that is null or blank is removed. `tags` replaces all tags; they are stored in lower case.
    """
    with locating_errors(body):
        change = read_change(parse_text(body, "change"))
    service.ledger.sweep(id)
    return SweepOut.of(service.describe(service.call(Conductor.annotate, id, change).id))


@router.delete("/sweeps/{id}", operation_id="remove_sweep", status_code=204, responses=responses(404))
def remove(service: Service, id: Id) -> None:
    """Cancel a sweep and delete its data."""
    service.call(Conductor.remove, id)


EVENT = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "event": {"enum": ["state", "progress", "notes", "compiling", "removed"]},
        "data": {
            "type": "string",
            "description": "The sweep as JSON: its current values, with the state at the event",
        },
    },
    "required": ["event", "data"],
}


@router.get(
    "/sweeps/{id}/events",
    operation_id="follow_sweep",
    response_model=None,
    responses=responses(404)
    | {
        200: {
            "content": {"text/event-stream": {"schema": EVENT}},
            "description": "Events until the sweep ends",
        },
        204: {"description": "The sweep has ended and there are no further events"},
    },
)
def follow(
    service: Service,
    id: Id,
    last_event_id: Annotated[str | None, Header(max_length=40, description="Only later events")] = None,
) -> Response:
    """Stream server-sent events, `state`, `progress` and `notes`, each with the sweep as data."""
    after = int(last_event_id) if last_event_id and last_event_id.isascii() and last_event_id.isdigit() else 0
    pending, is_complete = events.read_events(service, id, min(after, MAX_EVENT_ID))
    if after and is_complete and not pending:
        return Response(status_code=204)
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}  # proxies must not buffer events
    # Not a generator for FastAPI to stream, because such a route cannot answer 204.
    return EventSourceResponse(events.stream(service, id, min(after, MAX_EVENT_ID)), headers=headers)


@router.get("/sweeps/{id}/failures", operation_id="list_failures", responses=responses(404))
def failures(
    service: Service,
    id: Id,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    cursor: Annotated[str | None, Query(pattern=r"^(sgd|ode)-\d{1,18}$")] = None,
) -> Failures:
    """List failed runs with their errors, and commands that compute each one alone."""
    service.ledger.sweep(id)
    records = list(islice(read_failures(service.folder, id, after=cursor), limit + 1))
    last = records[limit - 1] if len(records) > limit else None
    next_cursor = f"{last['kind']}-{last['number']}" if last is not None else None
    return Failures(failures=records[:limit], next=next_cursor)  # type: ignore[arg-type]


@router.get("/sweeps/{id}/rounds", responses=responses(404))
def rounds(service: Service, id: Id) -> RoundsOut:
    """List the rounds of a sweep with a target error, and what each adds."""
    service.ledger.sweep(id)
    return RoundsOut(**describe_rounds(service.folder, id))
