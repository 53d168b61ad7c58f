"""Entries of the ledger: their table, how one is chained to the next, and the writer that adds them."""

from __future__ import annotations

import datetime
import hashlib
import json
import operator
import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

from shoal.dp.ledger.claims import (
    CLOSED,
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
)
from shoal.dp.ledger.rights import OPEN, Rights
from shoal.dp.ledger.secret import random_word
from shoal.errors import BudgetError, MissingExtraError

try:
    import sqlalchemy as sa
except ImportError:
    raise MissingExtraError("SQLAlchemy", "dp") from None

START = "0" * 64
_BODY = 12  # place of the body among the fields
_REMEMBERED = 100_000  # analysts whose totals are kept in memory
METADATA = sa.MetaData()
ENTRIES = sa.Table(
    "shoal_entries",
    METADATA,
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("at", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),  # see `Entry`
    sa.Column("dataset", sa.Text, nullable=False),
    sa.Column("unit", sa.Text, nullable=False),
    sa.Column("analyst", sa.Text, nullable=False),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("micro", sa.BigInteger, nullable=False),
    sa.Column("dataset_total", sa.BigInteger, nullable=False),
    sa.Column("analyst_total", sa.BigInteger, nullable=False),
    sa.Column("ended", sa.Integer, nullable=False),
    sa.Column("refers", sa.BigInteger, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("previous", sa.Text, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
    sa.Column("nonce", sa.Text, nullable=False, server_default=""),
    sa.Column("seal", sa.Text, nullable=False, server_default=""),
    sa.Index("shoal_by_analyst", "dataset", "analyst", "seq"),
    sa.Index("shoal_by_dataset", "dataset", "seq"),
    sa.Index("shoal_by_key", "dataset", "key", "kind", "seq"),
)
HEAD = sa.Table(
    "shoal_head",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
)
CAPS_KEY, SECRET_KEY, CLOSED_KEY = "caps", "secret", "closed"  # keys of entries that are no answers
RIGHTS_KEY, EVENT_KEY = "rights", "event"
SIGN_IN = f"{EVENT_KEY}:sign-in"


class Head(NamedTuple):
    """Number of the last entry, and its hash."""

    seq: int
    hash: str


NOWHERE = Head(-1, "")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the ledger.

    Attributes
    ----------
    seq : int
    at : str
        When its question was asked, in whole slots; a stored answer has the time of its charge.
    kind : {"charge", "settle", "receipt", "refusal", "end", "caps", "secret", "rights", "event"}
    dataset, unit, analyst : str
    key : str
        A keyed hash; tells nothing to who has not the ledger's secret.
    micro : int
    dataset_total, analyst_total : int
        After this entry.
    ended : int
    refers : int
        The charge that an answer or receipt belongs to.
    body : str
        Question, answer or reason.
    previous, hash : str
        The chain. The hash covers the seal, so that it can be checked by who may not see bodies.
    nonce : str
        Drawn for each stored answer.
    seal : str
        Hash of nonce and body.
    """

    seq: int
    at: str
    kind: str
    dataset: str
    unit: str
    analyst: str
    key: str
    micro: int
    dataset_total: int
    analyst_total: int
    ended: int
    refers: int
    body: str
    previous: str
    hash: str = ""
    nonce: str = ""
    seal: str = ""

    def chained(self) -> Entry:
        """With its seal and hash."""
        seal = seal_of(self.nonce, self.body)
        *plain, _hash, nonce, _seal = values_of(self)
        facts = (*plain, _chained_hash(plain, seal), nonce, seal)
        return Entry(*facts)

    def own_hash(self) -> str:
        """The hash that chains an entry to the one before it; entries of the first layout had no seal."""
        *plain, _hash, _nonce, seal = values_of(self)
        return _chained_hash(plain, seal)

    def is_whole(self) -> bool:
        """Whether hash and seal are those of its facts; where the body was taken away, the hash alone decides."""
        return self.hash == self.own_hash() and (
            not self.seal or self.hidden or self.seal == seal_of(self.nonce, self.body)
        )

    @property
    def name(self) -> str:
        """What an entry is called outside: unlike its number it does not tell what others did before it."""
        return name_of(self.hash)

    @property
    def hidden(self) -> bool:
        """Whether the body of a stored answer was taken away."""
        return self.kind == "settle" and not self.nonce and not self.body

    def shown(self) -> Entry:
        """As an auditor sees it: the chain can be checked, a stored answer cannot be guessed."""
        return replace(self, body="", nonce="") if self.kind == "settle" else self


FIELDS = tuple(each.name for each in fields(Entry))
values_of: Callable[[Entry], tuple[Any, ...]] = operator.attrgetter(*FIELDS)  # astuple would copy each deeply


def name_of(own_hash: str) -> str:
    """The first digits of an entry's hash."""
    return own_hash[:16]


def _chained_hash(plain: list[Any], seal: str) -> str:
    facts = [*plain[:_BODY], seal, *plain[_BODY + 1 :], "sealed"] if seal else plain
    return hashlib.sha256(json.dumps(facts, ensure_ascii=True).encode()).hexdigest()


def seal_of(nonce: str, body: str) -> str:
    """What stands for a body in the chain."""
    return hashlib.sha256(f"{nonce}:{body}".encode()).hexdigest()


class Statement:
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
READ_HEAD = Statement(_HEAD)
_LOCK_HEAD = Statement(_HEAD.with_for_update())
_MOVE_HEAD = Statement(
    HEAD.update().where(HEAD.c.id == 1).values(seq=sa.bindparam("s"), hash=sa.bindparam("h"))
)
_ADD = Statement(ENTRIES.insert())
LAST_OF_DATASET = Statement(_LAST)
LAST_OF_ANALYST = Statement(_LAST.where(*_is_of(analyst="a")))
LAST_BODY = Statement(_OF_KEY.where(*_is_of(kind="w")).order_by(ENTRIES.c.seq.desc()).limit(1))
STORED = Statement(_OF_KEY.where(ENTRIES.c.kind == "settle").order_by(ENTRIES.c.seq).limit(1))
OWN = Statement(
    _OF_KEY.where(
        sa.or_(ENTRIES.c.kind == "settle", ENTRIES.c.kind == "receipt"), *_is_of(analyst="a")
    ).limit(1)
)
OWN_CHARGE = Statement(
    sa.select(ENTRIES.c.hash)
    .where(
        sa.or_(ENTRIES.c.kind == "charge", ENTRIES.c.kind == "receipt"),
        *_is_of(dataset="d", key="k", analyst="a"),
    )
    .order_by(ENTRIES.c.seq)
    .limit(1)
)
IS_CLOSED = Statement(
    sa.select(ENTRIES.c.seq)
    .where(
        ENTRIES.c.kind == "refusal",
        ENTRIES.c.key == CLOSED_KEY,
        ENTRIES.c.seq > sa.bindparam("s"),
        *_is_of(dataset="d", analyst="a"),
    )
    .limit(1)
)
_OTHER_UNIT = Statement(
    sa.select(ENTRIES.c.seq)
    .where(ENTRIES.c.kind == "charge", ENTRIES.c.unit != sa.bindparam("u"), *_is_of(dataset="d"))
    .limit(1)
)


@dataclass
class Known:
    """Where data sets and analysts stand, remembered from one transaction to the next.

    Right as long as the ledger's head is the one remembered: another process that wrote has moved it.
    """

    head: Head = NOWHERE
    datasets: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    analysts: dict[tuple[str, str], int] = field(default_factory=dict)
    caps: dict[str, Caps] = field(default_factory=dict)
    rights: dict[str, Rights] = field(default_factory=dict)
    weaker: dict[tuple[str, str], bool] = field(default_factory=dict)
    closed: dict[tuple[str, str], bool] = field(default_factory=dict)

    def forget(self) -> None:
        """Read everything anew next time."""
        self.head = NOWHERE
        for each in (self.datasets, self.analysts, self.caps, self.weaker, self.rights, self.closed):
            each.clear()


class Writer:
    """Adds entries within one transaction that holds the ledger's only write lock."""

    def __init__(
        self, connection: sa.Connection, hook: Callable[[str], None], known: Known, slot: float
    ) -> None:
        self.connection, self.hook, self._known = connection, hook, known
        self.head = Head(*_LOCK_HEAD.run(connection))
        if known.head != self.head or len(known.analysts) > _REMEMBERED:
            known.forget()
        known.head = NOWHERE  # until this transaction is through
        self.now = _whole_slots(slot)

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
        return rights.caps_of(
            limited, claim.analyst, lambda name: self.last(claim.dataset, name).analyst_total
        )

    def weaker(self, dataset: str, unit: str) -> bool:
        """Whether answers were given before the ledger kept this unit."""
        place = (dataset, unit)
        if place not in self._known.weaker:
            row = _OTHER_UNIT.run(self.connection, {"d": dataset, "u": unit})
            self._known.weaker[place] = row is not None
        return self._known.weaker[place]

    def closed(self, dataset: str, analyst: str) -> bool:
        """Whether the data set's total was refused to an analyst since its owner last stated the caps."""
        owner = (dataset, analyst)
        if owner not in self._known.closed:
            stated = LAST_BODY.run(self.connection, {"d": dataset, "k": CAPS_KEY, "w": "caps"})
            since = {"d": dataset, "a": analyst, "s": stated[0] if stated else 0}
            self._known.closed[owner] = IS_CLOSED.run(self.connection, since) is not None
        return self._known.closed[owner]

    def refuse(self, last: Last, claim: Claim, key: str, error: BudgetError) -> None:
        """Add a refusal; one at the data set's total closes it for the analyst."""
        shut = isinstance(error, ClosedError)
        key, unit = CLOSED_KEY if shut else key, last.unit or NO_UNIT
        self.add(last, "refusal", claim.analyst, key, body=str(error), unit=unit)
        if shut:
            self._known.closed[claim.dataset, claim.analyst] = True

    def restore(self, entries: list[Entry]) -> None:
        """Take over a whole chain into an empty ledger, as it stands."""
        for entry in entries:
            self._append(entry)

    def finish(self) -> None:
        """Move the head to the last entry added; what is known then holds once the transaction is through."""
        _MOVE_HEAD.run(self.connection, {"s": self.head.seq, "h": self.head.hash})

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

    def note(self, event: str, by: str, text: str, dataset: str) -> None:
        """Add an entry that changes no total."""
        last = self.last(dataset, by) if dataset else Last("", NO_UNIT, 0, 0, 0)
        self.add(last, "event", by, f"{EVENT_KEY}:{event}", body=text, unit=last.unit or NO_UNIT)

    def _append(self, entry: Entry) -> None:
        _ADD.run(self.connection, dict(zip(FIELDS, values_of(entry), strict=True)))
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
            raise ClosedError(CLOSED)
        refuse(claim, last, caps, cost)
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
