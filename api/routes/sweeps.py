"""Sweeps by REST: submit, look, steer."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Path, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from sweep_service.api import events
from sweep_service.api.conductor_thread import Engine, long
from sweep_service.api.error_responses import Json, responses
from sweep_service.api.models import EstimateOut, Failures, Links, Page, SpecOut, SweepOut
from sweep_service.errors import InvalidInput, NotFound
from sweep_service.execution.conductor import IS_ID, Conductor
from sweep_service.execution.submission import Submission
from sweep_service.execution.summary import failures
from sweep_service.planning.spec import SweepSpec
from sweep_service.store.ledger import Request as Repeatable
from sweep_service.store.ledger import State, Sweep

router = APIRouter(prefix="/v1", tags=["sweeps"], responses=responses())

PATTERN = {"pattern": f"^{IS_ID.pattern}$"}  # for the document: what is no id is not found, like any other


def sweep_id(id: Annotated[str, Path(description="A sweep's id", json_schema_extra=PATTERN)]) -> str:
    if not IS_ID.fullmatch(id):
        raise NotFound("no sweep has such an id")
    return id


Id = Annotated[str, Depends(sweep_id)]
Key = Annotated[str | None, Header(min_length=1, max_length=200, description="Makes a repeated request safe")]
Priority = Annotated[int, Query(ge=-1000, le=1000, description="Higher goes first")]
LARGEST_ID = 2**63 - 1


def engine_of(request: Request) -> Engine:
    return request.app.state.engine


Here = Annotated[Engine, Depends(engine_of)]
READABLE = ("application/json", "application/yaml", "application/x-yaml", "text/yaml")


async def body_of(request: Request) -> bytes:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in READABLE:
        raise HTTPException(415, f"Content-Type must be one of {', '.join(READABLE)}")
    return await request.body()


Body = Annotated[bytes, Depends(body_of)]


def takes(schema: str, example: dict[str, Any]) -> dict[str, Any]:
    """The body of a request, which is read by the readers of specs rather than by FastAPI's."""
    content = {"schema": {"$ref": f"#/components/schemas/{schema}"}, "example": example}
    return {"requestBody": {"required": True, "content": dict.fromkeys(READABLE[:2], content)}}


EXAMPLE = {
    "name": "dimension independence",
    "axes": {"d": [20, 100], "p": 8, "gamma": {"log": [0.01, 1.0, 5]}, "regime": ["classical"]},
    "fixed": {"k": 2, "noise": 0.001},
    "seeds": 4,
    "time": {"max": 100.0},
}
CHANGE = {"axes": {"gamma": [2.0, 4.0]}, "seeds": 16}


@router.post("/spec", openapi_extra=takes("SweepSpec", EXAMPLE), responses=responses(415))
def read(body: Body) -> SpecOut:
    """A spec, JSON or YAML, in its shortest form as JSON. Nothing is stored, and no point is looked at."""
    return SpecOut(spec=SweepSpec.read(body).written())


@router.post("/estimate", openapi_extra=takes("SweepSpec", EXAMPLE), responses=responses(415))
@long
def estimate(engine: Here, body: Body) -> EstimateOut:
    """What a sweep would cost, and what to think twice about."""
    return _estimate(engine, Submission(SweepSpec.read(body)))


def _estimate(engine: Engine, submission: Submission) -> EstimateOut:
    return EstimateOut(**submission.price(engine.folder, engine.ledger, engine.settings.limits))


@router.post(
    "/sweeps",
    status_code=202,
    response_model=None,
    openapi_extra=takes("SweepSpec", EXAMPLE),
    responses=responses(409, 415)
    | {
        202: {"model": SweepOut, "description": "A new sweep; Location says where"},
        200: {
            "model": SweepOut | EstimateOut,
            "description": "It is there already, or with dry_run its estimate",
        },
    },
)
@long
def submit(
    engine: Here,
    body: Body,
    dry_run: Annotated[bool, Query(description="Only say what it would cost")] = False,
    priority: Priority = 0,
    idempotency_key: Key = None,
) -> Response:
    """Submit a sweep. The same spec again, whatever its name, is the same sweep."""
    if dry_run:
        return Json(_estimate(engine, Submission(SweepSpec.read(body))).model_dump())
    request = _request("submit", body, idempotency_key)
    answer = engine.ledger.answer_to(request) if request else None
    return _accepted(engine, answer or _submit(engine, SweepSpec.read(body), None, priority, request))


def _request(what: str, body: bytes, key: str | None) -> Repeatable | None:
    digest = hashlib.sha256(what.encode() + b"\n" + body).hexdigest()
    return None if key is None else Repeatable(key, digest)


def _submit(
    engine: Engine, spec: SweepSpec, extends: str | None, priority: int, request: Repeatable | None
) -> tuple[Sweep, bool]:
    """All that takes long is done here, and not by the conductor, for whom all sweeps would wait."""
    submission = Submission(spec)
    if submission.existing(engine.ledger) is None:
        submission.look(engine.folder, engine.ledger, engine.settings.limits)
    return engine.ask(Conductor.submit, submission, extends, priority, request)


def _accepted(engine: Engine, answer: tuple[Sweep, bool]) -> Response:
    sweep, is_new = answer
    about = SweepOut.of(engine.view(sweep.id))
    return Json(about.model_dump(), 202 if is_new else 200, {"Location": about.links.self})


@router.get("/sweeps")
def sweeps(
    engine: Here,
    state: Annotated[list[State] | None, Query(description="Only those in one of these states")] = None,
    name: Annotated[
        str | None, Query(max_length=200, description="Only those with this in name or id")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: Annotated[str | None, Query(max_length=200, description="`next` of the page before")] = None,
) -> Page:
    """The sweeps, newest first."""
    before = _read_cursor(cursor) if cursor is not None else None
    found = engine.views(states=state, name=name, before=before, limit=limit + 1)
    following = _cursor(found[limit - 1]) if len(found) > limit else None
    return Page(sweeps=[SweepOut.of(about) for about in found[:limit]], next=following)


def _cursor(about: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(f"{about['created']} {about['id']}".encode()).decode()


def _read_cursor(cursor: str) -> tuple[str, str]:
    try:
        created, _, sweep = (
            base64.b64decode(cursor.encode("ascii"), b"-_", validate=True).decode().partition(" ")
        )
    except (binascii.Error, UnicodeError):
        created = sweep = ""
    if not sweep:
        raise InvalidInput("cursor", cursor, "must be `next` of an earlier page")
    return created, sweep


@router.get("/sweeps/{id}", response_model=None, responses=responses(404) | {200: {"model": SweepOut}})
async def show(engine: Here, id: Id) -> Response:
    """One sweep: its state, its counts, how far it is."""
    about = engine.known(id)
    if about is None:
        about = await run_in_threadpool(engine.view, id)
    return Json({**about, "links": Links.of(id).model_dump()})


@router.get("/sweeps/{id}/spec", responses=responses(404))
def spec(engine: Here, id: Id) -> dict[str, Any]:
    """What was asked for, with every default filled in."""
    engine.ledger.sweep(id)
    return engine.folder.spec(id).model_dump(mode="json")


ACTIONS: dict[str, tuple[Callable[[Conductor, str], Sweep], str]] = {
    "cancel": (Conductor.cancel, "Give up what is not computed yet; what is there stays."),
    "pause": (Conductor.pause, "Let it rest; what runs is stopped at its last checkpoint."),
    "resume": (Conductor.resume, "Go on with a sweep that was paused."),
    "retry": (Conductor.retry, "Compute failed and cancelled runs again."),
}


def _action(name: str) -> None:
    act, text = ACTIONS[name]

    def steer(engine: Here, id: Id) -> SweepOut:
        engine.ledger.sweep(id)
        return SweepOut.of(engine.view(engine.ask(act, id).id))

    router.post(f"/sweeps/{{id}}/{name}", name=name, description=text, responses=responses(404))(steer)


for _name in ACTIONS:
    _action(_name)


@router.post(
    "/sweeps/{id}/extend",
    status_code=202,
    response_model=None,
    openapi_extra=takes("Change", CHANGE),
    responses=responses(404, 409, 415)
    | {
        code: {"model": SweepOut, "description": text}
        for code, text in ((202, "A new sweep"), (200, "It is there"))
    },
)
@long
def extend(engine: Here, id: Id, body: Body, priority: Priority = 0, idempotency_key: Key = None) -> Response:
    """A new sweep with more values of axes, points or seeds. What this one has is copied; it stays."""
    engine.ledger.sweep(id)
    request = _request(f"extend {id}", body, idempotency_key)
    answer = engine.ledger.answer_to(request) if request else None
    return _accepted(
        engine, answer or _submit(engine, engine.folder.spec(id).extended(body), id, priority, request)
    )


@router.delete("/sweeps/{id}", status_code=204, responses=responses(404))
def remove(engine: Here, id: Id) -> None:
    """Cancel it, and remove everything of it."""
    engine.ask(Conductor.remove, id)


EVENT = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "event": {"enum": ["state", "progress", "removed"]},
        "data": {"type": "string", "description": "The sweep as JSON, as of now but for its state"},
    },
    "required": ["event", "data"],
}


@router.get(
    "/sweeps/{id}/events",
    response_model=None,
    responses=responses(404)
    | {
        200: {
            "content": {"text/event-stream": {"schema": EVENT}},
            "description": "Until it ends",
        },
        204: {"description": "It has ended, and all of it was seen"},
    },
)
def follow(
    engine: Here,
    id: Id,
    last_event_id: Annotated[str | None, Header(max_length=40, description="Only what came after")] = None,
) -> Response:
    """Server-sent events: `state` and `progress`, each with the sweep as data."""
    after = int(last_event_id) if last_event_id and last_event_id.isascii() and last_event_id.isdigit() else 0
    found, ended = events.news(engine, id, min(after, LARGEST_ID))
    if after and ended and not found:
        return Response(status_code=204)
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}  # no proxy may keep them back
    return StreamingResponse(
        events.stream(engine, id, min(after, LARGEST_ID)), media_type="text/event-stream", headers=headers
    )


@router.get("/sweeps/{id}/failures", responses=responses(404))
def failed(
    engine: Here,
    id: Id,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    cursor: Annotated[str | None, Query(pattern=r"^(sgd|ode)-\d{1,18}$")] = None,
) -> Failures:
    """Each failed run with its error, and a command that computes it alone."""
    engine.ledger.sweep(id)
    found = list(islice(failures(engine.folder, id, after=cursor), limit + 1))
    last = found[limit - 1] if len(found) > limit else None
    following = f"{last['kind']}-{last['number']}" if last is not None else None
    return Failures(failures=found[:limit], next=following)  # type: ignore[arg-type]
