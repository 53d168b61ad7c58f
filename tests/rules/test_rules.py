"""Edit rules: read, checked, repaired, refused."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import GuaranteeError, SchemaError
from shoal.rules import edits_of, refuse_contradiction, refuse_unkept, repair
from shoal.schema import Rule

NAMES = ["a", "b", "c", "total", "sex", "job size"]


def one(**rule):
    return edits_of([Rule(**rule)], NAMES)[0]


def broken(edit, before=None, **columns):
    table = pl.DataFrame(columns)
    return edit.broken(table, None if before is None else pl.DataFrame(before)).tolist()


def test_each_kind_is_checked():
    assert broken(one(equal="total = a + 2 * b - c"), total=[3, 3], a=[1, 1], b=[2, 2], c=[2, 1]) == [
        False,
        True,
    ]
    assert broken(one(order="a <= b <= c"), a=[1, 3, 1], b=[2, 2, 3], c=[3, 3, 2]) == [False, True, True]
    assert broken(one(range="0 <= a <= 9"), a=[-1, 0, 9, 10, None]) == [True, False, False, True, False]
    assert broken(one(ratio="0.5 <= a / b <= 2"), a=[1, 5, 0, 1], b=[1, 2, 2, 0]) == [
        False,
        True,
        True,
        False,
    ]
    assert broken(one(integer="a"), a=[1.0, 1.5, None]) == [False, True, False]
    assert broken(one(zero="a"), before={"a": [0, 0, 3]}, a=[0.0, 1.0, 0.0]) == [False, True, False]
    assert broken(one(impossible="a < 15 and sex = 'm'"), a=[3, 3, 40], sex=["m", "f", "m"]) == [
        True,
        False,
        False,
    ]
    assert broken(one(order="`job size` >= -2"), **{"job size": [-3, -2]}) == [True, False]
    assert broken(one(impossible="a is missing and b = -1"), a=[None, 1], b=[-1, -1]) == [True, False]


def test_coarsened_cells_break_nothing():
    assert broken(one(range="0 <= a <= 9"), a=["10-19", "*", "50"]) == [False, False, True]


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"equal": "total < a"}, "must be written with ="),
        ({"order": "a = b"}, "must be written with <="),
        ({"order": "a"}, "must compare two sides"),
        ({"order": "a <= b *"}, "sum of columns"),
        ({"ratio": "a / b"}, "written as in"),
        ({"ratio": "2 <= a / b <= 1"}, "must not exceed"),
        ({"impossible": "a"}, "compare a column"),
        ({"range": "0 <= x"}, "which the table lacks"),
        ({"range": "0 <= 1"}, "must name a column"),
        ({"order": "a <= ?"}, "made of columns"),
    ],
)
def test_a_rule_that_cannot_be_read_is_one_sentence(rule, words):
    with pytest.raises(SchemaError, match=words) as caught:
        edits_of([Rule(**rule)], NAMES)
    assert "\n" not in str(caught.value)


def test_contradicting_rules_are_named_and_no_others():
    edits = edits_of(
        [
            Rule(range="c >= 0"),
            Rule(range="5 <= a"),
            Rule(order="a <= b"),
            Rule(range="b <= 4"),
        ],
        NAMES,
    )
    with pytest.raises(SchemaError, match="'5 <= a', 'a <= b' and 'b <= 4' together"):
        refuse_contradiction(edits)
    with pytest.raises(SchemaError, match="No record"):
        refuse_contradiction(edits_of([Rule(order="a < b"), Rule(order="b < a")], NAMES))
    refuse_contradiction(edits_of([Rule(order="a <= b"), Rule(order="b <= a")], NAMES))


def test_what_cannot_hold_is_refused_by_its_shape():
    before = pl.DataFrame({"a": [1.0, 77123.0], "b": [2.0, 3.0]})
    done = repair(before, before, edits_of([Rule(order="a <= b")], ["a", "b"]), treated=[])
    with pytest.raises(
        GuaranteeError, match=r"'a <= b' cannot be kept on 1 records.*a \(number\), b \(number\)"
    ) as caught:
        refuse_unkept(done)
    assert "77123" not in str(caught.value)


cells = st.floats(-50, 50).map(lambda x: round(x, 2))


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(cells, cells, cells, cells), min_size=1, max_size=6),
    noise=st.lists(st.tuples(cells, cells, cells, cells), min_size=6, max_size=6),
)
def test_repair_makes_feasible_rules_hold_and_leaves_good_rows(rows, noise):
    before = pl.DataFrame(
        {
            "a": [abs(r[0]) for r in rows],
            "b": [abs(r[1]) for r in rows],
            "c": [float(round(r[2])) for r in rows],
        }
    ).with_columns(total=pl.col("a") + pl.col("b"))
    after = before.with_columns(
        pl.Series(name, [before[name][i] + noise[i][j] for i in range(len(rows))])
        for j, name in enumerate(["a", "b", "c", "total"])
    )
    edits = edits_of(
        [
            Rule(equal="total = a + b"), Rule(range="0 <= a <= 50"), Rule(range="b >= 0"), Rule(integer="c"),
            Rule(zero="b"), Rule(order="a <= total"),
        ],
        after.columns,
    )  # fmt: skip
    done = repair(after, before, edits, treated=["a", "b", "c", "total"])
    assert [each.broken_after for each in done.kept] == [0] * 6
    good = ~np.logical_or.reduce([edit.broken(after, before) for edit in edits])
    assert done.table.filter(pl.Series(good)).equals(after.filter(pl.Series(good)))
    again = repair(done.table, before, edits, treated=["a", "b", "c", "total"])
    assert again.table.equals(done.table)


def test_rules_that_pull_against_each_other_are_solved_together():
    before = pl.DataFrame({"total": [10.0], "a": [5.0], "b": [5.0]})
    after = pl.DataFrame({"total": [10.0], "a": [12.0], "b": [9.0]})
    edits = edits_of(
        [
            Rule(equal="total = a + b"),
            Rule(range="total <= 10"),
            Rule(range="a >= 4"),
            Rule(range="b >= 4"),
        ],
        after.columns,
    )
    done = repair(after, before, edits, treated=after.columns)
    assert all(each.broken_after == 0 for each in done.kept)


def test_means_keep_sums_and_orders_by_construction():
    before = pl.DataFrame({"total": [3.0, 5.0], "a": [1.0, 2.0], "b": [2.0, 3.0]})
    after = before.with_columns(pl.all().mean())
    edits = edits_of(
        [Rule(equal="total = a + b"), Rule(order="a <= b"), Rule(ratio="a / b <= 1")],
        after.columns,
    )
    done = repair(after, before, edits, treated=after.columns, together=[after.columns])
    assert [each.how for each in done.kept] == ["construction"] * 3
    apart = repair(after, before, edits, treated=after.columns, together=[["total", "a"], ["b"]])
    assert [each.how for each in apart.kept] == ["held"] * 3


def test_a_group_that_became_zero_is_said_to_be_so():
    before, mixed = pl.DataFrame({"a": [0.0, 4.0, 7.0]}), pl.DataFrame({"a": [0.0, 0.0, 7.0]})
    edits = edits_of([Rule(zero="a")], ["a"])
    assert repair(mixed, before, edits, ["a"]).kept[0].how == "zeros"
    assert repair(before, before, edits, ["a"]).kept[0].how == "held"


def test_a_rule_that_the_repair_of_another_breaks_is_said_to_be_repaired():
    before = pl.DataFrame({"total": [30.0, 9.0], "a": [10.0, 4.0], "b": [20.0, 5.0], "c": [25.0, 1.0]})
    after = before.with_columns(b=pl.Series([0.0, 5.0]))
    edits = edits_of([Rule(equal="total = a + b"), Rule(order="c <= total"), Rule(range="total >= 0")], NAMES)
    done = repair(after, before, edits, ["total", "c"], together=[after.columns])
    assert done.table["total"].to_list() == [10.0, 9.0]
    assert done.table["c"].to_list() == [10.0, 1.0]
    assert [(each.how, each.repaired) for each in done.kept] == [("repair", 1), ("repair", 1), ("held", 0)]


@pytest.mark.parametrize(
    ("texts", "named"),
    [
        ([{"ratio": "0 <= a / b <= 0.1"}, {"range": "c >= 0"}, {"ratio": "0.2 <= a / b"}], "<= a / b <= 0.1' and '0.2 <="),
        ([{"ratio": "2 <= a / b"}, {"order": "a <= b"}, {"range": "b >= 1"}], "'a <= b', 'b >= 1' and '2 <= a / b'"),
        ([{"impossible": "a < 50"}, {"impossible": "a >= 50"}], "'a < 50' and 'a >= 50'"),
        ([{"impossible": "a > 3 and a < 9"}, {"range": "4 <= a <= 8"}], "together"),
        ([{"impossible": "sex = 'f'"}, {"impossible": "sex != 'f'"}], "sex = 'f'"),
        ([{"integer": "a"}, {"range": "0.2 <= a <= 0.8"}], "'a' and '0.2 <= a <= 0.8'"),
        ([{"integer": "a"}, {"impossible": "a < 1"}, {"impossible": "a > 0"}], "together"),
    ],
)  # fmt: skip
def test_ratios_impossible_values_and_integers_contradict_too(texts, named):
    with pytest.raises(SchemaError, match=named):
        refuse_contradiction(edits_of([Rule(**each) for each in texts], NAMES))


@pytest.mark.parametrize(
    "texts",
    [
        [{"ratio": "2 <= a / b"}, {"order": "a <= b"}],  # both below 0
        [{"ratio": "2 <= a / b"}, {"order": "a <= b"}, {"range": "0 <= b <= 0"}],  # the ratio says nothing
        [{"impossible": "a < 50"}, {"impossible": "a > 50"}],
        [{"impossible": "sex = 'f'"}, {"impossible": "sex = 'm'"}],
        [{"impossible": "a < 50 and sex = 'f'"}, {"impossible": "a >= 50 and sex = 'f'"}],
        [{"integer": "a"}, {"impossible": "a < 1"}, {"impossible": "a > 1.5"}],
        [{"integer": "a"}, {"zero": "a"}, {"range": "a >= 1"}],
    ],
)
def test_rules_that_some_record_keeps_are_no_contradiction(texts):
    refuse_contradiction(edits_of([Rule(**each) for each in texts], NAMES))
