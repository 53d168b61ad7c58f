"""Periods of a stream: one charge pays for all of them, and the ledger notes which were answered, and by which copy."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from shoal.dp.ledger.entries import ENTRIES, EVENT_KEY
from shoal.dp.ledger.ledger import Ledger
from shoal.dp.ledger.statements import PreparedStatement
from shoal.dp.ledger.writer import Writer

_PERIODS = sa.select(ENTRIES.c.body, ENTRIES.c.nonce).where(
    ENTRIES.c.dataset == sa.bindparam("d"), ENTRIES.c.key == sa.bindparam("k"), ENTRIES.c.kind == "event"
)
_LAST = PreparedStatement(_PERIODS.order_by(ENTRIES.c.seq.desc()).limit(1))
_OF_WORD = PreparedStatement(_PERIODS.where(ENTRIES.c.nonce == sa.bindparam("w")).limit(1))


@dataclass(frozen=True)
class NotedPeriod:
    """A period that was answered, and the word that was drawn for it.

    Parameters
    ----------
    number : int
        From 1; 0 where none was answered.
    word : str, default ""
    """

    number: int
    word: str = ""


def last_period(ledger: Ledger, dataset: str, key: str) -> NotedPeriod:
    """The last period that the ledger knows of the stream that was charged under a key."""
    return _noted(ledger.store.first(_LAST, d=dataset, k=_key(key)))


def note_period(ledger: Ledger, dataset: str, key: str, period: NotedPeriod, *, by: str, what: str) -> bool:
    """Note a period, unless it or a later one is noted.

    Parameters
    ----------
    ledger : Ledger
    dataset, key : str
    period : NotedPeriod
    by : str
        Who answered it, for the record.
    what : str
        The stream's name: ``period 3 of `` stands before it.

    Returns
    -------
    bool
        Whether the ledger has this period now; otherwise another copy of the stream has answered it.
    """
    ledger.ready()

    def write(writer: Writer) -> bool:
        names = {"d": dataset, "k": _key(key)}
        if _noted(_LAST.run(writer.connection, names)).number >= period.number:
            return _OF_WORD.run(writer.connection, {**names, "w": period.word}) is not None
        last = writer.last(dataset, by)
        writer.add(last, "event", by, _key(key), body=f"period {period.number} of {what}", nonce=period.word)
        return True

    added: bool = ledger.store.write(write)
    return added


def _key(key: str) -> str:
    return f"{EVENT_KEY}:stream period:{key}"


def _noted(row: tuple[str, str] | None) -> NotedPeriod:
    return NotedPeriod(0) if row is None else NotedPeriod(int(row[0].split(" ", 2)[1]), row[1])
