"""The attacks of docs/theory/attacks.md succeed before and fail after: the page's own code is run."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "theory" / "attacks.md"


@pytest.fixture(scope="module")
def after_reading():
    """The names that the page leaves behind; its assertions hold on the way."""
    pytest.importorskip("opendp", reason="private answers need the extra 'dp'")
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.M | re.S)
    names: dict = {}
    for number, block in enumerate(blocks):
        exec(compile(block, f"{PAGE.name} block {number}", "exec"), names)
    assert len(blocks) == 9
    return names


def test_record_linkage_succeeds_before_and_fails_after(after_reading):
    assert after_reading["matches"].height == 1
    assert after_reading["before"].prosecutor == 1.0
    assert after_reading["linked"] <= 0.2


def test_attribute_linkage_succeeds_before_and_fails_after(after_reading):
    assert after_reading["diversity"].value == 1
    verdicts = after_reading["diverse"].verdicts
    assert all(verdict.holds is not False for verdict in verdicts)
    loss = [after_reading[name].figures.information_loss for name in ("protected", "diverse")]
    assert 1.2 < loss[1] / loss[0] < 1.8


def test_table_linkage_succeeds_before_and_fails_after(after_reading):
    assert after_reading["certain"].value == (0.0, 1.0)
    low, high = after_reading["present"].value
    assert 0.0 < low < high < 0.8


def test_probabilistic_attack_succeeds_before_and_fails_after(after_reading):
    difference = after_reading["with_him"] - after_reading["without_him"]
    assert difference == (after_reading["target"]["disease"] != "none")
    prior = 0.7
    factor = after_reading["moved"]
    assert 0.678 < prior * factor / (prior * factor + 1 - prior) < 0.7213
