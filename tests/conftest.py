"""What all tests share."""

import pytest

FIRST = ("workers", "chaos", "page", "api", "cli")  # files that take long, so that none is left for the end
SLOW = 900  # seconds: of the long suites, on a machine that has other things to do


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path.parent.name not in FIRST)  # the sort keeps the order otherwise
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW))
