"""Statements of the ledger, each compiled once for a kind of database."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from shoal.dp.ledger.entries import CLOSED_KEY, ENTRIES, HEAD, TEAM_CLOSED_KEY


class PreparedStatement:
    """A statement compiled once for each kind of database and run on the driver itself.

    Compiling, binding and wrapping cost several times what the statement does.
    """

    def __init__(self, statement: Any) -> None:
        self._statement = statement
        self._compiled: dict[str, tuple[str, list[str] | None, dict[str, Any]]] = {}

    def run(self, connection: sa.Connection, values: dict[str, Any] | None = None) -> Any:
        """Execute it in the connection's transaction and give the first row, if it has any, as a tuple."""
        name = connection.dialect.name
        if name not in self._compiled:
            made = self._statement.compile(dialect=connection.dialect)
            own = {each: value for each, value in made.params.items() if value is not None}
            self._compiled[name] = made.string, made.positiontup, own
        text, order, own = self._compiled[name]
        bound = {**own, **(values or {})}
        driver: Any = connection.connection.dbapi_connection
        cursor = driver.execute(text, bound if order is None else [bound[each] for each in order])
        return None if cursor.description is None else cursor.fetchone()


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
    .order_by(ENTRIES.c.seq)
    .limit(1)
)
IS_CLOSED = PreparedStatement(
    sa.select(ENTRIES.c.key)
    .where(
        ENTRIES.c.kind == "refusal",
        sa.or_(
            sa.and_(ENTRIES.c.key == CLOSED_KEY, ENTRIES.c.seq > sa.bindparam("s")),
            sa.and_(ENTRIES.c.key == TEAM_CLOSED_KEY, ENTRIES.c.seq > sa.bindparam("r")),
        ),
        *_is_of(dataset="d", analyst="a"),
    )
    .order_by(ENTRIES.c.key)
    .limit(1)
)
OTHER_UNIT = PreparedStatement(
    sa.select(ENTRIES.c.seq)
    .where(ENTRIES.c.kind == "charge", ENTRIES.c.unit != sa.bindparam("u"), *_is_of(dataset="d"))
    .limit(1)
)


def since_stated(caps: Any, rights: Any) -> dict[str, int]:
    """From which entry on a refusal closes: at the data set's total since the caps, at a team's since caps or rights."""
    first = 0 if caps is None else int(caps[0])
    return {"s": first, "r": max(first, 0 if rights is None else int(rights[0]))}
