"""The page of findings says every printed figure that ours misses, and what was tried."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from shoal.research import Measured, agreement

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


def test_a_search_that_ended_at_its_limit_reaches_nothing(module, tmp_path):
    row = {"data": "hapt", "figure": "components, approach 2", "method": "raw", "published": 79, "ours": 80.0}
    for boundary, missed in (({}, 0), ({"boundary": "the most tried"}, 1)):
        facts = {"experiment": "correlated", "rows": [row | boundary]}
        (tmp_path / "reproduce-correlated.json").write_text(json.dumps(facts), encoding="utf-8")
        assert len(module.misses(tmp_path)) == missed
        measured = Measured("tables", "hapt", "raw", row["figure"], None, 80.0, extra=boundary, published=79)
        assert agreement([measured]).to_dict()["missed"] == missed


def test_the_page_of_experiments_is_as_the_figures_make_it():
    spec = importlib.util.spec_from_file_location("experiments", DOCS / "experiments.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    page = made.PAGE.read_text(encoding="utf-8")
    facts = json.loads(made.FIGURES.read_text(encoding="utf-8"))
    assert {row["data"] for row in facts["rows"]} == {"adult", "ccc", "hapt"}
    assert made.written(page, facts) == page, "run python docs/experiments.py"
