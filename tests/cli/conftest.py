"""A folder that all tests of the command line may look at."""

import pytest

from sweep_service.cli.answers import DONE
from tests.cli.commands import SMALL, sweep


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A folder with one completed sweep; nobody changes it."""
    cwd = tmp_path_factory.mktemp("filled")
    answer = sweep(cwd, "run", "-", "--json", text=SMALL)
    assert answer.code == DONE, answer.err
    return cwd, answer.json["id"]
