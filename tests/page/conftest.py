"""A real Chromium in front of a real service."""

import os
import shutil
from contextlib import contextmanager, suppress
from functools import cache

import pytest
from playwright.sync_api import Error, expect, sync_playwright

from tests.api.conftest import no_settings_from_outside, no_waiting_for_the_disk  # noqa: F401
from tests.api.served import gated, serving

MISSING = (
    "no Chromium here, in which the page is tested: `apt-get install chromium` on Debian, "
    "`brew install --cask chromium` on macOS"
)
# The browser looks for updates and news elsewhere, which has nothing to do with the page.
QUIET = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run",
]  # fmt: skip
PATIENCE = 60_000  # milliseconds: other tests use the machine too
expect.set_options(timeout=PATIENCE)


def chromium():
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(MISSING)
    return found


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=chromium(), args=QUIET)
        yield found
        found.close()


def _context(browser, url, **options):
    context = browser.new_context(base_url=url, **{"viewport": {"width": 1280, "height": 900}, **options})
    context.set_default_timeout(PATIENCE)
    return context


@cache
def _shared(browser, url):
    """One context for all windows without options: what was loaded and compiled once is kept."""
    return _context(browser, url)


@contextmanager
def window(browser, url, errors=(), **options):
    """A page that fails its test if it complains, or asks anybody but the service for something."""
    context = _shared(browser, url) if not options else _context(browser, url, **options)
    page = context.new_page()
    said, elsewhere = [], []
    page.on("console", lambda one: said.append(one.text) if one.type in ("error", "warning") else None)
    page.on("pageerror", lambda one: said.append(str(one)))
    page.on(
        "request",
        lambda one: None if one.url.startswith((url, "blob:", "data:")) else elsewhere.append(one.url),
    )
    try:
        yield page
        assert [text for text in said if not any(word in text for word in errors)] == []
        assert [one for one in elsewhere if not one.startswith((url, "blob:", "data:"))] == []
    finally:
        with suppress(Error):  # the browser has gone: the test has failed already
            if options:
                context.close()
            else:
                page.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")
                page.close()
                context.clear_cookies()


@pytest.fixture
def page(browser, service):
    with window(browser, service.url) as found:
        yield found


@pytest.fixture
def forgiven(browser, service):
    """A page to which the service says that something is wrong, which the browser notes on its console."""
    with window(browser, service.url, errors=["422"]) as found:
        yield found


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("page")) as found:
        yield found


@pytest.fixture(scope="module")
def gate(tmp_path_factory):
    """A service that computes when it is let to."""
    with serving(tmp_path_factory.mktemp("gated"), executor=gated) as found:
        yield found


@pytest.fixture
def held(gate):
    """What is submitted waits until it is let go; nothing is left of it for the next test."""
    gate.executor.let(computes=0)
    yield gate
    for sweep in gate.conductor_thread.ledger.sweeps():
        gate.delete(f"/v1/sweeps/{sweep.id}")
    gate.executor.let()


@pytest.fixture
def waiting(browser, held):
    with window(browser, held.url) as found:
        yield found
