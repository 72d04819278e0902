"""Login with a token: it opens pages, events and files; a read-only token changes nothing."""

from playwright.sync_api import expect

from tests.api.served import serving
from tests.page.conftest import open_page
from tests.specs import TINY_SPEC

TOKENS = {"tokens": "full-access,read-only:read"}


def log_in(page, token):
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in").click()


def test_login_requires_a_valid_token(browser, tmp_path):
    with (
        serving(tmp_path, headers={"Authorization": "Bearer full-access"}, **TOKENS) as service,
        open_page(browser, service.url, expected_errors=["401"]) as page,
    ):
        sweep_id = service.complete(TINY_SPEC)
        assert page.goto(f"/sweeps/{sweep_id}").status == 401
        expect(page.get_by_role("heading", level=1)).to_have_text("Token required")
        log_in(page, "wrong")
        expect(page.get_by_role("alert")).to_have_text("This token is not valid.")
        log_in(page, "full-access")
        expect(page.locator("#state")).to_have_text("completed")
        expect(page.locator("#counts")).to_contain_text("4 done")  # a REST request with the token
        page.goto("/compose")
        expect(page.locator("#estimate")).to_contain_text("core time")


def test_read_only_token_cannot_change_anything(browser, tmp_path):
    with (
        serving(tmp_path, headers={"Authorization": "Bearer full-access"}, **TOKENS) as service,
        open_page(browser, service.url, expected_errors=["401", "403"]) as page,
    ):
        sweep_id = service.complete(TINY_SPEC)
        page.goto("/")
        log_in(page, "read-only")
        page.get_by_role("link", name=sweep_id).click()
        page.locator('#actions [data-action="delete"]').click()
        page.get_by_role("button", name="Delete sweep").click()
        expect(page.locator("#says")).to_have_text("this token is read-only")
        page.goto("/compose")
        expect(page.locator("#estimate")).to_contain_text("core time")  # estimates are allowed
        page.get_by_role("button", name="Run sweep").click()
        expect(page.locator("#says")).to_have_text("this token is read-only")
        assert [listed["id"] for listed in service.get("/v1/sweeps").json()["sweeps"]] == [sweep_id]
