"""Steps of something that is told piece by piece for one charge: the ledger knows how far it has come, and by which copy."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from shoal.dp.ledger.entries import ENTRIES, EVENT_KEY
from shoal.dp.ledger.ledger import Ledger
from shoal.dp.ledger.statements import PreparedStatement
from shoal.dp.ledger.writer import Writer

_LAST = PreparedStatement(
    sa.select(ENTRIES.c.body, ENTRIES.c.nonce)
    .where(
        ENTRIES.c.dataset == sa.bindparam("d"), ENTRIES.c.key == sa.bindparam("k"), ENTRIES.c.kind == "event"
    )
    .order_by(ENTRIES.c.seq.desc())
    .limit(1)
)


@dataclass(frozen=True)
class Step:
    """One step, and the word that was drawn for it.

    Parameters
    ----------
    number : int
        From 1; 0 where none was made.
    word : str, default ""
    """

    number: int
    word: str = ""


def last_step(ledger: Ledger, dataset: str, key: str) -> Step:
    """The last step that the ledger knows of what was charged under a key."""
    return _step(ledger.store.first(_LAST, d=dataset, k=_key(key)))


def add_step(ledger: Ledger, dataset: str, key: str, step: Step, *, by: str, what: str) -> bool:
    """Make a step known, unless it or a later one is.

    Parameters
    ----------
    ledger : Ledger
    dataset, key : str
    step : Step
    by : str
        Who made it, for the record.
    what : str
        What it is a step of: ``period 3 of `` stands before it.

    Returns
    -------
    bool
        Whether it was added; another copy of what is told has made it otherwise.
    """
    ledger.ready()

    def write(writer: Writer) -> bool:
        if _step(_LAST.run(writer.connection, {"d": dataset, "k": _key(key)})).number >= step.number:
            return False
        last = writer.last(dataset, by)
        writer.add(last, "event", by, _key(key), body=f"period {step.number} of {what}", nonce=step.word)
        return True

    added: bool = ledger.store.write(write)
    return added


def _key(key: str) -> str:
    return f"{EVENT_KEY}:stream period:{key}"


def _step(row: tuple[str, str] | None) -> Step:
    return Step(0) if row is None else Step(int(row[0].split(" ", 2)[1]), row[1])
