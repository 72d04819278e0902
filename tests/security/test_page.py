"""What strangers wrote, on pages: names are letters, and no script comes from anywhere but our files."""

import re
from pathlib import Path

import pytest

from sweep_service.api.routes.pages import HERE, POLICY
from tests.api.served import TINY, serving

SCRIPTS = sorted((HERE / "static" / "js").rglob("*.js"))
# Ways by which a text would become elements or code.
DANGEROUS = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function\(|srcdoc|javascript:"
)


def test_no_text_becomes_elements_or_code():
    assert len(SCRIPTS) > 5
    for path in SCRIPTS:
        assert not DANGEROUS.search(path.read_text("utf-8")), path.name


DATA = 'type="application/json"'  # which no browser executes


def test_templates_escape_and_hold_no_code():
    templates = sorted(Path(HERE, "templates").glob("*.html"))
    assert len(templates) > 5
    for path in templates:
        text = path.read_text("utf-8")
        assert not re.search(r"\|\s*safe|autoescape false|\son\w+\s*=", text), path.name
        code = [tag for tag in re.findall(r"<script[^>]*>", text) if DATA not in tag]
        assert all("src=" in tag for tag in code), path.name


def test_the_policy_lets_nothing_in():
    """Neither code in a page, nor from elsewhere; nor may another site show the page as a part of its own."""
    rules = dict(rule.strip().split(" ", 1) for rule in POLICY.split(";"))
    assert rules["default-src"] == "'self'"
    assert "script-src" not in rules  # so it is the default
    assert (rules["frame-ancestors"], rules["base-uri"], rules["object-src"]) == ("'none'",) * 3


NAME = "<img src=x onerror=evil()><script>evil()<b id=evil>'\"&amp;{{7*7}}${evil()}"


@pytest.mark.slow
def test_a_name_in_a_browser(tmp_path):
    """On every page that shows it, as it is listed, looked at, drawn and searched for."""
    from playwright.sync_api import sync_playwright

    from tests.page.conftest import QUIET, chromium

    with serving(tmp_path) as service, sync_playwright() as playwright:
        sweep = service.done({**TINY, "name": NAME})
        browser = playwright.chromium.launch(executable_path=chromium(), args=QUIET)
        page = browser.new_page()
        troubles = []
        page.on("dialog", lambda dialog: troubles.append(dialog.message))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        for path in ("/", f"/sweeps/{sweep}", f"/sweeps/{sweep}/curves", f"/sweeps/{sweep}/data", "/cluster"):
            page.goto(f"{service.url}{path}")
            page.wait_for_load_state("networkidle")
            if path != "/cluster":
                page.get_by_text(NAME).first.wait_for()
            assert page.evaluate("document.querySelectorAll('#evil, [onerror]').length") == 0, path
            assert not re.search(r"<img src=.?x", page.content()), path
        browser.close()
        assert troubles == []
