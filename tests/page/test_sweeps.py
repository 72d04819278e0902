"""The list of sweeps and the actions of a sweep: pause, resume, cancel, retry, extend and delete."""

import pytest
from playwright.sync_api import expect

from tests.api.served import serving, until
from tests.page.conftest import open_page
from tests.service import breakable_environment, start_service
from tests.specs import TINY_SPEC, distinct_spec


def item(page, sweep):
    return page.locator(f'.item[data-id="{sweep}"]')


def test_empty_list_links_to_presets(page):
    page.goto("/")
    expect(page.get_by_text("No sweeps yet.")).to_be_visible()
    page.get_by_role("link", name="fig2-right").click()
    expect(page.get_by_label("Title")).to_have_value("dimension independence (figure 2, right)")


def test_list_shows_new_sweeps_and_states(held_page, held):
    held_page.goto("/")
    sweep = held.submit(distinct_spec(1, name="one"))
    expect(item(held_page, sweep)).to_contain_text("one")
    expect(item(held_page, sweep).locator(".badge")).to_have_text("running")
    held.executor.let()
    expect(item(held_page, sweep).locator(".badge")).to_have_text("completed")
    expect(item(held_page, sweep)).to_contain_text("100 %")


def test_size_and_owner_are_shown(browser, tmp_path):
    token = "secret-of-alice-1"
    headers = {"Authorization": f"Bearer {token}"}
    with serving(tmp_path, tokens=f"alice={token}", headers=headers) as service:
        sweep = service.complete(TINY_SPEC)
        kilobytes = float(f"{service.sweep(sweep)['stored_bytes'] / 1000:.2g}")
        size = f"{kilobytes:g} kB"
        with open_page(browser, service.url, extra_http_headers=headers) as page:
            page.goto("/")
            expect(item(page, sweep)).to_contain_text(f"{size} · by alice")
            page.goto(f"/sweeps/{sweep}")
            expect(page.locator("#facts")).to_contain_text(size)
            expect(page.locator("#facts")).to_contain_text("by alice")


def test_filters_are_applied_and_kept_in_the_address(held_page, held):
    first, second = held.submit(distinct_spec(2, name="apple")), held.submit(distinct_spec(3, name="pear"))
    held.client.post(f"/v1/sweeps/{second}/cancel")
    held_page.goto("/")
    expect(item(held_page, first)).to_be_visible()
    held_page.get_by_label("Name or id").fill("PEA")
    expect(item(held_page, first)).to_have_count(0)
    expect(item(held_page, second)).to_be_visible()
    held_page.get_by_label("Name or id").fill("")
    held_page.get_by_label("State").select_option("cancelled")
    expect(item(held_page, first)).to_have_count(0)
    expect(item(held_page, second)).to_be_visible()
    held_page.reload()  # the address contains the filters
    expect(held_page.get_by_label("State")).to_have_value("cancelled")
    expect(item(held_page, first)).to_have_count(0)
    held_page.get_by_label("Name or id").fill("100% of_nothing")
    expect(held_page.get_by_text("No matching sweeps.")).to_be_visible()


def test_sweep_is_paused_resumed_cancelled_and_retried(held_page, held):
    sweep = held.submit(distinct_spec(4, name="steered"))
    held_page.goto(f"/sweeps/{sweep}")
    click_action = lambda name: held_page.locator(f'#actions [data-action="{name}"]').click()  # noqa: E731
    state = held_page.locator("#state")
    click_action("pause")
    expect(state).to_have_text("paused")
    click_action("resume")
    expect(state).to_have_text("running")
    click_action("cancel")
    held_page.get_by_role("button", name="Back").click()
    assert held.sweep(sweep)["state"] == "running"
    click_action("cancel")
    held_page.get_by_role("button", name="Cancel sweep").click()
    expect(state).to_have_text("cancelled")
    until(lambda: held.sweep(sweep)["counts"] == {"cancelled": 4})  # set a moment after the state
    expect(held_page.locator("#map canvas")).to_have_attribute(
        "aria-label", "Status of 1 points: 4 runs cancelled"
    )
    click_action("retry")
    expect(state).to_have_text("running")
    held.executor.let()
    expect(state).to_have_text("completed")
    expect(held_page.locator("#bar")).to_have_js_property("value", 1)


def test_sweep_is_extended_and_deleted(browser, service):
    with open_page(browser, service.url, expected_errors=["404", "422"]) as page:
        check_extend_and_delete(page, service)


def check_extend_and_delete(page, service):
    sweep = service.complete({**TINY_SPEC, "name": "small one"})
    page.goto(f"/sweeps/{sweep}")
    fixed = "d = 5, p = 2, γ = 0.1, k = 1, Δ = 0, erf, informed start, orthonormal teacher"
    expect(page.locator("#facts")).to_contain_text(fixed)
    page.get_by_role("button", name="extend small one").click()
    dialog, price = page.get_by_role("dialog"), page.locator(".extension .price")
    expect(dialog.get_by_role("textbox", name="Name")).to_have_value("small one extended")
    expect(price).to_contain_text("4 already stored")
    page.get_by_role("textbox", name="Name").fill("larger one")
    page.get_by_text("Parameters with one value").click()
    page.get_by_label("Add to gamma").fill("0.2, 0.3")
    page.get_by_label("Initial conditions").fill("3")
    expect(price).to_contain_text("18 runs: 14 to compute, 4 already stored")
    page.get_by_label("Add to noise").fill("-1")
    expect(price).to_contain_text("axes.noise[0]")
    expect(page.get_by_role("button", name="Run extension")).to_be_disabled()
    page.get_by_label("Add to noise").fill("")
    expect(page.get_by_role("button", name="Run extension")).to_be_enabled()
    page.get_by_text("Observables").click()
    expect(page.get_by_label("risk", exact=True)).to_be_disabled()
    page.get_by_label("mean norm").check()
    expect(price).to_contain_text("0 already stored")
    page.get_by_label("mean norm").uncheck()
    expect(price).to_contain_text("4 already stored")
    page.get_by_role("button", name="Run extension").click()
    page.wait_for_url(lambda url: "/sweeps/" in url and sweep not in url)
    extension = page.url.rpartition("/")[2]
    assert service.wait_until_ended(extension)["extends"] == sweep
    assert service.sweep(extension)["runs"] == 3 * 3 * 2
    assert (service.sweep(extension)["reused"], service.sweep(extension)["name"]) == (4, "larger one")
    page.get_by_role("link", name=sweep).click()
    page.get_by_role("button", name="delete small one").click()
    page.get_by_role("button", name="Delete sweep").click()
    page.wait_for_url(lambda url: url.rstrip("/") == service.url)
    expect(item(page, extension)).to_be_visible()
    expect(item(page, sweep)).to_have_count(0)
    assert service.get(f"/v1/sweeps/{sweep}").status_code == 404
    assert page.goto(f"/sweeps/{sweep}").status == 404
    expect(page.get_by_role("heading", level=1)).to_have_text("Not found")


@pytest.mark.slow
def test_older_sweeps_are_loaded_on_request(browser, service):
    for number in range(53):
        service.submit({**distinct_spec(100 + number), "simulate": False, "seeds": 1})
    with open_page(browser, service.url) as page:
        page.goto("/")
        expect(page.locator(".item")).to_have_count(50)
        page.get_by_role("button", name="Show older").click()
        until(lambda: page.locator(".item").count() > 50)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_failures_are_listed_with_their_rerun_command(browser, tmp_path):
    (tmp_path / "broken").touch()
    service = start_service(tmp_path / "data", env=breakable_environment(tmp_path))
    try:
        with open_page(browser, service.url) as page:
            page.goto("/compose")
            page.locator("#text").fill(
                "name: broken\naxes: {d: 5, p: 2, gamma: [0.1, 0.2], regime: classical}\nfixed: {k: 1}\n"
                "simulate: false\nseeds: [12, 13]\ntime: {max: 1, samples: 3}\n"
            )
            page.get_by_role("button", name="Run sweep").click()
            expect(page.locator("#state")).to_have_text("incomplete", timeout=90_000)
            failures = page.locator("#failures li")
            expect(failures.first).to_contain_text("out of order")
            expect(failures.first.locator("pre")).to_contain_text("sweep rerun")
            (tmp_path / "broken").unlink()
            page.locator('#actions [data-action="retry"]').click()
            expect(page.locator("#state")).to_have_text("completed", timeout=60_000)
            expect(page.locator("#failures")).to_be_hidden()
    finally:
        service.stop()
