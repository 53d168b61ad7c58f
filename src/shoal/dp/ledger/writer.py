"""The writer: adds entries to the ledger within one transaction, charges claims and stores answers."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import sqlalchemy as sa

from shoal.dp.ledger.claims import (
    NO_UNIT,
    Caps,
    Charge,
    Claim,
    ClosedError,
    Last,
    left_over,
    no_caps,
    price,
    refuse,
    refuse_delta,
)
from shoal.dp.ledger.entries import (
    CAPS_KEY,
    CLOSED_KEY,
    DELTA_KEY,
    EVENT_KEY,
    FIELDS,
    NOWHERE,
    RIGHTS_KEY,
    TEAM_CLOSED_KEY,
    Entry,
    Head,
    name_of,
    values_of,
)
from shoal.dp.ledger.rights import OPEN, Rights
from shoal.dp.ledger.secret import random_word
from shoal.dp.ledger.statements import (
    ADD,
    HASH_OF,
    LAST_BODY,
    LAST_OF_ANALYST,
    LAST_OF_DATASET,
    LOCK_HEAD,
    MOVE_HEAD,
    OTHER_UNIT,
    OWN,
    OWN_CHARGE,
    STORED,
    refusal_that_closed,
)
from shoal.errors import BudgetError

_REMEMBERED = 100_000  # analysts whose totals are kept in memory


@dataclass
class Standings:
    """Where data sets and analysts stand, remembered from one transaction to the next.

    Right as long as the ledger's head is the one remembered: another process that wrote has moved it.
    """

    head: Head = NOWHERE
    datasets: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    analysts: dict[tuple[str, str], int] = field(default_factory=dict)
    caps: dict[str, Caps] = field(default_factory=dict)
    rights: dict[str, Rights] = field(default_factory=dict)
    weaker: dict[tuple[str, str], tuple[bool, int]] = field(default_factory=dict)
    closed: dict[tuple[str, str], str | None] = field(default_factory=dict)

    def forget(self) -> None:
        """Read everything anew next time; that entries up to some number are of one unit stays true."""
        self.head = NOWHERE
        for each in (self.datasets, self.analysts, self.caps, self.rights, self.closed):
            each.clear()


class Writer:
    """Adds entries within one transaction that holds the ledger's only write lock."""

    def __init__(
        self, connection: sa.Connection, hook: Callable[[str], None], known: Standings, slot: float
    ) -> None:
        self.connection, self.hook, self._known = connection, hook, known
        self.head = self._began = Head(*LOCK_HEAD.run(connection))
        if known.head != self.head or len(known.analysts) > _REMEMBERED:
            known.forget()
        known.head = NOWHERE  # until this transaction is through
        self.now = _whole_slots(slot)
        self._looked: dict[tuple[str, str], tuple[bool, int]] = {}

    def hash_of(self, seq: int) -> str | None:
        """The hash of an entry; None where it is not there."""
        row = HASH_OF.run(self.connection, {"s": seq})
        return None if row is None else str(row[0])

    def last(self, dataset: str, analyst: str) -> Last:
        """Where they stand now."""
        known, owner = self._known, (dataset, analyst)
        if dataset not in known.datasets:
            row = LAST_OF_DATASET.run(self.connection, {"d": dataset})
            if row is None:
                return Last(dataset, "", 0, 0, 0)
            known.datasets[dataset] = row[:3]
        if owner not in known.analysts:
            row = LAST_OF_ANALYST.run(self.connection, {"d": dataset, "a": analyst})
            known.analysts[owner] = 0 if row is None else row[3]
        unit, total, ended = known.datasets[dataset]
        return Last(dataset, unit, total, known.analysts[owner], ended)

    def caps(self, dataset: str) -> Caps | None:
        """The caps in force."""
        if dataset not in self._known.caps:
            row = LAST_BODY.run(self.connection, {"d": dataset, "k": CAPS_KEY, "w": "caps"})
            if row is None:
                return None
            self._known.caps[dataset] = Caps.from_json(row[1])
        return self._known.caps[dataset]

    def rights(self, dataset: str) -> Rights:
        """Who may ask, up to what."""
        if dataset not in self._known.rights:
            row = LAST_BODY.run(self.connection, {"d": dataset, "k": RIGHTS_KEY, "w": "rights"})
            self._known.rights[dataset] = OPEN if row is None else Rights.from_json(row[1])
        return self._known.rights[dataset]

    def caps_of(self, claim: Claim, caps: Caps) -> Caps:
        """The caps as they hold for the analyst of a claim; raises `BudgetError` for one who may not ask."""
        rights = self.rights(claim.dataset)
        if not rights.may_ask(claim.analyst):
            raise BudgetError(f"Data set {claim.dataset!r} is not open to this analyst.")
        limited = caps.within(claim.limit)
        if rights is OPEN:
            return limited
        return rights.caps_of(limited, claim.analyst)

    def team_left(self, claim: Claim) -> int | None:
        """What the teams of a claim's analyst have left."""
        rights = self.rights(claim.dataset)
        return rights.team_left(claim.analyst, lambda name: self.last(claim.dataset, name).analyst_total)

    def delta(self, dataset: str) -> int:
        """What answers may have failed to keep to their cost with, in 1e-18."""
        row = LAST_BODY.run(self.connection, {"d": dataset, "k": DELTA_KEY, "w": "delta"})
        return 0 if row is None else int(row[1])

    def add_delta(self, claim: Claim, refers: int) -> None:
        """Add the delta of a charge to what the data set has used."""
        used = self.delta(claim.dataset) + claim.delta
        last = self.last(claim.dataset, claim.analyst)
        self.add(last, "delta", claim.analyst, DELTA_KEY, micro=claim.delta, refers=refers, body=str(used))

    def weaker(self, dataset: str, unit: str) -> bool:
        """Whether answers were given before the ledger kept this unit."""
        place = (dataset, unit)
        found, looked = self._looked.get(place) or self._known.weaker.get(place, (False, 0))
        if not found:
            row = OTHER_UNIT.run(self.connection, {"d": dataset, "u": unit, "s": looked})
            found = row is not None
            self._looked[place] = (found, self.head.seq)
            # What this transaction adds may still be lost: of that nothing is remembered.
            self._known.weaker[place] = (found and row[0] <= self._began.seq, self._began.seq)
        return found

    def closed(self, dataset: str, analyst: str) -> str | None:
        """The key of a refusal at a total that others share, if there was one since the owner last stated that."""
        owner = (dataset, analyst)
        if owner not in self._known.closed:
            self._known.closed[owner] = refusal_that_closed(
                lambda statement, values: statement.run(self.connection, values), dataset, analyst
            )
        return self._known.closed[owner]

    def refuse(self, last: Last, claim: Claim, key: str, error: BudgetError) -> None:
        """Add a refusal; one at a total that others share closes the data set for the analyst."""
        if isinstance(error, ClosedError):
            key = TEAM_CLOSED_KEY if error.of_team else CLOSED_KEY
        unit = last.unit or NO_UNIT
        self.add(last, "refusal", claim.analyst, key, body=str(error), unit=unit)
        if isinstance(error, ClosedError):
            self._known.closed[claim.dataset, claim.analyst] = key

    def restore(self, entries: list[Entry]) -> None:
        """Take over a whole chain into an empty ledger, as it stands."""
        for entry in entries:
            self._append(entry)

    def finish(self) -> None:
        """Move the head to the last entry added; what is known then holds once the transaction is through."""
        MOVE_HEAD.run(self.connection, {"s": self.head.seq, "h": self.head.hash})

    def committed(self) -> None:
        """The transaction is through."""
        self._known.head = self.head

    def add(
        self,
        last: Last,
        kind: str,
        analyst: str,
        key: str,
        *,
        micro: int = 0,
        refers: int = 0,
        body: str = "",
        unit: str = "",
        ended: int = 0,
        nonce: str = "",
        at: str = "",
    ) -> Entry:
        """Add an entry; totals follow from its kind."""
        entry = Entry(
            seq=self.head.seq + 1,
            at=at or self.now,
            kind=kind,
            dataset=last.dataset,
            unit=unit or last.unit,
            analyst=analyst,
            key=key,
            micro=micro,
            dataset_total=last.dataset_total + (micro if kind == "charge" else 0),
            analyst_total=last.analyst_total + (micro if kind in ("charge", "receipt") else 0),
            ended=max(last.ended, ended),
            refers=refers,
            body=body,
            previous=self.head.hash,
            nonce=nonce,
        ).chained()
        self._append(entry)
        self._known.datasets[last.dataset] = (entry.unit, entry.dataset_total, entry.ended)
        self._known.analysts[last.dataset, analyst] = entry.analyst_total
        return entry

    def set_caps(self, dataset: str, caps: Caps, by: str) -> None:
        """Add an entry that states the caps from now on."""
        last = self.last(dataset, by)
        self.add(last, "caps", by, CAPS_KEY, body=caps.to_json(), unit=last.unit or NO_UNIT)
        self._known.caps[dataset] = caps
        self._known.closed.clear()

    def set_rights(self, dataset: str, rights: Rights, by: str, why: str) -> None:
        """Add an entry that states who may ask from now on."""
        last = self.last(dataset, by)
        self.add(last, "rights", by, RIGHTS_KEY, body=rights.to_json(why), unit=last.unit or NO_UNIT)
        self._known.rights[dataset] = rights
        self._known.closed.clear()

    def note(self, event: str, by: str, text: str, dataset: str) -> None:
        """Add an entry that changes no total."""
        last = self.last(dataset, by) if dataset else Last("", NO_UNIT, 0, 0, 0)
        self.add(last, "event", by, f"{EVENT_KEY}:{event}", body=text, unit=last.unit or NO_UNIT)

    def _append(self, entry: Entry) -> None:
        ADD.run(self.connection, dict(zip(FIELDS, values_of(entry), strict=True)))
        self.head = Head(entry.seq, entry.hash)


def take_charge(writer: Writer, claim: Claim, key: str) -> Charge:
    """Charge a claim, or hand out what is stored; raises `BudgetError` after adding the refusal."""
    writer.hook("charge-begun")
    last, caps = writer.last(claim.dataset, claim.analyst), writer.caps(claim.dataset)
    if caps is None:
        raise BudgetError(str(no_caps(claim.dataset)))
    caps, closed = writer.caps_of(claim, caps), writer.closed(claim.dataset, claim.analyst)
    names = {"d": claim.dataset, "k": key}
    refers, body = STORED.run(writer.connection, names) or (0, None)
    if refers and OWN.run(writer.connection, {**names, "a": claim.analyst}) is not None:
        left = 0 if closed else left_over(caps, last.analyst_total)
        weaker = writer.weaker(claim.dataset, last.unit)
        (own,) = OWN_CHARGE.run(writer.connection, {**names, "a": claim.analyst})
        return Charge(refers, writer.now, 0, left, bool(last.ended), weaker, name_of(own), body)
    cost = price(claim, last)
    try:
        if closed:
            raise ClosedError(of_team=closed == TEAM_CLOSED_KEY)
        refuse(claim, last, caps, cost, writer.team_left(claim))
        refuse_delta(claim, caps, cost, writer.delta(claim.dataset) if claim.delta else 0)
    except BudgetError as error:
        writer.refuse(last, claim, key, error)
        raise
    entry = writer.add(
        last,
        "receipt" if refers else "charge",
        claim.analyst,
        key,
        micro=cost.asked,
        refers=refers,
        body=claim.question,
        unit=cost.unit,
    )
    if claim.delta and not refers:
        writer.add_delta(claim, entry.seq)
    writer.hook("charge-written")
    left, weaker = left_over(caps, entry.analyst_total), writer.weaker(claim.dataset, cost.unit)
    return Charge(entry.seq, entry.at, cost.asked, left, bool(last.ended), weaker, entry.name, body)


def store_answer(writer: Writer, claim: Claim, key: str, charge: Charge, body: str) -> str:
    """Store the answer of a charge and give the one that counts: whoever stores first has drawn for all."""
    found = STORED.run(writer.connection, {"d": claim.dataset, "k": key})
    kept = body if found is None else str(found[1])
    last = writer.last(claim.dataset, claim.analyst)
    writer.add(
        last,
        "settle",
        claim.analyst,
        key,
        refers=charge.seq,
        body=kept,
        nonce=random_word(),
        at=charge.at,
    )
    return kept


def _whole_slots(slot: float) -> str:
    """The time in whole slots of at least a second."""
    step = max(1.0, slot)
    return datetime.datetime.fromtimestamp(time.time() // step * step, datetime.UTC).isoformat()
