"""Questions as they come, read and held against the schema: text and schema alone decide."""

from __future__ import annotations

from shoal.dp.check import check
from shoal.dp.query import Query
from shoal.dp.sql import parse
from shoal.errors import QueryError
from shoal.schema import Schema


def read_query(query: str | Query, schema: Schema) -> Query:
    """The query that a text or a Python expression asks, or the reason why it cannot be answered."""
    parsed = parse(query, schema.id) if isinstance(query, str) else query
    if not isinstance(parsed, Query):
        raise QueryError(f"A query must be SQL text or a Query. Got {type(query).__name__}.")
    check(parsed, schema)
    return parsed
