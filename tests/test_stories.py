"""The stories run to their end on the real tables, and what the documentation shows of them is what they print."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from shoal import datasets

DOCS = Path(__file__).parents[1] / "docs"
sys.path.insert(0, str(DOCS))

import stories  # noqa: E402 - lives beside the pages that show it

NEEDS = {"census_published": "census", "adult_queried": "adult", "hapt_by_subject": "hapt"}


@pytest.mark.parametrize("path", stories.story_paths(), ids=lambda path: path.stem)
def test_a_story_runs(path):
    pytest.importorskip("opendp", reason="private answers need the extra 'dp'")
    table = NEEDS[path.stem]
    if datasets.DATASETS[table].path is None:
        pytest.skip(f"the benchmark table {table!r} is not at hand (set SHOAL_DATA)")
    printed = list(stories.run(path))
    kept = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    assert [bool(each) for each in printed] == [bool(each) for each in kept]
    assert printed[0] == kept[0]  # before any noise is drawn


@pytest.mark.parametrize("path", stories.story_paths(), ids=lambda path: path.stem)
def test_a_page_shows_code_and_output(path):
    page = stories.story_page(path)
    assert page.count("```python") == len(stories.cells(path)) >= 5
    assert all(cell.text for cell in stories.cells(path))
    assert "```text" in page
