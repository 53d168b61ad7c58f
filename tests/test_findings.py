"""The page of findings says every printed figure that ours misses, and what was tried."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(scope="module")
def module():
    spec = importlib.util.spec_from_file_location("misses", DOCS / "misses.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_every_miss_is_on_the_page_with_what_was_tried(module):
    page = (DOCS / "theory" / "findings.md").read_text(encoding="utf-8")
    missing = module.misses(DOCS / "benchmarks")
    assert missing, "the committed figures hold misses, so none found means none were read"
    unexplained = {(each["experiment"], each["method"]) for each in missing if module.tried(each) is None}
    assert not unexplained
    lines = page.splitlines()
    for each in missing:
        cell = module.told(each)
        start = f"| {each['experiment']} | {each['data']} | {each['method']}"
        assert any(line.startswith(start) and cell in line for line in lines), (start, cell)


def test_the_page_is_as_the_figures_make_it(module):
    page = (DOCS / "theory" / "findings.md").read_text(encoding="utf-8")
    assert module.block(DOCS / "benchmarks") in page, "run python docs/misses.py"


def test_a_miss_that_is_not_there_would_be_seen(module, tmp_path):
    (tmp_path / "reproduce-table1.json").write_text(
        '{"experiment": "table1", "rows": [{"data": "census", "method": "mdav", "k": 3, "published": 5.0, "ours": 6.0}]}',
        encoding="utf-8",
    )
    (found,) = module.misses(tmp_path)
    assert module.tried(found) is None
    assert module.block(tmp_path) not in (DOCS / "theory" / "findings.md").read_text(encoding="utf-8")
