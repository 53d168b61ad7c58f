"""What a careless caller passes in Python: an error of ours with one sentence, or an answer."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import shoal
from shoal import dp, masking, measures, privacy
from shoal.errors import ShoalError
from shoal.microaggregation import MDAV
from shoal.schema import Column, Schema

CELLS = np.random.default_rng(0).normal(size=(30, 3))
FRAME = pl.DataFrame({"a": CELLS[:, 0], "b": CELLS[:, 1], "t": ["x", "y", "z"] * 10})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"columns": [["a"]]}, "'columns' of protect must be names of columns"),
        ({"columns": [0]}, "No column '0' in the table. It has: a, b, t"),
        ({"strata": 3}, "No column '3' in the table. It has: a, b, t"),
        ({"weights": np.ones(30)}, "'weights' of protect must be .* Got ndarray"),
        ({"columns": "a", "weights": "a"}, "one role"),
        ({"households": "t", "k": 5}, "k = 5 households"),
        ({"schema": {"a": 1}}, "may have the parts .* Got .a."),
        ({"method": MDAV}, "'method' must be one of"),
        ({"method": "anneal", "time_limit": "1"}, "'time_limit' of protect"),
        ({"method": MDAV(k=1), "k": 1}, "'k' of protect"),
        ({"colums": ["a"]}, "protect has no argument 'colums'. Did you mean 'columns'"),
        ({"report": "r.html"}, "protect has no argument 'report'"),
    ],
)
def test_protect_says_what_is_wrong(options, said):
    with pytest.raises(ShoalError, match=said):
        shoal.protect(FRAME, **{"k": 3, "method": "mdav"} | options)


def test_an_unknown_argument_is_a_type_error_too():
    with pytest.raises(TypeError, match="Did you mean 'columns'"):
        shoal.protect(FRAME, 3, colums=["a"])


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["a", "b\nc", "d"], "Column names must be without line ends"),
        (["a", "a", "b"], "Column names must differ"),
        ([0, "0", 2], "Column names must differ as texts"),
        (pd.MultiIndex.from_tuples([("a", "b"), ("a", "c"), ("d", "e")]), "Column names must have one level"),
    ],
)
def test_odd_names_of_pandas_columns(names, said):
    with pytest.raises(ShoalError, match=said):
        shoal.protect(pd.DataFrame(CELLS, columns=names), 3, method="mdav")


def test_one_name_does_for_a_list():
    assert shoal.protect(FRAME, 3, columns="a", method="mdav", accept_risk=True).settings()["columns"] == [
        "a"
    ]


def test_a_result_is_shown_in_a_line():
    result = shoal.protect(FRAME, 3, method="mdav")
    assert repr(result).startswith(
        "<Protection, status green: 30 records in 10 groups of at least 3 by mdav, "
    )
    assert repr(result.verdicts[0]) == f"<{result.verdicts[0]}>"
    assert "<Comparison of 1 cells. mdav with k = 3" in repr(shoal.compare(FRAME, k=[3], methods=["mdav"]))


def test_means_of_huge_values_are_finite():
    X = np.array([[1e308], [-1e308]] * 9)
    masked = MDAV(k=4).fit_transform(X)
    assert np.isfinite(masked).all()
    assert (masked / 1e308).mean() == pytest.approx(0, abs=1e-9)


def test_other_rooms_say_what_is_wrong(tmp_path):
    with pytest.raises(ShoalError, match="'quasi' must name columns"):
        privacy.check(FRAME, 3)
    with pytest.raises(ShoalError, match="rows and columns"):
        measures.evaluate(None, None)
    with pytest.raises(ShoalError, match="map names to columns"):
        Schema({"a": 1})
    with pytest.raises(ShoalError, match="A schema, a dict of its parts or the path"):
        dp.Session(FRAME, None, budget=1.0)
    assert masking.add_noise([[1, 2], [3, 5]], 0.0).tolist() == [[1.0, 2.0], [3.0, 5.0]]


def test_a_session_takes_the_path_of_a_schema(tmp_path):
    schema = Schema({"a": Column("a", bounds=(-5, 5))}, id="d", budget=1.0)
    (tmp_path / "d.toml").write_text(schema.to_toml())
    assert dp.Session(FRAME.select("a"), tmp_path / "d.toml").schema.id == "d"


def test_kernels_work_where_no_folder_can_be_written(monkeypatch):
    """As for a service without a home, and a package that belongs to root."""
    from shoal.engine import kept
    from shoal.engine.compile import kernel

    monkeypatch.setattr(kept, "_folders", lambda _: [])

    @kernel()
    def twice(x):
        return 2 * x

    assert twice(21) == 42
