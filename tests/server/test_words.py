"""Names and constants of any shape: every example, completion and built query is SQL that means them."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal import Session
from shoal.dp.sql.words import RESERVED, TYPES, UNITS
from shoal.schema import Column, Schema
from shoal.server.words import constant_of, examples, name_of, words_of

NAMES = st.text(st.characters(exclude_categories=("Cs", "Cc", "Cn")), min_size=1, max_size=12).filter(
    lambda text: text == text.strip()
)


def asked_by_each(schema: Schema) -> list[str]:
    """Every example, and a query with each column and level as completion writes them."""
    table, columns = name_of(schema.id), {each.name: name_of(each.name) for each in schema.columns.values()}
    made = examples(schema) + [f"SELECT COUNT({each}) FROM {table}" for each in columns.values()]
    for word in words_of(schema):
        if word.kind == "level":
            made.append(f"SELECT COUNT(*) FROM {table} WHERE {columns[word.column]} = {word.text}")
    return made


def answers(schema: Schema) -> None:
    frame = pl.DataFrame({each: ["1"] for each in schema.columns})
    with Session(frame, schema, budget=1e5) as session:
        for query in asked_by_each(schema):
            assert session.cost(query, 1).epsilon == 1, query


@settings(max_examples=40, deadline=None)
@given(number=NAMES, words=NAMES, table=NAMES, levels=st.lists(NAMES, min_size=1, max_size=4, unique=True))
def test_whatever_a_column_is_called_its_examples_are_answered(number, words, table, levels):
    if number == words:
        words += "2"
    columns = {
        number: Column(number, bounds=(0, 9)),
        words: Column(words, kind="category", levels=tuple(levels)),
    }
    answers(Schema(columns, id=table))


@pytest.mark.parametrize(
    "name", sorted({*RESERVED, *UNITS, *TYPES, "NULL", "TRUE", "COUNT", "straße", "Ordnung §"})
)
def test_a_column_may_be_called_like_a_word_of_sql(name):
    name = name.lower()
    answers(
        Schema(
            {name: Column(name, bounds=(0, 9)), "b": Column("b", kind="category", levels=("x'y", '"'))},
            id=name,
        )
    )


def test_all_levels_are_completed_and_not_the_first_twelve():
    levels = tuple(f"level {place}" for place in range(40))
    found = words_of(Schema({"a": Column("a", kind="category", levels=levels)}, id="t"))
    assert [each.text for each in found if each.kind == "level"] == [constant_of(each) for each in levels]
