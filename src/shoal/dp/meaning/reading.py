"""Questions as they come, read and held against the schema: text and schema alone decide."""

from __future__ import annotations

import math

from shoal.dp.meaning.check import Keys, check, levels
from shoal.dp.meaning.relation import Catalog
from shoal.dp.sql.parse import parse
from shoal.dp.sql.query import Query
from shoal.dp.sql.tokens import LONGEST
from shoal.errors import QueryError
from shoal.schema import Schema

MOST_FIGURES = 100_000


def read_query(
    query: str | Query,
    schema: Schema,
    unit: str | None = None,
    rows: int | None = None,
    catalog: Catalog | None = None,
    keys: Keys | None = None,
) -> Query:
    """The query that a text or a Python expression asks, or the reason why it cannot be answered.

    Parameters
    ----------
    query : str or Query
    schema : Schema
    unit, rows : optional
        The unit's column and its rows; the schema's if left open.
    catalog : Catalog, optional
        The tables of a session that has several.
    keys : mapping of str to tuple, optional
        Values that were drawn, of columns that declare none.

    Returns
    -------
    Query
        Whose canonical text can be written down, and whose work is bounded.

    Examples
    --------
    >>> from shoal.dp.meaning.reading import read_query
    >>> from shoal.schema import Column, Schema
    >>> print(read_query("SELECT COUNT(*) FROM t WHERE age > 3", Schema({"age": Column("age")})))
    SELECT COUNT(*) FROM t WHERE "age" > 3
    """
    if isinstance(query, str):
        if len(query) <= LONGEST:
            _plain(query)
        query = parse(query, schema.id)
    if not isinstance(query, Query):
        raise QueryError(f"A query must be SQL text or a Query. Got {type(query).__name__}.")
    found = check(query, schema, unit, rows, catalog, keys)
    _plain(str(query))
    groups = math.prod(len(levels(found.schema.columns[str(name)]) or ()) for name in found.core.groups)
    if groups * len(found.core.aggregates) > MOST_FIGURES:
        raise QueryError(
            f"A query may ask for at most {MOST_FIGURES} figures over all its groups. "
            f"Got {len(found.core.aggregates)} for each of {groups}."
        )
    return found.asked


def _plain(text: str) -> None:
    """Refuse what cannot be written down: lone surrogates, and control characters but blanks and ends of lines."""
    if not text.isprintable() and any(
        (ord(each) < 32 and each not in "\n\r\t") or 0xD800 <= ord(each) <= 0xDFFF for each in text
    ):
        raise QueryError("A query must be well-formed text without control characters.")
