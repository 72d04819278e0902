"""Lines of the log: JSON for programs, text for people. What a client sends begins no line of its own."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, Literal

from sweep_service.text import printable

Form = Literal["json", "text"]
PLAIN = {*vars(logging.makeLogRecord({})), "color_message"}  # what every record has
CHATTY = ("distributed", "httpx", "uvicorn")  # they tell of every connection


class Lines(logging.Formatter):
    """A record as a line of JSON, with what was given along with it."""

    def format(self, record: logging.LogRecord) -> str:
        about = _about(record)
        if record.exc_info:
            about["trace"] = self.formatException(record.exc_info)
        return json.dumps(about, default=str)


class Text(logging.Formatter):
    """A record as a person reads it: time, level, words; then names and values, where the words have none."""

    def format(self, record: logging.LogRecord) -> str:
        about = _about(record)
        time, level, _, words = (about.pop(name) for name in ("time", "level", "logger", "message"))
        kind = about.pop("event", words)
        given = "".join(f" {name}={value}" for name, value in about.items()) if kind == words else ""
        line = printable(f"{time[11:19]} {level:<7} {words}{given}")
        if record.exc_info:
            trace = self.formatException(record.exc_info).splitlines()
            line += "".join(f"\n    {printable(part)}" for part in trace)
        return line


def _about(record: logging.LogRecord) -> dict[str, Any]:
    given = {name: value for name, value in vars(record).items() if name not in PLAIN}
    return {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": record.getMessage(),
        **given,
    }


def begin(form: Form | None) -> None:
    """Standard error gets all lines. Without a wish they are text in a terminal, and JSON elsewhere."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Text() if (form or _usual()) == "text" else Lines())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    for name in [*logging.root.manager.loggerDict, *CHATTY]:
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [], True  # Dask has some that write in a way of their own
        if name.partition(".")[0] in CHATTY:
            logger.setLevel(logging.WARNING)


def end() -> None:
    """What Dask says while all is closed around it tells of no trouble."""
    for name in logging.root.manager.loggerDict:
        if name.partition(".")[0] == "distributed":
            logging.getLogger(name).setLevel(logging.CRITICAL)


def _usual() -> Form:
    return "text" if sys.stderr.isatty() else "json"
