"""What one row adds to a COUNT or SUM, as a function of its secret entry: from the query's text alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import polars as pl

from shoal.dp.answering.exact import expression
from shoal.dp.loading.load import load
from shoal.dp.pufferfish._scenario import exact
from shoal.dp.sql.expressions import And, IsNull, Not, Or, Predicate
from shoal.dp.sql.query import Query
from shoal.errors import ParameterError, QueryError
from shoal.schema import Schema

MOST_CONDITIONS = 6  # on other columns: each may be true, false or unknown
Truth = bool | None
Function = tuple[Fraction, ...]  # what a row adds, by the place of its entry


def contributions(query: Query, schema: Schema, about: str, entries: Sequence[Any]) -> set[Function]:
    """All functions from the secret entry to what a row adds, whatever the row's other columns hold.

    Parameters
    ----------
    query : Query
        One COUNT, or the SUM of the secret column, without groups.
    schema : Schema
    about : str
        The secret column.
    entries : sequence
        Values that the scenarios know, as the schema declares them.

    Returns
    -------
    set of tuples of Fraction
        The function that is zero everywhere among them: it stands for rows that are not there.
    """
    if len(query.aggregates) != 1 or query.groups:
        raise QueryError("A stated model answers one figure without GROUP BY.")
    aggregate = query.aggregates[0]
    if aggregate.kind not in ("count", "sum") or (aggregate.kind == "sum" and aggregate.column != about):
        raise QueryError(f"A stated model answers COUNT, or the SUM of {about!r}. Got {aggregate}.")
    tests = [] if query.condition is None else [query.condition]
    if aggregate.column is not None:
        tests.append(Not(IsNull(aggregate.column)))
    frame = load(pl.DataFrame({about: list(entries)}), Schema({about: schema.columns[about]}))
    if frame[about].null_count():
        raise ParameterError(f"The scenarios hold an entry of {about!r} that the schema does not declare.")
    gains = [
        Fraction(1) if aggregate.kind == "count" else exact(each, f"An entry of {about!r}")
        for each in entries
    ]
    others = sorted({str(leaf) for test in tests for leaf in _leaves(test) if _column(leaf) != about})
    if len(others) > MOST_CONDITIONS:
        raise QueryError(
            f"A stated model takes at most {MOST_CONDITIONS} conditions on other columns. Got {len(others)}."
        )
    found = {(Fraction(0),) * len(entries)}
    for values in product((True, False, None), repeat=len(others)):
        known: dict[str, Truth] = dict(zip(others, values, strict=True))
        truths = [_truths(test, known, about, frame, schema) for test in tests]
        found.add(
            tuple(
                gain if all(each[at] is True for each in truths) else Fraction(0)
                for at, gain in enumerate(gains)
            )
        )
    if all(len(set(each)) == 1 for each in found):
        raise QueryError(
            f"The query does not depend on {about!r}, which the secrets are about: use mode 'dp'."
        )
    return found


def _truths(
    test: Predicate, known: dict[str, Truth], about: str, frame: pl.DataFrame, schema: Schema
) -> list[Truth]:
    """A condition for each entry, with the other columns' conditions as given."""
    if isinstance(test, (And, Or)):
        parts = [_truths(each, known, about, frame, schema) for each in test.parts]
        decides = isinstance(test, Or)
        return [
            decides if decides in column else None if None in column else not decides
            for column in zip(*parts, strict=True)
        ]
    if isinstance(test, Not):
        inner = _truths(test.part, known, about, frame, schema)
        return [None if each is None else not each for each in inner]
    if _column(test) == about:
        return frame.select(expression(test, schema)).to_series().to_list()
    return [known[str(test)]] * frame.height


def _leaves(test: Predicate) -> Iterator[Predicate]:
    if isinstance(test, (And, Or)):
        for part in test.parts:
            yield from _leaves(part)
    elif isinstance(test, Not):
        yield from _leaves(test.part)
    else:
        yield test


def _column(leaf: Predicate) -> str:
    name = getattr(leaf, "column", None)
    if not isinstance(name, str):
        raise QueryError("A stated model takes conditions that compare one column with constants.")
    return name


def stored_entries(schema: Schema, about: str, entries: Sequence[Any]) -> list[Any]:
    """The entries as the loaded table keeps them."""
    return load(pl.DataFrame({about: list(entries)}), Schema({about: schema.columns[about]}))[about].to_list()
