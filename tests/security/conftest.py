"""What strangers try, against a real service on a socket."""

import pytest

from tests.api.conftest import no_settings_from_outside, no_waiting_for_the_disk  # noqa: F401
from tests.api.served import TINY, serving


@pytest.fixture(scope="session")
def service(tmp_path_factory):
    """Without a lock on its door; nobody changes how it is."""
    with serving(tmp_path_factory.mktemp("service")) as found:
        yield found


@pytest.fixture(scope="session")
def sweep(service):
    """The id of a completed sweep."""
    return service.done(TINY)
