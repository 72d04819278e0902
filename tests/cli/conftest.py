"""A stored sweep that all tests of the command line may read."""

import pytest

from sweep_service.cli.answers import DONE
from tests.cli.commands import run_command
from tests.specs import SMALL_SPEC


@pytest.fixture(scope="module")
def stored_sweep(tmp_path_factory):
    """A folder with one completed sweep, and its id; tests do not change it."""
    cwd = tmp_path_factory.mktemp("stored")
    answer = run_command(cwd, "run", "-", "--json", text=SMALL_SPEC)
    assert answer.code == DONE, answer.err
    return cwd, answer.json["id"]
