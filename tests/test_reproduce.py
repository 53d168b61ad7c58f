"""Published figures beside ours."""

from __future__ import annotations

import pytest

from shoal import reproduce
from shoal.errors import ParameterError
from shoal.microaggregation import methods
from shoal.reproduce._microaggregation import _run
from shoal.reproduce._published import DERIVATIVE_FREE, SPLIT_RANKS, TABLE1, TABLE2
from shoal.reproduce._rows import Reproduction, Row


def test_printed_figures_are_complete():
    for rows in (*TABLE1.values(), *TABLE2.values()):
        assert all(len(row) == 7 for row in rows.values())
    assert set(TABLE1["census"]) <= set(methods())
    assert all(set(ranks) <= set(methods()) for ranks in SPLIT_RANKS.values())
    assert (
        sum(
            len(losses)
            for by_data in DERIVATIVE_FREE.values()
            for by_start in by_data.values()
            for losses in by_start.values()
        )
        == 54
    )


def test_cells_are_run_and_compared(census, tarragona):
    cells = [(data, methods()["mdav"](k=3), TABLE1[data]["mdav"][0], {}) for data in ("tarragona", "census")]
    rows = _run(cells, None)
    for row in rows:
        assert row.sizes_kept
        assert abs(row.difference) < 0.01
        assert row.seconds < 60


def test_random_methods_are_means_over_seeds(tarragona):
    (row,) = _run([("tarragona", methods()["kc"](k=3, rounds=2), None, {"seeds": 3})], None)
    assert row.spread > 0
    assert row.published is None
    assert row.difference is None


def test_tables_are_written_in_every_form():
    row = Row("census", "mdav", 3, 5.692, 5.6922, 0.1, True, None, {"rank_ours": 2})
    result = Reproduction("table1", "A table", (row,), ("A note.",), 0.1)
    assert "| census | mdav | 3 | 5.692 | 5.692 | +0.00 |" in result.to_markdown()
    assert "A note." in result.to_html()
    assert result.to_dict()["rows"][0]["rank_ours"] == 2


def test_ranks_share_equal_figures():
    assert reproduce.ranks([1.0, 3.0, 1.001, 2.0]) == [1, 3, 1, 2]


def test_unknown_experiments_are_refused():
    with pytest.raises(ParameterError, match="must be one of"):
        reproduce("table9")
