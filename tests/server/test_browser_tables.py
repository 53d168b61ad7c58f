"""An analyst buys a private table in a real browser: in light and dark, on a phone, by keyboard, without JavaScript."""

from __future__ import annotations

import polars as pl
import pytest

from .conftest import no_violations, sign_in, watched, width_of


def looks_right(page, width) -> None:
    assert width_of(page) <= width
    no_violations(page)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 390)])
def test_a_table_is_bought_taken_along_and_asked(browser, live, tmp_path, scheme, width):
    context = browser.new_context(
        color_scheme=scheme, viewport={"width": width, "height": 800}, accept_downloads=True
    )
    page = watched(context)
    sign_in(page, live, live.book.add(f"tables-{scheme}-{width}", "analyst"))
    page.goto(f"{live.url}/ask/survey")
    page.get_by_role("link", name="Private tables").click()
    page.get_by_text("You have bought no table").wait_for()
    looks_right(page, width)
    assert page.get_by_label("region").is_checked()
    assert page.get_by_label("household").count() == 0  # identifiers are not offered
    for name in ("income", "region"):
        page.get_by_label(name, exact=True).uncheck()
    page.get_by_label("Epsilon to spend").fill("nothing")
    page.get_by_role("button", name="Buy it").click()
    page.get_by_text("'epsilon' must be a number. Got 'nothing'.").wait_for()
    assert not page.get_by_label("region").is_checked()  # what was typed is still there
    looks_right(page, width)
    page.get_by_label("Epsilon to spend").fill("30")
    page.get_by_label("Counts that are measured").select_option("all pairs of columns")
    page.get_by_role("button", name="Buy it").click()
    page.get_by_text("Your table is made").wait_for()  # the page follows the job by itself
    looks_right(page, width)
    page.get_by_role("link", name="open it").click()
    page.get_by_text("guarantee: epsilon-DP, add or remove one record").wait_for()
    looks_right(page, width)
    page.get_by_label("How many").fill("120")
    with page.expect_download() as taken:
        page.get_by_role("button", name="Take them as CSV").click()
    taken.value.save_as(tmp_path / "rows.csv")
    rows = pl.read_csv(tmp_path / "rows.csv")
    assert rows.height == 120
    assert "income" not in rows.columns
    page.get_by_label("Query").fill("SELECT COUNT(*) FROM t GROUP BY sex")
    page.get_by_role("button", name="Ask for nothing").click()
    answer = page.get_by_label("Answer", exact=True)
    answer.wait_for()
    assert "costs nothing" in answer.inner_text()
    assert answer.locator(".bar-row .whisker").count() >= 2
    looks_right(page, width)
    page.get_by_label("Query").fill("SELECT MAX(age) FROM t")
    page.get_by_role("button", name="Ask for nothing").click()
    page.get_by_text("A release answers COUNT, SUM and AVG. Got MAX.").wait_for()
    looks_right(page, width)
    assert [each for each in page.problems if "400" not in each] == []  # the browser notes what was refused
    context.close()


def test_by_keyboard_and_without_javascript(browser, live):
    context = browser.new_context(java_script_enabled=False)
    page = watched(context)
    sign_in(page, live, live.book.add("tables-plain", "analyst"))
    page.goto(f"{live.url}/ask/survey/tables")
    page.get_by_label("Epsilon to spend").focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("3")
    page.keyboard.press("Enter")
    for _ in range(100):
        if page.get_by_text("Your table is made").count():
            break
        if page.get_by_role("link", name="Look again").count():
            page.get_by_role("link", name="Look again").click()
        page.wait_for_timeout(300)
    page.get_by_role("link", name="open it").focus()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="What was bought").wait_for()
    context.close()
