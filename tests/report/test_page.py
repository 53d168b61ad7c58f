"""Pages built from parts."""

from __future__ import annotations

from markupsafe import Markup

from pages import Page
from shoal.report import Section, figure, page, table


def test_page_of_parts_escapes_what_is_not_markup():
    hostile = "<img src=x onerror=alert(1)>"
    text = page(
        f"Title {hostile}",
        [
            Section("One", table(["name", hostile], [[hostile, 5.0], ["b", 6]], caption=hostile), hostile),
            Section("Two", figure(Markup("<svg></svg>"), hostile, wide=True)),
            Section("Three", hostile),
        ],
        mark=hostile,
        subtitle=hostile,
    )
    parsed = Page(text)
    assert not parsed.all("img")
    assert parsed.headings == ["One", "Two", "Three"]
    assert len(parsed.all("nav")) == 1
    assert parsed.text.count(hostile) == 10


def test_table_marks_rows_and_aligns_numbers():
    parsed = Page(str(table(["method", "loss"], [["mdav", 5.7], ["cbfs", 5.6]], marked=[1])))
    assert [each.get("class") for each in parsed.all("tr")] == [None, None, "marked"]
    assert [each.get("class") for each in parsed.all("td")] == ["number", "number"]
    assert [each["scope"] for each in parsed.all("th")] == ["col", "col", "row", "row"]
