"""Markers and order of all tests, and figures that they report."""

import pytest

from tests.slow import slow_patterns

# Run first, so that no long file is left for the end.
LONG_FOLDERS = ("workers", "chaos", "page", "api", "cli")
SLOW_TIMEOUT_SECONDS = 900  # generous, for a machine that is busy
COLLECTED = pytest.StashKey[dict[str, set[str]]]()  # node ids with the patterns of slow tests that they match


@pytest.hookimpl(tryfirst=True)  # before -m deselects tests
def pytest_collection_modifyitems(config, items):
    items.sort(key=lambda item: item.path.parent.name not in LONG_FOLDERS)  # a stable sort
    patterns = config.stash[COLLECTED] = {item.nodeid: slow_patterns(item.nodeid) for item in items}
    for item in items:
        if patterns[item.nodeid]:
            item.add_marker(pytest.mark.slow)
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW_TIMEOUT_SECONDS))


def pytest_terminal_summary(terminalreporter):
    """Print what tests recorded with `record_property("figures", ...)`, such as the number of kills."""
    for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed"):
        for name, text in getattr(report, "user_properties", ()):
            if name == "figures" and report.when == "call":
                terminalreporter.write_line(f"{report.nodeid}: {text}")
