"""The pages in a real browser, as people use them."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def page(browser):
    context = browser.new_context(accept_downloads=True)
    context.set_default_timeout(120_000)
    opened = context.new_page()
    problems: list[str] = []
    opened.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.problems = problems
    yield opened
    context.close()


def sign_in(page, house, token) -> None:
    page.goto(house.url)
    page.get_by_label("Your token").fill(token)
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: "sign-in" not in url)


def test_a_wrong_token_stays_outside(page, house, tokens):
    page.goto(house.url)
    page.get_by_label("Your token").fill("shoal-no-no")
    page.get_by_role("button", name="Sign in").click()
    assert "not known" in page.get_by_role("alert").inner_text()


def test_asking_by_keyboard_with_completion_price_and_download(page, house, tokens):
    sign_in(page, house, house.book.add("browsing", "analyst"))
    page.goto(f"{house.url}/ask/survey")
    box = page.get_by_label("Query")
    box.click()
    box.press_sequentially("SELECT COUNT(*) FROM t WHERE inco")
    page.get_by_role("option", name="income").wait_for()
    page.keyboard.press("Tab")
    box.press_sequentially(" > 20000")
    assert box.input_value().endswith("WHERE income > 20000")
    page.get_by_text("This costs epsilon 0.1").wait_for()
    page.keyboard.press("Control+Enter")
    answer = page.get_by_label("Answer", exact=True)
    answer.wait_for()
    assert "guarantee: epsilon-DP, add or remove one record" in answer.inner_text()
    assert "95 % intervals" in answer.locator("svg").get_attribute("aria-label")
    with page.expect_download() as taken:
        answer.get_by_role("link", name="JSON").click()
    facts = json.loads(taken.value.path().read_text())
    assert facts["answer"]["epsilon"] == 0.1
    assert page.problems == []


def test_a_refused_query_and_a_budget_that_is_gone(page, house):
    sign_in(page, house, house.book.add("spender", "analyst"))
    page.goto(f"{house.url}/ask/gone")
    page.get_by_label("Query").fill("SELECT name FROM t")
    page.get_by_role("button", name="Ask", exact=True).click()
    assert "GROUP BY" in page.get_by_role("alert").inner_text()
    page.get_by_label("Query").fill("SELECT COUNT(*) FROM t")
    page.get_by_label("Epsilon to spend").fill("0.3")
    page.get_by_role("button", name="Ask", exact=True).click()
    page.get_by_label("Answer", exact=True).wait_for()
    assert "0 of 0.3 epsilon left" in page.get_by_label("Your budget").inner_text().replace("\n", " ")
    page.get_by_label("Query").fill("SELECT COUNT(*) FROM t WHERE age > 3")
    page.get_by_role("button", name="Ask", exact=True).click()
    assert "does not allow" in page.get_by_role("alert").inner_text()


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
    assert "stays spent" in page.inner_text("main")
    page.get_by_role("button", name="Yes, revoke newcomer").click()
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
