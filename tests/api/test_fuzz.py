"""What schemathesis makes up from the OpenAPI document finds no 5xx, and no answer outside its schema."""

import threading
import time

import hypothesis
import pytest
import schemathesis
import uvicorn
from hypothesis import strategies as st
from schemathesis import checks

from api.app import create_app
from api.settings import Settings
from sweep_service.conductor import IS_ID
from sweep_service.executors import SerialExecutor

# Small enough that whatever is accepted is computed in a moment.
LIMITS = {"max_points": 50, "max_core_hours": 1e-4, "max_bytes": 1 << 24, "max_active": 10_000}
SPEC = {
    "axes": {"d": [10, 20], "p": 4, "gamma": [0.1, 0.5], "regime": "classical"},
    "fixed": {"k": 2}, "seeds": 2, "time": {"max": 2, "samples": 5},
}  # fmt: skip
CHECKS = [
    checks.not_a_server_error, checks.status_code_conformance, checks.content_type_conformance,
    checks.response_headers_conformance, checks.response_schema_conformance, checks.negative_data_rejection,
    checks.unsupported_method, checks.missing_required_header, checks.allow_header_conformance,
]  # fmt: skip


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    settings = Settings(data=tmp_path_factory.mktemp("data"), **LIMITS)
    app = create_app(settings, lambda folder, stopped: SerialExecutor(stopped))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, ws="none", lifespan="on"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    host, port = server.servers[0].sockets[0].getsockname()
    yield app, f"http://{host}:{port}"
    app.state.engine.hush()
    server.should_exit = True
    thread.join()


@pytest.fixture(scope="module")
def stored(service):
    """A sweep that is there, so that what is made up also meets one."""
    app, _ = service
    engine = app.state.engine
    from sweep_service.spec import SweepSpec

    sweep, _ = engine.ask(lambda conductor: conductor.submit(SweepSpec.parse(SPEC)))
    end = time.monotonic() + 60
    while not engine.ledger.sweep(sweep.id).state.ended:
        assert time.monotonic() < end
        time.sleep(0.05)
    return sweep.id


OPERATIONS = [
    f"{method.upper()} {path}"
    for path, methods in create_app(Settings(data="nowhere")).openapi()["paths"].items()
    for method in methods
]


@pytest.fixture(scope="module")
def document(service):
    return schemathesis.openapi.from_url(f"{service[1]}/openapi.json")


def fuzz(document, operation, stored, **settings):
    method, _, path = operation.partition(" ")
    cases = st.one_of(
        document[path][method].as_strategy(generation_mode=mode) for mode in schemathesis.GenerationMode
    )

    @hypothesis.settings(deadline=None, suppress_health_check=list(hypothesis.HealthCheck), **settings)
    @hypothesis.given(cases, st.booleans())
    def made_up(case, real):
        wanted = CHECKS
        if "id" in (case.path_parameters or {}) and method != "DELETE" and real:
            if not IS_ID.fullmatch(str(case.path_parameters["id"])):  # which may have been all that was wrong
                wanted = [check for check in CHECKS if check is not checks.negative_data_rejection]
            case.path_parameters["id"] = stored
        case.call_and_validate(checks=wanted)

    made_up()


@pytest.mark.parametrize("operation", OPERATIONS)
def test_made_up_requests(document, operation, stored):
    fuzz(document, operation, stored, max_examples=15, derandomize=True)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_thousands_of_made_up_requests(document, operation, stored):
    fuzz(document, operation, stored, max_examples=300)
