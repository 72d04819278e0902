"""Attacks on a real service."""

import pytest

from tests.api.conftest import no_settings_from_outside, no_waiting_for_the_disk  # noqa: F401
from tests.api.served import serving
from tests.specs import TINY_SPEC


@pytest.fixture(scope="session")
def service(tmp_path_factory):
    """A service without tokens, which tests do not change."""
    with serving(tmp_path_factory.mktemp("service")) as running:
        yield running


@pytest.fixture(scope="session")
def sweep_id(service):
    """The id of a completed sweep."""
    return service.complete(TINY_SPEC)
