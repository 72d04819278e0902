"""Log lines: one per record, as JSON or text, whatever a client sends."""

import io
import json
import logging
import re
import sys
from pathlib import Path

import pytest

from sweep_service.api import logs
from tests.api.served import until
from tests.specs import distinct_spec

ROOT = Path(__file__).resolve().parents[2]
BAD = 'evil\n{"event": "sweep_state"}\r\x1b[2Jend\u2028x'


@pytest.fixture
def written(capsys):
    """The log written since; the loggers are restored afterwards."""
    names = ("", *logging.root.manager.loggerDict, *logs.VERBOSE_LOGGERS)
    loggers = [logging.getLogger(name) for name in names]
    before = {logger: (logger.handlers[:], logger.level, logger.propagate) for logger in loggers}
    yield lambda: capsys.readouterr().err
    for logger, (handlers, level, propagate) in before.items():
        logger.handlers[:], logger.propagate = handlers, propagate
        logger.setLevel(level)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_json_log_has_one_line_per_record_with_extra_fields(written):
    logs.configure_logging("json")
    logging.getLogger("some").warning("it is %s", BAD, extra={"event": "odd", "sweep": BAD, "path": logs})
    try:
        raise ValueError(BAD)
    except ValueError:
        logging.getLogger("some").exception("broken")
    first, second = map(json.loads, written().splitlines())
    assert first["message"] == f"it is {BAD}"
    assert (first["event"], first["sweep"], first["level"], first["logger"]) == (
        "odd",
        BAD,
        "warning",
        "some",
    )
    assert second["trace"].startswith("Traceback")


def test_other_loggers_use_the_same_format(written):
    """Dask installs its own handlers, and logs errors in many lines."""
    parent, log = logging.getLogger("distributed"), logging.getLogger("distributed.client")
    parent.handlers, parent.propagate = [logging.StreamHandler()], False
    logs.configure_logging("json")
    try:
        raise OSError("gone")
    except OSError:
        log.exception("lost")
    log.info("connected")
    (line,) = map(json.loads, written().splitlines())
    assert (line["logger"], line["message"], line["level"]) == ("distributed.client", "lost", "error")


def test_text_log_lines_cannot_be_forged(written):
    logs.configure_logging("text")
    log = logging.getLogger("some")
    log.warning("it is %s", BAD, extra={"event": "odd"})
    log.info("request", extra={"event": "request", "path": BAD, "status": 200})
    try:
        raise ValueError(BAD)
    except ValueError:
        log.exception("broken")
    first, second, third, *trace = written().split("\n")[:-1]
    assert "warning it is evil?{" in first
    assert " info    request path=evil?{" in second
    assert second.endswith(" status=200")
    assert third.endswith("error   broken")
    assert all(line.startswith("    ") for line in trace)
    assert all(letter.isprintable() for line in (first, second, *trace) for letter in line)


@pytest.mark.parametrize(
    ("wish", "terminal", "is_json"),
    [(None, False, True), (None, True, False), ("text", False, False), ("json", True, True)],
)
@pytest.mark.usefixtures("written")
def test_default_log_format_depends_on_terminal(monkeypatch, wish, terminal, is_json):
    stream = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    logs.configure_logging(wish)
    logging.getLogger("some").info("well")
    assert stream.getvalue().startswith("{") is is_json


@pytest.mark.parametrize(
    ("log_format", "log_requests", "is_logged"),
    [("text", None, False), ("text", True, True), ("json", None, True), ("json", False, False)],
)
def test_requests_are_logged_by_default_only_as_json(written, log_format, log_requests, is_logged):
    """A person wants to see sweeps, workers and warnings."""
    logs.configure_logging(log_format, log_requests)
    logging.getLogger(logs.ACCESS_LOGGER).info("request", extra={"event": "request", "status": 200})
    logging.getLogger("sweep_service.store.ledger").info("a sweep is queued", extra={"event": "sweep_added"})
    text = written()
    assert ("request" in text) is is_logged
    assert "a sweep is queued" in text


def test_events_of_sweep_are_logged(held, caplog):
    """With stable event names."""
    caplog.set_level(logging.INFO)
    sweep_id = held.submit({**distinct_spec(40), "name": "a name"})
    held.post(f"/v1/sweeps/{sweep_id}/pause")
    held.post(f"/v1/sweeps/{sweep_id}/resume")
    held.executor.let()
    held.wait_until_ended(sweep_id)
    held.delete(f"/v1/sweeps/{sweep_id}")

    def logged_events():
        return [vars(record) for record in caplog.records if getattr(record, "sweep", "") == sweep_id]

    until(lambda: logged_events()[-1]["event"] == "sweep_removed")
    first, *rest, _ = logged_events()
    assert (first["event"], first["sweep_name"], first["runs"]) == ("sweep_added", "a name", 4)
    assert first["message"].endswith(" (a name) is queued: 4 runs")
    assert {event["event"] for event in rest} == {"sweep_state"}
    assert [event["state"] for event in rest] == ["paused", "queued", "running", "completed"]
    requests = [vars(record) for record in caplog.records if getattr(record, "event", "") == "request"]
    assert {"request_id", "method", "path", "status", "ms"} <= set(requests[0])


def test_documentation_lists_every_log_event():
    """And no others."""
    sources = [file for part in ("api", "workers", "sweep_service") for file in (ROOT / part).rglob("*.py")]
    logged = {name for file in sources for name in re.findall(r'"event": "(\w+)"', file.read_text("utf-8"))}
    text = (ROOT / "docs" / "operations.md").read_text("utf-8").partition("\n## Logs\n")[2]
    table = re.findall(r"^\| (`.*?) \|", text.partition("\n## ")[0], re.MULTILINE)[1:]
    assert set(re.findall(r"`(\w+)`", "".join(table))) == logged
