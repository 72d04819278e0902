"""What all tests share."""

import pytest

SLOW = 900  # seconds: of the long suites, on a machine that has other things to do


def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW))
