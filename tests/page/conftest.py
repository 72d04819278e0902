"""Fixtures that open pages of a real service in a real Chromium."""

import os
import shutil
from contextlib import contextmanager, suppress
from functools import cache

import pytest
from playwright.sync_api import Error, expect, sync_playwright

from sweep_service.execution.conductor import DEFAULT_SETTINGS, ConductorSettings
from sweep_service.planning.bundles import BundleLimits
from tests.api.conftest import no_settings_from_outside, no_waiting_for_the_disk  # noqa: F401
from tests.api.served import gated, serving

NO_CHROMIUM_MESSAGE = (
    "no Chromium to test the page in: `apt-get install chromium` on Debian, "
    "`brew install --cask chromium` on macOS"
)
# Without these options the browser itself sends requests, for example to look for updates.
BROWSER_ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run",
]  # fmt: skip
TIMEOUT_MILLISECONDS = 60_000  # long, because other tests use the machine too
expect.set_options(timeout=TIMEOUT_MILLISECONDS)


def find_chromium():
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(NO_CHROMIUM_MESSAGE)
    return path


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=find_chromium(), args=BROWSER_ARGUMENTS)
        yield chromium
        chromium.close()


def _new_context(browser, url, **options):
    context = browser.new_context(base_url=url, **{"viewport": {"width": 1280, "height": 900}, **options})
    context.set_default_timeout(TIMEOUT_MILLISECONDS)
    return context


@cache
def _shared_context(browser, url):
    """Return one context for all pages without options, so that scripts are loaded and compiled once."""
    return _new_context(browser, url)


@contextmanager
def open_page(browser, url, expected_errors=(), **options):
    """Open a page that fails its test on a console error or a request to anything but the service.

    Console messages that contain one of `expected_errors` are allowed.
    """
    context = _shared_context(browser, url) if not options else _new_context(browser, url, **options)
    page = context.new_page()
    messages, external_urls = [], []
    page.on(
        "console",
        lambda message: messages.append(message.text) if message.type in ("error", "warning") else None,
    )
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on(
        "request",
        lambda request: (
            None if request.url.startswith((url, "blob:", "data:")) else external_urls.append(request.url)
        ),
    )
    try:
        yield page
        assert [text for text in messages if not any(error in text for error in expected_errors)] == []
        assert external_urls == []
    finally:
        with suppress(Error):  # if the browser has crashed, the test has failed already
            if options:
                context.close()
            else:
                page.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")
                page.close()
                context.clear_cookies()


@pytest.fixture
def page(browser, service):
    with open_page(browser, service.url) as opened:
        yield opened


@pytest.fixture
def page_with_422(browser, service):
    """A page that may get responses with status 422, which the browser reports on its console."""
    with open_page(browser, service.url, expected_errors=["422"]) as opened:
        yield opened


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("page")) as served:
        yield served


@pytest.fixture(scope="module")
def gated_service(tmp_path_factory):
    """A service whose executor computes only as many tasks as a test allows."""
    with serving(tmp_path_factory.mktemp("gated"), executor=gated) as served:
        yield served


@pytest.fixture
def held(gated_service):
    """The gated service with its executor stopped; afterwards its sweeps are deleted."""
    gated_service.executor.let(computes=0)
    yield gated_service
    for sweep in gated_service.conductor_thread.ledger.sweeps():
        gated_service.delete(f"/v1/sweeps/{sweep.id}")
    gated_service.executor.let()


@pytest.fixture
def small_bundles(held):
    """Split a small sweep into several bundles, and merge each at once."""
    settings = ConductorSettings(BundleLimits(max_runs=12), merge_interval_seconds=0.0)
    held.conductor_thread.call(setattr, "settings", settings)
    yield
    held.conductor_thread.call(setattr, "settings", DEFAULT_SETTINGS)


@pytest.fixture
def held_page(browser, held):
    """A page of the gated service."""
    with open_page(browser, held.url) as opened:
        yield opened
