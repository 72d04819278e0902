"""Input on pages: names are shown as text, and scripts come from our own files only."""

import re
from pathlib import Path

import pytest

from sweep_service.api.routes.pages import PACKAGE, POLICY
from tests.api.served import serving
from tests.specs import TINY_SPEC

SCRIPTS = sorted((PACKAGE / "static" / "js").rglob("*.js"))
# JavaScript that turns text into elements or code.
DANGEROUS = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function\(|srcdoc|javascript:"
)


def test_scripts_create_no_elements_or_code_from_text():
    assert len(SCRIPTS) > 5
    for path in SCRIPTS:
        assert not DANGEROUS.search(path.read_text("utf-8")), path.name


DATA = 'type="application/json"'  # not executed by browsers


def test_templates_escape_and_contain_no_code():
    templates = sorted(Path(PACKAGE, "templates").glob("*.html"))
    assert len(templates) > 5
    for path in templates:
        text = path.read_text("utf-8")
        assert not re.search(r"\|\s*safe|autoescape false|\son\w+\s*=", text), path.name
        code = [tag for tag in re.findall(r"<script[^>]*>", text) if DATA not in tag]
        assert all("src=" in tag for tag in code), path.name


def test_policy_allows_only_own_files():
    """No inline code, no code from other hosts, and no embedding in other sites."""
    rules = dict(rule.strip().split(" ", 1) for rule in POLICY.split(";"))
    assert rules["default-src"] == "'self'"
    assert "script-src" not in rules  # so the default applies
    assert (rules["frame-ancestors"], rules["base-uri"], rules["object-src"]) == ("'none'",) * 3


NAME = "<img src=x onerror=evil()><script>evil()<b id=evil>'\"&amp;{{7*7}}${evil()}"


@pytest.mark.slow
def test_sweep_name_is_escaped_in_browser(tmp_path):
    """On every page that shows or searches for the name."""
    from playwright.sync_api import sync_playwright

    from tests.page.conftest import BROWSER_ARGUMENTS, find_chromium

    with serving(tmp_path) as service, sync_playwright() as playwright:
        sweep_id = service.complete({**TINY_SPEC, "name": NAME})
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=BROWSER_ARGUMENTS)
        page = browser.new_page()
        troubles = []
        page.on("dialog", lambda dialog: troubles.append(dialog.message))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        for path in (
            "/",
            f"/sweeps/{sweep_id}",
            f"/sweeps/{sweep_id}/curves",
            f"/sweeps/{sweep_id}/data",
            "/cluster",
        ):
            page.goto(f"{service.url}{path}")
            page.wait_for_load_state("networkidle")
            if path != "/cluster":
                page.get_by_text(NAME).first.wait_for()
            assert page.evaluate("document.querySelectorAll('#evil, [onerror]').length") == 0, path
            assert not re.search(r"<img src=.?x", page.content()), path
        browser.close()
        assert troubles == []
