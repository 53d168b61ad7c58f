"""Owners and auditors at work in a real browser: in light and dark, on a phone, by keyboard alone."""

from __future__ import annotations

import pytest

from .conftest import LiveServer, no_violations, sign_in, watched, width_of

TABLE = "kind,age\n" + "".join(f"{('cat', 'dog')[place % 2]},{place % 29}\n" for place in range(800))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    live = LiveServer(tmp_path_factory.mktemp("owners")).start()
    live.owner, live.auditor = live.book.add("olga", "owner"), live.book.add("aud", "auditor")
    live.ann = live.book.add("ann", "analyst")
    (live.folder / "pets.csv").write_text(TABLE)
    yield live
    live.stop()


def looks_right(page, width) -> None:
    assert width_of(page) <= width
    no_violations(page)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 390)])
def test_a_table_becomes_a_data_set_by_fields_and_is_taken_out(browser, place, scheme, width):
    name = f"pets-{scheme}-{width}"
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 800})
    page = watched(context)
    sign_in(page, place, place.owner)
    looks_right(page, width)
    page.get_by_role("link", name="Add a data set").click()
    looks_right(page, width)
    page.get_by_label("A table").set_input_files(place.folder / "pets.csv")
    page.get_by_role("button", name="Go on to its schema").click()
    page.get_by_role("heading", name="Schema and budget").wait_for()
    looks_right(page, width)
    assert "cat" in page.get_by_role("group", name="kind").inner_text()  # samples, for the owner
    assert (
        page.get_by_label("Levels of kind", exact=True).input_value() == ""
    )  # nothing is filled in from the rows
    assert page.get_by_label("Levels of age", exact=True).is_hidden()
    page.get_by_label("Id of the data set").fill(name)
    page.get_by_label("Levels of kind", exact=True).fill("cat\ndog")
    page.get_by_label("Lowest age").fill("0")
    page.get_by_label("Highest age").fill("30")
    page.get_by_label("Where the bounds or levels of kind come from").select_option("a codebook")
    page.get_by_label("Epsilon of the data set").fill("10")
    page.get_by_role("button", name="Save and answer").click()
    alert = page.get_by_role("alert")
    assert "State where the bounds or levels of 'age' come from" in alert.inner_text()
    looks_right(page, width)
    page.get_by_label("Where the bounds or levels of age come from").select_option("this table itself")
    page.get_by_role("button", name="Save and answer").click()
    assert "must not come from its rows" in alert.inner_text()
    assert page.get_by_label("Highest age").input_value() == "30"  # what was typed is still there
    page.get_by_label("Where the bounds or levels of age come from").select_option("general knowledge")
    page.get_by_role("button", name="Only look").click()
    page.get_by_text("This can be saved.").wait_for()
    looks_right(page, width)
    page.get_by_role("button", name="Save and answer").click()
    page.wait_for_url("**/owner")
    card = page.locator("section.card").filter(has=page.get_by_role("heading", name=name, exact=True))
    card.get_by_role("link", name="Change, or give it a new version").click()
    page.get_by_role("heading", name=f"Versions of {name}").wait_for()
    assert page.get_by_label("Highest age").input_value() == "30"
    looks_right(page, width)
    page.get_by_role("link", name="As a text (TOML)").click()
    assert 'levels = ["cat", "dog"]' in page.locator("#schema").input_value()
    looks_right(page, width)
    page.get_by_label(f"Type {name} to take it out").fill("something else")
    page.get_by_role("button", name="Take it out").click()
    page.get_by_text("Type the name of the data set").wait_for()
    page.go_back()
    page.get_by_label(f"Type {name} to take it out").fill(name)
    page.get_by_role("button", name="Take it out").click()
    page.wait_for_url("**/owner")
    assert page.get_by_role("heading", name=name, exact=True).count() == 0
    assert [each for each in page.problems if "400" not in each] == []  # the browser notes what was refused
    context.close()


def test_a_data_set_is_added_by_keyboard_alone(page, place):
    sign_in(page, place, place.owner)
    page.goto(f"{place.url}/owner/datasets/new")
    page.get_by_label("A table").set_input_files(place.folder / "pets.csv")  # the file dialog is the system's
    page.get_by_role("button", name="Go on to its schema").focus()
    page.keyboard.press("Enter")
    page.get_by_label("Id of the data set").focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("typed")
    reached = []
    for _ in range(60):  # every field in reading order, none twice, none that is hidden
        page.keyboard.press("Tab")
        name = page.evaluate("document.activeElement.name || document.activeElement.textContent")
        reached.append(name)
        if name == "levels-0":
            page.keyboard.type("cat\ndog")
        elif name in ("source-0", "source-1"):
            page.keyboard.type("general")
        elif name == "low-1":
            page.keyboard.type("0")
        elif name == "high-1":
            page.keyboard.type("30")
        elif name == "budget":
            page.keyboard.type("5")
        elif page.evaluate("document.activeElement.value") == "save":
            break
    fields = [
        "unit",
        "rows",
        "kind-0",
        "role-0",
        "levels-0",
        "source-0",
        "kind-1",
        "role-1",
        "low-1",
        "high-1",
    ]
    found = [each for each in reached if each in fields]
    assert found == fields
    assert "levels-1" not in reached
    page.keyboard.press("Enter")
    page.wait_for_url("**/owner")
    assert page.get_by_role("heading", name="typed", exact=True).count() == 1


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 390)])
def test_a_token_is_renewed_and_shown_once(browser, place, scheme, width):
    name = f"new-{scheme}"
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 800})
    page = watched(context)
    sign_in(page, place, place.owner)
    page.get_by_label("Name").fill(name)
    page.get_by_role("button", name="Add", exact=True).click()
    first = page.locator("code.token").inner_text()
    looks_right(page, width)
    page.get_by_role("link", name="Back to the users").click()
    page.get_by_role("button", name=f"New token for {name}").click()
    looks_right(page, width)
    page.get_by_role("button", name="Yes, make a new token").click()
    second = page.locator("code.token").inner_text()
    assert first != second
    assert place.book.find(first) is None
    assert place.book.find(second).name == name
    page.reload()
    page.get_by_role("heading", name="The token was shown").wait_for()
    assert page.problems == []
    context.close()


def test_an_auditor_finds_any_question_in_three_clicks_and_keeps_a_signed_head(page, place):
    with place.http(place.ann) as analyst:
        for number in range(120):  # more than a page holds
            sql = f"SELECT COUNT(*) FROM t WHERE income > {number + 50_000}"
            asked = {"sql": sql, "epsilon": 0.001}
            assert analyst.post("/api/v1/datasets/survey/ask", json=asked).status_code == 200
    sign_in(page, place, place.auditor)
    page.get_by_label("Text holds").click()  # one
    page.keyboard.type("50003")
    page.get_by_role("button", name="Find").click()  # two
    row = page.locator("tbody tr")
    assert row.count() == 1
    assert "answered" in row.inner_text()
    assert '"income" > 50003' in row.inner_text()
    with page.expect_download() as taken:
        page.get_by_role("link", name="Signed head to keep elsewhere").click()
    line = taken.value.path().read_text()
    page.get_by_label("Compare with a head kept elsewhere").fill(line.strip())
    page.get_by_role("button", name="Replay and compare").click()
    assert "holds the head you kept" in page.get_by_role("status").inner_text()
    page.get_by_label("Compare with a head kept elsewhere").fill(
        line.replace("ed25519:", "ed25519:A", 1).strip()
    )
    page.get_by_role("button", name="Replay and compare").click()
    assert "signature" in page.inner_text("main")
