"""An analyst at work in a real browser: without SQL, with SQL, without JavaScript, by keyboard, on a phone."""

from __future__ import annotations

import json

import pytest

from .conftest import no_violations, sign_in, watched, width_of


@pytest.fixture(scope="module")
def analyst(live):
    return live.book.add("browsing", "analyst")


def ready(page, live, token) -> None:
    sign_in(page, live, token)
    page.goto(f"{live.url}/ask/survey")
    page.wait_for_selector("body[data-ready=ask]")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 390)])
def test_a_chart_with_error_bars_without_writing_sql(browser, live, scheme, width):
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 800})
    page = watched(context)
    ready(page, live, live.book.add(f"{scheme}-{width}", "analyst"))
    form = page.locator("#build")
    form.get_by_label("What").select_option("count")
    form.get_by_label("for each", exact=True).select_option("region")
    form.get_by_label("Column of condition 1").select_option("disease")
    form.get_by_label("Comparison of condition 1").select_option("is one of")
    form.get_by_label("Value of condition 1").select_option(["diabetes", "asthma"])
    form.get_by_label("Wanted error").fill("30")
    form.get_by_text("Within ±30 with 95 %: costs epsilon 0.09").wait_for()
    assert "such questions left" in form.get_by_role("status").inner_text()
    assert "IN ('diabetes', 'asthma') GROUP BY region" in form.locator(".built").inner_text()
    form.get_by_role("button", name="Ask").click()
    answer = page.get_by_label("Answer", exact=True)
    answer.wait_for()
    assert "guarantee: epsilon-DP, add or remove one record" in answer.inner_text()
    assert answer.locator(".bar-row .fill").count() == 5
    assert answer.locator(".bar-row").first.locator(".whisker").count() == 3
    values = [int(each.replace(",", "")) for each in answer.locator(".bar-value").all_inner_texts() if each]
    assert values == sorted(values, reverse=True)
    for label in answer.locator(".bar-label").all():
        box = label.bounding_box()
        assert box is None or (box["x"] >= 0 and box["x"] + box["width"] <= width)
    assert width_of(page) <= width
    no_violations(page)
    page.get_by_role("link", name="Permanent link").click()
    page.get_by_role("heading", name="Answer", level=1).wait_for()
    assert width_of(page) <= width
    no_violations(page)
    assert page.problems == []
    context.close()


def test_by_keyboard_alone_from_the_question_to_its_name_and_back(page, live):
    ready(page, live, live.book.add("typing", "analyst"))
    page.keyboard.press("Tab")  # to the content
    page.get_by_label("What").focus()
    page.keyboard.type("Average")
    page.keyboard.press("Tab")
    page.keyboard.type("age")
    page.keyboard.press("Tab")
    page.keyboard.type("sex")
    page.locator("#build").get_by_text("costs epsilon 0.1").wait_for()
    page.locator("#build-epsilon").focus()
    page.keyboard.press("Enter")
    page.get_by_label("Answer", exact=True).wait_for()
    page.get_by_role("link", name="Permanent link").focus()
    page.keyboard.press("Enter")
    page.get_by_label("What you call it").focus()
    page.keyboard.type("age by sex")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="age by sex").wait_for()
    page.get_by_role("link", name="survey").focus()
    page.keyboard.press("Enter")
    page.get_by_label("Find questions that hold").focus()
    page.keyboard.type("avg(")
    page.keyboard.press("Enter")
    page.wait_for_url("**/ask/survey?find=avg*")
    assert page.get_by_role("link", name="age by sex", exact=True).count() == 1
    page.get_by_role("link", name="Ask again: age by sex").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("body[data-ready=ask]")
    page.locator("#ask").get_by_text("You hold this answer already").wait_for()
    page.get_by_label("Query").focus()
    page.keyboard.press("Control+Enter")
    page.get_by_text("You had this answer already, so it cost nothing.").wait_for()
    assert page.problems == []


def test_the_editor_completes_at_the_caret_and_never_on_tab(page, live, analyst):
    ready(page, live, analyst)
    page.locator("summary", has_text="Write SQL").click()
    box, options = page.get_by_label("Query"), page.locator("#words li")
    box.press_sequentially("SELECT COUNT(*) FROM t WHERE inco")
    options.filter(has_text="income").wait_for()
    page.keyboard.press("Tab")
    assert box.input_value().endswith("WHERE inco")
    assert page.evaluate("document.activeElement.id") == "ask-error"
    box.focus()
    page.keyboard.press("End")
    page.keyboard.press("Control+Space")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert box.input_value().endswith("WHERE income")
    box.press_sequentially(" > 20000 AND region = ")
    options.first.wait_for()
    assert [each.split()[0] for each in options.all_inner_texts()] == [
        "'north'", "'east'", "'south'", "'west'", "'capital'"]  # fmt: skip
    list_box, text_box = page.locator("#words").bounding_box(), box.bounding_box()
    assert list_box["x"] > text_box["x"] + 300  # at the caret, not at the edge
    box.press_sequentially("'ca")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert box.input_value().endswith("region = 'capital'")
    page.locator("#ask").get_by_text("costs epsilon 0.1; about").wait_for()
    page.keyboard.press("Control+Enter")
    answer = page.get_by_label("Answer", exact=True)
    answer.wait_for()
    with page.expect_download() as taken:
        answer.get_by_role("link", name="JSON").click()
    facts = json.loads(taken.value.path().read_text())
    assert facts["answer"]["epsilon"] == 0.1
    with page.expect_download() as taken:
        answer.get_by_role("link", name="Notebook").click()
    cells = json.loads(taken.value.path().read_text())["cells"]
    assert "client.ask(" in "".join(cells[1]["source"])
    answer.locator("summary", has_text="Copy as").click()
    assert facts["entry"] in answer.inner_text()
    assert answer.get_by_role("button", name="Copy").count() == 3
    assert page.problems == []


def test_without_javascript_a_question_is_put_together_priced_and_asked(browser, live, analyst):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    sign_in(page, live, analyst)
    page.goto(f"{live.url}/ask/survey")
    form = page.locator("#build")
    form.get_by_label("Column of condition 1").select_option("region")
    form.get_by_label("Comparison of condition 1").select_option("is one of")
    form.get_by_label("Value of condition 1").fill("north | west")
    form.get_by_role("button", name="Show the price").click()
    assert "costs epsilon 0.1" in form.get_by_role("status").inner_text()
    assert "region IN ('north', 'west')" in form.locator(".built").inner_text()
    form.get_by_role("button", name="Ask").click()
    assert "Charged: epsilon 0.1" in page.get_by_label("Answer", exact=True).inner_text()
    form.get_by_label("Value of condition 1").fill("nowhere")
    form.get_by_role("button", name="Ask").click()
    assert "'nowhere' is no declared level of 'region'." in page.get_by_role("alert").inner_text()
    context.close()


def test_a_refused_query_and_a_budget_that_is_gone(page, live):
    sign_in(page, live, live.book.add("spender", "analyst"))
    page.goto(f"{live.url}/ask/gone")
    page.locator("summary", has_text="Write SQL").click()
    form = page.locator("#ask")

    def ask(sql: str, epsilon: str = "0.3") -> None:
        form.get_by_label("Query").fill(sql)
        form.get_by_label("epsilon to spend").fill(epsilon)
        form.get_by_role("button", name="Ask", exact=True).click()

    ask("SELECT name FROM t")
    assert "GROUP BY" in page.get_by_role("alert").inner_text()
    ask("SELECT COUNT(*) FROM t")
    page.get_by_label("Answer", exact=True).wait_for()
    assert "0 of 0.3 epsilon left" in page.get_by_label("Your budget").inner_text().replace("\n", " ")
    ask("SELECT COUNT(*) FROM t WHERE age > 3")
    assert "does not allow" in page.get_by_role("alert").inner_text()
