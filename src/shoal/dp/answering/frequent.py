"""The most frequent level of a column. The answer is not a number; it is drawn by permute-and-flip.

A level's score is the number of rows that have it. One row raises one score by 1 and lowers none, so that
permute-and-flip, whose errors are never larger than the exponential mechanism's, may use epsilon / rows as its rate
(docs/theory/exponential.md).
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from shoal.dp import budget
from shoal.dp.answering.answer import Answer
from shoal.dp.answering.cost import CostPart, cost_part
from shoal.dp.answering.exact import expression
from shoal.dp.answering.figures import labels_of
from shoal.dp.answering.told import told
from shoal.dp.meaning.check import has_codes, levels, number
from shoal.dp.meaning.reading import read_query
from shoal.dp.meaning.relation import CELL, UNIT
from shoal.dp.mechanisms.currency import choice_range, choose
from shoal.dp.sql.query import Query
from shoal.errors import QueryError

if TYPE_CHECKING:
    from shoal.dp.ledger.claims import Receipt
    from shoal.dp.ledger.entries import Entry
    from shoal.dp.session import Session

_MODE = re.compile(r"\bMODE\s*\(\s*(\"(?:[^\"]|\"\")+\"|\w+)\s*\)", re.IGNORECASE)
_ASKED = re.compile(r"\s*SELECT\s+MODE\s*\(", re.IGNORECASE)


@dataclass(frozen=True)
class Frequent:
    """A question for the most frequent level of a column among the rows for which a condition is true."""

    column: str
    counted: Query

    def __str__(self) -> str:
        return str(self.counted).replace(
            "COUNT(*)", f"MODE({json.dumps(self.column, ensure_ascii=False)})", 1
        )


def asks_for_mode(query: Any) -> bool:
    """Whether a text asks ``SELECT MODE(column) FROM ...``."""
    return isinstance(query, str) and _ASKED.match(query) is not None


def read_mode(text: str, session: Session) -> Frequent:
    """The question that a text asks, checked against the schema."""
    found = _MODE.search(text)
    if found is None:
        raise QueryError('MODE takes one column: SELECT MODE(region) FROM t, or MODE("a name").')
    name = found[1]
    column = name[1:-1].replace('""', '"') if name.startswith('"') else name
    counted = read_query(text[: found.start()] + "COUNT(*)" + text[found.end() :], session.schema)
    if len(counted.aggregates) != 1 or counted.groups or not counted.plain:
        raise QueryError("MODE is asked alone, without other figures and without GROUP BY.")
    known = session.schema.columns.get(column)
    if known is None or not levels(known):
        raise QueryError(f"MODE needs a column whose levels the schema declares. Got {column!r}.")
    return Frequent(column, counted)


def ask_mode(session: Session, text: str, micro: int, analyst: str) -> Answer:
    """Draw the most frequent level, charged as any other answer."""
    asked = read_mode(text, session)
    micro, protected = session._least_of(micro), session.protected
    if protected is None:
        raise QueryError("'tau' must be declared or bought before anything is asked.")
    rate = _rate(session, micro, protected.rows)

    def draw() -> str:
        counts = level_counts(session._rows.frame, asked, session.schema, protected.rows)
        return json.dumps(int(choose(session.currency.name, counts.max() - counts, rate, 1)[0]))

    session._rows.ready()
    claim = session._claim_for(str(asked), micro, protected, analyst)
    return _answer(asked, session, micro, session.ledger.once(claim, draw))


def mode_again(session: Session, entry: Entry, receipt: Receipt) -> Answer | None:
    """The answer that a stored level stands for; None where the entry is of another session."""
    asked, protected = read_mode(entry.body, session), session.protected
    if protected is None:
        return None
    micro = entry.micro // session.currency.times(max(1, protected.times(entry.unit)))
    claim = session._claim_for(str(asked), micro, protected, entry.analyst)
    return _answer(asked, session, micro, receipt) if session.ledger.key_of(claim) == entry.key else None


def _answer(asked: Frequent, session: Session, micro: int, receipt: Receipt) -> Answer:
    protected = session.protected
    assert protected is not None  # checked by who asks
    shown = labels_of(session.schema.columns[asked.column])
    short = _short(session, micro, protected.rows, len(shown))
    notes = [f"with 95 % probability no level has {short} rows more than this one"]
    if protected.kind in ("column", "cell"):
        notes.append(f"at most {protected.rows} rows of a unit count")
    value = shown[int(json.loads(receipt.body))]
    return told(session, protected.guarantee, receipt, value, None, tuple(notes))


def _rate(session: Session, micro: int, rows: int) -> Fraction:
    """Of the choice, per row: all scores move the same way."""
    return choice_range(session.currency.name, Fraction(micro, budget.MICRO)) / rows


def _short(session: Session, micro: int, rows: int, n_levels: int) -> int:
    """No level has so many rows more than the one that is drawn, with 95 %."""
    return math.ceil(math.log(n_levels / 0.05) / float(_rate(session, micro, rows)))


def mode_cost(session: Session, text: str, micro: int, analyst: str) -> tuple[int, CostPart, int]:
    """What the answer would cost this analyst, how it is shown, and how often it counts in the unit that is kept."""
    asked, protected = read_mode(text, session), session.protected
    if protected is None:
        raise QueryError("'tau' must be declared or bought before anything is asked.")
    held = session.ledger.has_received(session._claim_for(str(asked), micro, protected, analyst))
    part = cost_part(str(asked), f"mode_{asked.column}", "mode", session.currency.word, micro, 1.0)
    n_levels = len(labels_of(session.schema.columns[asked.column]))
    part["error_in_rows"] = _short(session, micro, protected.rows, n_levels)
    kept = session.ledger.unit(session.schema.id)
    return (0 if held else micro), part, 1 if kept is None else protected.times(kept)


def level_counts(frame: pl.DataFrame, asked: Frequent, schema: Any, rows: int) -> np.ndarray:
    """Rows of each declared level that answer, at most `rows` of a unit: those that come first in the table's public order."""
    for key in (UNIT, CELL):
        if key in frame.columns:
            frame = frame.filter(pl.int_range(pl.len()).over(key) < rows)
    condition = asked.counted.condition
    if condition is not None:
        frame = frame.filter(expression(condition, schema).fill_null(False))
    column = schema.columns[asked.column]
    stored = [
        place if has_codes(column) else number(column, level)
        for place, level in enumerate(levels(column) or ())
    ]
    found = dict(frame[asked.column].alias("cells").value_counts().iter_rows())
    return np.array([found.get(each, 0) for each in stored], dtype=np.int64)
