"""A token opens the page, its events and its files; one that may only look changes nothing."""

from playwright.sync_api import expect

from tests.api.served import serving
from tests.page.conftest import window
from tests.specs import TINY_SPEC

LOCKED = {"tokens": "all-of-it,only-looking:read"}


def log_in(page, token):
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in").click()


def test_log_in(browser, tmp_path):
    with (
        serving(tmp_path, headers={"Authorization": "Bearer all-of-it"}, **LOCKED) as service,
        window(browser, service.url, errors=["401"]) as page,
    ):
        sweep = service.complete(TINY_SPEC)
        assert page.goto(f"/sweeps/{sweep}").status == 401
        expect(page.get_by_role("heading", level=1)).to_have_text("Token required")
        log_in(page, "wrong")
        expect(page.get_by_role("alert")).to_have_text("This token is not valid.")
        log_in(page, "all-of-it")
        expect(page.locator("#state")).to_have_text("completed")
        expect(page.locator("#counts")).to_contain_text("4 done")  # which comes by REST
        page.goto("/compose")
        expect(page.locator("#estimate")).to_contain_text("core time")


def test_a_token_that_may_only_look(browser, tmp_path):
    with (
        serving(tmp_path, headers={"Authorization": "Bearer all-of-it"}, **LOCKED) as service,
        window(browser, service.url, errors=["401", "403"]) as page,
    ):
        sweep = service.complete(TINY_SPEC)
        page.goto("/")
        log_in(page, "only-looking")
        page.get_by_role("link", name=sweep).click()
        page.locator('#actions [data-action="delete"]').click()
        page.get_by_role("button", name="Delete sweep").click()
        expect(page.locator("#says")).to_have_text("this token is read-only")
        page.goto("/compose")
        expect(page.locator("#estimate")).to_contain_text("core time")  # what it would cost may be asked
        page.get_by_role("button", name="Run sweep").click()
        expect(page.locator("#says")).to_have_text("this token is read-only")
        assert [one["id"] for one in service.get("/v1/sweeps").json()["sweeps"]] == [sweep]
