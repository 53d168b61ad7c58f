"""Statements of the ledger, each compiled once for a kind of database."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import sqlalchemy as sa

from shoal.dp.ledger.entries import CAPS_KEY, CLOSED_KEY, ENTRIES, HEAD, RIGHTS_KEY, TEAM_CLOSED_KEY

BoundValues: TypeAlias = Mapping[str, str | int]
"""What stands for the parameters of a statement, by their names."""


class PreparedStatement:
    """A statement compiled once for each kind of database and run on the driver itself.

    Compiling, binding and wrapping cost several times what the statement does.
    """

    def __init__(self, statement: Any) -> None:
        self._statement = statement
        self._compiled: dict[str, tuple[str, list[str] | None, BoundValues]] = {}

    def run(self, connection: sa.Connection, values: BoundValues | None = None) -> Any:
        """Execute it in the connection's transaction and give the first row, if it has any, as a tuple."""
        cursor = self.on_driver(connection.connection.dbapi_connection, connection.dialect, values)
        return None if cursor.description is None else cursor.fetchone()

    def on_driver(self, driver: Any, dialect: sa.Dialect, values: BoundValues | None = None) -> Any:
        """Execute it on a connection of the driver and give its cursor."""
        if dialect.name not in self._compiled:
            made: Any = self._statement.compile(dialect=dialect)
            own: BoundValues = {each: value for each, value in made.params.items() if value is not None}
            self._compiled[dialect.name] = made.string, made.positiontup, own
        text, order, own = self._compiled[dialect.name]
        bound = {**own, **(values or {})}
        return driver.execute(text, bound if order is None else [bound[each] for each in order])


def _is_of(**names: str) -> list[Any]:
    return [ENTRIES.c[column] == sa.bindparam(bound) for column, bound in names.items()]


_HEAD = sa.select(HEAD.c.seq, HEAD.c.hash).where(HEAD.c.id == 1)
_TOTALS = sa.select(ENTRIES.c.unit, ENTRIES.c.dataset_total, ENTRIES.c.ended, ENTRIES.c.analyst_total)
_LAST = _TOTALS.where(*_is_of(dataset="d")).order_by(ENTRIES.c.seq.desc()).limit(1)
_OF_KEY = sa.select(ENTRIES.c.seq, ENTRIES.c.body).where(*_is_of(dataset="d", key="k"))
READ_HEAD = PreparedStatement(_HEAD)
LOCK_HEAD = PreparedStatement(_HEAD.with_for_update())
MOVE_HEAD = PreparedStatement(
    HEAD.update().where(HEAD.c.id == 1).values(seq=sa.bindparam("s"), hash=sa.bindparam("h"))
)
ADD = PreparedStatement(ENTRIES.insert())
HASH_OF = PreparedStatement(sa.select(ENTRIES.c.hash).where(ENTRIES.c.seq == sa.bindparam("s")))
LAST_OF_DATASET = PreparedStatement(_LAST)
LAST_OF_ANALYST = PreparedStatement(_LAST.where(*_is_of(analyst="a")))
LAST_BODY = PreparedStatement(_OF_KEY.where(*_is_of(kind="w")).order_by(ENTRIES.c.seq.desc()).limit(1))
STORED = PreparedStatement(_OF_KEY.where(ENTRIES.c.kind == "settle").order_by(ENTRIES.c.seq).limit(1))
OWN = PreparedStatement(
    _OF_KEY.where(
        sa.or_(ENTRIES.c.kind == "settle", ENTRIES.c.kind == "receipt"), *_is_of(analyst="a")
    ).limit(1)
)
OWN_CHARGE = PreparedStatement(
    sa.select(ENTRIES.c.hash)
    .where(
        sa.or_(ENTRIES.c.kind == "charge", ENTRIES.c.kind == "receipt"),
        *_is_of(dataset="d", key="k", analyst="a"),
    )
    .order_by(
        ENTRIES.c.kind, ENTRIES.c.seq
    )  # as the index by key has them: by number alone all of the analyst's are read
    .limit(1)
)
# One key at a time: with both in one statement SQLite reads every entry of the data set.
CLOSED = PreparedStatement(
    _OF_KEY.where(ENTRIES.c.kind == "refusal", ENTRIES.c.seq > sa.bindparam("s"), *_is_of(analyst="a")).limit(
        1
    )
)
OTHER_UNIT = PreparedStatement(
    sa.select(ENTRIES.c.seq)
    .where(
        ENTRIES.c.kind == "charge",
        ENTRIES.c.unit != sa.bindparam("u"),
        ENTRIES.c.seq > sa.bindparam("s"),
        *_is_of(dataset="d"),
    )
    .order_by(ENTRIES.c.seq)
    .limit(1)
)


def refusal_that_closed(
    run: Callable[[PreparedStatement, BoundValues], Any], dataset: str, analyst: str
) -> str | None:
    """The key of a refusal at a total that others share, if there was one since the owner last stated that.

    At the data set's total it closes until caps are stated anew, at a team's until caps or rights are.

    Parameters
    ----------
    run : callable
        Gives the first row that a statement finds with these values.
    dataset, analyst : str
    """
    caps, rights = (run(LAST_BODY, {"d": dataset, "k": key, "w": key}) for key in (CAPS_KEY, RIGHTS_KEY))
    first = 0 if caps is None else int(caps[0])
    later = max(first, 0 if rights is None else int(rights[0]))
    for key, since in ((CLOSED_KEY, first), (TEAM_CLOSED_KEY, later)):
        if run(CLOSED, {"d": dataset, "a": analyst, "k": key, "s": since}) is not None:
            return key
    return None
