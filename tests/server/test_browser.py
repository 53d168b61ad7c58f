"""The pages in a real browser, as people use them."""

from __future__ import annotations

import pytest

from .conftest import sign_in


def test_a_wrong_token_stays_outside(page, house, tokens):
    page.goto(house.url)
    page.get_by_label("Your token").fill("shoal-no-no")
    page.get_by_role("button", name="Sign in").click()
    assert "not known" in page.get_by_role("alert").inner_text()


def test_publishing_with_progress_and_download(page, house, tokens):
    sign_in(page, house, tokens["owner"])
    page.get_by_role("link", name="Publish").click()
    page.get_by_role("button", name="bundled survey").click()
    page.get_by_label("Method", exact=True).select_option("mdav")
    page.get_by_role("button", name="Protect").click()
    page.get_by_role("heading", name="Before and after").wait_for(timeout=120_000)
    page.frame_locator("iframe").locator("h1").wait_for()
    with page.expect_download() as taken:
        page.get_by_role("link", name="Protected table").click()
    assert taken.value.path().read_text().startswith("age,sex,region,")  # identifiers are dropped
    assert "shoal protect table.csv" in page.inner_text("pre")
    page.get_by_role("button", name="Remove all files").click()
    page.get_by_label("A table").wait_for()
    assert page.problems == []


def test_an_owner_gives_out_and_revokes_a_token_and_an_auditor_reads_the_log(page, house, tokens):
    sign_in(page, house, tokens["owner"])
    page.get_by_label("Name").fill("newcomer")
    page.get_by_role("button", name="Add").click()
    token = page.locator("code.token").inner_text()
    assert house.book.find(token).name == "newcomer"
    page.get_by_role("button", name="Revoke newcomer").click()
    page.wait_for_load_state()
    assert house.book.list()[-1].revoked
    page.get_by_role("button", name="Sign out").click()
    sign_in(page, house, tokens["auditor"])
    assert "The chain holds" in page.get_by_role("status").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_needs_no_sideways_scrolling(browser, house, tokens, scheme):
    context = browser.new_context(viewport={"width": 360, "height": 740}, color_scheme=scheme)
    phone = context.new_page()
    for role, path in (
        ("analyst", "/ask/survey"),
        ("owner", "/owner"),
        ("auditor", "/audit"),
        ("owner", "/publish"),
    ):
        context.clear_cookies()
        sign_in(phone, house, tokens[role])
        phone.goto(house.url + path)
        assert phone.evaluate("document.documentElement.scrollWidth") <= 360, path
    context.close()
