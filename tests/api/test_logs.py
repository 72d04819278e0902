"""Lines of the log: one for each record, as JSON or as text, whatever a client has sent."""

import io
import json
import logging
import re
import sys
from pathlib import Path

import pytest

from sweep_service.api import logs
from tests.api.served import another, until

ROOT = Path(__file__).resolve().parents[2]
BAD = 'evil\n{"event": "sweep_state"}\r\x1b[2Jend\u2028x'


@pytest.fixture
def written(capsys):
    """What is written since; the loggers are as they were in the end."""
    names = ("", *logging.root.manager.loggerDict, *logs.CHATTY)
    before = {(one := logging.getLogger(name)): (one.handlers[:], one.level, one.propagate) for name in names}
    yield lambda: capsys.readouterr().err
    for one, (handlers, level, propagate) in before.items():
        one.handlers[:], one.propagate = handlers, propagate
        one.setLevel(level)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_json_has_a_line_for_each_record_with_what_came_along(written):
    logs.begin("json")
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


def test_what_others_write_is_of_the_same_form(written):
    """Dask gives its loggers handlers of their own, and tells of trouble in many lines."""
    parent, log = logging.getLogger("distributed"), logging.getLogger("distributed.client")
    parent.handlers, parent.propagate = [logging.StreamHandler()], False
    logs.begin("json")
    try:
        raise OSError("gone")
    except OSError:
        log.exception("lost")
    log.info("connected")
    (line,) = map(json.loads, written().splitlines())
    assert (line["logger"], line["message"], line["level"]) == ("distributed.client", "lost", "error")


def test_text_has_lines_that_nobody_can_forge(written):
    logs.begin("text")
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
def test_a_terminal_is_for_people_unless_somebody_wishes(monkeypatch, wish, terminal, is_json):
    stream = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    logs.begin(wish)
    logging.getLogger("some").info("well")
    assert stream.getvalue().startswith("{") is is_json


def test_what_happens_to_a_sweep_has_lines(held, caplog):
    """With names that programs can rely on."""
    caplog.set_level(logging.INFO)
    sweep = held.submit({**another(40), "name": "a name"})
    held.post(f"/v1/sweeps/{sweep}/pause")
    held.post(f"/v1/sweeps/{sweep}/resume")
    held.executor.let()
    held.ended(sweep)
    held.delete(f"/v1/sweeps/{sweep}")

    def told():
        return [vars(one) for one in caplog.records if getattr(one, "sweep", "") == sweep]

    until(lambda: told()[-1]["event"] == "sweep_removed")
    first, *rest, _ = told()
    assert (first["event"], first["sweep_name"], first["runs"]) == ("sweep_added", "a name", 4)
    assert {one["event"] for one in rest} == {"sweep_state"}
    assert [one["state"] for one in rest] == ["paused", "queued", "running", "completed"]
    asked = [vars(one) for one in caplog.records if getattr(one, "event", "") == "request"]
    assert {"request_id", "method", "path", "status", "ms"} <= set(asked[0])


def test_operations_names_every_event():
    """And no other."""
    sources = [file for part in ("api", "workers", "sweep_service") for file in (ROOT / part).rglob("*.py")]
    there = {name for file in sources for name in re.findall(r'"event": "(\w+)"', file.read_text("utf-8"))}
    text = (ROOT / "docs" / "operations.md").read_text("utf-8").partition("\n## Logs\n")[2]
    table = re.findall(r"^\| (`.*?) \|", text.partition("\n## ")[0], re.MULTILINE)[1:]
    assert set(re.findall(r"`(\w+)`", "".join(table))) == there
