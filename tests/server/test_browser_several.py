"""Streams, questions asked together and linked tables in a real browser, wide and on a phone, light and dark."""

from __future__ import annotations

import os

import pytest

from .conftest import no_violations, sign_in, watched, width_of
from .test_linked import JOIN, linked  # noqa: F401 - a fixture

SIZES = [("light", 1200), ("dark", 390)]
TOGETHER = "SELECT region, COUNT(*) FROM t GROUP BY region;\nSELECT sex, COUNT(*) FROM t GROUP BY sex;\nSELECT COUNT(*) FROM t WHERE age >= 40"


def opened(browser, scheme, width):
    return watched(browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 800}))


def is_well(page, width, name) -> None:
    """Nothing sticks out, nobody is kept out, nothing went wrong; a picture where a folder for them is named."""
    assert width_of(page) <= width
    no_violations(page)
    assert page.problems == []
    if "SHOAL_PICTURES" in os.environ:
        page.screenshot(path=f"{os.environ['SHOAL_PICTURES']}/{name}-{width}.png", full_page=True)


@pytest.mark.parametrize(("scheme", "width"), SIZES)
def test_a_stream_is_opened_filled_and_read(browser, live, scheme, width):
    page = opened(browser, scheme, width)
    sign_in(page, live, live.book.add(f"streaming-{width}", "analyst"))
    page.goto(f"{live.url}/ask/survey")
    page.get_by_role("link", name="Streams").first.click()
    page.get_by_label("One COUNT or SUM").fill(
        "SELECT sex, COUNT(*) AS n FROM survey WHERE age >= 40 GROUP BY sex"
    )
    page.get_by_label("Name").fill(f"weekly {width}")
    page.get_by_label("Periods", exact=True).fill("4")
    page.get_by_label("Epsilon for all periods").fill("1")
    page.get_by_role("button", name="Open it").click()
    page.get_by_text("No period was added yet.").first.wait_for()
    is_well(page, width, "stream-opened")
    owner = opened(browser, scheme, width)
    sign_in(owner, live, live.book.add(f"filling-{width}", "owner"))
    owner.goto(f"{live.url}/owner/streams/survey")
    mine = owner.get_by_label(f"Stream weekly {width}", exact=True)
    mine.get_by_label("Rows of period 1").set_input_files(str(live.folder / "survey.csv"))
    mine.get_by_role("button", name="Add the period").click()
    mine.get_by_label("Rows of period 2").wait_for()
    is_well(owner, width, "stream-owner")
    page.reload()
    totals = page.get_by_label(f"Totals of weekly {width}")
    assert totals.locator("tbody tr").count() == 2
    assert "guarantee: epsilon-DP" in page.get_by_label(f"Stream weekly {width}", exact=True).inner_text()
    is_well(page, width, "stream-read")
    owner.context.close()
    page.context.close()


@pytest.mark.parametrize(("scheme", "width"), SIZES)
def test_questions_asked_together_and_found_again(browser, live, scheme, width):
    page = opened(browser, scheme, width)
    sign_in(page, live, live.book.add(f"together-{width}", "analyst"))
    page.goto(f"{live.url}/ask/survey")
    page.wait_for_selector("body[data-ready=ask]")
    page.locator("textarea[name=sql]").first.evaluate(
        "(e) => { const d = e.closest('details'); if (d) d.open = true; }"
    )
    page.locator("textarea[name=sql]").first.fill(TOGETHER)
    form = page.locator("form", has=page.locator("textarea[name=sql]")).first
    form.get_by_text("3 questions answered together").wait_for()
    form.get_by_role("button", name="Ask").click()
    page.get_by_role("heading", name="Answers to 3 questions together").wait_for()
    is_well(page, width, "workload-asked")
    page.get_by_label("Your answers").locator("tbody a").first.click()
    page.get_by_role("heading", name="Answers to 3 questions together").wait_for()
    assert page.locator("table.tidy").count() == 3
    is_well(page, width, "workload-again")
    page.context.close()


@pytest.mark.parametrize(("scheme", "width"), SIZES)
def test_a_join_of_two_tables_on_the_page(browser, linked, scheme, width):  # noqa: F811 - the fixture
    page = opened(browser, scheme, width)
    sign_in(page, linked, linked.book.add(f"joining-{width}", "analyst"))
    page.goto(f"{linked.url}/ask/people")
    page.wait_for_selector("body[data-ready=ask]")
    assert "visits" in page.locator("main").inner_text()
    page.locator("textarea[name=sql]").first.evaluate(
        "(e) => { const d = e.closest('details'); if (d) d.open = true; }"
    )
    page.locator("textarea[name=sql]").first.fill(JOIN)
    form = page.locator("form", has=page.locator("textarea[name=sql]")).first
    form.get_by_role("button", name="Ask").click()
    answer = page.get_by_label("Answer", exact=True)
    answer.wait_for()
    assert "household" in answer.inner_text()
    assert answer.locator("table.tidy tbody tr").count() == 2
    is_well(page, width, "join")
    page.context.close()
