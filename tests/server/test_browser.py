"""The pages in a real browser, as people use them."""

from __future__ import annotations

from .conftest import no_violations, sign_in, watched, width_of


def test_a_wrong_token_stays_outside(page, live, tokens):
    page.goto(live.url)
    page.get_by_label("Your token").fill("shoal-no-no")
    page.get_by_role("button", name="Sign in").click()
    assert "not known" in page.get_by_role("alert").inner_text()


def well_shown(page):
    """By day on a desk and at night on a phone: nothing that a reader cannot use, nothing beyond the right edge."""
    for scheme, width in (("dark", 390), ("light", 1200)):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 800})
        no_violations(page)
        assert width_of(page) <= width


def test_publishing_step_by_step(browser, live, tokens):
    context = browser.new_context(viewport={"width": 1200, "height": 800}, accept_downloads=True)
    page = watched(context)
    sign_in(page, live, tokens["owner"])
    page.get_by_role("link", name="Publish").click()
    well_shown(page)
    page.get_by_role("button", name="bundled survey").click()
    page.get_by_label("Role of age").wait_for()
    well_shown(page)
    page.get_by_role("button", name="Compare methods first").click()
    page.get_by_role("heading", name="Risk and utility").wait_for(timeout=240_000)
    well_shown(page)
    page.get_by_role("link", name="Take mdav, k = 5").focus()
    page.keyboard.press("Enter")
    page.get_by_text("Taken from the map: mdav with k = 5.").wait_for()
    assert page.get_by_label("Method", exact=True).input_value() == "mdav"
    page.get_by_role("button", name="Protect").click()
    page.get_by_role("heading", name="Before and after").wait_for(timeout=240_000)
    well_shown(page)
    page.frame_locator("iframe").locator("h1").wait_for()
    result = page.get_by_label("Result", exact=True)
    assert result.inner_text().split("\n\n")[1].startswith("Status ")  # before everything else
    with page.expect_download() as taken:
        page.get_by_role("link", name="Protected table").click()
    assert taken.value.path().read_text().startswith("age,sex,region,")  # identifiers are dropped
    assert "shoal protect table.csv" in page.locator("pre").first.inner_text()
    page.get_by_role("button", name="Remove all files").click()
    page.get_by_label("A table, at most").wait_for()
    assert page.problems == []
    context.close()


def test_publishing_by_keyboard_alone_and_without_javascript(browser, live, tokens):
    context = browser.new_context(java_script_enabled=False)
    page = watched(context)
    sign_in(page, live, tokens["owner"])

    def press(found):
        found.focus()
        page.keyboard.press("Enter")

    press(page.get_by_role("link", name="Publish"))
    press(page.get_by_role("button", name="bundled survey"))
    page.get_by_label("Role of age").wait_for()
    page.get_by_text("More settings").focus()
    page.keyboard.press("Enter")
    page.get_by_label("Rows in the order of the input").focus()
    page.keyboard.type("shuffle")
    page.get_by_label("Method", exact=True).focus()
    page.keyboard.type("mdav")
    press(page.get_by_label("Smallest group"))  # Enter in a field sends the form: the first button protects
    for _ in range(400):
        if page.get_by_role("heading", name="Before and after").count():
            break
        if page.get_by_role("link", name="Look again").count():
            press(page.get_by_role("link", name="Look again"))
        page.wait_for_timeout(300)
    assert "--order shuffle" in page.locator("pre").first.inner_text()
    assert page.get_by_label("Rows in the order of the input").input_value() == "shuffle"
    with page.expect_download() as taken:
        press(page.get_by_role("link", name="Protected table"))
    assert taken.value.path().read_text().startswith("age,sex,region,")
    press(page.get_by_role("button", name="Remove all files"))
    page.get_by_label("A table, at most").wait_for()
    context.close()


def test_an_owner_gives_out_and_revokes_a_token_and_an_auditor_reads_the_log(page, live, tokens):
    sign_in(page, live, tokens["owner"])
    page.get_by_label("Name").fill("newcomer")
    page.get_by_role("button", name="Add").click()
    token = page.locator("code.token").inner_text()
    assert live.book.find(token).name == "newcomer"
    page.reload()  # repeats nothing, and shows it to nobody else
    assert token not in page.content()
    page.get_by_role("link", name="Back to the users").click()
    page.get_by_role("button", name="Revoke newcomer").click()
    assert "stays spent" in page.inner_text("main")
    page.get_by_role("button", name="Yes, revoke newcomer").click()
    page.wait_for_load_state()
    assert live.book.list()[-1].revoked
    page.get_by_role("button", name="Sign out").click()
    sign_in(page, live, tokens["auditor"])
    assert "The chain holds" in page.get_by_role("status").inner_text()


def test_a_phone_needs_no_sideways_scrolling(browser, live, tokens):
    context = browser.new_context(viewport={"width": 360, "height": 740})
    phone = context.new_page()
    for role, paths in (
        ("analyst", ["/ask/survey"]),
        ("owner", ["/owner", "/publish"]),
        ("auditor", ["/audit"]),
    ):
        context.clear_cookies()
        sign_in(phone, live, tokens[role])
        for path in paths:
            phone.goto(live.url + path)
            for scheme in ("light", "dark"):
                phone.emulate_media(color_scheme=scheme)
                assert width_of(phone) <= 360, (path, scheme)
    context.close()
