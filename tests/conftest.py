"""What all tests share."""

import pytest

from tests.slow import slow_patterns

FIRST = ("workers", "chaos", "page", "api", "cli")  # files that take long, so that none is left for the end
SLOW = 900  # seconds: of the long suites, on a machine that has other things to do
COLLECTED = pytest.StashKey[dict[str, set[str]]]()  # node ids, each with the patterns of slow tests it fits


@pytest.hookimpl(tryfirst=True)  # before -m deselects
def pytest_collection_modifyitems(config, items):
    items.sort(key=lambda item: item.path.parent.name not in FIRST)  # the sort keeps the order otherwise
    found = config.stash[COLLECTED] = {item.nodeid: slow_patterns(item.nodeid) for item in items}
    for item in items:
        if found[item.nodeid]:
            item.add_marker(pytest.mark.slow)
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW))
