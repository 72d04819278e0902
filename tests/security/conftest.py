"""What strangers try, against a real service on a socket."""

from tests.api.conftest import (  # noqa: F401
    no_settings_from_outside,
    no_waiting_for_the_disk,
    service,
    sweep,
)
