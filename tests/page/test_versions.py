"""The page of a sweep that other versions began."""

import pytest
from playwright.sync_api import expect

from tests.api.served import serving
from tests.api.test_versions import REASON, half_done, set_first_versions, upgrade
from tests.page.conftest import open_page


@pytest.mark.slow
def test_reason_is_shown_until_the_sweep_is_resumed(browser, tmp_path, monkeypatch):
    set_first_versions(monkeypatch)
    sweep_id = half_done(tmp_path)
    upgrade(monkeypatch)
    with serving(tmp_path) as service, open_page(browser, service.url, locale="en") as page:
        page.goto("/")
        expect(page.get_by_text(REASON)).to_be_visible()
        page.goto(f"/sweeps/{sweep_id}")
        expect(page.locator("#state")).to_have_text("paused")
        expect(page.locator("#reason")).to_contain_text(REASON)
        page.get_by_role("button", name="Resume").click()
        expect(page.locator("#state")).to_have_text("completed")
        expect(page.locator("#reason")).to_be_hidden()
