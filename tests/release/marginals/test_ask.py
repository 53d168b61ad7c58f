"""Questions to a release: conditions on bins, intervals that hold, and what is said where they cannot be known."""

import itertools

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.dp.meaning.check import plain_query
from shoal.dp.sql.parse import parse
from shoal.errors import QueryError
from shoal.release import release_marginals
from shoal.release.marginals._ask import CLAMPED, FREE, MODELLED
from shoal.release.marginals._axes import axis
from shoal.release.marginals._refine import cut, meet
from shoal.schema import Column, Schema

COLUMNS = {
    "age": Column("age", bounds=(0, 19), step=1, breaks=(5, 10, 15), missing_codes=("",)),
    "sex": Column("sex", role="quasi", kind="category", levels=("f", "m")),
    "size": Column("size", role="quasi", kind="ordered", levels=("s", "m", "l")),
}
SCHEMA = Schema(COLUMNS, id="t", budget=1000.0)


def table(n=600):
    rng = np.random.default_rng(1)
    age = rng.integers(0, 20, n).astype(object)
    age[:30] = None
    return pl.DataFrame(
        {"age": age.tolist(), "sex": rng.choice(["f", "m"], n), "size": rng.choice(["s", "m", "l"], n)},
        schema={"age": pl.Int64, "sex": pl.String, "size": pl.String},
    )


LEAF = st.one_of(
    st.tuples(st.just("age"), st.sampled_from(["<", "<=", "=", "<>", ">", ">="]), st.integers(-1, 20)),
    st.tuples(st.just("sex"), st.sampled_from(["=", "<>"]), st.sampled_from(["'f'", "'m'"])),
    st.tuples(st.just("size"), st.sampled_from(["<", ">=", "="]), st.sampled_from(["'s'", "'m'", "'l'"])),
)


@settings(max_examples=80, deadline=None)
@given(st.lists(LEAF, min_size=1, max_size=4), st.sampled_from(["AND", "OR"]), st.booleans())
def test_a_condition_holds_where_every_value_of_a_cell_says_so(parts, word, opposite):
    condition = f" {word} ".join(f"{name} {operator} {value}" for name, operator, value in parts)
    condition = f"NOT ({condition})" if opposite else condition
    query = plain_query(parse(f"SELECT COUNT(*) FROM t WHERE {condition}", "t"), Schema(COLUMNS))
    axes = [axis(each) for each in COLUMNS.values()]
    met = meet(query.condition, axes)
    used = [each for each in axes if each.name in met.columns]
    from shoal.dp.answering.exact import expression
    from shoal.dp.loading.load import load

    values = {"age": [*range(20), None], "sex": ["f", "m"], "size": ["s", "m", "l"]}
    rows = list(itertools.product(*(values[each.name] for each in used)))
    frame = pl.DataFrame(rows, schema=[each.name for each in used], orient="row")
    for name in COLUMNS:
        if name not in frame.columns:
            frame = frame.with_columns(
                pl.lit("f" if name == "sex" else "s" if name == "size" else 1).alias(name)
            )
    loaded = load(frame, SCHEMA)
    true = loaded.select(expression(query.condition, SCHEMA).fill_null(False)).to_series().to_numpy()
    places = tuple(
        each.encode(loaded[each.name].cast(pl.Float64).fill_null(np.nan).to_numpy()) for each in used
    )
    count, hits = np.zeros(met.share.shape), np.zeros(met.share.shape)
    np.add.at(count, places, 1)
    np.add.at(hits, places, true)
    assert np.allclose(met.share, hits / count)
    assert np.array_equal(met.surely, hits == count)
    assert np.array_equal(met.possibly, hits > 0)


def test_pieces_of_a_bin_without_a_grid():
    pieces = cut(axis(Column("x", bounds=(0, 10)), bins=[4]), [1.0])
    assert pieces.share.tolist() == pytest.approx([0.25, 0.0, 0.75, 1.0])


@pytest.mark.parametrize("delta", [None, 1e-9])
def test_intervals_hold_the_true_figure(delta):
    asked = {
        "SELECT COUNT(*) FROM t WHERE sex = 'f'": table().filter(pl.col("sex") == "f").height,
        "SELECT COUNT(*) FROM t WHERE age >= 7 AND age < 12": table()
        .filter(pl.col("age").is_between(7, 11))
        .height,
        "SELECT SUM(age) FROM t": table()["age"].sum(),
        "SELECT AVG(age) FROM t": table()["age"].mean(),
        "SELECT COUNT(*) FROM t WHERE age IS NULL": 30,
    }
    held = dict.fromkeys(asked, 0)
    for _ in range(30):
        out = release_marginals(table(), SCHEMA, 1.0, delta=delta, workload="tables")
        for text, true in asked.items():
            low, high = out.ask(text).interval
            held[text] += low <= true <= high
    assert min(held.values()) >= 24  # 28.5 expected of 30: five deviations


def test_an_answer_is_free_and_says_so():
    out = release_marginals(table(), SCHEMA, 900.0, columns=["age", "sex"])
    answer = out.ask("SELECT COUNT(*) FROM t WHERE age < 5 AND sex = 'm'")
    true = table().filter((pl.col("age") < 5) & (pl.col("sex") == "m")).height
    assert answer.value == pytest.approx(true, abs=3)
    assert answer.epsilon == 0.0
    assert answer.guarantee == out.guarantee
    assert {FREE, CLAMPED} <= set(answer.notes)


def test_groups_and_several_figures():
    out = release_marginals(table(), SCHEMA, 900.0, columns=["age", "sex"])
    answer = out.ask("SELECT COUNT(*), AVG(age) FROM t GROUP BY sex")
    assert [row["sex"] for row in answer.value] == ["f", "m"]
    true = table().filter(pl.col("sex") == "f")
    assert answer.value[0]["count"] == pytest.approx(true.height, abs=3)
    low, high = answer.interval[0]["avg_age"]
    assert low <= true["age"].mean() <= high


def test_what_was_not_measured_is_said():
    out = release_marginals(table(), SCHEMA, 0.01)
    answer = out.ask("SELECT COUNT(*) FROM t WHERE age < 5 AND sex = 'm' AND size = 's'")
    assert answer.interval is None
    assert MODELLED in answer.notes


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT MAX(age) FROM t", "answers COUNT, SUM and AVG"),
        ("SELECT COUNT(*) FROM t WHERE size = 's'", "not in the release"),
    ],
)
def test_what_a_release_cannot_answer(text, said):
    out = release_marginals(table(), SCHEMA, 1.0, columns=["age", "sex"])
    with pytest.raises(QueryError, match=said):
        out.ask(text)


def test_ranges_are_answered_with_an_interval():
    schema = Schema({"age": COLUMNS["age"]}, id="t", budget=1000.0)
    out = release_marginals(table(), schema, 100.0)
    assert out.plan.workload == "ranges"
    answer = out.ask("SELECT COUNT(*) FROM t WHERE age >= 5 AND age < 15")
    true = table().filter(pl.col("age").is_between(5, 14)).height
    assert answer.interval[0] - 1 <= true <= answer.interval[1] + 1
