"""Log formats: JSON for programs, text for people. Text from clients cannot start a new line."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, Literal

from sweep_service.text import make_printable

LogFormat = Literal["json", "text"]
STANDARD_FIELDS = {*vars(logging.makeLogRecord({})), "color_message"}  # of every record
ACCESS_LOGGER = "sweep.access"  # of requests
VERBOSE_LOGGERS = ("distributed", "httpx2", "uvicorn")  # they log every connection
SILENT_AT_EXIT = (*VERBOSE_LOGGERS, "asyncio", "bokeh", "tornado")


class JsonFormatter(logging.Formatter):
    """Formats a record as a line of JSON, including its extra fields."""

    def format(self, record: logging.LogRecord) -> str:
        fields = _fields(record)
        if record.exc_info:
            fields["trace"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str)


class TextFormatter(logging.Formatter):
    """Formats a record for people: time, level, message.

    Extra fields follow only if the message is just the event's name; other messages contain the values.
    """

    def format(self, record: logging.LogRecord) -> str:
        fields = _fields(record)
        time, level, _, message = (fields.pop(name) for name in ("time", "level", "logger", "message"))
        event = fields.pop("event", message)
        extra = "".join(f" {name}={value}" for name, value in fields.items()) if event == message else ""
        line = make_printable(f"{time[11:19]} {level:<7} {message}{extra}")
        if record.exc_info:
            trace = self.formatException(record.exc_info).splitlines()
            line += "".join(f"\n    {make_printable(trace_line)}" for trace_line in trace)
        return line


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    extra = {name: value for name, value in vars(record).items() if name not in STANDARD_FIELDS}
    return {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": record.getMessage(),
        **extra,
    }


def configure_logging(log_format: LogFormat | None, log_requests: bool | None = None) -> None:
    """Log to standard error; by default as text to a terminal and as JSON elsewhere.

    Requests are logged by default only as JSON: a person wants to see sweeps, workers and warnings.
    """
    is_text = (log_format or _default_format()) == "text"
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(TextFormatter() if is_text else JsonFormatter())
    show_requests = not is_text if log_requests is None else log_requests
    logging.getLogger(ACCESS_LOGGER).setLevel(logging.INFO if show_requests else logging.WARNING)
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    for name in [*logging.root.manager.loggerDict, *VERBOSE_LOGGERS]:
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [], True  # Dask installs its own handlers
        if name.partition(".")[0] in VERBOSE_LOGGERS:
            logger.setLevel(logging.WARNING)


def silence_libraries() -> None:
    """Suppress the messages of libraries during shutdown: connections that close are no errors then."""
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] in SILENT_AT_EXIT:
            logging.getLogger(name).setLevel(logging.CRITICAL)


def _default_format() -> LogFormat:
    return "text" if sys.stderr.isatty() else "json"
