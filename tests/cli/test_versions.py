"""A data folder whose ledger was written by a later version."""

import sqlite3
from contextlib import closing

import pytest

from sweep_service.cli.answers import REFUSED
from sweep_service.store.ledger import SCHEMA_VERSION
from tests.cli.commands import run_command
from tests.specs import TINY_SPEC

COMMANDS = (
    "list", "show ID", "run -", "resume ID", "retry ID", "cancel ID", "pause ID", "rm ID", "extend ID -",
    "estimate -", "export ID x.nc", "serve --port 0",
)  # fmt: skip


@pytest.fixture(scope="module")
def newer(tmp_path_factory):
    """Return a folder with a sweep, and its id; the schema of the ledger is newer than this code's."""
    cwd = tmp_path_factory.mktemp("newer")
    sweep_id = run_command(cwd, "run", "-", "--json", "--no-figure", text=TINY_SPEC).json["id"]
    with closing(sqlite3.connect(cwd / "sweep-data" / "ledger.sqlite")) as ledger:
        ledger.execute("UPDATE about SET value = ?", (str(SCHEMA_VERSION + 1),))
        ledger.commit()
    return cwd, sweep_id


@pytest.mark.parametrize("command", COMMANDS)
def test_ledger_of_a_later_version_is_refused(newer, command):
    cwd, sweep_id = newer
    answer = run_command(cwd, *command.replace("ID", sweep_id).split(), text=TINY_SPEC)
    assert answer.code == REFUSED
    message = f"the ledger has schema {SCHEMA_VERSION + 1}, but this version reads only {SCHEMA_VERSION}"
    assert message in answer.err
    assert answer.err.rstrip().endswith("upgrade sweep-service")
    assert "Traceback" not in answer.err
