"""Two sweeps at their common points, over HTTP."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from sweep_service.api.conductor_thread import limited_concurrency
from sweep_service.api.error_responses import SafeJsonResponse, responses
from sweep_service.api.models import Comparison
from sweep_service.api.routes.figures import SELECTION_HELP, query_options
from sweep_service.api.routes.sweeps import ID_SCHEMA, Service, check_sweep_id

router = APIRouter(prefix="/v1/compare", tags=["atlas"], responses=responses(404))
SweepId = Annotated[str, Query(max_length=200, json_schema_extra=ID_SCHEMA)]


@router.get("", response_model=None, responses={200: {"model": Comparison}}, description=(
    "A value of two sweeps at the points that both have: their ratio or difference, with errors that know "
    f"about shared starts. {SELECTION_HELP}"
))  # fmt: skip
@limited_concurrency
def compare(
    service: Service,
    request: Request,
    a: SweepId,
    b: SweepId,
    value: Annotated[str, Query(max_length=200, description="A value of phase diagrams")] = "sgd_risk",
    how: Annotated[str, Query(max_length=40, json_schema_extra={"enum": ["ratio", "difference"]})] = "ratio",
) -> Response:
    from sweep_service.analysis.comparison.compare import compare as compare_datasets
    from sweep_service.analysis.comparison.compare import comparison_to_json

    ids = [check_sweep_id(a), check_sweep_id(b)]
    for sweep_id in ids:
        service.ledger.sweep(sweep_id)
    given = ("a", "b", "value", "how")
    where = {name: wanted for name, wanted in query_options(request).items() if name not in given}
    with service.open_dataset(ids[0]) as first, service.open_dataset(ids[1]) as second:
        result = compare_datasets(first, second, value, how, **where)
        return SafeJsonResponse({"a": ids[0], "b": ids[1], **comparison_to_json(result)})
